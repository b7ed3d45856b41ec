// SPDX-License-Identifier: MIT OR Apache-2.0
//! Faults of counters: the energy is reported as lost, or marked as an estimate. It is never wrong, and unknown energy is never 0 J.

use std::path::PathBuf;

use super::scenario::{BusyTime, Consumer, TimeSlice as Load};
use mpwatch_lab::raplsim::{Fault, Platform, PowerModel, SimulatedMachine};
use mpwatch_model::host::energy::{EnergySource, LostReason};
use mpwatch_model::unit::{Microjoules, Nanos};

use super::{Rig, SECOND, flow};
use crate::energy::powercap::{FoundZone, ReadCounter};
use crate::energy::zone::{Backend, CpuLocation, Role, Zone};
use crate::energy::zone_reader::{WindowTimes, ZoneReader, find_mirrors};
use mpwatch_model::host::energy::window::{Cpus, ZoneId, ZoneOutcome};

const POWER: PowerModel = PowerModel::Linear { idle: 20_000, dynamic: 30_000 };

fn rig(shape: Platform) -> Rig {
    Rig::calibrated(shape, SimulatedMachine { packages: shape.packages(), cpus: 2, power: POWER })
}

/// A second in which a flow uses half a CPU.
fn second() -> Load {
    Load {
        elapsed: SECOND.0,
        busy: vec![BusyTime { cpu: 0, consumer: Consumer::Flow(0), time: SECOND.0 / 2 }],
    }
}

fn lost(rig: &Rig) -> Vec<LostReason> {
    let outcomes = rig.window.zones.iter().map(|zone| zone.outcome);
    outcomes
        .filter_map(|outcome| match outcome {
            ZoneOutcome::Lost { reason, .. } => Some(reason),
            ZoneOutcome::Energy(_) | ZoneOutcome::Pending => None,
        })
        .collect()
}

#[test]
fn every_platform_gives_the_energy_of_its_counted_zones() {
    for shape in
        Platform::ALL.into_iter().filter(|shape| !matches!(shape, Platform::Empty | Platform::VmShare))
    {
        let mut rig = rig(shape);
        // Ten seconds are enough to detect a dead zone or a mirror.
        (0..10).for_each(|_| rig.work(&second()));
        let zones = rig.sampler.zones();
        let counted: Vec<_> =
            zones.iter().filter(|zone| zone.counted).map(|zone| zone.device.as_str()).collect();
        let mut expected: Vec<_> =
            rig.tree.zones().filter(|spec| spec.counted).map(|spec| spec.device).collect();
        expected.sort_unstable();
        assert_eq!(counted, expected, "{shape:?}");
        let truth = rig.tree.expected_energy(&rig.drawn) / 1_000_000;
        let found: u64 = rig.split.snapshot().zones.iter().map(|zone| zone.zone_uj.0).sum();
        assert!(u128::from(found).abs_diff(truth) < 1_000, "{shape:?}: {found} {truth}");
        assert_eq!(rig.sampler.source(), EnergySource::RaplPowercap);
    }
}

/// The reader of a die whose counter has these values.
fn die(number: usize, values: &'static [u64]) -> ZoneReader {
    let (device, name) = (format!("intel-rapl:{number}"), format!("package-0-die-{number}"));
    let zone = Zone {
        device,
        parent: None,
        name: Some(name.clone()),
        backend: Backend::Powercap,
        max: None,
        limit: None,
    };
    let id = ZoneId { index: number, label: name, cpus: Cpus::All, source: EnergySource::RaplPowercap };
    let mut values = values.iter();
    let read: ReadCounter = Box::new(move || Ok(*values.next().unwrap()));
    let found = FoundZone { zone, path: PathBuf::new(), read: Ok(read) };
    ZoneReader::new(
        id,
        found,
        Role::Counted(CpuLocation { package: Some(0), die: u32::try_from(number).ok() }),
    )
}

#[test]
fn a_window_that_has_ended_is_compared_with_another_die_only_once() {
    // Both dies use the same energy once, and then none.
    let mut dies = [die(0, &[1_000, 1_500, 1_500, 1_500, 1_500, 1_500, 1_500, 1_700]), {
        die(1, &[7_000, 7_500, 7_500, 7_500, 7_500, 7_500, 7_500, 7_900])
    }];
    let times = WindowTimes { elapsed: SECOND, skew: Nanos(0), was_suspended: false, busy: 0.0 };
    for _ in 0..8 {
        for die in &mut dies {
            die.read_after();
            die.step(&times);
        }
        find_mirrors(&mut dies, &mut Vec::new());
        assert!(!dies[1].is_mirror());
    }
}

#[test]
fn the_platform_zone_is_displayed_but_not_counted() {
    let mut rig = rig(Platform::Psys);
    rig.work(&second());
    let snapshot = rig.split.snapshot();
    assert_eq!(snapshot.zones.len(), 1);
    let psys = snapshot.shown.iter().find(|shown| shown.zone == "psys").unwrap();
    assert!(psys.zone_uj > snapshot.zones[0].zone_uj);
}

#[test]
fn without_zones_the_model_is_the_source() {
    let mut rig = rig(Platform::Empty);
    rig.work(&second());
    assert_eq!(rig.window.source, EnergySource::Model);
    let charge = rig.split.flow(flow(0)).unwrap();
    assert_eq!(charge.source, EnergySource::Model);
    assert!(
        charge.hi.unwrap().0 >= charge.active.unwrap().0 * 3 / 2
            && charge.lo.unwrap().0 <= charge.active.unwrap().0 / 2 + 1
    );
    assert!(rig.sampler.advice().unwrap().contains("docs/energy.md"));
    assert_eq!(rig.split.snapshot().zones[0].zone, "model");
}

