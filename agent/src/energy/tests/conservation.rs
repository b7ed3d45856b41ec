// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conservation of energy: in 200 000 random windows (some with wraps, jumps or vanished zones, some still open), all parts add up to the total.

use std::collections::HashSet;
use std::sync::Arc;

use super::scenario::{BusyTime, Consumer, TimeSlice as Load};
use mpwatch_lab::random::Random;
use mpwatch_lab::raplsim::{Fault, Platform, PowerModel, SimulatedMachine};
use mpwatch_model::host::energy::{EnergySource, LostReason};
use mpwatch_model::id::SubflowId;
use mpwatch_model::unit::{Microjoules, Nanos};

use super::{Rig, SECOND, account, flow};
use crate::energy::counter::Counter;
use mpwatch_engine::energy::attribute::Split;
use mpwatch_engine::energy::calibration::Calibration;
use mpwatch_engine::energy::ledger::{Account, Ledger};
use mpwatch_model::host::energy::power::CurvePoint;
use mpwatch_model::host::energy::power::MeasuredZone;
use mpwatch_model::host::energy::window::Cpus;
use mpwatch_model::host::energy::window::{EnergyWindow, WindowEnergy, ZoneId, ZoneOutcome, ZoneWindow};

const WINDOWS: u32 = 200_000;
const ZONES: usize = 3;
const CPUS: u32 = 4;
const RANGE: u64 = 65_532_610_987;

/// A zone with random faults. `truth`: energy of its windows that were not lost, microjoules.
struct FaultyZone {
    id: Arc<ZoneId>,
    counter: Counter,
    value: u64,
    since: Nanos,
    truth: u64,
    epoch: u32,
}

impl FaultyZone {
    fn new(index: usize) -> Self {
        let cpus = [Cpus::All, Cpus::These(vec![0, 1]), Cpus::These(vec![2, 3])];
        let id = ZoneId {
            index: index + 1,
            label: format!("package-{index}"),
            cpus: cpus[index].clone(),
            source: EnergySource::RaplPowercap,
        };
        let mut counter = Counter::new(Some(RANGE), None);
        counter.step(RANGE - 1_000_000, Nanos(0));
        Self { id: Arc::new(id), counter, value: RANGE - 1_000_000, since: Nanos(0), truth: 0, epoch: 0 }
    }

    /// The outcome of the zone in a window.
    fn outcome(&mut self, random: &mut Random, elapsed: Nanos) -> ZoneOutcome {
        self.since += elapsed;
        let elapsed = self.since;
        if random.below(50) == 0 {
            return ZoneOutcome::Pending;
        }
        self.since = Nanos(0);
        if random.below(200) == 0 {
            self.epoch += 1;
            self.counter.last = None;
            self.value = random.below(RANGE);
            self.counter.step(self.value, elapsed);
            return ZoneOutcome::Lost { reason: LostReason::Vanished, elapsed };
        }
        // Up to 300 W. Sometimes the counter jumps back, which may look like a wrap.
        let energy = random.below(300 * elapsed.0 / 1_000);
        let jumps = random.below(500) == 0;
        self.value = if jumps { random.below(self.value) } else { (self.value + energy) % (RANGE + 15) };
        match self.counter.step(self.value, elapsed) {
            Some(Ok(found)) => {
                // A backward jump may look like a wrap with plausible energy. This cannot be detected, so the test accepts the reported energy.
                assert!(jumps || found.0 == energy, "{found:?} {energy}");
                self.truth += found.0;
                ZoneOutcome::Energy(WindowEnergy { energy: found, elapsed, edge: 0.002, estimate: None })
            }
            Some(Err(reason)) => ZoneOutcome::Lost { reason, elapsed },
            None => ZoneOutcome::Pending,
        }
    }
}

