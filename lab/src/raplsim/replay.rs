// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scenarios without a clock: who was busy when, from which energy and its true owners follow exactly. The same twelve run
//! live on real traffic; here only the arithmetic is judged.

use std::collections::BTreeMap;

use super::machine::{Machine, Picojoules, Power};
use crate::random::Random;

/// A second, nanoseconds.
const SECOND: u64 = 1_000_000_000;
/// The linear machine of all scenarios: two CPUs, 20 W idle, 30 W more at full load.
const HOST_METRICS: Machine =
    Machine { packages: 1, cpus: 2, power: Power::Linear { idle: 20_000, dynamic: 30_000 } };

/// Who used a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Who {
    /// Network path of a subflow, by number.
    Flow(u32),
    /// The application's own code.
    App,
    /// A program that has nothing to do with it.
    Bystander,
    /// Network work before a socket is known.
    Shared,
    /// Interrupts.
    Irq,
    /// The observer.
    Own,
}

/// Exclusive CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy {
    /// On this CPU.
    pub cpu: u32,
    /// By whom.
    pub who: Who,
    /// Nanoseconds.
    pub time: u64,
}

/// One window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Length, nanoseconds.
    pub elapsed: u64,
    /// Who was busy; the rest of each CPU was idle.
    pub busy: Vec<Busy>,
}

/// A run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// Name.
    pub name: String,
    /// Machine on which it runs.
    pub machine: Machine,
    /// Windows, one after the other.
    pub windows: Vec<Window>,
}

impl Scenario {
    /// Energy of each package in a window.
    pub fn energy(&self, window: &Window) -> Vec<Picojoules> {
        let of = |package: u32| -> u64 {
            let inside = window.busy.iter().filter(|busy| self.machine.package_of(busy.cpu) == package);
            inside.map(|busy| busy.time).sum()
        };
        (0..self.machine.packages).map(|package| self.machine.energy(of(package), window.elapsed)).collect()
    }

    /// True energy above idle of everyone over the run. Empty where the machine's law is not linear.
    pub fn truth(&self) -> BTreeMap<Who, Picojoules> {
        let mut times: BTreeMap<Who, u64> = BTreeMap::new();
        for busy in self.windows.iter().flat_map(|window| &window.busy) {
            *times.entry(busy.who).or_default() += busy.time;
        }
        times.into_iter().filter_map(|(who, time)| Some((who, self.machine.active(time)?))).collect()
    }

    /// Alone; a bystander on the other CPU at a quarter, half and all of it; one on the same CPU; many short flows; two, four
    /// and eight subflows; mostly receiving; mostly sending; request and response.
    pub fn twelve() -> Vec<Self> {
        let mut all = vec![Self::build("solo", 1, |_, load| load.flow(0, 0, 500))];
        for percent in [25, 50, 100] {
            let name = format!("bystander-{percent}");
            all.push(Self::build(&name, 2, move |_, load| {
                load.flow(0, 0, 500);
                load.add(1, Who::Bystander, percent * 10);
            }));
        }
        all.push(Self::build("same-core", 3, |_, load| {
            load.flow(0, 0, 400);
            load.add(0, Who::Bystander, 500);
        }));
        all.push(Self::build("churn", 4, |second, load| {
            (0..1000).for_each(|flow| load.exactly((flow % 2) as u32, second * 1000 + flow, 400_000));
        }));
        for subflows in [2, 4, 8] {
            let name = format!("subflows-{subflows}");
            all.push(Self::build(&name, 5, move |_, load| {
                (0..subflows).for_each(|flow| load.flow(flow % 2, flow, 800 / u64::from(subflows)));
            }));
        }
        all.push(Self::build("rx-heavy", 6, |_, load| {
            load.flow(1, 0, 700);
            load.add(1, Who::Shared, 60);
        }));
        all.push(Self::build("tx-heavy", 7, |_, load| {
            load.flow(0, 0, 900);
            load.add(0, Who::App, 50);
        }));
        all.push(Self::build("request-response", 8, |_, load| {
            load.flow(0, 0, 30);
            load.flow(1, 0, 30);
            load.add(0, Who::App, 20);
        }));
        all
    }

    fn build(name: &str, seed: u64, load: impl Fn(u64, &mut Load<'_>)) -> Self {
        let mut random = Random::new(seed);
        let windows = (0..10).map(|second| {
            // No timer is exact: windows differ by up to 3 ms.
            let elapsed = SECOND + random.next() % 3_000_000;
            let mut window = Window { elapsed, busy: Vec::new() };
            load(second, &mut Load { window: &mut window, random: &mut random });
            window
        });
        Self { name: name.to_owned(), machine: HOST_METRICS, windows: windows.collect() }
    }
}

/// What runs in one window.
struct Load<'a> {
    window: &'a mut Window,
    random: &'a mut Random,
}

impl Load<'_> {
    /// About `permille` of a CPU, give or take a twentieth.
    fn add(&mut self, cpu: u32, who: Who, permille: u64) {
        let most = permille * (SECOND / 1000);
        let time = if permille == 1000 { most } else { most - most / 20 + self.random.next() % (most / 10) };
        self.window.busy.push(Busy { cpu, who, time });
    }

    /// A flow, with the interrupts and the observer that come with it.
    fn flow(&mut self, cpu: u32, flow: u32, permille: u64) {
        self.add(cpu, Who::Flow(flow), permille);
        self.add(0, Who::Irq, 2);
        self.add(0, Who::Own, 1);
    }

    fn exactly(&mut self, cpu: u32, flow: u64, time: u64) {
        self.window.busy.push(Busy { cpu, who: Who::Flow(flow as u32), time });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_twelve_and_no_cpu_is_more_than_full() {
        let all = Scenario::twelve();
        assert_eq!(all.len(), 12);
        for scenario in &all {
            for window in &scenario.windows {
                for cpu in 0..scenario.machine.cpus {
                    let busy: u64 = window.busy.iter().filter(|b| b.cpu == cpu).map(|b| b.time).sum();
                    assert!(busy <= window.elapsed, "{}: CPU {cpu}", scenario.name);
                }
            }
        }
    }

    #[test]
    fn true_owners_and_idle_make_up_the_energy_but_for_rounding() {
        for scenario in Scenario::twelve() {
            let energy: u128 = scenario.windows.iter().flat_map(|window| scenario.energy(window)).sum();
            let elapsed: u64 = scenario.windows.iter().map(|window| window.elapsed).sum();
            let owned: u128 = scenario.truth().values().sum();
            let explained = owned + u128::from(scenario.machine.power.idle()) * u128::from(elapsed);
            assert!(energy.abs_diff(explained) < 20_000, "{}: {energy} {explained}", scenario.name);
        }
    }

    #[test]
    fn ten_thousand_flows_churn() {
        let churn = Scenario::twelve().into_iter().find(|scenario| scenario.name == "churn").unwrap();
        assert_eq!(churn.truth().len(), 10_000);
    }
}
