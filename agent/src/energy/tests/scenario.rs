// SPDX-License-Identifier: MIT OR Apache-2.0
//! A scenario lists which consumer was busy in each window and for how long. The energy of each consumer is computed from the list.
//! Scenarios test the arithmetic of the attribution; another test runs the same twelve scenarios with real traffic.

use std::collections::BTreeMap;

use mpwatch_lab::random::Random;
use mpwatch_lab::raplsim::{Picojoules, PowerModel, SimulatedMachine};

/// One second in nanoseconds.
const SECOND: u64 = 1_000_000_000;
/// The linear machine of all scenarios: two CPUs, 20 W idle, 30 W more at full load.
const MACHINE: SimulatedMachine =
    SimulatedMachine { packages: 1, cpus: 2, power: PowerModel::Linear { idle: 20_000, dynamic: 30_000 } };

/// A consumer of CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Consumer {
    /// The network stack on behalf of a flow, by number.
    Flow(u32),
    /// The application's own code.
    App,
    /// An unrelated program.
    Bystander,
    /// The network stack before the socket is known.
    Shared,
    /// Interrupts.
    Irq,
    /// mpwatch itself.
    Observer,
}

/// CPU time of one consumer on one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BusyTime {
    pub(super) cpu: u32,
    pub(super) consumer: Consumer,
    /// CPU time, nanoseconds.
    pub(super) time: u64,
}

/// A part of a scenario: one energy window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TimeSlice {
    /// Length, nanoseconds.
    pub(super) elapsed: u64,
    /// Busy times. The CPUs are idle for the rest of the time.
    pub(super) busy: Vec<BusyTime>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scenario {
    pub(super) name: String,
    pub(super) machine: SimulatedMachine,
    /// Its time slices, in order.
    pub(super) slices: Vec<TimeSlice>,
}

impl Scenario {
    /// Energy of each package in a time slice.
    pub(super) fn energy(&self, slice: &TimeSlice) -> Vec<Picojoules> {
        let busy_in = |package: u32| -> u64 {
            let here = slice.busy.iter().filter(|busy| self.machine.package_of(busy.cpu) == package);
            here.map(|busy| busy.time).sum()
        };
        (0..self.machine.packages)
            .map(|package| self.machine.energy(busy_in(package), slice.elapsed))
            .collect()
    }

    /// True energy above idle of each consumer in the whole scenario. Empty if the power model is not linear.
    pub(super) fn truth(&self) -> BTreeMap<Consumer, Picojoules> {
        let mut times: BTreeMap<Consumer, u64> = BTreeMap::new();
        for busy in self.slices.iter().flat_map(|slice| &slice.busy) {
            *times.entry(busy.consumer).or_default() += busy.time;
        }
        times
            .into_iter()
            .filter_map(|(consumer, time)| Some((consumer, self.machine.active(time)?)))
            .collect()
    }

    /// The twelve scenarios: a flow alone; with a bystander that uses a quarter, half and all of the other CPU; with a
    /// bystander on the same CPU; many short flows; two, four and eight subflows; a receiver; a sender; requests and responses.
    pub(super) fn all() -> Vec<Self> {
        let mut all = vec![Self::build("solo", 1, |_, slice| slice.add_flow(0, 0, 500))];
        for percent in [25, 50, 100] {
            let name = format!("bystander-{percent}");
            all.push(Self::build(&name, 2, move |_, slice| {
                slice.add_flow(0, 0, 500);
                slice.add(1, Consumer::Bystander, percent * 10);
            }));
        }
        all.push(Self::build("same-core", 3, |_, slice| {
            slice.add_flow(0, 0, 400);
            slice.add(0, Consumer::Bystander, 500);
        }));
        all.push(Self::build("churn", 4, |second, slice| {
            (0..1000).for_each(|flow| slice.add_exactly((flow % 2) as u32, second * 1000 + flow, 400_000));
        }));
        for subflows in [2, 4, 8] {
            let name = format!("subflows-{subflows}");
            all.push(Self::build(&name, 5, move |_, slice| {
                (0..subflows).for_each(|flow| slice.add_flow(flow % 2, flow, 800 / u64::from(subflows)));
            }));
        }
        all.push(Self::build("rx-heavy", 6, |_, slice| {
            slice.add_flow(1, 0, 700);
            slice.add(1, Consumer::Shared, 60);
        }));
        all.push(Self::build("tx-heavy", 7, |_, slice| {
            slice.add_flow(0, 0, 900);
            slice.add(0, Consumer::App, 50);
        }));
        all.push(Self::build("request-response", 8, |_, slice| {
            slice.add_flow(0, 0, 30);
            slice.add_flow(1, 0, 30);
            slice.add(0, Consumer::App, 20);
        }));
        all
    }