fn random_work(random: &mut Random, ledger: &mut Ledger, alive: &[SubflowId], elapsed: Nanos) {
    ledger.clear();
    // In about one of seven windows, all CPUs are idle.
    for _ in 0..random.below(7) {
        let account = match random.below(8) {
            0 => Account::App,
            1 => Account::Other,
            2 => Account::NetShared,
            3 => Account::Irq,
            4 => Account::Own,
            _ => Account::Flow(alive[random.below(alive.len() as u64) as usize]),
        };
        ledger.add(random.below(CPUS.into()) as u32, account, random.below(elapsed.0 / 7));
    }
}

fn calibration() -> Calibration {
    let knots = [(0.0, 17.7), (0.07, 37.5), (0.5, 49.3), (1.0, 46.7)];
    let knots = knots.map(|(busy, watts)| CurvePoint { busy, watts }).to_vec();
    let zone = |index| MeasuredZone {
        name: format!("package-{index}"),
        idle_watts: 17.7,
        idle_sigma_watts: 0.1,
        is_fitted: false,
        knots: knots.clone(),
    };
    Calibration::from_zones(&(0..ZONES).map(zone).collect::<Vec<_>>())
}

#[test]
fn random_windows_add_up_to_the_microjoule() {
    random_windows(WINDOWS, calibration(), |split, zones, alive, closed| {
        check(split, zones, alive);
        // With known idle power, the energy of all flows equals the energy that the zones charged to flows.
        let open: u64 =
            alive.iter().filter_map(|id| split.flow(*id)).map(|charge| charge.active.unwrap().0).sum();
        let flows: u64 = split.snapshot().zones.iter().map(|zone| zone.flows_uj.0).sum();
        assert_eq!(open + closed, flows);
    });
}

#[test]
fn without_calibration_the_parts_of_a_zone_add_up_too() {
    random_windows(WINDOWS / 10, Calibration::default(), |split, zones, alive, _| check(split, zones, alive));
}

fn random_windows(
    windows: u32,
    calibration: Calibration,
    check: impl Fn(&Split, &[FaultyZone], &[SubflowId], u64),
) {
    let mut random = Random::new(4);
    let mut split = Split::new(CPUS, calibration);
    let mut zones: Vec<FaultyZone> = (0..ZONES).map(FaultyZone::new).collect();
    let (mut window, mut ledger) = (EnergyWindow::default(), Ledger::default());
    let mut alive: Vec<SubflowId> = (0..4).map(flow).collect();
    let (mut next, mut closed) = (4, 0);
    for nth in 0..windows {
        let elapsed = Nanos(100_000_000 + random.below(2_000_000_000));
        random_work(&mut random, &mut ledger, &alive, elapsed);
        window.elapsed = elapsed;
        window.zones.clear();
        for zone in &mut zones {
            let outcome = zone.outcome(&mut random, elapsed);
            window.zones.push(ZoneWindow { zone: Arc::clone(&zone.id), epoch: zone.epoch, outcome });
        }
        split.charge(&window, &ledger);
        assert_eq!(split.broken(), 0, "window {nth}");
        if random.below(10) == 0 {
            let place = random.below(alive.len() as u64) as usize;
            if split.is_settled(alive[place]) {
                closed +=
                    split.flow(alive[place]).and_then(|charge| charge.active).map_or(0, |active| active.0);
                split.forget(alive[place]);
                alive[place] = flow(next);
                next += 1;
            }
        }
        if nth % 1_000 == 0 || nth + 1 == windows {
            check(&split, &zones, &alive, closed);
        }
    }
    assert!(next > windows / 20, "only {next} flows lived");
}

/// Checks the sums of the zones, and that each flow has lower bound <= energy <= upper bound.
fn check(split: &Split, zones: &[FaultyZone], alive: &[SubflowId]) {
    let snapshot = split.snapshot();
    for (zone, shown) in zones.iter().zip(&snapshot.zones) {
        assert_eq!(shown.zone_uj, Microjoules(zone.truth));
        assert_eq!(shown.explained(), shown.zone_uj);
        assert_eq!(shown.epoch, zone.epoch);
    }
    for charge in alive.iter().filter_map(|id| split.flow(*id)) {
        assert!(charge.lo.unwrap() <= charge.hi.unwrap() && charge.lo.unwrap() <= charge.full.unwrap());
        if let Some(active) = charge.active {
            assert!(
                charge.lo.unwrap() <= active
                    && active <= charge.hi.unwrap()
                    && active <= charge.full.unwrap()
            );
        }
    }
    let names: HashSet<_> = snapshot.lost.iter().map(|lost| &lost.zone).collect();
    assert!(names.len() <= ZONES && snapshot.lost.len() <= 32);
}

