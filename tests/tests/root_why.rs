// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch why` finds the cause in broken set-ups, none in healthy ones, and its commands give the next connection a second path. A set-up is
//! a row of `BROKEN`. Each has a network of two paths, in which it breaks one thing.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use mpwatch_engine::why::table::CAUSES;
use mpwatch_lab::topology::{JoinBy, LinkSpec, PathSpec, TopologySpec};
use mpwatch_lab::traffic::{Control, PORT, Transfer, Transport, Workload};
use mpwatch_lab::{Namespace, Topology, poll_until};
use mpwatch_tests::traced_causes::TracedCauses;
use mpwatch_tests::{emulation, list, may_run_as_root, mpwatch, output, text};
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(20);
/// Set-ups that run at the same time. Most of a run is waiting for retransmissions.
const WORKERS: usize = 4;

/// The end at which the user asks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Client,
    Server,
}
use End::{Client, Server};

/// How a cause is confirmed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Check {
    /// The cause is found.
    Found,
    /// Also before the connection exists.
    Predicted,
    /// The cause is found, and its commands give the next connection a second path.
    Fixed,
    /// Both.
    PredictedAndFixed,
}
use Check::{Fixed, Found, Predicted, PredictedAndFixed};

/// Transports of the sockets of client and server.
type Sockets = (Transport, Transport);
const MPTCP: Sockets = (Transport::Mptcp, Transport::Mptcp);
const TCP_CLIENT: Sockets = (Transport::Tcp, Transport::Mptcp);
const TCP_SERVER: Sockets = (Transport::Mptcp, Transport::Tcp);

