// SPDX-License-Identifier: MIT OR Apache-2.0
//! Paths fail, recover and end on the real kernel. Checks mpwatch's findings at both ends, and prints the order of events in the syntax of
//! the table in `model/tests/orders`. All scenarios run in parallel.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod observed;

use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use mpwatch_lab::topology::{LinkSpec, PathFailure, PathSpec, TopologySpec};
use mpwatch_lab::traffic::{Close, Control, Transfer, Workload};
use mpwatch_lab::{Namespace, Topology, poll_until};
use mpwatch_model::finding::{Format, of_connection};
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::outage::path_failures;
use mpwatch_model::flow::subflow::Subflow;
use mpwatch_model::flow::timeline::{TimelineEntry, TimelineEvent};
use mpwatch_tests::{Observer, Report, may_run_as_root};
use observed::sockets;

use PathFailure::{Blackhole, EndpointDeleted, LinkDown, PeerReset, Reset};

/// Duration of the upload.
const UPLOAD: Duration = Duration::from_secs(9);
/// Timeout of the end of the traffic.
const TIMEOUT: Duration = Duration::from_secs(40);
/// Index of the path that fails.
const PATH: usize = 1;

/// A change of the path.
#[derive(Clone, Copy)]
enum Step {
    Fail(PathFailure),
    Restore,
}

use Step::{Fail, Restore};