#[test]
fn counters_in_files_with_faults_add_up_too() {
    let mut random = Random::new(9);
    let power = PowerModel::Linear { idle: 40_000, dynamic: 160_000 };
    for shape in
        [Platform::Intel2, Platform::Intel4, Platform::Dies, Platform::Dram, Platform::Psys, Platform::Amd]
    {
        let machine = SimulatedMachine { packages: shape.packages(), cpus: 2, power };
        let mut rig = Rig::calibrated(shape, machine);
        let devices: Vec<_> = rig.tree.zones().filter(|spec| spec.counted).map(|spec| spec.device).collect();
        for _ in 0..400 {
            if random.below(20) == 0 {
                let device = devices[random.below(devices.len() as u64) as usize];
                let fault = match random.below(4) {
                    0 => Fault::NearWrap(random.below(100_000_000)),
                    1 => Fault::Backwards(random.below(10_000_000_000)),
                    2 => Fault::Stuck,
                    _ => Fault::Vanished,
                };
                // Fails if the zone has vanished already.
                let _ = rig.tree.inject_fault(device, fault);
            }
            if random.below(15) == 0 {
                let device = devices[random.below(devices.len() as u64) as usize];
                rig.tree.clear_fault(device).unwrap();
            }
            rig.work(&random_load(&mut random, &machine));
        }
        let snapshot = rig.split.snapshot();
        assert!(!snapshot.lost.is_empty() && snapshot.zones.iter().any(|zone| zone.epoch > 0), "{shape:?}");
    }
}

fn random_load(random: &mut Random, machine: &SimulatedMachine) -> Load {
    let elapsed = SECOND.0 + random.below(1_000_000);
    let cpus = machine.cpus * machine.packages;
    let busy = (0..cpus).flat_map(|cpu| [Consumer::Flow(cpu % 3), Consumer::Bystander].map(|who| (cpu, who)));
    let busy =
        busy.map(|(cpu, who)| BusyTime { cpu, consumer: who, time: random.below(elapsed / 2) }).collect();
    Load { elapsed, busy }
}

#[test]
fn without_faults_the_sum_of_windows_is_the_advance_of_the_counters() {
    let mut random = Random::new(11);
    let power = PowerModel::Linear { idle: 40_000, dynamic: 160_000 };
    for shape in [
        Platform::Intel1,
        Platform::Intel2,
        Platform::Intel4,
        Platform::Dies,
        Platform::Mmio,
        Platform::Amd,
        Platform::Package10,
    ] {
        let machine = SimulatedMachine { packages: shape.packages(), cpus: 2, power };
        let mut rig = Rig::calibrated(shape, machine);
        let before: Vec<_> =
            rig.tree.zones().map(|spec| (spec.device, rig.tree.energy_uj(spec.device).unwrap())).collect();
        (0..60).for_each(|_| rig.work(&random_load(&mut random, &machine)));
        let counted = rig.tree.zones().filter(|spec| spec.counted).map(|spec| spec.device);
        let first = |device: &str| before.iter().find(|(name, _)| *name == device).unwrap().1;
        let run: u64 = counted.map(|device| rig.tree.energy_uj(device).unwrap() - first(device)).sum();
        let snapshot = rig.split.snapshot();
        assert_eq!(snapshot.zones.iter().map(|zone| zone.zone_uj.0).sum::<u64>(), run, "{shape:?}");
        let truth = rig.tree.expected_energy(&rig.drawn) / 1_000_000;
        assert!(
            u128::from(run).abs_diff(truth) < 100 * snapshot.zones.len() as u128,
            "{shape:?}: {run} {truth}"
        );
        assert_eq!(account(Consumer::App), Account::App);
    }
}
