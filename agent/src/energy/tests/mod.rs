// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of counters, sampler and attribution together, on simulated machines whose clock the test sets.
#![allow(clippy::cast_possible_truncation, reason = "small random numbers")]

mod calibrate;
mod calibration;
mod conservation;
mod curves;
mod faults;
mod recorded_curves;
mod scenario;
mod scenarios;

use std::sync::{Arc, Mutex};

use mpwatch_engine::energy::attribute::Split;
use mpwatch_engine::energy::calibration::Calibration;
use mpwatch_engine::energy::ledger::{Account, Ledger};
use mpwatch_lab::raplsim::{Picojoules, Platform, PowercapTree, SimulatedMachine, SysfsLayout};
use mpwatch_model::id::{SocketCookie, SubflowId};
use mpwatch_model::unit::Nanos;
use scenario::{Consumer, Scenario, TimeSlice as Load};

use super::discovery::Hardware;
use super::sampler::Sampler;
use crate::system::clock::ClockPair;
use mpwatch_model::host::energy::power::MeasuredZone;
use mpwatch_model::host::energy::window::EnergyWindow;

const SECOND: Nanos = Nanos(1_000_000_000);

/// A simulated tree of counters in a temporary folder.
pub(super) fn tree(shape: Platform, layout: SysfsLayout) -> (tempfile::TempDir, PowercapTree) {
    let root = tempfile::tempdir().unwrap();
    let tree = PowercapTree::create(root.path(), shape, layout).unwrap();
    (root, tree)
}

fn flow(number: u32) -> SubflowId {
    SubflowId { cookie: SocketCookie(u64::from(number) + 1), generation: 0 }
}

fn account(who: Consumer) -> Account {
    match who {
        Consumer::Flow(number) => Account::Flow(flow(number)),
        Consumer::App => Account::App,
        Consumer::Bystander => Account::Other,
        Consumer::Shared => Account::NetShared,
        Consumer::Irq => Account::Irq,
        Consumer::Observer => Account::Own,
    }
}

/// The calibration that would be measured on a simulated machine.
fn calibrated(tree: &PowercapTree, machine: &SimulatedMachine) -> Calibration {
    let idle = f64::from(machine.power.idle()) / 1000.0;
    let zone = |name: &str| MeasuredZone {
        name: name.to_owned(),
        idle_watts: idle,
        idle_sigma_watts: 0.0,
        is_fitted: false,
        knots: Vec::new(),
    };
    let zones: Vec<_> = tree.zones().filter_map(|spec| spec.name).map(zone).collect();
    Calibration::from_zones(&zones)
}

/// A simulated machine with the sampler and the attribution of its energy.
struct Rig {
    root: tempfile::TempDir,
    tree: PowercapTree,
    machine: SimulatedMachine,
    sampler: Sampler,
    split: Split,
    window: EnergyWindow,
    ledger: Ledger,
    now: Arc<Mutex<ClockPair>>,
    /// Energy that each package has drawn so far.
    drawn: Vec<Picojoules>,
}

impl Rig {
    fn new(shape: Platform, machine: SimulatedMachine) -> Self {
        let root = tempfile::tempdir().unwrap();
        let tree = PowercapTree::create(root.path(), shape, SysfsLayout::Linked).unwrap();
        tree.write_topology(&machine).unwrap();
        let cpus = machine.cpus * machine.packages;
        let hardware = Hardware { in_vm: false, cpus, ..Hardware::detect(Some(root.path())) };
        let now = Arc::new(Mutex::new(ClockPair { monotonic: SECOND, boot: SECOND }));
        let clock = Arc::clone(&now);
        let sampler = Sampler::new(hardware, Box::new(move || *clock.lock().unwrap()));
        let drawn = vec![0; machine.packages as usize];
        let split = Split::new(cpus, Calibration::default());
        let (window, ledger) = (EnergyWindow::default(), Ledger::default());
        let mut rig = Self { root, tree, machine, sampler, split, window, ledger, now, drawn };
        rig.tick(&[]);
        rig
    }

    /// A machine with the calibration that would be measured.
    fn calibrated(shape: Platform, machine: SimulatedMachine) -> Self {
        let mut rig = Self::new(shape, machine);
        rig.split = Split::new(machine.cpus * machine.packages, calibrated(&rig.tree, &machine));
        rig
    }

    fn sleep(&self, time: Nanos) {
        self.now.lock().unwrap().boot += time;
    }

    /// Runs a load: advances the counters, the clock and the ledger, and closes a window.
    fn work(&mut self, load: &Load) {
        let scenario = Scenario { name: String::new(), machine: self.machine, slices: Vec::new() };
        let drawn = scenario.energy(load);
        self.tree.add_energy(&drawn);
        self.drawn.iter_mut().zip(&drawn).for_each(|(sum, drawn)| *sum += drawn);
        self.tree.update_files().unwrap();
        let mut now = self.now.lock().unwrap();
        now.monotonic += Nanos(load.elapsed);
        now.boot += Nanos(load.elapsed);
        drop(now);
        self.tick(
            &load.busy.iter().map(|busy| (busy.cpu, account(busy.consumer), busy.time)).collect::<Vec<_>>(),
        );
    }

    fn tick(&mut self, times: &[(u32, Account, u64)]) {
        let mut times = Some(times);
        self.sampler.window(&mut self.window, &mut self.ledger, |ledger| {
            for (cpu, account, time) in times.take().unwrap_or_default() {
                ledger.add(*cpu, *account, *time);
            }
        });
        self.split.charge(&self.window, &self.ledger);
        for zone in &self.split.snapshot().zones {
            assert_eq!(zone.zone_uj, zone.explained(), "{zone:?}");
        }
        assert_eq!(self.split.broken(), 0);
    }
}
