// SPDX-License-Identifier: MIT OR Apache-2.0
//! The congestion control `mptcpd`: arithmetic in the kernel compared with the reference, transfers, registration and its end, fairness.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

#[path = "congestion/arithmetic.rs"]
mod arithmetic;

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use mpwatch_ebpf::congestion::{NAME, Registration};
use mpwatch_ebpf::support::KernelSupport;
use mpwatch_lab::topology::{LinkSpec, PathSpec, TopologySpec};
use mpwatch_lab::traffic::{Control, TrafficSpec, Transfer, TransferOutcome, Transport, Workload};
use mpwatch_lab::{Namespace, Topology, endpoint, poll_until};
use mpwatch_tests::{emulation, lines, may_run_as_root, mpwatch, output, program, skip, wait};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The unprivileged user `nobody`.
const NOBODY: u32 = 65_534;
const TIMEOUT: Duration = Duration::from_secs(30);
const BYTES: u64 = 6_000_000;
const QUEUE: Duration = Duration::from_millis(50);
const RTT: Duration = Duration::from_millis(10);

/// Whether this kernel can register `mptcpd`. Otherwise prints the missing features.
fn may_run() -> bool {
    if !may_run_as_root() {
        return false;
    }
    let missing = KernelSupport::from_running_kernel().unwrap().congestion.missing;
    if !missing.is_empty() {
        skip(&format!("this kernel cannot register a congestion control in BPF: no {}", missing.join(", ")));
    }
    missing.is_empty()
}

fn link() -> LinkSpec {
    LinkSpec::rate(20.0, QUEUE).rtt(RTT)
}

fn lab(paths: usize) -> Topology {
    Topology::disjoint(&vec![link(); paths]).unwrap()
}

fn upload(lab: &Topology, bytes: u64) -> TrafficSpec {
    let timeout = emulation::timeout(Duration::from_mins(1));
    TrafficSpec {
        congestion: Some(NAME.to_owned()),
        timeout,
        ..lab.traffic(Workload::upload(bytes)).unwrap()
    }
}

fn start(lab: &Topology, spec: &TrafficSpec, control: &Arc<Control>) -> Transfer {
    Transfer::start(lab.client(), lab.server(), spec, control).unwrap()
}

#[track_caller]
fn assert_arrived(outcome: &TransferOutcome, bytes: u64) {
    assert_eq!(outcome.client.first_error(), None);
    assert_eq!((outcome.client.sent(), outcome.server.received()), (bytes, bytes));
    for (client, server) in outcome.client.connections.iter().zip(&outcome.server.connections) {
        assert!(outcome.client.connections.len() > 1 || client.sent_hash == server.received_hash);
    }
}

/// The congestion control of each established TCP socket of a port in a namespace, as `ss` shows it.
fn controls_in(namespace: &Namespace, port: u16) -> Vec<String> {
    let filter = format!("dport = :{port}");
    let shown =
        namespace.enter(|| Command::new("ss").args(["-Htin", "state", "established", &filter]).output());
    let shown = String::from_utf8(shown.unwrap().unwrap().stdout).unwrap();
    let known = [NAME, "reno", "cubic", "bbr"];
    let words = shown.split_whitespace();
    words.filter(|word| known.contains(word)).map(str::to_owned).collect()
}

fn available() -> Vec<String> {
    let names = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    names.split_whitespace().map(str::to_owned).collect()
}

fn is_available() -> bool {
    available().iter().any(|name| name == NAME)
}

/// A running `mpwatch control congestion`.
struct Registrar {
    child: Child,
    lines: Receiver<String>,
}

impl Registrar {
    fn start() -> (Self, String) {
        let mut command = Command::new(program());
        let mut child = command.args(["control", "congestion"]).stdout(Stdio::piped()).spawn().unwrap();
        let registrar = Self { lines: lines(child.stdout.take().unwrap()), child };
        let first = registrar.lines.recv_timeout(emulation::timeout(TIMEOUT)).unwrap();
        (registrar, first)
    }

    fn signal(&self, signal: Signal) -> nix::Result<()> {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal)
    }

    /// Ends the command, and returns the rest of its output.
    fn end(mut self, signal: Signal) -> String {
        self.signal(signal).unwrap();
        assert_eq!(wait(&mut self.child).success(), signal != Signal::SIGKILL);
        self.lines.iter().collect()
    }
}

