// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of conditions (`conditions.txt`) and the runs that a seed selects from it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::random::Random;

/// Which links the client's addresses use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// Addresses use links 0 and 1 in turn.
    Halves,
    /// Each address uses its own link.
    Disjoint,
    /// All addresses use one link.
    Shared,
}

/// How the applications send and receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum App {
    /// Sends without pauses.
    Bulk,
    /// Each connection lasts 0.3 to 6 s and is followed by another.
    Churn,
    /// Bursts of 50 to 400 ms, pauses of 50 to 500 ms.
    Bursty,
    /// Each connection sends at half of its share of the links' rates.
    Limited,
    /// The receiver reads 64 KiB every 50 ms from a small buffer.
    SlowReceiver,
}

/// Cross traffic: two plain TCP bulk transfers over link 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cross {
    /// No cross traffic.
    None,
    /// From another host, so that the recording does not contain it.
    Untraced,
    /// From the recorded host.
    Traced,
}

/// How the links limit their rates and queue packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Queue {
    /// tbf with one queue.
    #[default]
    Fifo,
    /// As `Fifo`. In addition, netem delays acknowledgements, to each address by 10 ms more than to the address before it.
    Rtt,
    /// htb: a queue for each client address. Each address may use the whole rate.
    Fair,
    /// No queue: packets above the rate are dropped. The buffer is the burst.
    Policer,
    /// tbf over `fq_codel`.
    FqCodel,
    /// `cake`.
    Cake,
    /// tbf over `sfq`.
    Sfq,
    /// tbf over `red`.
    Red,
}

impl Queue {
    /// Whether subflows of different addresses over one link share its rate, but no queue.
    #[must_use]
    pub fn separates(self) -> bool {
        matches!(self, Self::Fair | Self::Policer | Self::FqCodel | Self::Cake | Self::Sfq)
    }

    /// The kernel module that some kernels lack. Debian's kernels, which `./dev vm` runs, have all of them. `None`: the lab always needs the
    /// queue's modules.
    #[must_use]
    pub fn module(self) -> Option<&'static str> {
        match self {
            Self::Fifo | Self::Fair | Self::Policer => None,
            Self::Rtt => Some("sch_netem"),
            Self::FqCodel => Some("sch_fq_codel"),
            Self::Cake => Some("sch_cake"),
            Self::Sfq => Some("sch_sfq"),
            Self::Red => Some("sch_red"),
        }
    }
}

impl FromStr for Queue {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        word(name).map_err(|error| error.to_string())
    }
}

/// How the router selects the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Route {
    /// By the source address.
    #[default]
    Fixed,
    /// By a hash of addresses and ports.
    Ecmp,
    /// By the source address. At [`Run::switch_at`], all addresses move to link 0.
    Switch,
}

/// The purpose of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Split {
    /// Weights and thresholds may be chosen on it.
    Training,
    /// Only for measurement.
    Evaluation,
}

/// A line of the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// The unique name.
    pub name: String,
    /// Training or evaluation.
    pub split: Split,
    /// Which links the addresses use.
    pub layout: Layout,
    /// Number of client addresses; a connection has a subflow per address.
    pub addresses: u8,
    /// Rates of even and odd links, Mbit/s.
    pub rates: [u32; 2],
    /// Length of each queue, ms.
    pub buffer_ms: u32,
    /// Congestion control.
    pub congestion: String,
    /// The application.
    pub app: App,
    /// Other traffic.
    pub cross: Cross,
    /// Numbers of connections. Each run uses one of these numbers.
    pub connections: Vec<u16>,
    /// How the links queue.
    #[serde(default)]
    pub queue: Queue,
    /// How the router selects the link.
    #[serde(default)]
    pub route: Route,
}

/// A run of a condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The condition.
    pub condition: Condition,
    /// Number of MPTCP connections at the same time.
    pub connections: u16,
    /// Number of earlier runs of this condition with this number of connections.
    pub round: u32,
    /// Seed of start times and application.
    pub seed: u64,
    /// Time from the end of the last gap (see [`Run::gaps`]) to the end of the run, ms.
    #[serde(default = "default_length")]
    pub length_ms: u64,
}

