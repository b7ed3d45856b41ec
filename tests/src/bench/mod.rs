// SPDX-License-Identifier: MIT OR Apache-2.0
//! What mpwatch costs, measured: the bench program behind `./dev bench`. One file a subject; each prints Markdown tables that
//! docs/performance.md takes over. Figures are ratios within one run wherever that is possible, and nothing here fails because a
//! figure is bad: who reads them judges.

pub mod bottleneck;
mod detection;
mod idle;
mod load;
mod overhead;
mod programs;
mod scrape;
mod snapshot;
mod statistics;
pub(crate) mod table;
mod tui;

use std::fs;
use std::time::Duration;

/// How long and how often to measure.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Repetitions of everything that is compared.
    pub rounds: usize,
    /// How long traffic runs, and tracing has begun, before it is measured.
    pub warm_up: Duration,
    /// How long it is measured.
    pub window: Duration,
    /// Subflows of which a snapshot is taken, in one series of measurements each.
    pub subflows: &'static [u32],
    /// How long an idle mpwatch is watched.
    pub idle: Duration,
    /// Connections in which bottlenecks are looked for.
    pub crowds: &'static [Crowd],
    /// What their measurements are cut into.
    pub crowd_slice: Duration,
    /// Frames of the live view that are drawn, of each kind.
    pub frames: usize,
}

/// Connections at once, each with one subflow on every path, and as much of it as any other.
#[derive(Clone, Copy, Debug)]
pub struct Crowd {
    /// How many.
    pub connections: u32,
    /// Paths, and subflows of each.
    pub paths: usize,
    /// What a path gives each of them, in Mbit/s.
    pub mbit_a_subflow: f64,
    /// How long a path may queue.
    pub queue: Duration,
}

/// A thousand subflows; two hundred that are fast enough for verdicts (more at that rate are too much for two processors); and as many in
/// connections of two, of which there is one verdict that stands, where of twenty-eight some always come or go.
const CROWDS: [Crowd; 3] = [
    Crowd { connections: 125, paths: 8, mbit_a_subflow: 0.3, queue: Duration::from_millis(300) },
    Crowd { connections: 25, paths: 8, mbit_a_subflow: 1.5, queue: Duration::from_millis(100) },
    Crowd { connections: 100, paths: 2, mbit_a_subflow: 1.5, queue: Duration::from_millis(100) },
];
const SMALL_CROWDS: [Crowd; 3] = [
    Crowd { connections: 2, ..CROWDS[0] },
    Crowd { connections: 1, ..CROWDS[1] },
    Crowd { connections: 2, ..CROWDS[2] },
];

impl Effort {
    /// What figures are published from.
    pub const FULL: Self = Self {
        rounds: 15,
        warm_up: Duration::from_millis(150),
        window: Duration::from_millis(500),
        subflows: &[2_500, 10_000],
        idle: Duration::from_secs(10),
        crowds: &CROWDS,
        crowd_slice: Duration::from_secs(2),
        frames: 200,
    };
    /// Enough to see that it works; its figures say nothing.
    pub const QUICK: Self = Self {
        rounds: 1,
        warm_up: Duration::from_millis(20),
        window: Duration::from_millis(50),
        subflows: &[40],
        idle: Duration::from_millis(100),
        crowds: &SMALL_CROWDS,
        crowd_slice: Duration::from_millis(20),
        frames: 2,
    };
}

type Subject = fn(Effort) -> String;

const SUBJECTS: [(&str, Subject); 6] = [
    ("overhead", overhead::run),
    ("snapshot", snapshot::run),
    ("idle", idle::run),
    ("scrape", scrape::run),
    ("detection", detection::run),
    ("tui", tui::run),
];

const USAGE: &str = "Usage: ./dev bench [overhead|snapshot|idle|scrape|detection|tui]... [--rounds N] [--quick], or ./dev bench bottleneck [OPTIONS]";

/// What was asked for on the command line.
#[derive(Debug)]
struct Request {
    subjects: Vec<(&'static str, Subject)>,
    effort: Effort,
}

impl Request {
    fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut request = Self { subjects: Vec::new(), effort: Effort::FULL };
        let mut rounds = None;
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--quick" => request.effort = Effort::QUICK,
                "--rounds" => {
                    let number = arguments.next().and_then(|text| text.parse().ok()).filter(|n| *n > 0);
                    rounds = Some(number.ok_or("--rounds wants a number above 0")?);
                }
                name => match SUBJECTS.iter().find(|(subject, _)| *subject == name) {
                    Some(subject) => request.subjects.push(*subject),
                    None => return Err(format!("no subject or option `{name}`")),
                },
            }
        }
        if request.subjects.is_empty() {
            request.subjects = SUBJECTS.to_vec();
        }
        request.effort.rounds = rounds.unwrap_or(request.effort.rounds);
        Ok(request)
    }
}

/// Measures what the arguments ask for and hands on each piece of text as it is ready; an error is wrong usage.
pub fn run(arguments: impl Iterator<Item = String>, mut print: impl FnMut(&str)) -> Result<(), String> {
    let mut arguments = arguments.peekable();
    if arguments.next_if(|first| first == "bottleneck").is_some() {
        return bottleneck::run(arguments, print);
    }
    let request = Request::parse(arguments).map_err(|error| format!("{error}\n{USAGE}"))?;
    print(&format!("{}\nLoad average before: {}.\n", machine(), load_average()));
    for (name, subject) in &request.subjects {
        print(&format!("\n## {name}\n\n{}", subject(request.effort)));
    }
    print(&format!("\nLoad average after: {}.\n", load_average()));
    Ok(())
}

/// Processor, number of CPUs, kernel.
fn machine() -> String {
    let cpuinfo = read("/proc/cpuinfo");
    let of_cpu = |field: &str| {
        let line = cpuinfo.lines().find(|line| line.starts_with(field));
        line.and_then(|line| Some(line.split_once(": ")?.1.to_owned())).unwrap_or_default()
    };
    let virtual_machine =
        if of_cpu("flags").split(' ').any(|flag| flag == "hypervisor") { ", a virtual machine" } else { "" };
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let kernel = read("/proc/sys/kernel/osrelease");
    format!("{}, {cpus} CPUs{virtual_machine}; Linux {}", of_cpu("model name"), kernel.trim())
}

fn load_average() -> String {
    read("/proc/loadavg").split(' ').take(3).collect::<Vec<_>>().join(" ")
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Request, String> {
        Request::parse(arguments.iter().map(|&argument| argument.to_owned()))
    }

    #[test]
    fn subjects_and_options_are_checked() {
        assert_eq!(parse(&[]).unwrap().subjects.len(), SUBJECTS.len());
        let request = parse(&["--rounds", "3", "overhead", "--quick"]).unwrap();
        assert_eq!((request.effort.rounds, request.subjects[0].0), (3, "overhead"));
        for wrong in [&["overheads"][..], &["--rounds"], &["--rounds", "0"], &["--round", "3"]] {
            assert!(parse(wrong).is_err(), "{wrong:?} was taken");
        }
    }
}
