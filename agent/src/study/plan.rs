// SPDX-License-Identifier: MIT OR Apache-2.0
//! The runs of a study in their order. Repetitions are blocks in which the cells are shuffled, so that a change of the machine's state
//! meets all cells alike. Pure.

use mpwatch_model::study::{RunRecord, key};

use super::experiment::{Cell, Experiment, Scale};

/// A run that is to be done.
#[derive(Clone)]
pub(crate) struct PlannedRun {
    pub(crate) experiment: &'static Experiment,
    pub(crate) cell: Cell,
    /// From 0.
    pub(crate) repetition: u32,
    pub(crate) seed: u64,
}

impl PlannedRun {
    /// Whether a run is this one, and succeeded.
    fn is_done(&self, run: &RunRecord) -> bool {
        run.error.is_none()
            && run.experiment == self.experiment.description.name
            && run.repetition == self.repetition
            && key(&run.factors) == key(&self.cell.factors)
    }

    /// `energy paths=2`.
    pub(crate) fn title(&self) -> String {
        format!("{} {}", self.experiment.description.name, key(&self.cell.factors))
    }
}

/// All runs of these experiments.
pub(crate) fn all(
    experiments: &[&'static Experiment],
    scale: Scale,
    repeat: u32,
    seed: u64,
) -> Vec<PlannedRun> {
    let mut runs = Vec::new();
    for &experiment in experiments {
        let name = experiment.description.name;
        for repetition in 0..repeat {
            let planned = (experiment.cells)(scale).into_iter().map(|cell| {
                let seed = seed_of(seed, &format!("{name} {} {repetition}", key(&cell.factors)));
                PlannedRun { experiment, cell, repetition, seed }
            });
            let mut block: Vec<PlannedRun> = planned.collect();
            // In an order that looks random, and is the same for the same seed.
            block.sort_by_key(|run| run.seed);
            runs.extend(block);
        }
    }
    runs
}

/// Those that are not among the finished runs.
pub(crate) fn left(planned: Vec<PlannedRun>, done: &[RunRecord]) -> Vec<PlannedRun> {
    planned.into_iter().filter(|run| !done.iter().any(|done| run.is_done(done))).collect()
}

/// A seed that depends on every letter (FNV-1a, then a finaliser, as neighbouring texts have neighbouring hashes).
fn seed_of(seed: u64, text: &str) -> u64 {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325 ^ seed, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ (mixed >> 33)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use mpwatch_model::energy::EnergySource;

    use super::super::experiments::ALL;
    use super::*;

    fn titles(runs: &[PlannedRun]) -> Vec<String> {
        runs.iter().map(PlannedRun::title).collect()
    }

    #[test]
    fn blocks_have_every_cell_once_in_an_order_that_depends_on_the_seed() {
        let cells = (ALL[0].cells)(Scale::Full).len();
        let plan = |seed| all(&[&ALL[0]], Scale::Full, 2, seed);
        let (one, same, other) = (plan(1), plan(1), plan(2));
        assert_eq!(titles(&one), titles(&same));
        assert_ne!(titles(&one), titles(&other));
        let (first, second) = one.split_at(cells);
        assert_ne!(titles(first), titles(second), "each repetition has an order of its own");
        let sorted = |runs: &[PlannedRun]| {
            let mut titles = titles(runs);
            titles.sort();
            titles
        };
        assert_eq!(sorted(first), sorted(second));
    }

    #[test]
    fn finished_runs_are_not_repeated_and_failed_ones_are() {
        let planned = all(&[&ALL[0]], Scale::Quick, 1, 1);
        let record = |run: &PlannedRun, error: Option<String>| RunRecord {
            experiment: run.experiment.description.name.to_owned(),
            factors: run.cell.factors.clone(),
            repetition: run.repetition,
            seed: run.seed,
            began: Timestamp::UNIX_EPOCH,
            took_s: 1.0,
            energy: EnergySource::Absent,
            values: Vec::new(),
            error,
        };
        let done = [record(&planned[0], None), record(&planned[1], Some("no route".to_owned()))];
        assert_eq!(titles(&left(planned.clone(), &done)), titles(&planned[1..]));
    }
}
