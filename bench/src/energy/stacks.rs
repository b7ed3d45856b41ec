// SPDX-License-Identifier: MIT OR Apache-2.0
//! Estimates the CPU time of the network from kernel stacks sampled by a timer. `./dev bench ledger` compares this estimate with the ledgers.

use std::fs::{self, File};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mpwatch_lab::poll_until;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

/// Samples per second: a prime number, so that sampling is not synchronized with periodic work.
const SAMPLES_PER_SECOND: u64 = 199;
const READY: &str = "sampling";
/// Maximum number of different stacks. Samples of further stacks are lost.
const STACKS: &str = "65536";
const TIMEOUT: Duration = Duration::from_secs(30);
/// Beginnings of names of network functions, in system calls and softirqs. A stack with at least one such function counts.
const NETWORK: [&str; 8] =
    ["mptcp_", "subflow_", "tcp_", "inet_", "ip_", "ip6_", "net_rx_action", "__dev_queue_xmit"];

/// A bpftrace process that counts the sampled kernel stacks of all CPUs.
pub struct StackSampler {
    child: Child,
    output: TempDir,
}

impl StackSampler {
    /// Starts bpftrace and waits until it samples. `None`: bpftrace is not installed.
    pub fn start() -> Option<Self> {
        let program = format!(
            "BEGIN {{ printf(\"{READY}\\n\"); }} profile:hz:{SAMPLES_PER_SECOND} {{ @[kstack(48)] = count(); }}"
        );
        let output = TempDir::new().expect("a folder can be made");
        let file = |name| File::create(output.path().join(name)).expect("a file can be made");
        let child = Command::new("bpftrace")
            .args(["-e", &program])
            .env("BPFTRACE_MAP_KEYS_MAX", STACKS)
            .stdin(Stdio::null())
            .stdout(file("stdout"))
            .stderr(file("stderr"))
            .spawn()
            .ok()?;
        let sampler = Self { child, output };
        poll_until("bpftrace to sample", TIMEOUT, || sampler.text().contains(READY).then_some(()))
            .expect("bpftrace works");
        Some(sampler)
    }

    /// Stops bpftrace. Returns the estimated CPU time of the network since the start, nanoseconds.
    pub fn finish(mut self) -> u64 {
        self.interrupt();
        let ended =
            poll_until("bpftrace to end", TIMEOUT, || self.child.try_wait().expect("a child process"));
        assert!(ended.is_ok_and(|status| status.success()), "bpftrace has failed");
        network_samples(&self.text()) * 1_000_000_000 / SAMPLES_PER_SECOND
    }

    fn text(&self) -> String {
        fs::read_to_string(self.output.path().join("stdout")).unwrap_or_default()
    }

    fn interrupt(&self) {
        let process = Pid::from_raw(i32::try_from(self.child.id()).expect("a process id fits"));
        // The error is ignored: it means that the process has ended.
        let _ = kill(process, Signal::SIGINT);
    }
}

impl Drop for StackSampler {
    fn drop(&mut self) {
        // After `finish` the process has been waited for, and its id may belong to another process.
        if matches!(self.child.try_wait(), Ok(None)) {
            self.interrupt();
            let _ = self.child.wait();
        }
    }
}

/// The number of samples whose stacks contain a network function, from the map that bpftrace prints.
fn network_samples(text: &str) -> u64 {
    let mut is_network = false;
    let mut samples = 0;
    for line in text.lines() {
        if let Some(count) = line.strip_prefix("]: ") {
            samples += if is_network { count.parse().unwrap_or(0) } else { 0 };
        }
        if line.starts_with("@[") {
            is_network = false;
        }
        is_network |= NETWORK.iter().any(|prefix| {
            line.trim_start().trim_start_matches('_').starts_with(prefix.trim_start_matches('_'))
        });
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_with_a_function_of_the_network_are_counted() {
        let text = "Attaching 2 probes...\nsampling\n@[]: 800\n\n@[\n    pipe_write+1\n    vfs_write+2\n]: 20\n@[\n    copy_user+3\n    __mptcp_push+4\n]: 3\n\
            @[\n    memcpy+1\n    __dev_queue_xmit+4\n]: 4\n";
        assert_eq!(network_samples(text), 7);
    }
}