#[test]
fn a_dead_zone_alone_is_not_used_as_the_source() {
    let mut rig = rig(Platform::Intel1);
    rig.tree.inject_fault("intel-rapl:0", Fault::Stuck).unwrap();
    for _ in 0..4 {
        rig.work(&second());
        assert_eq!(rig.split.flow(flow(0)), None, "unknown is not 0 J");
    }
    rig.work(&second());
    assert_eq!(lost(&rig), [LostReason::Stuck]);
    assert_eq!(rig.sampler.source(), EnergySource::Model);
    rig.work(&second());
    assert_eq!(rig.split.flow(flow(0)).unwrap().source, EnergySource::Model);
    // The counter advances again.
    rig.tree.clear_fault("intel-rapl:0").unwrap();
    rig.work(&second());
    rig.work(&second());
    assert_eq!((rig.window.source, lost(&rig).len()), (EnergySource::RaplPowercap, 0));
}

#[test]
fn a_counter_that_does_not_advance_on_an_idle_machine_is_not_dead() {
    let mut rig = rig(Platform::Intel1);
    rig.tree.inject_fault("intel-rapl:0", Fault::Stuck).unwrap();
    (0..20).for_each(|_| rig.work(&Load { elapsed: SECOND.0, busy: Vec::new() }));
    assert_eq!(rig.sampler.source(), EnergySource::RaplPowercap);
}

#[test]
fn windows_in_which_the_counter_does_not_advance_are_joined() {
    let mut rig = rig(Platform::Intel1);
    rig.tree.inject_fault("intel-rapl:0", Fault::Stuck).unwrap();
    (0..3).for_each(|_| rig.work(&second()));
    rig.tree.clear_fault("intel-rapl:0").unwrap();
    rig.work(&second());
    let truth = rig.machine.active(2 * SECOND.0).unwrap() / 1_000_000;
    let charge = rig.split.flow(flow(0)).unwrap();
    assert!(u128::from(charge.active.unwrap().0).abs_diff(truth) < 200, "{charge:?} {truth}");
}

#[test]
fn a_zone_that_vanishes_closes_its_window_and_comes_back_in_a_new_epoch() {
    let mut rig = rig(Platform::Intel2);
    rig.work(&second());
    rig.tree.inject_fault("intel-rapl:1", Fault::Vanished).unwrap();
    (0..6).for_each(|_| rig.work(&second()));
    assert_eq!(lost(&rig), [LostReason::Vanished]);
    rig.tree.clear_fault("intel-rapl:1").unwrap();
    (0..7).for_each(|_| rig.work(&second()));
    assert!(lost(&rig).is_empty());
    let snapshot = rig.split.snapshot();
    let back = snapshot.zones.iter().find(|zone| zone.zone == "package-1").unwrap();
    assert_eq!(back.epoch, 1);
    assert!(back.windows_lost >= 6 && back.lost_ns >= Nanos(6 * SECOND.0));
    assert_eq!(snapshot.lost.len(), 1, "the whole absence is listed as one window: {:?}", snapshot.lost);
    let other = snapshot.zones.iter().find(|zone| zone.zone == "package-0").unwrap();
    assert_eq!((other.epoch, other.windows_lost), (0, 0));
}

#[test]
fn energy_during_a_suspension_is_not_charged_to_a_flow() {
    let mut rig = rig(Platform::Intel1);
    rig.work(&second());
    let before = rig.split.flow(flow(0));
    rig.sleep(Nanos(3_600 * SECOND.0));
    rig.work(&second());
    assert_eq!(lost(&rig), [LostReason::Suspended]);
    assert_eq!(rig.split.flow(flow(0)), before);
    rig.work(&second());
    assert!(lost(&rig).is_empty());
}

#[test]
fn a_counter_set_back_loses_one_window() {
    let mut rig = rig(Platform::Intel1);
    rig.work(&second());
    rig.tree.inject_fault("intel-rapl:0", Fault::Backwards(50_000_000_000)).unwrap();
    rig.work(&second());
    assert_eq!(lost(&rig), [LostReason::Backwards]);
    rig.work(&second());
    assert!(lost(&rig).is_empty());
    assert!(rig.split.snapshot().zones[0].zone_uj < Microjoules(100_000_000));
}

#[test]
fn a_wrap_loses_nothing() {
    for shape in [Platform::Intel1, Platform::Amd] {
        let mut rig = rig(shape);
        rig.tree.inject_fault("intel-rapl:0", Fault::NearWrap(30_000_000)).unwrap();
        // The injected jump to just before the wrap loses one window.
        rig.work(&second());
        let before = rig.split.snapshot().zones.first().map_or(Microjoules(0), |zone| zone.zone_uj);
        (0..5).for_each(|_| rig.work(&second()));
        let found = rig.split.snapshot().zones[0].zone_uj.since(before).0;
        let truth = 5 * rig.machine.energy(SECOND.0 / 2, SECOND.0) / 1_000_000;
        assert!(u128::from(found).abs_diff(truth) < 200, "{shape:?}: {found} {truth}");
    }
}

#[test]
fn a_share_of_a_host_is_read_over_five_seconds_and_labelled() {
    let mut rig = rig(Platform::VmShare);
    for nth in 1..=10 {
        rig.work(&second());
        let is_closed = rig.window.zones.iter().any(|zone| matches!(zone.outcome, ZoneOutcome::Energy(_)));
        assert_eq!(is_closed, nth % 5 == 0, "after {nth} s");
    }
    assert_eq!(rig.split.flow(flow(0)).unwrap().source, EnergySource::VmShare);
    assert!(rig.split.is_settled(flow(0)));
    assert!(rig.root.path().exists());
}
