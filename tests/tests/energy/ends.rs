// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two ends of the traffic and its bystander, each a process of its own: what a test's own threads do (the simulation, waiting)
//! is then nobody's that is judged. The processes are this test again, told by the environment what to be.

use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mpwatch_lab::traffic::{Control, Report, Spec, run_client, run_server};
use mpwatch_lab::{Topology, poll_until};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// What to be.
const ROLE: &str = "MPWATCH_TEST_ROLE";
/// How: the specification of the traffic, or the CPU and the part of its time in percent.
const HOW: &str = "MPWATCH_TEST_HOW";
const LISTENS: &str = "LISTENS";
const SPINS: &str = "SPINS";
const USED: &str = "USED ";

/// Another process of this test; killed when dropped.
struct Process {
    child: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn start(role: &str, how: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "ends::child_process", "--nocapture"])
            .env(ROLE, role)
            .env(HOW, how)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, said }
    }

    /// Waits until it says a line that begins so; the rest of the line.
    fn wait_for(&mut self, word: &str) -> String {
        let mut lines = self.said.by_ref().map_while(Result::ok);
        lines
            .find_map(|line| Some(line.strip_prefix(word)?.to_owned()))
            .unwrap_or_else(|| panic!("no {word}"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs traffic to its end; CPU time that both ends have used from the first to the last instruction of their threads, nanoseconds.
pub(crate) fn run(topology: &Topology, spec: &Spec) -> u64 {
    let how = serde_json::to_string(spec).unwrap();
    let mut server = topology.server().enter(|| Process::start("server", &how)).unwrap();
    server.wait_for(LISTENS);
    let mut client = topology.client().enter(|| Process::start("client", &how)).unwrap();
    [&mut client, &mut server].map(|end| end.wait_for(USED).parse::<u64>().unwrap()).iter().sum()
}

/// A process that has nothing to do with the traffic.
pub(crate) struct Bystander {
    _process: Process,
}

impl Bystander {
    /// Uses so many percent of a CPU.
    pub(crate) fn start(cpu: usize, percent: u32) -> Self {
        let mut process = Process::start("bystander", &format!("{cpu} {percent}"));
        process.wait_for(SPINS);
        Self { _process: process }
    }
}

/// Not a test of its own: what the processes above run.
#[test]
fn child_process() {
    let (Ok(role), Ok(how)) = (std::env::var(ROLE), std::env::var(HOW)) else { return };
    match role.as_str() {
        "client" => tell(&run_client(&serde_json::from_str(&how).unwrap(), &Control::default()).unwrap()),
        "server" => serve(serde_json::from_str(&how).unwrap()),
        _ => spin(&how),
    }
}

fn serve(spec: Spec) {
    let control = Arc::new(Control::default());
    let shared = Arc::clone(&control);
    let server = std::thread::spawn(move || run_server(&spec, &shared));
    let listens = || (control.listening() || server.is_finished()).then_some(());
    poll_until("the server to listen", Duration::from_secs(10), listens).unwrap();
    println!("\n{LISTENS}");
    tell(&server.join().unwrap().unwrap());
}

fn tell(report: &Report) {
    assert_eq!(report.first_error(), None);
    println!("\n{USED}{}", report.cpu.unwrap().as_nanos());
}

fn spin(how: &str) {
    const PERIOD: Duration = Duration::from_millis(10);
    let (cpu, percent) = how.split_once(' ').unwrap();
    let mut cpus = CpuSet::new();
    cpus.set(cpu.parse().unwrap()).unwrap();
    sched_setaffinity(Pid::from_raw(0), &cpus).unwrap();
    let work = PERIOD * percent.parse().unwrap() / 100;
    println!("\n{SPINS}");
    let begun = Instant::now();
    // Bounded, in case the parent dies.
    while begun.elapsed() < Duration::from_mins(2) {
        let period = Instant::now();
        while period.elapsed() < work {}
        std::thread::sleep(PERIOD.saturating_sub(period.elapsed()));
    }
}
