// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares mpwatch with other tools on the same traffic: cost, missed short connections, and missing facts.

use std::collections::BTreeSet;
use std::thread;

use mpwatch_lab::Topology;
use mpwatch_lab::traffic::{self, TrafficSpec, Workload};
use tempfile::TempDir;

use crate::effort::Effort;
use crate::subjects::interleave::{Pairs, Stop, Tool, compare};
use crate::subjects::peer_tools::{PEERS, Peer, reason};
use crate::subjects::tracing::{self, LEDGERS};
use crate::subjects::traffic::{BenchWorkload, Traffic, lab, workloads};
use crate::table::markdown;
use mpwatch_testkit::Observer;

const HEADER: [&str; 5] = [
    "tool",
    "64 B requests, one CPU: cost",
    "bulk: cost by CPU time",
    "short connections missed",
    "facts missed",
];
/// Time from the start of a tool to the measurement, in units of the effort's warm-up. bpftrace needs this time to compile its script.
const SETTLE: u32 = 12;
/// The server port of short connections.
const PORT: u16 = 5300;
/// Bytes that each short connection sends.
const BYTES: u64 = 1_000;

/// A row of the table without its costs.
struct Row {
    name: String,
    missed: String,
    facts: &'static str,
}

pub(crate) fn run(effort: Effort) -> String {
    let lab = lab();
    let ours = LEDGERS.iter().map(|ledger| Row {
        name: tracing::name(ledger),
        missed: missed_by_mpwatch(&lab, ledger, effort),
        facts: if *ledger == "off" { "CPU time, energy" } else { "-" },
    });
    let mut rows: Vec<Row> = ours.collect();
    let mut tools = tracing::tools(|_| ());
    let nothing = tools.pop();
    let mut broken = Vec::new();
    for peer in &PEERS {
        match missed_by(peer, &lab, effort) {
            Ok(missed) => {
                rows.push(Row { name: peer.name.to_owned(), missed, facts: peer.missing });
                tools.push(as_tool(peer, &lab));
            }
            Err(why) => {
                eprintln!("bench: {}: {why}", peer.name);
                let mut row = vec![peer.name.to_owned(), why];
                row.resize(HEADER.len(), "-".to_owned());
                broken.push(row);
            }
        }
    }
    tools.extend(nothing);
    rows.push(Row { name: "nothing".to_owned(), missed: "-".to_owned(), facts: "-" });
    let [bulk, requests, _] = workloads();
    let [bulk, requests] = [bulk, requests].map(|workload| measure(&lab, &tools, &workload, effort));
    let costs =
        requests.iter().zip(&bulk).map(|(requests, bulk)| [requests.by_clock().text(), bulk.by_cpu().text()]);
    let rows = rows
        .into_iter()
        .zip(costs)
        .map(|(row, [requests, bulk])| vec![row.name, requests, bulk, row.missed, row.facts.to_owned()]);
    let note = format!(
        "{} rounds, blocks of {:?}; in brackets the 95 % confidence interval of the median. {} short connections of {BYTES} B with two subflows, one \
         after the other.\n\n",
        effort.rounds, effort.window, effort.short_connections
    );
    note + &markdown(&HEADER, &rows.chain(broken).collect::<Vec<_>>())
}

fn measure(lab: &Topology, tools: &[Tool<'_>], workload: &BenchWorkload, effort: Effort) -> Vec<Pairs> {
    eprintln!("bench: {} with {} tools, {} rounds", workload.name, tools.len(), effort.rounds);
    compare(tools, effort, || {
        let traffic = Traffic::start(lab, workload, effort);
        move |window| traffic.measure(window)
    })
}

fn as_tool<'a>(peer: &'a Peer, lab: &'a Topology) -> Tool<'a> {
    let start = move || -> Stop<'a> {
        let running = peer.start(lab, None);
        Box::new(move || drop(running))
    };
    Tool { name: peer.name.to_owned(), settle: SETTLE, start: Box::new(start) }
}

/// The number of short connections that a tool missed, as text. Fails with the reason if the tool does not work on this machine.
fn missed_by(peer: &Peer, lab: &Topology, effort: Effort) -> Result<String, String> {
    peer.find()?;
    let folder = TempDir::new_in("/dev/shm").expect("a folder in memory");
    let mut running = peer.start(lab, Some(&folder));
    thread::sleep(effort.warm_up * SETTLE);
    let ports = short_connections(lab, effort);
    // Tools that poll need this time to read the last connections.
    thread::sleep(effort.warm_up * SETTLE);
    if running.has_ended() {
        return Err(reason(&folder));
    }
    drop(running);
    Ok(missed(ports.len(), peer.seen(lab, &folder, PORT, &ports).len()))
}

fn missed_by_mpwatch(lab: &Topology, ledger: &str, effort: Effort) -> String {
    let observer = Observer::start_every("1s", &["--ledger", ledger]);
    let ports = short_connections(lab, effort);
    let report = observer.finish_after_close(lab);
    missed(ports.len(), report.connections_in(lab.client().name()).len())
}

fn missed(opened: usize, seen: usize) -> String {
    format!("{} of {opened}", opened.saturating_sub(seen))
}

/// Opens and closes connections, one after the other. Returns their client ports.
fn short_connections(lab: &Topology, effort: Effort) -> BTreeSet<u16> {
    let server = lab.path(0).expect("a first path").server_address();
    let mut spec = TrafficSpec::new(server, Workload::upload(BYTES));
    spec.server.set_port(PORT);
    (spec.connections, spec.read_socket_info) = (effort.short_connections, false);
    let outcome = traffic::run(lab.client(), lab.server(), &spec).expect("traffic can be run");
    assert_eq!(outcome.client.first_error(), None);
    outcome.client.connections.iter().map(|connection| connection.local.port()).collect()
}