/// A test that fails must not leave `mptcpd` registered.
impl Drop for Registrar {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.signal(Signal::SIGTERM);
            let _ = self.child.wait();
        }
    }
}

#[test]
fn every_subflow_of_a_transfer_uses_it_and_all_bytes_arrive() {
    if !may_run() {
        return;
    }
    let (registrar, first) = Registrar::start();
    assert!(first.contains("`mptcpd` is registered"), "{first}");
    let lab = lab(2);
    let control = Arc::new(Control::holding());
    let spec = upload(&lab, BYTES);
    let transfer = start(&lab, &spec, &control);
    let all_held = || (control.held() == 1).then_some(());
    poll_until("the transfer", emulation::timeout(TIMEOUT), all_held).unwrap();
    let controls = controls_in(lab.client(), spec.server.port());
    control.release();
    let outcome = transfer.join().unwrap();
    assert_eq!(controls, [NAME, NAME]);
    assert_arrived(&outcome, BYTES);
    for path in lab.paths() {
        let carried = path.client_counters().unwrap().tx_bytes;
        assert!(carried > BYTES / 4, "each path carries its part: {carried}");
    }
    let rest = registrar.end(Signal::SIGINT);
    assert!(
        rest.contains("net.ipv4.tcp_congestion_control=mptcpd") && rest.contains("is unregistered"),
        "{rest}"
    );
    assert!(!is_available());
}

#[test]
fn a_namespace_can_make_it_the_default_and_plain_tcp_gets_reno() {
    if !may_run() {
        return;
    }
    let registration = Registration::new().unwrap();
    let lab = lab(1);
    lab.client().sysctl("net.ipv4.tcp_congestion_control", NAME).unwrap();
    let control = Arc::new(Control::holding());
    let spec = TrafficSpec { transport: Transport::Tcp, congestion: None, ..upload(&lab, BYTES) };
    let transfer = start(&lab, &spec, &control);
    let all_held = || (control.held() == 1).then_some(());
    poll_until("the transfer", emulation::timeout(TIMEOUT), all_held).unwrap();
    assert_eq!(controls_in(lab.client(), spec.server.port()), [NAME]);
    assert_eq!(registration.connections().unwrap(), 0, "a plain TCP connection is not coupled");
    control.release();
    assert_arrived(&transfer.join().unwrap(), BYTES);

    // The sysctl keeps `mptcpd` for new sockets of this namespace, although other namespaces cannot select it any more.
    registration.end();
    assert!(!is_available());
    let control = Arc::new(Control::holding());
    let transfer = start(&lab, &spec, &control);
    poll_until("the transfer", emulation::timeout(TIMEOUT), || (control.held() == 1).then_some(())).unwrap();
    assert_eq!(controls_in(lab.client(), spec.server.port()), [NAME]);
    control.release();
    assert_arrived(&transfer.join().unwrap(), BYTES);
}

/// Accepted sockets start with a copy of their listener's state.
#[test]
fn subflows_of_a_server_are_coupled_too() {
    if !may_run() {
        return;
    }
    let registration = Registration::new().unwrap();
    let lab = lab(2);
    lab.server().sysctl("net.ipv4.tcp_congestion_control", NAME).unwrap();
    let control = Arc::new(Control::holding());
    let spec = TrafficSpec { workload: Workload::download(BYTES), congestion: None, ..upload(&lab, BYTES) };
    let transfer = start(&lab, &spec, &control);
    poll_until("the transfer", emulation::timeout(TIMEOUT), || (control.held() == 1).then_some(())).unwrap();
    assert_eq!(registration.connections().unwrap(), 1, "the client does not select `mptcpd`");
    control.release();
    let outcome = transfer.join().unwrap();
    assert_eq!((outcome.client.first_error(), outcome.client.received()), (None, BYTES));
    assert_no_groups(&registration);
}

#[test]
fn a_second_registration_is_refused_and_changes_nothing() {
    if !may_run() {
        return;
    }
    let (registrar, _) = Registrar::start();
    let second = mpwatch(&["control", "congestion"]);
    assert_eq!(second.code, Some(1), "{second:?}");
    assert!(second.stderr.contains("registered already; another `mpwatch control congestion`"), "{second:?}");
    assert!(is_available());
    registrar.end(Signal::SIGTERM);
    assert!(!is_available());
    Registration::new().unwrap().end();
    assert!(!is_available());
}

