// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plans the order of a study's runs. Each repetition is a block of shuffled cells, so that changes of the machine's state affect all cells
//! alike. No I/O.

use crate::data::{RunRecord, key};
use crate::experiment::{Cell, Experiment, Scale, Work};

/// A planned run.
#[derive(Clone)]
pub(crate) struct PlannedRun<'a> {
    pub(crate) experiment: &'a Experiment,
    /// The cells that share this run, at least one. They differ only in the detection method.
    pub(crate) cells: Vec<Cell>,
    /// Number of the repetition, from 0.
    pub(crate) repetition: u32,
    pub(crate) seed: u64,
}

impl PlannedRun<'_> {
    /// Whether `record` shows that `cell` succeeded in this run.
    fn is_done(&self, cell: &Cell, record: &RunRecord) -> bool {
        record.error.is_none()
            && record.experiment == self.experiment.description.name
            && record.repetition == self.repetition
            && key(&record.factors) == key(&cell.factors)
    }

    /// This run without the cells that succeeded. `None`: all cells succeeded.
    fn without(mut self, done: &[RunRecord]) -> Option<Self> {
        let cells = std::mem::take(&mut self.cells).into_iter();
        self.cells = cells.filter(|cell| !done.iter().any(|record| self.is_done(cell, record))).collect();
        (!self.cells.is_empty()).then_some(self)
    }

    /// The work, which is the same for all cells of the run.
    pub(crate) fn work(&self) -> &Work {
        &self.cells[0].work
    }

    /// The name of the experiment and the factors, such as `energy paths=2`.
    pub(crate) fn title(&self) -> String {
        format!("{} {}", self.experiment.description.name, key(&self.cells[0].factors_of_run()))
    }
}

/// All runs of these experiments.
pub(crate) fn all(experiments: &[Experiment], scale: Scale, repeat: u32, seed: u64) -> Vec<PlannedRun<'_>> {
    let mut runs = Vec::new();
    for experiment in experiments {
        let name = &experiment.description.name;
        for repetition in 0..repeat {
            let cells = experiment.cells(scale);
            let planned =
                cells.chunk_by(|cell, next| cell.factors_of_run() == next.factors_of_run()).map(|cells| {
                    let of_run = key(&cells[0].factors_of_run());
                    let seed = seed_of(seed, &format!("{name} {of_run} {repetition}"));
                    PlannedRun { experiment, cells: cells.to_vec(), repetition, seed }
                });
            let mut block: Vec<PlannedRun<'_>> = planned.collect();
            // The seeds of runs are pseudo-random, so sorting by them shuffles the runs. The same study seed gives the same order.
            block.sort_by_key(|run| run.seed);
            runs.extend(block);
        }
    }
    runs
}

/// The planned runs, with only the cells that have not succeeded yet. Runs without such cells are left out.
pub(crate) fn left<'a>(planned: Vec<PlannedRun<'a>>, done: &[RunRecord]) -> Vec<PlannedRun<'a>> {
    planned.into_iter().filter_map(|run| run.without(done)).collect()
}

/// A seed that depends on every byte of `text`: the FNV-1a hash with a finaliser, because similar texts have similar FNV hashes.
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
    use mpwatch_model::host::energy::EnergySource;

    use super::super::experiments;
    use super::*;

    fn experiment(name: &str) -> [Experiment; 1] {
        [experiments::all().into_iter().find(|experiment| experiment.description.name == name).unwrap()]
    }

    fn titles(runs: &[PlannedRun<'_>]) -> Vec<String> {
        runs.iter().map(PlannedRun::title).collect()
    }

    #[test]
    fn blocks_have_every_cell_once_in_an_order_that_depends_on_the_seed() {
        let energy = experiment("energy");
        let cells = energy[0].cells(Scale::Full).len();
        let plan = |seed| all(&energy, Scale::Full, 2, seed);
        let (one, same, other) = (plan(1), plan(1), plan(2));
        assert_eq!(titles(&one), titles(&same));
        assert_ne!(titles(&one), titles(&other));
        let (first, second) = one.split_at(cells);
        assert_ne!(titles(first), titles(second), "each repetition has an order of its own");
        let sorted = |runs: &[PlannedRun<'_>]| {
            let mut titles = titles(runs);
            titles.sort();
            titles
        };
        assert_eq!(sorted(first), sorted(second));
    }

    #[test]
    fn failed_runs_are_repeated_and_finished_runs_are_not() {
        let energy = experiment("energy");
        let planned = all(&energy, Scale::Quick, 1, 1);
        let record = |run: &PlannedRun<'_>, error| record(run, 0, error);
        let done = [record(&planned[0], None), record(&planned[1], Some("no route".to_owned()))];
        assert_eq!(titles(&left(planned.clone(), &done)), titles(&planned[1..]));
    }

    fn record(run: &PlannedRun<'_>, cell: usize, error: Option<String>) -> RunRecord {
        RunRecord {
            experiment: run.experiment.description.name.clone(),
            factors: run.cells[cell].factors.clone(),
            repetition: run.repetition,
            seed: run.seed,
            began: Timestamp::UNIX_EPOCH,
            took_s: 1.0,
            energy: EnergySource::Absent,
            values: Vec::new(),
            details: Vec::new(),
            error,
        }
    }

    #[test]
    fn all_detection_methods_evaluate_one_run_and_each_has_a_record() {
        let detection = experiment("detection");
        let planned = all(&detection, Scale::Quick, 1, 1);
        assert_eq!((planned.len(), planned[0].cells.len()), (1, 5));
        let done: Vec<RunRecord> = (0..4).map(|cell| record(&planned[0], cell, None)).collect();
        let left = left(planned.clone(), &done);
        assert_eq!(key(&left[0].cells[0].factors), key(&planned[0].cells[4].factors));
        assert_eq!((left.len(), left[0].cells.len()), (1, 1));
    }
}
