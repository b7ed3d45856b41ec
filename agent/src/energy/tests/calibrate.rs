// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calibration measures the power curve of a simulated machine, in the steps of its plan.

use std::time::Duration;

use super::scenario::{BusyTime, Consumer, TimeSlice as Load};
use mpwatch_lab::raplsim::{Platform, PowerModel, SimulatedMachine};
use mpwatch_model::unit::Nanos;

use super::Rig;
use crate::energy::calibrate::{StepTiming, measure};
use mpwatch_engine::energy::fit::{plan, summarise};

const TIMING: StepTiming =
    StepTiming { settle: Duration::from_secs(3), measure: Duration::from_secs(10), is_under_load: false };

#[test]
fn the_measured_curve_is_the_power_curve_of_the_machine() {
    let power = PowerModel::Linear { idle: 20_000, dynamic: 30_000 };
    let machine = SimulatedMachine { packages: 1, cpus: 2, power };
    let mut rig = Rig::new(Platform::Intel1, machine);
    let mut readings = Vec::new();
    for step in plan(&[vec![0, 1]]) {
        let Rig { sampler, tree, now, .. } = &mut rig;
        let wait = |time: Duration| {
            let elapsed = u64::try_from(time.as_nanos()).unwrap();
            let busy =
                step.iter().map(|cpu| BusyTime { cpu: *cpu, consumer: Consumer::Bystander, time: elapsed });
            let load = Load { elapsed, busy: busy.collect() };
            tree.add_energy(&[machine.energy(load.busy.iter().map(|busy| busy.time).sum(), elapsed)]);
            tree.update_files().unwrap();
            let mut now = now.lock().unwrap();
            now.monotonic += Nanos(elapsed);
            now.boot += Nanos(elapsed);
        };
        readings.extend(measure(sampler, &step, 2, TIMING, wait));
    }
    let zones = summarise(&readings);
    assert_eq!(zones.len(), 1);
    assert!((zones[0].idle_watts - 20.0).abs() < 1e-4, "{zones:?}");
    let expected = [(0.0, 20.0), (0.5, 35.0), (1.0, 50.0)];
    assert_eq!(zones[0].knots.len(), expected.len());
    for (knot, (busy, watts)) in zones[0].knots.iter().zip(expected) {
        assert!((knot.busy - busy).abs() < 1e-9 && (knot.watts - watts).abs() < 1e-4, "{knot:?}");
    }
}
