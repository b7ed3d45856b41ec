// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the resources of a process from /proc, and its losses from the metrics that a daemon serves.

use std::fs;
use std::time::Duration;

use super::churn::Counts;
use super::outcome::Outcome;

/// One sample of one process.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sample {
    /// Time since the churn began.
    pub(super) at: Duration,
    /// Anonymous memory in RAM (heap and stacks), kB.
    pub(crate) anonymous_kb: u64,
    /// Pages of files in RAM (the program, its ring buffers, the log index of the database), kB.
    pub(super) file_kb: u64,
    /// Size of the address space, kB.
    pub(super) virtual_kb: u64,
    pub(super) descriptors: u64,
    pub(super) threads: u64,
    /// Kernel memory of the BPF maps in kB, without storage that is attached to sockets and threads.
    pub(crate) maps_kb: u64,
    /// Size of the database or recording, kB.
    pub(super) written_kb: u64,
    pub(super) losses: Option<Losses>,
    pub(super) churn: Counts,
}

/// Losses of a daemon so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Losses {
    /// Number of lost final records, samples, connections and snapshots: the sum of the `mpwatch_loss_` metrics except bytes, records that
    /// arrived late because the ring buffer was full, and missed events.
    pub(super) lost: u64,
    /// `mpwatch_loss_events_missed_total`. No total depends on these events.
    pub(super) missed: u64,
}

impl Losses {
    /// Adds up the losses in the text of the metrics.
    pub(super) fn from_metrics(text: &str) -> Self {
        const NOT_LOST: [&str; 3] = ["ring_full_recovered_total", "sent_bytes_total", "received_bytes_total"];
        let mut losses = Self::default();
        for (name, value) in series(text) {
            if name == "events_missed_total" {
                losses.missed += value;
            } else if !NOT_LOST.contains(&name) {
                losses.lost += value;
            }
        }
        losses
    }
}

/// The metrics of losses that are not zero, as text; `nothing` if all are zero.
pub(crate) fn list_losses(text: &str) -> String {
    let found = series(text).filter(|(_, value)| *value > 0).map(|(name, value)| format!("{name} {value}"));
    let found: Vec<String> = found.collect();
    if found.is_empty() { "nothing".to_owned() } else { found.join(", ") }
}

/// The metrics of losses: names without `mpwatch_loss_`, and values.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counters are whole numbers")]
fn series(text: &str) -> impl Iterator<Item = (&str, u64)> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("mpwatch_loss_")?.rsplit_once(' '));
    lines.filter_map(|(name, value)| Some((name, value.parse::<f64>().ok()? as u64)))
}

/// Takes a sample of a process.
pub(crate) fn read(pid: u32, at: Duration, churn: Counts) -> Outcome<Sample> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd"))?.count() as u64;
    let information = fs::read_dir(format!("/proc/{pid}/fdinfo"))?.flatten();
    // Errors are ignored, because a descriptor may have been closed meanwhile.
    let maps = information.filter_map(|entry| map_bytes(&fs::read_to_string(entry.path()).ok()?));
    Ok(Sample {
        at,
        anonymous_kb: field(&status, "RssAnon:"),
        file_kb: field(&status, "RssFile:") + field(&status, "RssShmem:"),
        virtual_kb: field(&status, "VmSize:"),
        descriptors,
        threads: field(&status, "Threads:"),
        maps_kb: maps.sum::<u64>() / 1024,
        churn,
        ..Sample::default()
    })
}

/// Peak resident memory, kB. `None`: the process has ended.
pub(super) fn peak_kb(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    Some(field(&status, "VmHWM:")).filter(|&peak| peak > 0)
}

/// Kernel memory of a BPF map in bytes, from the information about its descriptor. `None`: the descriptor does not belong to a map.
fn map_bytes(information: &str) -> Option<u64> {
    information.contains("map_type:").then(|| field(information, "memlock:"))
}

/// The number after `name` at the beginning of a line; 0 if there is no such line.
fn field(text: &str, name: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    value.and_then(|value| value.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_summed_over_their_metrics() {
        let text = "# HELP mpwatch_loss_x help 5\nmpwatch_loss_records_total 2\nmpwatch_loss_sent_bytes_total 99\n\
                    mpwatch_loss_store_flows_total 3\nmpwatch_loss_events_missed_total 7\nmpwatch_up 1\n";
        assert_eq!(Losses::from_metrics(text), Losses { lost: 5, missed: 7 });
        assert!(list_losses(text).starts_with("records_total 2, sent_bytes_total 99"));
        assert_eq!(list_losses(""), "nothing");
    }

    #[test]
    fn only_descriptors_of_maps_have_the_memory_of_maps() {
        assert_eq!(map_bytes("pos:\t0\nmap_type:\t1\nmemlock:\t4096\n"), Some(4096));
        assert_eq!(map_bytes("pos:\t0\nprog_type:\t1\nmemlock:\t4096\n"), None);
    }

    #[test]
    fn this_process_can_be_read() {
        let sample = read(std::process::id(), Duration::ZERO, Counts::default()).unwrap();
        assert!(sample.anonymous_kb > 0 && sample.descriptors > 2 && sample.threads > 0, "{sample:?}");
        assert!(peak_kb(std::process::id()) >= Some(sample.anonymous_kb));
    }
}
