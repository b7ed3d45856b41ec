// SPDX-License-Identifier: MIT OR Apache-2.0
//! Describes the machine that runs the bench, and its load.

use std::fs;

use mpwatch_model::host::setup::cpu_model;

/// Processor, number of CPUs, and kernel of the machine.
pub(crate) fn description() -> String {
    let cpuinfo = read("/proc/cpuinfo");
    let of_cpu = |field: &str| {
        let line = cpuinfo.lines().find(|line| line.starts_with(field));
        line.and_then(|line| Some(line.split_once(": ")?.1.to_owned())).unwrap_or_default()
    };
    let virtual_machine =
        if of_cpu("flags").split(' ').any(|flag| flag == "hypervisor") { ", a virtual machine" } else { "" };
    let kernel = read("/proc/sys/kernel/osrelease");
    let cpu = cpu_model(&cpuinfo).unwrap_or_default();
    format!("{cpu}, {} CPUs{virtual_machine}; Linux {}", cpus(), kernel.trim())
}

/// Load averages of the last 1, 5 and 15 minutes.
pub(crate) fn load_average() -> String {
    read("/proc/loadavg").split(' ').take(3).collect::<Vec<_>>().join(" ")
}

/// Sum of the idle times of all CPUs since the machine was started, in seconds. Includes the time of waiting for I/O.
pub(crate) fn idle_time() -> f64 {
    let stat = read("/proc/stat");
    let field = |index: usize| stat.split_whitespace().nth(index)?.parse::<f64>().ok();
    // The fields after `cpu` are user, nice, system, idle and iowait, in hundredths of a second.
    (field(4).unwrap_or(0.0) + field(5).unwrap_or(0.0)) / 100.0
}

/// Number of CPUs that this process may use.
pub(crate) fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}
