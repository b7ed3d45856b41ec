// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts of this crate that `mpwatch-study` uses: the live loop with its energy counters, errors with exit codes, output, man pages.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use mpwatch_engine::bottleneck::NewMethod;
use mpwatch_engine::tracker::Tracker;
use mpwatch_model::host::energy::EnergySource;
use mpwatch_model::kernel::cpu::LedgerMode;
use mpwatch_model::kernel::endpoint::printable_lines;
use mpwatch_model::kernel::event::{KernelEvent, Start};
use mpwatch_model::snapshot::{Report, Snapshot};

pub use crate::command::man::{Environment, Manual, page_of as man_page};
pub use crate::command::output::{print, print_table, table_width};
pub use crate::config::suggest;
pub use crate::error::{Failure, KERNEL, PERMISSION, RUNTIME, USAGE};
pub use crate::system::clock::boot_now;
pub use crate::system::stop_flag;

use crate::cli::{Cli, CounterOptions, TraceOptions};
use crate::config::environment;
use crate::energy::discovery::discover;
use crate::energy::simulation::Simulation;
use crate::error::exit;
use crate::live::kernel::Live;
use crate::live::session;
use crate::system::companion;
use crate::system::setup;

/// Runs `mpwatch` with these arguments (without the program's name), and with the published detection methods that `new` creates.
pub fn mpwatch_with_methods(new: NewMethod, arguments: Vec<OsString>) -> ExitCode {
    companion::provide_methods(new);
    let cli = Cli::from_words(arguments);
    run_program("mpwatch", || crate::command::run(&cli))
}

/// Checks the environment, runs a command of the program `name`, prints the command's error and returns its exit code.
pub fn run_program(name: &str, command: impl FnOnce() -> anyhow::Result<ExitCode>) -> ExitCode {
    let variables = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let outcome = environment::check(variables).map_err(anyhow::Error::from);
    match outcome.and_then(|()| command()) {
        Ok(code) => code,
        Err(error) if exit::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // The text may quote a damaged or hostile file.
            eprintln!("{name}: {}", printable_lines(&exit::message(&error)));
            exit::code(&error)
        }
    }
}

/// Model name of this machine's CPU.
pub fn cpu_model() -> Option<String> {
    setup::read(Duration::ZERO).cpu_model
}

/// Number of CPUs that the energy model uses.
pub fn cpus() -> u32 {
    CounterOptions::default().hardware().cpus
}

/// Energy counters that a tracer reads.
#[derive(Default)]
pub struct Counters(Option<Simulation>);

impl Counters {
    /// This machine's counters or, if it has none, simulated ones that follow the CPU time of this process.
    pub fn real_or_simulated() -> anyhow::Result<Self> {
        let hardware = CounterOptions::default().hardware();
        let has_counters = discover(&hardware).source != EnergySource::Model;
        Ok(Self((!has_counters).then(|| Simulation::start(hardware.cpus)).transpose()?))
    }

    /// Whether the counters are simulated.
    pub fn are_simulated(&self) -> bool {
        self.0.is_some()
    }
}

/// This machine's kernel, traced completely: MPTCP and plain TCP, CPU time exactly, verdicts evaluated all the time. The cost of tracing is
/// not measured, because this process also runs traffic.
pub struct Tracing(Live);

impl Tracing {
    /// Attaches to the kernel. `stop` ends the trace.
    pub fn start(counters: &Counters, interval: Duration, stop: Arc<AtomicBool>) -> anyhow::Result<Self> {
        let options = TraceOptions {
            tcp: true,
            ledger: Some(LedgerMode::Exact),
            counters: counters.0.as_ref().map_or_else(CounterOptions::default, Simulation::counters),
            ..TraceOptions::default()
        };
        Ok(Self(options.start(interval, stop)?.without_cost().without_backoff()))
    }

    /// The first event, with which a tracker starts.
    pub fn first_event(&self) -> &Start {
        &self.0.start
    }

    /// Passes all events to `observe` and to the tracker, and its snapshots to `each`, until `each` returns `false` or the trace ends.
    /// Returns the tracker's report.
    pub fn run(
        &mut self,
        tracker: Tracker,
        observe: &mut dyn FnMut(&KernelEvent),
        each: impl FnMut(Snapshot) -> anyhow::Result<bool>,
    ) -> anyhow::Result<Report> {
        let mut observe = |event: &KernelEvent| {
            observe(event);
            true
        };
        session::track(&mut self.0, tracker, &mut observe, each)
    }
}