/// Id of the cause, the end that asks, the check, which end makes the second path, the sockets, and what is broken.
type Broken = (&'static str, End, Check, JoinBy, Sockets, fn(&Topology));
const BY_CLIENT: JoinBy = JoinBy::ClientSubflow;
const BY_SERVER: JoinBy = JoinBy::ServerSignal;

/// A rule of nftables for packets that arrive at the server.
const CHAIN: &str =
    "add table ip f; add chain ip f c { type filter hook prerouting priority -300; }; add rule ip f c";

/// Name, which end makes the second path, and a change that breaks nothing.
type Healthy = (&'static str, JoinBy, fn(&Topology));

static BROKEN: &[Broken] = &[
    ("mptcp-disabled", Client, PredictedAndFixed, BY_CLIENT, TCP_CLIENT, |lab| {
        lab.client().sysctl("net.mptcp.enabled", "0").unwrap();
    }),
    ("tcp-program", Client, Found, BY_CLIENT, TCP_CLIENT, |_| {}),
    ("tcp-client", Server, Found, BY_CLIENT, TCP_CLIENT, |_| {}),
    ("no-option-in-ack", Server, Found, BY_CLIENT, MPTCP, |lab| {
        nft(lab, "tcp flags & syn == 0 reset tcp option mptcp");
    }),
    ("tcp-listener", Server, Found, BY_CLIENT, TCP_SERVER, |_| {}),
    ("no-option-in-answer", Client, Found, BY_CLIENT, TCP_SERVER, |_| {}),
    ("no-option-in-answer", Client, Found, BY_CLIENT, MPTCP, |lab| {
        nft(lab, "tcp flags syn reset tcp option mptcp");
    }),
    ("tcp-client", Server, Found, BY_CLIENT, MPTCP, |lab| nft(lab, "tcp flags syn reset tcp option mptcp")),
    ("syn-dropped", Client, Found, BY_CLIENT, MPTCP, drop_syns),
    ("black-hole", Client, Fixed, BY_CLIENT, MPTCP, |lab| {
        drop_syns(lab);
        Open::new(lab, MPTCP, PORT + 1).close();
        lab.server().nft("delete table ip f").unwrap();
    }),
    ("fell-back-later", Client, Found, BY_CLIENT, MPTCP, |lab| {
        nft(lab, "tcp flags & syn == 0 reset tcp option mptcp");
    }),
    ("userspace-path-manager", Client, PredictedAndFixed, BY_CLIENT, MPTCP, |lab| {
        lab.client().sysctl("net.mptcp.pm_type", "1").unwrap();
    }),
    ("subflow-limit", Client, PredictedAndFixed, BY_CLIENT, MPTCP, |lab| {
        ip(lab.client(), &["mptcp limits set subflows 0"]);
    }),
    ("announcement-not-accepted", Client, Fixed, BY_SERVER, MPTCP, |lab| {
        ip(lab.client(), &["mptcp limits set add_addr_accepted 0"]);
    }),
    ("announced-but-not-joined", Server, Fixed, BY_SERVER, MPTCP, |lab| {
        ip(lab.client(), &["mptcp limits set add_addr_accepted 0"]);
    }),
    ("endpoint-without-subflow", Client, PredictedAndFixed, BY_CLIENT, MPTCP, |lab| {
        ip(lab.client(), &["mptcp endpoint flush", "mptcp endpoint add 10.2.1.2 id 2 signal"]);
    }),
    ("interface-down", Client, PredictedAndFixed, BY_CLIENT, MPTCP, |lab| {
        ip(lab.client(), &[&format!("link set dev {} down", device(lab))]);
    }),
    ("no-carrier", Client, Predicted, BY_CLIENT, MPTCP, |lab| {
        ip(lab.server(), &[&format!("link set dev {} down", lab.path(1).unwrap().server_interface())]);
    }),
    ("address-changed", Client, PredictedAndFixed, BY_CLIENT, MPTCP, |lab| {
        let device = device(lab);
        ip(
            lab.client(),
            &[
                &format!("address del 10.2.1.2/16 dev {device}"),
                &format!("address add 10.2.1.3/16 dev {device}"),
            ],
        );
    }),
    ("address-missing", Client, Predicted, BY_CLIENT, MPTCP, |lab| {
        ip(lab.client(), &[&format!("address del 10.2.1.2/16 dev {}", device(lab))]);
    }),
    ("no-route", Client, Predicted, BY_CLIENT, MPTCP, |lab| {
        endpoint_without_device(lab);
        ip(lab.client(), &["route replace unreachable default table 2"]);
    }),
    // The endpoint has a device, over which no route leads to the server.
    ("no-route", Client, Predicted, BY_CLIENT, MPTCP, |lab| {
        ip(lab.client(), &["route replace unreachable default table 2"]);
        // Otherwise the server, as a neighbour, answers for all of its addresses.
        lab.server().sysctl("net.ipv4.conf.all.arp_ignore", "1").unwrap();
    }),
    ("route-over-other-interface", Client, PredictedAndFixed, BY_CLIENT, MPTCP, |lab| {
        endpoint_without_device(lab);
        ip(lab.client(), &["rule del from 10.2.1.2"]);
    }),
    ("no-endpoint", Client, PredictedAndFixed, BY_CLIENT, MPTCP, |lab| {
        ip(lab.client(), &["mptcp endpoint flush"]);
    }),
    ("single-address", Client, Predicted, BY_CLIENT, MPTCP, |lab| {
        let down = format!("link set dev {} down", device(lab));
        ip(lab.client(), &["mptcp endpoint flush", &down]);
    }),
    ("reverse-path-filter", Server, Fixed, BY_CLIENT, MPTCP, |lab| {
        endpoint_without_device(lab);
        let [first, second] = [0, 1].map(|path| lab.path(path).unwrap().server_interface().to_owned());
        lab.server().sysctl(&format!("net.ipv4.conf.{second}.rp_filter"), "1").unwrap();
        ip(lab.server(), &[&format!("route add 10.2.1.2/32 via 10.1.1.2 dev {first}")]);
    }),
    ("join-unanswered", Client, Found, BY_CLIENT, MPTCP, |lab| {
        nft(lab, "ip saddr 10.2.1.2 tcp flags syn drop");
    }),
    ("join-unreachable", Client, Found, BY_CLIENT, MPTCP, |lab| {
        ip(lab.server(), &[&format!("link set dev {} arp off", lab.path(1).unwrap().server_interface())]);
        ip(lab.client(), &[&format!("neighbour flush dev {}", device(lab))]);
    }),
    ("join-reset", Client, Found, BY_CLIENT, MPTCP, |lab| {
        let chain =
            "add table ip f; add chain ip f c { type filter hook input priority 0; }; add rule ip f c";
        lab.server().nft(&format!("{chain} ip saddr 10.2.1.2 tcp flags syn reject with tcp reset")).unwrap();
    }),
    ("join-option-removed", Client, Found, BY_CLIENT, MPTCP, |lab| {
        nft(lab, "ip saddr 10.2.1.2 tcp flags syn reset tcp option mptcp");
    }),
    ("join-refused", Client, Fixed, BY_CLIENT, MPTCP, |lab| {
        ip(lab.server(), &["mptcp limits set subflows 0"]);
    }),
    ("refuses-joins", Server, Fixed, BY_CLIENT, MPTCP, |lab| {
        ip(lab.server(), &["mptcp limits set subflows 0"]);
    }),
    ("no-join-attempted", Client, Fixed, BY_CLIENT, MPTCP, |lab| {
        lab.server().sysctl("net.mptcp.allow_join_initial_addr_port", "0").unwrap();
    }),
    ("denies-initial-address", Server, Fixed, BY_CLIENT, MPTCP, |lab| {
        lab.server().sysctl("net.mptcp.allow_join_initial_addr_port", "0").unwrap();
    }),
    ("not-announced", Server, Fixed, BY_SERVER, MPTCP, |lab| ip(lab.server(), &["mptcp endpoint flush"])),
    ("subflow-endpoint-at-server", Server, Fixed, BY_SERVER, MPTCP, |lab| {
        ip(lab.server(), &["mptcp endpoint flush", "mptcp endpoint add 10.2.2.2 id 2 subflow"]);
    }),
    ("backup", Client, Fixed, BY_CLIENT, MPTCP, |lab| {
        ip(lab.client(), &["mptcp endpoint change id 2 backup"]);
    }),
    ("backup-by-peer", Client, Found, BY_SERVER, MPTCP, |lab| {
        ip(lab.server(), &["mptcp endpoint flush", "mptcp endpoint add 10.2.2.2 id 2 signal backup"]);
    }),
];

fn ip(namespace: &Namespace, lines: &[&str]) {
    let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    namespace.ip(&lines).unwrap();
}

fn nft(lab: &Topology, rule: &str) {
    lab.server().nft(&format!("{CHAIN} {rule}")).unwrap();
}

/// Drops SYNs with MPTCP. The kernel gives up MPTCP at its second retransmission.
fn drop_syns(lab: &Topology) {
    nft(lab, "tcp flags syn tcp option mptcp exists drop");
}

/// The client's interface on the second path.
fn device(lab: &Topology) -> String {
    lab.path(1).unwrap().client_interface().to_owned()
}

/// Replaces the endpoints of the client by one that follows the routes.
fn endpoint_without_device(lab: &Topology) {
    ip(lab.client(), &["mptcp endpoint flush", "mptcp endpoint add 10.2.1.2 id 2 subflow"]);
}

fn two_paths(join: JoinBy) -> Topology {
    let paths = vec![PathSpec { link: LinkSpec::default(), ..PathSpec::default() }; 2];
    Topology::build(&TopologySpec { paths, join, ..TopologySpec::default() }).unwrap()
}

/// A connection that has carried data and stays open until it is dropped.
struct Open {
    transfer: Transfer,
}

impl Open {
    fn new(lab: &Topology, (client, server): Sockets, port: u16) -> Self {
        let mut spec = lab.traffic(Workload::upload(100_000)).unwrap();
        (spec.transport, spec.server_transport) = (client, Some(server));
        spec.server.set_port(port);
        let control = Arc::new(Control::holding());
        let transfer = Transfer::start(lab.client(), lab.server(), &spec, &control).unwrap();
        poll_until("the data to arrive", emulation::timeout(TIMEOUT), || (control.held() == 1).then_some(()))
            .unwrap();
        Self { transfer }
    }

    fn close(self) {
        self.transfer.control().release();
        self.transfer.join().unwrap();
    }
}

/// The answers of `mpwatch why` at one end, about its peer.
fn ask(lab: &Topology, end: End) -> Vec<Value> {
    let path = lab.path(0).unwrap();
    let (here, peer) = match end {
        Client => (lab.client(), path.server_address()),
        Server => (lab.server(), path.client_address()),
    };
    let outcome = mpwatch(&["why", &peer.to_string(), "--netns", here.name(), "--json"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome:?}");
    let document: Value = serde_json::from_str(&outcome.stdout).unwrap();
    list(&document, "answers").to_vec()
}

/// Asks until the first cause of the only answer is `id`, and returns the cause.
fn wait_for_cause(lab: &Topology, end: End, id: &str) -> Value {
    let mut latest = Vec::new();
    let found = poll_until("the cause", emulation::timeout(TIMEOUT), || {
        latest = ask(lab, end);
        let [answer] = &latest[..] else { return None };
        list(answer, "causes").first().filter(|cause| cause["id"] == id).cloned()
    });
    found.unwrap_or_else(|error| panic!("{error}: {id} not in {latest:#?}"))
}

/// Waits until the client's connection has two subflows, and asserts that neither end finds a cause.
fn assert_healthy(lab: &Topology) {
    let mut latest = Vec::new();
    let joined = poll_until("a second subflow", emulation::timeout(TIMEOUT), || {
        latest = ask(lab, Client);
        latest.iter().all(|answer| answer["state"] == "2 subflows").then_some(())
    });
    joined.unwrap_or_else(|error| panic!("{error}: {latest:#?}"));
    for answer in ask(lab, Client).iter().chain(&ask(lab, Server)) {
        assert!(list(answer, "causes").is_empty(), "{answer:#}");
    }
}

/// Runs the commands of a cause, as a user would paste them.
fn apply(lab: &Topology, end: End, cause: &Value) {
    let peer = if end == Client { lab.server() } else { lab.client() };
    assert!(!list(cause, "fix").is_empty(), "{cause:#}");
    for fix in list(cause, "fix") {
        let mut command = text(fix, "command").to_owned();
        if fix["on"] == "peer" {
            command = format!("ip netns exec {} {command}", peer.name());
        }
        let run = output(Command::new("sh").args(["-c", &command]));
        assert!(run.status.success(), "{command}: {run:?}");
    }
}

/// Causes of sockets that are not traced by default and of connections with two paths, which have no finding, and a cause of a server whose only
/// evidence are counters of the namespace.
const UNTRACED: [&str; 9] = [
    "mptcp-disabled",
    "tcp-program",
    "tcp-client",
    "tcp-listener",
    "no-option-in-ack",
    "route-over-other-interface",
    "backup",
    "backup-by-peer",
    "reverse-path-filter",
];

/// Waits until the running mpwatch has the cause of the connection, too.
fn wait_for_traced(traced: &TracedCauses, lab: &Topology, end: End, id: &str) {
    let here = if end == Client { lab.client() } else { lab.server() };
    let mut latest = None;
    let found = poll_until("the traced cause", emulation::timeout(TIMEOUT), || {
        latest = traced.cause_of(here.name(), PORT);
        latest.as_ref().map(drop)
    });
    assert_eq!((found.is_ok(), latest.as_deref()), (true, Some(id)));
}

fn run((id, end, check, join, sockets, break_it): Broken, traced: &TracedCauses) {
    let lab = two_paths(join);
    break_it(&lab);
    if [Predicted, PredictedAndFixed].contains(&check) {
        wait_for_cause(&lab, end, id);
    }
    let connection = Open::new(&lab, sockets, PORT);
    let cause = wait_for_cause(&lab, end, id);
    let texts = list(&cause, "fix").iter().map(|fix| text(fix, "command")).chain([text(&cause, "sentence")]);
    assert!(!texts.collect::<String>().contains('{'), "a name without a value: {cause:#}");
    if !UNTRACED.contains(&id) {
        wait_for_traced(traced, &lab, end, id);
    }
    if [Found, Predicted].contains(&check) {
        return;
    }
    connection.close();
    apply(&lab, end, &cause);
    if id == "interface-down" {
        // A network manager would add the routes that the kernel removed.
        lab.path(1).unwrap().restore().unwrap();
    }
    let _connection = Open::new(&lab, MPTCP, PORT + 2);
    assert_healthy(&lab);
}

/// Calls `each` for every item, on several threads, and fails with all failures.
fn in_parallel<T: Copy + Send>(items: &[T], name: impl Fn(&T) -> String + Sync, each: impl Fn(T) + Sync) {
    let queue = Mutex::new(items.to_vec());
    let failed = Mutex::new(BTreeSet::new());
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let Some(item) = queue.lock().unwrap().pop() else { break };
                    if catch_unwind(AssertUnwindSafe(|| each(item))).is_err() {
                        failed.lock().unwrap().insert(name(&item));
                    }
                }
            });
        }
    });
    assert_eq!(failed.into_inner().unwrap(), BTreeSet::new(), "set-ups that failed");
}