#[test]
fn a_transfer_goes_on_when_it_is_unregistered_or_its_process_is_killed() {
    if !may_run() {
        return;
    }
    let has_link = KernelSupport::from_running_kernel().unwrap().congestion.has_link;
    // A kernel without BPF links would keep `mptcpd` after SIGKILL until the next boot.
    let signals = if has_link { &[Signal::SIGTERM, Signal::SIGKILL][..] } else { &[Signal::SIGTERM] };
    for &signal in signals {
        let (registrar, _) = Registrar::start();
        let lab = lab(2);
        let control = Arc::new(Control::default());
        let transfer = start(&lab, &upload(&lab, BYTES), &control);
        let half = || (control.received() > BYTES / 3).then_some(());
        poll_until("a third of the transfer", emulation::timeout(TIMEOUT), half).unwrap();
        registrar.end(signal);
        let is_gone = || (!is_available()).then_some(());
        poll_until("the kernel to unregister `mptcpd`", emulation::timeout(TIMEOUT), is_gone).unwrap();
        assert!(control.received() < BYTES, "the registration ended during the transfer");
        assert_arrived(&transfer.join().unwrap(), BYTES);
    }
}

#[test]
fn a_thousand_short_connections_leave_no_group_behind() {
    const EACH: u64 = 40_000;
    if !may_run() {
        return;
    }
    let registration = Registration::new().unwrap();
    let lab = Topology::disjoint(&[LinkSpec::default(); 2]).unwrap();
    let connections = emulation::amount(1_000).max(100);
    let spec = TrafficSpec {
        connections: u32::try_from(connections).unwrap(),
        concurrency: 200,
        read_socket_info: false,
        ..upload(&lab, EACH)
    };
    let control = Arc::new(Control::default());
    let outcome = start(&lab, &spec, &control).join().unwrap();
    assert_eq!(outcome.client.connections.len() as u64, connections);
    assert_arrived(&outcome, EACH * connections);
    assert_no_groups(&registration);
}

/// Waits until no connection is coupled, because the last sockets close after the application has ended.
#[track_caller]
fn assert_no_groups(registration: &Registration) {
    let none = || (registration.connections().unwrap() == 0).then_some(());
    poll_until("the last group to be removed", emulation::timeout(TIMEOUT), none).unwrap();
}

#[test]
fn subflows_join_and_leave_during_a_transfer() {
    const ROUNDS: u64 = 6;
    if !may_run() {
        return;
    }
    let registration = Registration::new().unwrap();
    let lab = lab(3);
    let bytes = BYTES * 2;
    let control = Arc::new(Control::default());
    let transfer = start(&lab, &upload(&lab, bytes), &control);
    let path = lab.path(2).unwrap();
    let end = endpoint::Endpoint {
        id: path.endpoint_id(),
        address: path.client_address(),
        purpose: endpoint::Purpose::Subflow,
    };
    for round in 1..=ROUNDS {
        let more = || (control.received() > round * bytes / (ROUNDS + 2)).then_some(());
        poll_until("the transfer", emulation::timeout(TIMEOUT), more).unwrap();
        if round % 2 == 1 {
            endpoint::delete(lab.client(), end.id).unwrap();
        } else {
            endpoint::add(lab.client(), end, path.client_interface()).unwrap();
        }
        assert_eq!(registration.connections().unwrap(), 1);
    }
    assert_arrived(&transfer.join().unwrap(), bytes);
    assert_no_groups(&registration);
}

#[test]
fn a_namespace_is_deleted_while_its_sockets_use_it() {
    if !may_run() {
        return;
    }
    let registration = Registration::new().unwrap();
    let lab = lab(2);
    lab.client().sysctl("net.ipv4.tcp_congestion_control", NAME).unwrap();
    let control = Arc::new(Control::default());
    // The ends detect only by timeouts that their network was removed.
    let timeout = emulation::timeout(Duration::from_secs(2));
    let transfer = start(&lab, &TrafficSpec { timeout, ..upload(&lab, BYTES * 100) }, &control);
    let some = || (control.received() > BYTES / 4).then_some(());
    poll_until("some of the transfer", emulation::timeout(TIMEOUT), some).unwrap();
    drop(lab);
    drop(transfer);
    assert_no_groups(&registration);
    registration.end();
    assert!(!is_available());
    Registration::new().unwrap().end();
}