/// The findings at an end: for each failure of the path whether it recovered, and the beginning of each problem except outages.
type Expected = (&'static [bool], &'static [&'static str]);

struct Scenario {
    name: &'static str,
    /// Steps with times in milliseconds. Steps after [`UPLOAD`] happen when everything has arrived.
    steps: &'static [(u64, Step)],
    close: Close,
    sender: Expected,
    receiver: Expected,
}

const NOTHING: Expected = (&[], &[]);
const ABORTED_BY_PEER: Expected = (&[], &["aborted by the peer"]);
const FAILED: Expected = (&[false], &["path 2 ("]);

const SCENARIOS: &[Scenario] = &[
    Scenario { name: "closed normally", steps: &[], close: Close::Fin, sender: NOTHING, receiver: NOTHING },
    Scenario {
        name: "aborted",
        steps: &[],
        close: Close::Abort,
        sender: (&[], &["aborted by this host"]),
        receiver: ABORTED_BY_PEER,
    },
    Scenario {
        name: "no acknowledgements until the end",
        steps: &[(1_000, Fail(Blackhole))],
        close: Close::Fin,
        sender: FAILED,
        receiver: FAILED,
    },
    Scenario {
        name: "no acknowledgements, then aborted",
        steps: &[(1_000, Fail(Blackhole))],
        close: Close::Abort,
        sender: (&[false], &["path 2 (", "aborted by this host"]),
        receiver: ABORTED_BY_PEER,
    },
    Scenario {
        name: "works again",
        steps: &[(1_000, Fail(Blackhole)), (3_500, Restore)],
        close: Close::Fin,
        sender: (&[true], &["path 2 ("]),
        receiver: NOTHING,
    },
    Scenario {
        name: "works for a short time",
        steps: &[(1_000, Fail(Blackhole)), (3_500, Restore), (6_500, Fail(Blackhole))],
        close: Close::Fin,
        sender: FAILED,
        receiver: FAILED,
    },
    Scenario {
        name: "stale, then removed by the path manager",
        steps: &[(1_000, Fail(Blackhole)), (6_500, Fail(EndpointDeleted))],
        close: Close::Fin,
        sender: FAILED,
        receiver: NOTHING,
    },
    Scenario {
        name: "removed by the path manager",
        steps: &[(1_000, Fail(EndpointDeleted))],
        close: Close::Fin,
        sender: NOTHING,
        receiver: NOTHING,
    },
    Scenario {
        name: "link down",
        steps: &[(1_000, Fail(LinkDown))],
        close: Close::Fin,
        sender: FAILED,
        receiver: FAILED,
    },
    Scenario {
        name: "destroyed by the administrator of the client",
        steps: &[(1_000, Fail(Reset))],
        close: Close::Fin,
        sender: NOTHING,
        receiver: FAILED,
    },
    Scenario {
        name: "reset by the server",
        steps: &[(1_000, Fail(PeerReset))],
        close: Close::Fin,
        sender: FAILED,
        receiver: NOTHING,
    },
    Scenario {
        name: "no acknowledgements of the FIN",
        steps: &[(10_000, Fail(Blackhole))],
        close: Close::Fin,
        sender: FAILED,
        receiver: FAILED,
    },
];

fn lab() -> Topology {
    let link = LinkSpec::rate(4.0, Duration::from_millis(50)).rtt(Duration::from_millis(20));
    let path = PathSpec { link, ..PathSpec::default() };
    let paths = vec![path, path];
    Topology::build(&TopologySpec { paths, quick_timeouts: true, ..TopologySpec::default() }).unwrap()
}

/// An upload during which the path fails. Returns when it has ended.
fn run(scenario: &Scenario, lab: &Topology) {
    let control = Arc::new(Control::holding());
    let mut spec = lab.traffic(Workload::upload_for(UPLOAD)).unwrap();
    spec.close = scenario.close;
    let start = Instant::now();
    let transfer = Transfer::start(lab.client(), lab.server(), &spec, &control).unwrap();
    for (millis, step) in scenario.steps {
        // The times of steps are part of the scenario.
        sleep(Duration::from_millis(*millis).saturating_sub(start.elapsed()));
        let path = lab.path(PATH).unwrap();
        match step {
            Fail(failure) => path.fail(*failure).unwrap(),
            Restore => path.restore().unwrap(),
        }
    }
    poll_until("everything to arrive", TIMEOUT, || (control.held() == 1).then_some(())).unwrap();
    control.release();
    transfer.join().unwrap();
}

/// The connection at one end, and its subflow over the path that fails.
fn at_end(report: &Report, lab: &Topology, end: &Namespace) -> (Connection, Subflow) {
    let json = report.only_connection_in(end.name()).clone();
    let connection: Connection = serde_json::from_value(json).unwrap();
    let client = lab.path(PATH).unwrap().client_address();
    let over = |subflow: &&Subflow| [subflow.local.ip(), subflow.remote.ip()].contains(&client);
    let subflow = connection.subflows.iter().find(over).expect("the second path has a subflow").clone();
    (connection, subflow)
}

/// The events that show whether the path works, in the syntax of the table in `model/tests/orders`.
fn order(connection: &Connection, path: &Subflow) -> String {
    let start = connection.timeline[0].at.as_millisecond();
    let sign = |entry: &TimelineEntry| {
        let other = |id| if id == path.id { "" } else { "Other" };
        let sign = match entry.event {
            TimelineEvent::Stalled { gap, .. } => format!("Stall({})", gap.0 / 1_000),
            TimelineEvent::SubflowStale { subflow, stale, .. } => {
                format!("{}{}", other(subflow), if stale { "Stale" } else { "Works" })
            }
            TimelineEvent::SubflowClosed { subflow, reason } => {
                format!("{}Ended({reason:?})", other(subflow))
            }
            TimelineEvent::Closed => "End".to_owned(),
            _ => return None,
        };
        Some(format!("({}, {sign})", entry.at.as_millisecond() - start))
    };
    connection.timeline.iter().filter_map(sign).collect::<Vec<_>>().join(", ")
}

#[test]
fn failures_follow_from_the_orders_of_the_kernel() {
    if !may_run_as_root() {
        return;
    }
    let labs: Vec<Topology> = SCENARIOS.iter().map(|_| lab()).collect();
    let observer = Observer::start(&[]);
    std::thread::scope(|scope| {
        for (scenario, lab) in SCENARIOS.iter().zip(&labs) {
            scope.spawn(|| run(scenario, lab));
        }
    });
    for end in labs.iter().flat_map(|lab| [lab.client(), lab.server()]) {
        poll_until("all sockets to close", TIMEOUT, || sockets(end).is_empty().then_some(())).unwrap();
    }
    let report = observer.finish_after_recorded_ends(&labs);
    let mut wrong = Vec::new();
    for (scenario, lab) in SCENARIOS.iter().zip(&labs) {
        let ends = [("sender", lab.client(), scenario.sender), ("receiver", lab.server(), scenario.receiver)];
        for (name, end, (failures, problems)) in ends {
            let (connection, path) = at_end(&report, lab, end);
            let found: Vec<bool> =
                path_failures(&connection, &path).iter().map(|failure| failure.recovered.is_some()).collect();
            let sentences: Vec<String> = of_connection(&connection)
                .iter()
                .filter(|finding| finding.is_problem())
                .map(|finding| finding.sentence(&Format::default()))
                .filter(|sentence| !sentence.contains(" outage from "))
                .collect();
            println!("{name}: {}\n    [{}]\n    {sentences:?}", scenario.name, order(&connection, &path));
            let is_right = found == failures
                && sentences.len() == problems.len()
                && sentences.iter().zip(problems).all(|(sentence, begin)| sentence.starts_with(begin));
            if !is_right {
                wrong.push(format!("{name}: {}: {found:?} {sentences:?}", scenario.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