#[test]
fn the_cause_is_found_and_its_commands_give_the_next_connection_a_second_path() {
    if !may_run_as_root() {
        return;
    }
    let traced = TracedCauses::start();
    in_parallel(BROKEN, |broken| broken.0.to_owned(), |broken| run(broken, &traced));
}

/// Causes that need a device between the hosts, or another kernel. Unit tests of the engine have their facts.
const WITHOUT_SET_UP: [&str; 5] = [
    "no-mptcp-in-kernel",
    "join-hmac",
    "join-not-sent",
    "join-without-connection",
    "announcement-not-echoed",
];

#[test]
fn every_cause_has_a_set_up() {
    let with: BTreeSet<&str> = BROKEN.iter().map(|broken| broken.0).chain(WITHOUT_SET_UP).collect();
    assert_eq!(with, CAUSES.iter().map(|row| row.id).collect());
    let fixed = |id: &str| {
        BROKEN.iter().any(|broken| broken.0 == id && [Fixed, PredictedAndFixed].contains(&broken.2))
    };
    let unfixed: Vec<&str> =
        CAUSES.iter().filter(|row| !row.fix.is_empty() && !fixed(row.id)).map(|row| row.id).collect();
    assert_eq!(unfixed, Vec::<&str>::new(), "causes whose commands are not run");
}