    fn build(name: &str, seed: u64, fill: impl Fn(u64, &mut SliceBuilder<'_>)) -> Self {
        let mut random = Random::new(seed);
        let slices = (0..10).map(|second| {
            // Timers are not exact: the lengths differ by up to 3 ms.
            let elapsed = SECOND + random.bits() % 3_000_000;
            let mut slice = TimeSlice { elapsed, busy: Vec::new() };
            fill(second, &mut SliceBuilder { slice: &mut slice, random: &mut random });
            slice
        });
        Self { name: name.to_owned(), machine: MACHINE, slices: slices.collect() }
    }
}

/// Adds busy times to a time slice.
struct SliceBuilder<'a> {
    slice: &'a mut TimeSlice,
    random: &'a mut Random,
}

impl SliceBuilder<'_> {
    /// Adds about `permille` of a CPU, with a random deviation of up to a twentieth.
    fn add(&mut self, cpu: u32, consumer: Consumer, permille: u64) {
        let nominal = permille * (SECOND / 1000);
        let time = if permille == 1000 {
            nominal
        } else {
            nominal - nominal / 20 + self.random.bits() % (nominal / 10)
        };
        self.slice.busy.push(BusyTime { cpu, consumer, time });
    }

    /// Adds a flow with its interrupts and the CPU time of mpwatch.
    fn add_flow(&mut self, cpu: u32, flow: u32, permille: u64) {
        self.add(cpu, Consumer::Flow(flow), permille);
        self.add(0, Consumer::Irq, 2);
        self.add(0, Consumer::Observer, 1);
    }

    fn add_exactly(&mut self, cpu: u32, flow: u64, time: u64) {
        self.slice.busy.push(BusyTime { cpu, consumer: Consumer::Flow(flow as u32), time });
    }
}

#[test]
fn no_cpu_is_busy_for_longer_than_its_time_slice() {
    let all = Scenario::all();
    assert_eq!(all.len(), 12);
    for scenario in &all {
        for slice in &scenario.slices {
            for cpu in 0..scenario.machine.cpus {
                let busy: u64 = slice.busy.iter().filter(|b| b.cpu == cpu).map(|b| b.time).sum();
                assert!(busy <= slice.elapsed, "{}: CPU {cpu}", scenario.name);
            }
        }
    }
}

#[test]
fn true_energy_and_idle_energy_sum_to_the_total_but_for_rounding() {
    for scenario in Scenario::all() {
        let energy: u128 = scenario.slices.iter().flat_map(|slice| scenario.energy(slice)).sum();
        let elapsed: u64 = scenario.slices.iter().map(|slice| slice.elapsed).sum();
        let owned: u128 = scenario.truth().values().sum();
        let explained = owned + u128::from(scenario.machine.power.idle()) * u128::from(elapsed);
        assert!(energy.abs_diff(explained) < 20_000, "{}: {energy} {explained}", scenario.name);
    }
}

#[test]
fn the_churn_scenario_has_ten_thousand_flows() {
    let churn = Scenario::all().into_iter().find(|scenario| scenario.name == "churn").unwrap();
    assert_eq!(churn.truth().len(), 10_000);
}
