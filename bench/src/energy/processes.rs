// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the two ends of the traffic and the bystander as separate processes, so that the CPU time of the bench's own threads is not
//! attributed to them. Each process executes this program again; environment variables select its role.

use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mpwatch_lab::traffic::{Control, TrafficReport, TrafficSpec, run_client, run_server};
use mpwatch_lab::{Topology, poll_until};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// Environment variable with the role of the process.
const ROLE: &str = "MPWATCH_BENCH_ROLE";
/// Environment variable with the parameters of the role: the specification of the traffic, or a CPU and the share of its time in percent.
const PARAMETERS: &str = "MPWATCH_BENCH_PARAMETERS";
// Beginnings of lines that a process prints.
const LISTENING: &str = "LISTENING";
const SPINNING: &str = "SPINNING";
const CPU_TIME: &str = "CPU_TIME ";

/// A child process. It is killed when it is dropped.
struct Process {
    child: Child,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn start(role: &str, parameters: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_process", "--nocapture"])
            .env(ROLE, role)
            .env(PARAMETERS, parameters)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, stdout }
    }

    /// Waits for a line with this prefix and returns the rest of the line. `None`: the process ended without such a line.
    fn find(&mut self, prefix: &str) -> Option<String> {
        let mut lines = self.stdout.by_ref().map_while(Result::ok);
        lines.find_map(|line| Some(line.strip_prefix(prefix)?.to_owned()))
    }

    fn wait_for(&mut self, prefix: &str) -> String {
        self.find(prefix).unwrap_or_else(|| panic!("no line with {prefix}"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The traffic failed or did not end within its timeout. The processes of both ends print the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the traffic failed or did not end; the messages above give the reason")]
pub struct Stopped;

/// The processes of both ends of traffic. They are killed when the value is dropped.
pub struct Ends([Process; 2]);

impl Ends {
    /// Starts the server, and the client as soon as the server listens.
    pub fn start(topology: &Topology, spec: &TrafficSpec) -> Self {
        let parameters = serde_json::to_string(spec).unwrap();
        let mut server = topology.server().enter(|| Process::start("server", &parameters)).unwrap();
        server.wait_for(LISTENING);
        let client = topology.client().enter(|| Process::start("client", &parameters)).unwrap();
        Self([client, server])
    }

    /// Waits for the end of the traffic. Returns the CPU time of all threads of both ends, nanoseconds.
    pub fn wait(mut self) -> Result<u64, Stopped> {
        let mut times = self.0.iter_mut().map(|end| end.find(CPU_TIME).ok_or(Stopped));
        times.try_fold(0, |sum, time| Ok(sum + time?.parse::<u64>().unwrap()))
    }
}

/// Runs traffic until it ends. Returns the CPU time of all threads of both ends, nanoseconds.
pub fn run(topology: &Topology, spec: &TrafficSpec) -> u64 {
    Ends::start(topology, spec).wait().unwrap()
}

/// A process that is unrelated to the traffic.
pub struct Bystander {
    _process: Process,
}

impl Bystander {
    /// Starts a process that uses a share of a CPU.
    pub fn start(cpu: usize, percent: u32) -> Self {
        let mut process = Process::start("bystander", &format!("{cpu} {percent}"));
        process.wait_for(SPINNING);
        Self { _process: process }
    }
}

/// If this process is a child with a role, does its work and returns true. Programs that start such children call this function first. Test
/// programs call it in a test named `child_process`.
pub fn run_as_child() -> bool {
    let (Ok(role), Ok(parameters)) = (std::env::var(ROLE), std::env::var(PARAMETERS)) else { return false };
    match role.as_str() {
        "client" => {
            let spec = serde_json::from_str(&parameters).unwrap();
            print_cpu_time(&run_client(&spec, &Control::default()).unwrap());
        }
        "server" => serve(serde_json::from_str(&parameters).unwrap()),
        _ => spin(&parameters),
    }
    true
}

fn serve(spec: TrafficSpec) {
    let control = Arc::new(Control::default());
    let shared = Arc::clone(&control);
    let server = std::thread::spawn(move || run_server(&spec, &shared));
    let is_listening = || (control.listening() || server.is_finished()).then_some(());
    poll_until("the server to listen", Duration::from_secs(10), is_listening).unwrap();
    println!("\n{LISTENING}");
    print_cpu_time(&server.join().unwrap().unwrap());
}

fn print_cpu_time(report: &TrafficReport) {
    assert_eq!(report.first_error(), None);
    println!("\n{CPU_TIME}{}", report.cpu_time.unwrap().as_nanos());
}

fn spin(parameters: &str) {
    const PERIOD: Duration = Duration::from_millis(10);
    let (cpu, percent) = parameters.split_once(' ').unwrap();
    let mut cpus = CpuSet::new();
    cpus.set(cpu.parse().unwrap()).unwrap();
    sched_setaffinity(Pid::from_raw(0), &cpus).unwrap();
    let work = PERIOD * percent.parse().unwrap() / 100;
    println!("\n{SPINNING}");
    let started = Instant::now();
    // The time is limited, because a killed parent cannot end this process.
    while started.elapsed() < Duration::from_mins(2) {
        let period = Instant::now();
        while period.elapsed() < work {}
        std::thread::sleep(PERIOD.saturating_sub(period.elapsed()));
    }
}
