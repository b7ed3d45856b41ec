// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of a soak.

use std::path::PathBuf;
use std::time::Duration;

/// The parsed command line.
#[derive(Debug)]
pub(super) enum Request {
    /// A soak.
    Soak(Options),
    /// A job of a soak, in the control group with this path.
    Job(PathBuf),
}

/// Settings of a soak.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Options {
    /// Duration of the soak.
    pub(super) length: Duration,
    /// Number of new MPTCP connections per second between two permanent namespaces.
    pub(super) connections: u32,
    /// Number of jobs per second, each with a new namespace, a new control group and one connection.
    pub(super) jobs: u32,
    /// Whether `mpwatch record` also runs.
    pub(super) record: bool,
    /// Size of the database at which the daemon deletes the oldest connections, MiB. `None`: the daemon's default.
    pub(super) store_size: Option<u32>,
    /// Folder of the results.
    pub(super) output: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            length: Duration::from_hours(1),
            connections: 200,
            jobs: 10,
            record: false,
            store_size: None,
            output: PathBuf::from("target/soak"),
        }
    }
}

impl Options {
    pub(super) fn parse(arguments: &mut impl Iterator<Item = String>) -> Result<Request, String> {
        let mut options = Self::default();
        while let Some(argument) = arguments.next() {
            let option = argument.as_str();
            match option {
                "--minutes" => options.length = Duration::from_secs_f64(60.0 * minutes(option, arguments)?),
                "--connections" => options.connections = number(option, arguments)?,
                "--jobs" => options.jobs = number(option, arguments)?,
                "--store-size" => options.store_size = Some(number(option, arguments)?),
                "--record" => options.record = true,
                "--output" => options.output = value(option, arguments)?.into(),
                "--job" => return Ok(Request::Job(value(option, arguments)?.into())),
                _ => return Err(format!("`soak` has no option `{option}`")),
            }
        }
        Ok(Request::Soak(options))
    }
}

fn value(option: &str, arguments: &mut impl Iterator<Item = String>) -> Result<String, String> {
    arguments.next().ok_or_else(|| format!("{option} needs a value"))
}

fn number(option: &str, arguments: &mut impl Iterator<Item = String>) -> Result<u32, String> {
    let number = value(option, arguments)?.parse().ok().filter(|number| (1..=10_000).contains(number));
    number.ok_or_else(|| format!("{option} needs a number from 1 to 10000"))
}

fn minutes(option: &str, arguments: &mut impl Iterator<Item = String>) -> Result<f64, String> {
    let minutes =
        value(option, arguments)?.parse().ok().filter(|minutes| (0.1..=100_000.0).contains(minutes));
    minutes.ok_or_else(|| format!("{option} needs a number of minutes, at least 0.1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Request, String> {
        Options::parse(&mut line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_are_checked() {
        let Ok(Request::Soak(options)) = parse("--minutes 0.5 --jobs 3 --record") else { panic!("refused") };
        assert_eq!((options.length, options.jobs, options.record), (Duration::from_secs(30), 3, true));
        assert!(matches!(parse("--job /x"), Ok(Request::Job(_))));
        for wrong in ["--minutes", "--minutes 0", "--minutes NaN", "--jobs 0", "--connections x", "--hours 1"]
        {
            assert!(parse(wrong).is_err(), "{wrong} was accepted");
        }
    }
}
