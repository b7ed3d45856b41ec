// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch calibrate`: measures what each zone of the machine draws at rest and under load, and keeps it in a file that every
//! later run reads. With `--verify`: tells how far rest and full load have moved since.

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use jiff::Timestamp;
use mpwatch_model::energy::power::MeasuredZone;

use super::print;
use crate::cli::{CalibrateOptions, Scope};
use crate::clock;
use crate::energy::calibrate::{Pace, measure};
use crate::energy::calibration::{Configuration, File};
use crate::energy::sampler::Sampler;
use crate::energy::topology::Topology;
use crate::exit::NoCounters;
use mpwatch_engine::energy::fit::{Reading, drift, plan, summarise};

/// Other programs may use this part of the CPUs; with more, rest would not be rest.
const QUIET: f64 = 0.05;
/// What `--verify` lets pass.
const TOLERANCE: f64 = 0.05;

pub(super) fn run(options: &CalibrateOptions, scope: &Scope) -> anyhow::Result<ExitCode> {
    let hardware = scope.energy().hardware();
    let cpus = hardware.cpus;
    let packages = Topology::read(&hardware.root).packages(cpus);
    let now = Configuration::of_this_machine(cpus);
    let mut bench = Bench {
        sampler: Sampler::new(hardware, Box::new(clock::both)),
        cpus,
        pace: Pace { settle: options.settle, measure: options.measure },
    };
    bench.check()?;
    if options.verify {
        return verify(&mut bench, &packages.concat(), &scope.power_file);
    }
    let zones = summarise(&bench.readings(&plan(&packages))?);
    ensure!(
        !zones.is_empty(),
        "no zone could be read at rest; `mpwatch doctor` tells what is wrong with them"
    );
    let text = table(&zones);
    let file = File::new(Timestamp::now().to_string(), now, zones);
    file.save(&scope.power_file).with_context(|| format!("cannot write {}", scope.power_file.display()))?;
    print(&format!("{text}written to {}\n", scope.power_file.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn verify(bench: &mut Bench, all: &[u32], path: &Path) -> anyhow::Result<ExitCode> {
    let text = fs::read_to_string(path)
        .with_context(|| format!("cannot read {}: run `mpwatch calibrate` first", path.display()))?;
    let file = File::parse(&text).map_err(|why| anyhow::anyhow!("{}: {why}", path.display()))?;
    let readings = bench.readings(&[Vec::new(), all.to_vec()])?;
    let Some(drift) = drift(&file.zones, &readings) else {
        bail!("{} has no zone of this machine: run `mpwatch calibrate` again", path.display());
    };
    let verdict =
        if drift <= TOLERANCE { "still holds" } else { "holds no more: run `mpwatch calibrate` again" };
    print(&format!(
        "{}the power measured on {} has moved by at most {:.1} %: the calibration {verdict}\n",
        table(&summarise(&readings)),
        file.measured_at,
        drift * 100.0
    ))?;
    Ok(if drift <= TOLERANCE { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What measures.
struct Bench {
    sampler: Sampler,
    cpus: u32,
    pace: Pace,
}

impl Bench {
    /// Whether there is something to measure, on a machine that is at rest.
    fn check(&self) -> anyhow::Result<()> {
        if !self.sampler.source().is_measured() {
            let why = self.sampler.advice().unwrap_or_else(|| {
                format!(
                    "its counters are those of `{}`, not of this machine alone",
                    self.sampler.source().as_str()
                )
            });
            bail!(NoCounters { why });
        }
        let before = CpuTicks::now();
        thread::sleep(self.pace.settle.max(Duration::from_secs(1)));
        let Some(busy) = before.zip(CpuTicks::now()).and_then(|(before, after)| before.busy_until(after))
        else {
            return Ok(());
        };
        ensure!(
            busy <= QUIET,
            "other programs use {:.0} % of the CPUs: what they draw would count as rest. Stop them and try again",
            busy * 100.0
        );
        Ok(())
    }

    fn readings(&mut self, steps: &[Vec<u32>]) -> anyhow::Result<Vec<Reading>> {
        let mut all = Vec::new();
        let each = self.pace.settle + self.pace.measure;
        for (number, loaded) in (1..).zip(steps) {
            eprintln!(
                "mpwatch: step {number} of {}, {} s: {} of {} CPUs loaded",
                steps.len(),
                each.as_secs_f64(),
                loaded.len(),
                self.cpus
            );
            all.extend(measure(&mut self.sampler, loaded, self.cpus, self.pace, thread::sleep));
        }
        ensure!(!all.is_empty(), "no counter moved while it was watched; `mpwatch doctor` lists them");
        Ok(all)
    }
}

/// A line for each zone: rest, and each load.
fn table(zones: &[MeasuredZone]) -> String {
    let line = |zone: &MeasuredZone| {
        let loads = zone.knots.iter().filter(|knot| knot.busy > 0.0);
        let loads: Vec<String> =
            loads.map(|knot| format!(", {:.2} W at {:.0} %", knot.watts, knot.busy * 100.0)).collect();
        let loads = loads.concat();
        format!(
            "{:<14} {:.2} W at rest (+-{:.2}){loads}\n",
            zone.name, zone.idle_watts, zone.idle_sigma_watts
        )
    };
    zones.iter().map(line).collect()
}

/// Time of all CPUs in the kernel's ticks: coarse, and good enough to see whether someone is at work.
#[derive(Clone, Copy)]
struct CpuTicks {
    idle: u64,
    all: u64,
}

impl CpuTicks {
    fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// `cpu user nice system idle iowait irq softirq`; what a hypervisor has taken away comes next and is nobody's here.
    fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<u64> = line.split_whitespace().take(7).map_while(|tick| tick.parse().ok()).collect();
        let idle = ticks.get(3)? + ticks.get(4).unwrap_or(&0);
        Some(Self { idle, all: ticks.iter().sum() })
    }

    fn busy_until(self, later: Self) -> Option<f64> {
        let all = later.all.checked_sub(self.all).filter(|all| *all > 0)?;
        Some(1.0 - later.idle.saturating_sub(self.idle) as f64 / all as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpwatch_model::energy::power::CurvePoint;

    #[test]
    fn the_busy_part_is_what_was_not_idle() {
        let before = CpuTicks::parse("cpu  10 0 10 100 0 0 0 0 5 0\ncpu0 1 1\n").unwrap();
        let after = CpuTicks::parse("cpu  20 0 15 175 10 0 0 0 9 0\n").unwrap();
        assert!((before.busy_until(after).unwrap() - 0.15).abs() < 1e-9);
        assert!(before.busy_until(before).is_none());
        assert!(CpuTicks::parse("nothing").is_none());
    }

    #[test]
    fn a_zone_is_a_line_with_its_loads() {
        let zone = MeasuredZone {
            name: "package-0".into(),
            idle_watts: 20.0,
            idle_sigma_watts: 0.1,
            knots: vec![CurvePoint { busy: 0.0, watts: 20.0 }, CurvePoint { busy: 0.5, watts: 41.25 }],
        };
        assert_eq!(table(&[zone]), "package-0      20.00 W at rest (+-0.10), 41.25 W at 50 %\n");
    }
}