/// 6.5 s: verdicts are scored 5 s after the start of each connection.
fn default_length() -> u64 {
    6_500
}

/// Length of a run whose route changes, ms: verdicts are also scored 15 s after the start of each connection.
const SWITCH_LENGTH: u64 = 15_500;

impl Condition {
    /// Number of links.
    #[must_use]
    pub fn links(&self) -> usize {
        match self.layout {
            Layout::Halves => 2,
            Layout::Disjoint => self.addresses.into(),
            Layout::Shared => 1,
        }
    }

    /// The link that an address uses, both counted from 0.
    #[must_use]
    pub fn link(&self, address: usize) -> usize {
        address % self.links()
    }

    /// The rate of a link, Mbit/s.
    #[must_use]
    pub fn rate(&self, link: usize) -> u32 {
        self.rates[link % 2]
    }
}

impl Run {
    /// The time from the start of each connection to the next start or, for the last connection, to the beginning of `length_ms`: 50 to 100 ms.
    #[must_use]
    pub fn gaps(&self) -> Vec<Duration> {
        let mut random = Random::new(self.seed);
        (0..self.connections).map(|_| Duration::from_millis(50 + random.below(51))).collect()
    }

    /// Rate of an application-limited connection, bits per second.
    #[must_use]
    pub fn limited_rate(&self) -> u64 {
        let total: u32 = (0..self.condition.links()).map(|link| self.condition.rate(link)).sum();
        u64::from(total) * 500_000 / u64::from(self.connections.max(1))
    }

    /// The time from the start of the traffic to the change of the route: 4 s after the start of the last connection.
    #[must_use]
    pub fn switch_at(&self) -> Duration {
        self.gaps().iter().rev().skip(1).sum::<Duration>() + Duration::from_secs(4)
    }

    /// Duration of the run.
    #[must_use]
    pub fn duration(&self) -> Duration {
        self.gaps().iter().sum::<Duration>() + Duration::from_millis(self.length_ms)
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-k{}-r{}", self.condition.name, self.connections, self.round)
    }
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let [name, split, layout, addresses, rates, buffer, cc, app, cross, connections, queue, route] =
            columns[..]
        else {
            return Err(format!("12 columns expected: {line}"));
        };
        let wrong = |error: &dyn fmt::Display| format!("{error}: {line}");
        let rates: Vec<u32> = numbers(rates).map_err(|error| wrong(&error))?;
        Ok(Self {
            name: name.to_owned(),
            split: word(split).map_err(|error| wrong(&error))?,
            layout: word(layout).map_err(|error| wrong(&error))?,
            addresses: addresses.parse().map_err(|error| wrong(&error))?,
            rates: rates.try_into().map_err(|_| wrong(&"two rates expected"))?,
            buffer_ms: buffer.parse().map_err(|error| wrong(&error))?,
            congestion: cc.to_owned(),
            app: word(app).map_err(|error| wrong(&error))?,
            cross: word(cross).map_err(|error| wrong(&error))?,
            connections: numbers(connections).map_err(|error| wrong(&error))?,
            queue: word(queue).map_err(|error| wrong(&error))?,
            route: word(route).map_err(|error| wrong(&error))?,
        })
    }
}

fn word<T: for<'a> Deserialize<'a>>(text: &str) -> Result<T, serde_json::Error> {
    serde_json::from_value(text.into())
}

fn numbers<T: FromStr>(text: &str) -> Result<Vec<T>, T::Err> {
    text.split(',').map(str::parse).collect()
}

/// The table of conditions.
///
/// # Errors
/// If a line is wrong.
pub fn all() -> Result<Vec<Condition>, String> {
    let lines = include_str!("conditions.txt").lines().filter(|line| !line.starts_with('#'));
    lines.map(str::parse).collect()
}

