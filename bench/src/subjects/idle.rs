// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures CPU time and memory of a running mpwatch. The subject `idle` measures mpwatch without MPTCP traffic.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::effort::Effort;
use crate::process::{cpu_percent, peak_memory};
use crate::table::{figure, markdown};
use mpwatch_testkit::{Observer, program};

/// Duration of the first ticks, which are not measured because they allocate memory.
const SETTLING: Duration = Duration::from_millis(2_500);

/// A process `mpwatch top --batch --json` whose output is discarded.
pub(crate) struct Top(Child);

impl Top {
    pub(crate) fn start() -> Self {
        let mut command = Command::new(program());
        command
            .args(["top", "--batch", "--json", "--interval", "1s"])
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        Self(command.spawn().expect("the program can be started"))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Top {
    fn drop(&mut self) {
        // The process is killed, because it has no data to write.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Resources of a running mpwatch.
pub(crate) struct Usage {
    /// CPU time, in percent of one CPU.
    pub(crate) percent: f64,
    /// Peak memory, MiB.
    pub(crate) memory: f64,
}

/// Measures a running mpwatch after its first ticks.
pub(crate) fn usage(pid: u32, effort: Effort) -> Usage {
    thread::sleep(SETTLING.min(effort.idle * 3));
    Usage { percent: cpu_percent(pid, effort.idle), memory: peak_memory(pid) }
}

pub(crate) fn run(effort: Effort) -> String {
    let rows =
        [("full tracing", &[][..]), ("`--ledger off`", &["--ledger", "off"])].map(|(name, options)| {
            let observer = Observer::start_every("1s", options);
            let usage = usage(observer.pid(), effort);
            observer.finish();
            vec![name.to_owned(), format!("{} %", figure(usage.percent)), format!("{:.0} MiB", usage.memory)]
        });
    let note = format!(
        "`mpwatch record --interval 1s` for {:?} without MPTCP traffic; target: 0.5 % of a CPU.\n\n",
        effort.idle
    );
    note + &markdown(&["mpwatch", "CPU time, of one CPU", "memory"], &rows)
}