/// The problem of an endpoint is found although another one works.
#[test]
fn doctor_checks_each_endpoint() {
    if !may_run_as_root() {
        return;
    }
    let lab = two_paths(BY_CLIENT);
    ip(lab.client(), &["mptcp endpoint add 10.9.9.9 id 9 subflow"]);
    let _connection = Open::new(&lab, MPTCP, PORT);
    let peer = lab.path(0).unwrap().server_address().to_string();
    let outcome = mpwatch(&["doctor", "--paths", &peer, "--json"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome:?}");
    let document: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let of = |namespace: &Namespace| -> Vec<(&str, &str)> {
        let checks = list(&document, "checks").iter().filter(|check| check["name"] == namespace.name());
        checks.map(|check| (text(check, "status"), text(check, "message"))).collect()
    };
    let client = of(lab.client());
    let warnings: Vec<&str> =
        client.iter().filter(|(status, _)| *status == "warn").map(|(_, message)| *message).collect();
    let expected = "no interface has the address 10.9.9.9 of the endpoint 9";
    assert!(warnings.len() == 1 && warnings[0].starts_with(expected), "{client:?}");
    assert!(client.iter().any(|(_, message)| message.starts_with("endpoint 10.2.1.2")), "{client:?}");
    let comm = std::fs::read_to_string("/proc/self/comm").unwrap();
    let outcome = mpwatch(&["why", "--process", comm.trim_end(), "--netns", lab.client().name()]);
    assert!(outcome.code == Some(0) && outcome.stdout.contains("2 subflows"), "{outcome:?}");
    let outcome = mpwatch(&["why", "--process", "no-such-one"]);
    assert!(
        outcome.code == Some(5) && outcome.stderr.contains("no process named `no-such-one`"),
        "{outcome:?}"
    );
}

#[test]
fn healthy_connections_have_no_cause() {
    if !may_run_as_root() {
        return;
    }
    let by_mesh = |lab: &Topology| {
        ip(lab.client(), &["mptcp endpoint flush", "mptcp endpoint add 10.2.1.2 id 2 subflow fullmesh"]);
    };
    let without_device = |lab: &Topology| endpoint_without_device(lab);
    let set_ups: [Healthy; 5] = [
        ("client", BY_CLIENT, |_| {}),
        ("server", BY_SERVER, |_| {}),
        ("full mesh", BY_CLIENT, by_mesh),
        ("routes", BY_CLIENT, without_device),
        ("other endpoint down", BY_CLIENT, |lab| {
            ip(lab.client(), &["mptcp endpoint add 10.9.9.9 id 9 subflow"]);
        }),
    ];
    in_parallel(
        &set_ups,
        |set_up| set_up.0.to_owned(),
        |(name, join, prepare)| {
            let lab = two_paths(join);
            prepare(&lab);
            if join == BY_CLIENT {
                let new = ask(&lab, Client);
                assert!(new.len() == 1 && list(&new[0], "causes").is_empty(), "{name}: {new:#?}");
            }
            let _connection = Open::new(&lab, MPTCP, PORT);
            assert_healthy(&lab);
        },
    );
}
