// SPDX-License-Identifier: MIT OR Apache-2.0
//! `./dev bench elimination`: runs `mpwatch control eliminate` with several connections on the same two links. Each connection has two
//! subflows on each link. All queues are the kernel's. Counts wrong removals and lost links, and compares the throughput with a dry run.

mod eliminator;
mod trial;

use crate::machine;
use crate::statistics::{median, spread};
use crate::table::{figure, markdown};

use trial::{Outcome, Trial};

/// Name, rates of both links in Mbit/s, lengths of their queues in ms, and whether two untraced TCP transfers use the first link.
const CONDITIONS: [(&str, [u32; 2], [u32; 2], bool); 6] = [
    ("equal", [50, 50], [50, 50], false),
    ("rates", [100, 20], [50, 50], false),
    ("delays", [50, 50], [20, 80], false),
    ("equal-cross", [50, 50], [50, 50], true),
    ("rates-cross", [100, 20], [50, 50], true),
    ("delays-cross", [50, 50], [20, 80], true),
];
const CONNECTIONS: [u32; 3] = [5, 20, 50];

const HEADER: [&str; 12] = [
    "links, Mbit/s; queues, ms; connections",
    "runs",
    "subflows that never opened",
    "removals",
    "wrong",
    "links lost",
    "extra subflows left",
    "last extra subflow closed after",
    "payload rate, % of the dry run's",
    "byte rate of both links, % of the dry run's",
    "left alone",
    "failed",
];

/// The parsed command line.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    connections: Vec<u32>,
    only: String,
    rounds: u32,
    options: Vec<String>,
}

impl Request {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut request =
            Self { connections: Vec::new(), only: String::new(), rounds: 1, options: Vec::new() };
        while let Some(argument) = arguments.next() {
            let value = arguments.next().ok_or(format!("{argument} needs a value"))?;
            let number = || {
                value
                    .parse::<u32>()
                    .ok()
                    .filter(|n| *n > 0)
                    .ok_or(format!("{argument} needs a number above 0"))
            };
            match argument.as_str() {
                "--connections" => request.connections.push(number()?),
                "--rounds" => request.rounds = number()?,
                "--only" => request.only = value,
                "--options" => request.options = value.split(' ').map(str::to_owned).collect(),
                _ => return Err(format!("`elimination` has no option `{argument}`")),
            }
        }
        if request.connections.is_empty() {
            request.connections = CONNECTIONS.to_vec();
        }
        Ok(request)
    }
}

pub(crate) fn run(
    arguments: impl Iterator<Item = String>,
    mut print: impl FnMut(&str),
) -> Result<(), String> {
    let request = Request::parse(arguments)?;
    mpwatch_lab::install_signal_cleanup().map_err(|error| error.to_string())?;
    print(&format!("{}\nLoad average before: {}.\n\n", machine::description(), machine::load_average()));
    let mut rows = Vec::new();
    for (name, rates, queues, cross) in CONDITIONS.iter().filter(|(name, ..)| name.contains(&request.only)) {
        for &connections in &request.connections {
            let mut outcomes = Vec::new();
            for round in 0..request.rounds {
                let trial =
                    Trial { rates: *rates, queues: *queues, cross: *cross, connections, seed: round.into() };
                let outcome = trial.run(&request.options).map_err(|error| error.to_string())?;
                print(&format!("{name} {connections} {round}: {outcome:?}\n"));
                outcomes.push(outcome);
            }
            let with = if *cross { ", untraced TCP" } else { "" };
            let [fast, slow] = rates;
            let [short, long] = queues;
            rows.push(row(format!("{fast} and {slow}; {short} and {long}; {connections}{with}"), &outcomes));
        }
    }
    print(&format!("\n{}", markdown(&HEADER, &rows)));
    print(&format!("\nLoad average after: {}.\n", machine::load_average()));
    Ok(())
}

fn row(name: String, outcomes: &[Outcome]) -> Vec<String> {
    let sum = |count: fn(&Outcome) -> usize| outcomes.iter().map(count).sum::<usize>().to_string();
    let percents = |ratio: fn(&Outcome) -> f64| {
        spread(&outcomes.iter().map(|outcome| ratio(outcome) * 100.0).collect::<Vec<_>>(), "%")
    };
    let times: Vec<f64> =
        outcomes.iter().filter_map(|outcome| outcome.gone).map(|gone| gone.as_secs_f64()).collect();
    let latest = times.iter().copied().fold(0.0, f64::max);
    let gone = if times.is_empty() {
        "-".to_owned()
    } else {
        format!("{} s (at most {} s)", figure(median(&times)), figure(latest))
    };
    vec![
        name,
        outcomes.len().to_string(),
        sum(|outcome| outcome.missing),
        sum(|outcome| outcome.removals),
        sum(|outcome| outcome.wrong),
        sum(|outcome| outcome.lost),
        sum(|outcome| outcome.left),
        gone,
        percents(|outcome| outcome.payload),
        percents(|outcome| outcome.links),
        sum(|outcome| outcome.left_alone),
        sum(|outcome| outcome.failed),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_checked() {
        let parse = |line: &str| Request::parse(line.split_whitespace().map(str::to_owned));
        assert_eq!(parse("").unwrap().connections, CONNECTIONS);
        let request = parse("--connections 5 --connections 7 --only cross --rounds 3").unwrap();
        assert_eq!((request.connections, request.only.as_str(), request.rounds), (vec![5, 7], "cross", 3));
        for wrong in ["--rounds", "--rounds 0", "--seed 1"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