/// Share in all bytes of an MPTCP connection with two subflows that competes with a Reno flow on one link. `congestion`: the congestion
/// control of the MPTCP connection.
fn share_against_reno(link: LinkSpec, congestion: &str, duration: Duration) -> f64 {
    let paths = vec![PathSpec { bottleneck: Some(0), ..PathSpec::default() }; 2];
    let lab = Topology::build(&TopologySpec { paths, bottlenecks: vec![link], ..TopologySpec::default() });
    let lab = lab.unwrap();
    let workload = Workload::upload_for(duration);
    let multipath = TrafficSpec { workload, congestion: Some(congestion.to_owned()), ..upload(&lab, 0) };
    let (transport, congestion) = (Transport::Tcp, Some("reno".to_owned()));
    let mut reno = TrafficSpec { transport, congestion, ..multipath.clone() };
    reno.server.set_port(multipath.server.port() + 1);
    let transfers = [&multipath, &reno].map(|spec| start(&lab, spec, &Arc::new(Control::default())));
    let [multipath, reno] = transfers.map(|transfer| {
        let outcome = transfer.join().unwrap();
        assert_eq!(outcome.client.first_error(), None);
        outcome.server.received() as f64
    });
    multipath / (multipath + reno)
}

/// The equations assume independent losses; with these, each connection gets about half. A queue that drops from its tail affects all flows
/// at once, and then the coupled subflows, whose windows grow more slowly, get less. docs/measurements/control.md has the figures.
#[test]
fn two_coupled_subflows_take_no_more_than_one_reno_flow() {
    if !may_run() {
        return;
    }
    let _registration = Registration::new().unwrap();
    let duration = Duration::from_secs(15);
    let random = share_against_reno(link().loss(0.005, 7), NAME, duration);
    let tail = share_against_reno(link(), NAME, duration);
    println!("share of mptcpd with random loss {random:.3}, with drops from the tail {tail:.3}");
    assert!((0.35..=0.65).contains(&random), "{random}");
    assert!((0.2..=0.6).contains(&tail), "{tail}");
}

/// Prints the figures of docs/measurements/control.md. Run this test by name with `--ignored`.
#[test]
#[ignore = "takes six minutes and asserts nothing"]
fn shares_against_reno_on_several_links() {
    const REPETITIONS: usize = 3;
    let _registration = Registration::new().unwrap();
    let link =
        |mbit, queue, rtt| LinkSpec::rate(mbit, Duration::from_millis(queue)).rtt(Duration::from_millis(rtt));
    let links = [
        ("20 Mbit/s, RTT 10 ms, queue 50 ms, 0.5 % random loss", link(20.0, 50, 10).loss(0.005, 7)),
        ("20 Mbit/s, RTT 10 ms, queue 50 ms", link(20.0, 50, 10)),
        ("20 Mbit/s, RTT 20 ms, queue 10 ms", link(20.0, 10, 20)),
        ("50 Mbit/s, RTT 20 ms, queue 20 ms", link(50.0, 20, 20)),
    ];
    for (name, link) in links {
        for control in [NAME, "reno"] {
            let share = |_| share_against_reno(link, control, Duration::from_secs(15));
            let shares: Vec<f64> = (0..REPETITIONS).map(share).collect();
            println!("{name}: {control} {shares:.3?}");
        }
    }
}

#[test]
fn the_daemon_registers_it_if_it_is_configured() {
    if !may_run() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("mpwatch.sock");
    let mut command = Command::new(program());
    command
        .args(["daemon", "--db", "", "--listen", "127.0.0.1:0", "--ledger", "off", "--socket"])
        .arg(socket);
    command.env("MPWATCH_CONTROL_CONGESTION", "true").env("MPWATCH_SOCKET_GROUP", "0");
    let mut daemon = command.stderr(Stdio::null()).spawn().unwrap();
    let registered =
        poll_until("`mptcpd` to be registered", emulation::timeout(TIMEOUT), || is_available().then_some(()));
    kill(Pid::from_raw(i32::try_from(daemon.id()).unwrap()), Signal::SIGTERM).unwrap();
    assert!(wait(&mut daemon).success());
    registered.unwrap();
    assert!(!is_available());
}

#[test]
fn an_unprivileged_user_may_not_register_it() {
    if !may_run() {
        return;
    }
    let mut command = Command::new(program());
    let output = output(command.args(["control", "congestion"]).uid(NOBODY).gid(NOBODY));
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{message}");
    assert!(message.contains("not permitted to") && message.contains("cap_bpf"), "{message}");
    assert!(!is_available());
}
