// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs `mpwatch export` and measures the sent data and the cost of sending.

use std::ops::AddAssign;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;

use mpwatch_testkit::mpwatch;

/// The sent data and the cost of sending.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Exported {
    pub(super) rows: u64,
    /// Compressed size in bytes.
    pub(super) bytes: u64,
    pub(super) seconds: f64,
    /// CPU time of the exporting process in user mode and in the kernel, seconds.
    pub(super) cpu_seconds: f64,
}

impl AddAssign for Exported {
    fn add_assign(&mut self, other: Self) {
        self.rows += other.rows;
        self.bytes += other.bytes;
        self.seconds += other.seconds;
        self.cpu_seconds += other.cpu_seconds;
    }
}

/// Exports the connections of a database that were not yet sent to the target at `url`.
pub(super) fn export(kind: &str, database: &Path, url: &str, more: &[&str]) -> Exported {
    let database = database.to_str().expect("a path in UTF-8");
    let (began, before) = (Instant::now(), children_cpu_time());
    let outcome = mpwatch(&[&["export", kind, "--db", database, "--url", url], more].concat());
    let (seconds, cpu) = (began.elapsed().as_secs_f64(), children_cpu_time().saturating_sub(before));
    let (rows, bytes) = sent(&outcome.stderr).unwrap_or_else(|| panic!("the export failed: {outcome:?}"));
    Exported { rows, bytes, seconds, cpu_seconds: cpu.as_secs_f64() }
}

/// The numbers of connections and bytes in `sent 5 connections in 2 requests (1234 bytes)`. `None`: another text.
fn sent(text: &str) -> Option<(u64, u64)> {
    let text = text.split("sent ").nth(1)?;
    let bytes = text.split_once('(')?.1;
    let number = |text: &str| text.split(' ').next()?.parse().ok();
    Some((number(text)?, number(bytes)?))
}

/// CPU time of all ended child processes.
fn children_cpu_time() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("the kernel accounts CPU time");
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Duration::from_micros(micros.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_an_export_are_read() {
        let text = "mpwatch: sent 5 connections in 2 requests (1234 bytes); 0 repeated, 0 rejected\n";
        assert_eq!(sent(text), Some((5, 1_234)));
        assert_eq!(sent("mpwatch: gave up"), None);
    }
}