/// The first `count` runs that a seed selects, in recording order. Each round has every condition once for each of
/// its numbers of connections, in random order. `only`: words, separated by commas. If it is not empty, only runs
/// whose names contain one of the words are selected.
#[must_use]
pub fn plan(conditions: &[Condition], seed: u64, count: usize, only: &str) -> Vec<Run> {
    let mut random = Random::new(seed);
    let is_wanted = |(condition, connections): &(Condition, u16)| {
        let name = format!("{}-k{connections}-", condition.name);
        only.split(',').any(|word| name.contains(word))
    };
    let possible = || {
        let cells = conditions.iter().flat_map(|condition| {
            condition.connections.iter().map(move |connections| (condition.clone(), *connections))
        });
        cells.filter(is_wanted)
    };
    let mut runs = Vec::new();
    for round in 0.. {
        let mut cells: Vec<_> = possible().collect();
        if cells.is_empty() || runs.len() >= count {
            break;
        }
        for last in (1..cells.len()).rev() {
            cells.swap(last, random.below(last as u64 + 1) as usize);
        }
        let run = |(condition, connections): (Condition, u16)| Run {
            length_ms: if condition.route == Route::Switch { SWITCH_LENGTH } else { default_length() },
            condition,
            connections,
            round,
            seed: random.bits(),
        };
        runs.extend(cells.into_iter().map(run));
    }
    runs.truncate(count);
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_seed_determines_conditions_order_and_start_times() {
        let conditions = all().unwrap();
        let names = |seed| {
            let runs = plan(&conditions, seed, 300, "");
            runs.iter().map(|run| (run.to_string(), run.gaps())).collect::<Vec<_>>()
        };
        assert_eq!(names(1), names(1));
        assert_ne!(names(1), names(2));
        assert_eq!(names(1).into_iter().map(|(name, _)| name).collect::<BTreeSet<_>>().len(), 300);
    }

    #[test]
    fn a_line_names_queue_and_route() {
        let line = "a training shared 3 45,45 60 cubic bulk none 1,5 fq-codel switch";
        let condition: Condition = line.parse().unwrap();
        assert_eq!((condition.queue, condition.route), (Queue::FqCodel, Route::Switch));
        assert!(line.replace("switch", "-").parse::<Condition>().unwrap_err().contains("unknown variant"));
        let run = plan(&[condition], 1, 1, "a-k5").remove(0);
        let after_switch = Duration::from_millis(SWITCH_LENGTH - 4_000);
        assert_eq!(run.switch_at() + *run.gaps().last().unwrap() + after_switch, run.duration());
    }

    #[test]
    fn training_and_evaluation_have_every_queue_that_needs_a_module() {
        for name in ["rtt", "fq-codel", "cake", "sfq", "red"] {
            let queue: Queue = name.parse().unwrap();
            assert!(queue.module().is_some(), "{name}");
            let conditions = all().unwrap();
            let splits = conditions.iter().filter(|condition| condition.queue == queue);
            let splits: BTreeSet<Split> = splits.map(|condition| condition.split).collect();
            assert_eq!(splits.len(), 2, "{name}");
        }
        assert!("codel".parse::<Queue>().unwrap_err().contains("unknown variant"));
    }

    #[test]
    fn no_condition_of_one_split_has_the_values_of_the_other() {
        let conditions = all().unwrap();
        let unique: BTreeSet<&str> = conditions.iter().map(|condition| condition.name.as_str()).collect();
        assert_eq!(unique.len(), conditions.len());
        let values = |split| {
            let of_split = conditions.iter().filter(move |condition| condition.split == split);
            of_split.map(|condition| Condition {
                name: String::new(),
                split: Split::Training,
                connections: Vec::new(),
                ..condition.clone()
            })
        };
        for training in values(Split::Training) {
            assert!(values(Split::Evaluation).all(|evaluation| evaluation != training), "{training:?}");
        }
    }
}
