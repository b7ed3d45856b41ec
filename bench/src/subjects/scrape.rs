// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cost of a scrape by number of connections: updating the sums at each tick, writing the text, and serving the text over HTTP. The
//! connections are fixtures; the measured code is the daemon's.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mpwatch_exporters::http::{Access, Pages, Server, WebConfigError};
use mpwatch_exporters::prometheus::{MetricValues, Totals, expose};
use mpwatch_fixtures as fixture;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::metric::service::Service;
use mpwatch_model::snapshot::Snapshot;

use crate::effort::Effort;
use crate::statistics::spread;
use crate::table::markdown;

/// Number of connections with separate series in the second half of the table.
const TOP_FLOWS: usize = 100;
const TIMEOUT: Duration = Duration::from_mins(1);

pub(crate) fn run(effort: Effort) -> String {
    let sizes: &[u32] = if effort.rounds > 1 { &[1_000, 10_000, 100_000] } else { &[1_000] };
    let mut rows = Vec::new();
    for top_flows in [0, TOP_FLOWS] {
        for &flows in sizes {
            eprintln!("bench: a scrape of {flows} connections, {top_flows} of them with separate series");
            rows.push(one_size(flows, top_flows, effort));
        }
    }
    let note = "Wall time on an otherwise idle machine. Each tick adds a snapshot to the sums. A scrape writes them as text and sends it over HTTP on \
                loopback, compressed with gzip as Prometheus asks for. Target: a scrape at 100 000 connections in 50 ms.\n\n";
    let header = [
        "connections",
        "`top_flows`",
        "series",
        "text",
        "sent, with gzip",
        "update of the sums",
        "writing",
        "scrape over HTTP",
    ];
    note.to_owned() + &markdown(&header, &rows)
}

/// Serves the metrics of the latest snapshot and sums as a daemon does.
struct Site(Mutex<(Snapshot, MetricValues)>);

impl Pages for Site {
    fn metrics(&self) -> Result<String, String> {
        let latest = self.0.lock().map_err(|error| error.to_string())?;
        Ok(expose(&latest.0, &latest.1, &Service::default()))
    }

    fn flows(&self) -> Result<String, String> {
        Err("the bench does not request flows".to_owned())
    }

    fn readiness(&self) -> Result<(), String> {
        Ok(())
    }

    fn web_config_reloaded(&self, _: Result<(), WebConfigError>) {}
}

fn one_size(flows: u32, top_flows: usize, effort: Effort) -> Vec<String> {
    let snapshot = fixture::snapshot((0..flows).map(flow).collect());
    let mut totals = Totals::new(top_flows);
    totals.update(&snapshot);
    let (mut ticks, mut writes, mut scrapes) = (Vec::new(), Vec::new(), Vec::new());
    let mut text = String::new();
    for _ in 0..effort.rounds {
        let began = Instant::now();
        totals.update(&snapshot);
        let values = totals.values();
        ticks.push(milliseconds(began));
        let began = Instant::now();
        text = expose(&snapshot, &values, &Service::default());
        writes.push(milliseconds(began));
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let site = Arc::new(Site(Mutex::new((snapshot, totals.values()))));
    let server =
        Server::start(listener, Access::unrestricted(), site, Arc::default()).expect("a server starts");
    let mut sent = 0;
    for _ in 0..effort.rounds {
        let began = Instant::now();
        sent = scrape(server.address());
        scrapes.push(milliseconds(began));
    }
    let series = text.lines().filter(|line| !line.starts_with('#')).count();
    let kilobytes = |bytes: usize| format!("{} kB", bytes / 1_000);
    vec![
        flows.to_string(),
        top_flows.to_string(),
        series.to_string(),
        kilobytes(text.len()),
        kilobytes(sent),
        spread(&ticks, "ms"),
        spread(&writes, "ms"),
        spread(&scrapes, "ms"),
    ]
}

/// A connection with two subflows. Each connection has a different peer and control group, which is the worst case.
fn flow(n: u32) -> Connection {
    let mut connection = fixture::connection(n + 1, 2);
    let address = Ipv4Addr::from_bits(Ipv4Addr::new(10, 0, 0, 0).to_bits() + n);
    connection.remote = Some(SocketAddr::from((address, 5201)));
    connection.cgroup = Some(format!("/system.slice/service-{n}.service"));
    connection
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

/// Requests the metrics and returns the size of the answer in bytes.
fn scrape(address: SocketAddr) -> usize {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a limit can be set");
    let request =
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).expect("the server takes the request");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("the server answers");
    assert!(answer.starts_with(b"HTTP/1.1 200"), "the server refused");
    answer.len()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_connection_has_its_own_peer_and_control_group() {
        let all: Vec<Connection> = (0..300).map(flow).collect();
        let peers: HashSet<_> = all.iter().map(|connection| connection.remote).collect();
        let groups: HashSet<_> = all.iter().map(|connection| connection.cgroup.clone()).collect();
        assert_eq!((peers.len(), groups.len()), (300, 300));
    }
}
