// SPDX-License-Identifier: MIT OR Apache-2.0
//! The connections of a report by peer: with which peers they carry traffic, fall back to TCP, lose paths or retransmit.

use std::collections::BTreeMap;
use std::net::IpAddr;

use mpwatch_model::flow::class_totals::{energy, excess_ratio};
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::pairing::{Flow, flows};
use mpwatch_model::flow::subflow::retransmitted_ratio;
use mpwatch_model::host::energy::FlowEnergy;
use mpwatch_model::kernel::lifecycle::CarriedBy;
use mpwatch_model::metric::{self, Unit};
use mpwatch_model::snapshot::Report;
use mpwatch_model::statistics::median;

use super::classes::joules_per_gigabyte;
use super::grid::Align::{Left, Right};
use super::grid::{Column, Grid, Overview};
use super::words::bytes;

/// Maximum number of rows for single peers. All other peers share one more row.
const MAX_ROWS: usize = 10;

/// The connections with one peer, or with all peers without a row of their own.
struct PeerRow {
    name: String,
    connections: usize,
    /// Connections that asked for MPTCP but are plain TCP.
    fallbacks: usize,
    /// Subflows whose path failed. If both ends were observed: the larger number of the two.
    failed_paths: usize,
    payload: u64,
    rtt: Option<f64>,
    /// Share of the bytes sent that TCP retransmitted, at all ends.
    retransmitted: Option<f64>,
    overhead: Option<f64>,
    energy: Option<FlowEnergy>,
}

impl PeerRow {
    fn from_flows(name: String, flows: &[Flow<'_>]) -> Self {
        let (energy, known) = energy(flows);
        let has_failed =
            |end: &Connection| end.subflows.iter().filter(|subflow| subflow.path_failures > 0).count();
        Self {
            name,
            connections: flows.len(),
            fallbacks: flows.iter().filter(|flow| flow.end.carried_by() == CarriedBy::Fallback).count(),
            failed_paths: flows.iter().map(|flow| flow.ends().map(has_failed).max().unwrap_or(0)).sum(),
            payload: flows.iter().map(|flow| flow.observed_payload().0).sum(),
            rtt: rtt(flows),
            retransmitted: retransmitted_ratio(flows.iter().flat_map(|flow| flow.subflows())),
            overhead: excess_ratio(flows),
            energy: (known > 0).then_some(energy),
        }
    }
}

fn rtt(flows: &[Flow<'_>]) -> Option<f64> {
    let subflows = flows.iter().flat_map(|flow| &flow.sender().subflows);
    median(&subflows.filter_map(|subflow| Some(subflow.rtt_p50?.seconds())).collect::<Vec<f64>>())
}

const COLUMNS: &[Column<PeerRow>] = &[
    ("peer", Left, |p| p.name.clone()),
    ("connections", Right, |p| p.connections.to_string()),
    ("fell back", Right, |p| p.fallbacks.to_string()),
    ("failed paths", Right, |p| p.failed_paths.to_string()),
    ("payload", Right, |p| bytes(p.payload)),
    ("RTT", Right, |p| metric::display(Unit::Seconds, p.rtt)),
    ("retransmitted", Right, |p| metric::display(Unit::Ratio, p.retransmitted)),
    ("overhead", Right, |p| metric::display(Unit::Ratio, p.overhead)),
    ("J/GB", Right, |p| joules_per_gigabyte(p.energy)),
];

/// A row for each peer. `None`: there are fewer than two peers, so the table of flow classes has the same sums.
pub(crate) fn overview(report: &Report) -> Option<Overview> {
    let mut by_address: BTreeMap<Option<IpAddr>, Vec<Flow<'_>>> = BTreeMap::new();
    for flow in flows(&report.connections) {
        by_address.entry(flow.end.remote.map(|remote| remote.ip())).or_default().push(flow);
    }
    if by_address.len() < 2 {
        return None;
    }
    let payload = |flows: &[Flow<'_>]| flows.iter().map(|flow| flow.observed_payload().0).sum::<u64>();
    let mut peers: Vec<(Option<IpAddr>, Vec<Flow<'_>>)> = by_address.into_iter().collect();
    peers.sort_by_key(|(_, flows)| std::cmp::Reverse(payload(flows)));
    let shown = if peers.len() > MAX_ROWS + 1 { MAX_ROWS } else { peers.len() };
    let others = peers.split_off(shown);
    let name = |address: &Option<IpAddr>| address.map_or("unknown".to_owned(), |address| address.to_string());
    let mut rows: Vec<PeerRow> =
        peers.iter().map(|(address, flows)| PeerRow::from_flows(name(address), flows)).collect();
    if !others.is_empty() {
        let name = format!("{} others", others.len());
        let flows: Vec<Flow<'_>> = others.into_iter().flat_map(|(_, flows)| flows).collect();
        rows.push(PeerRow::from_flows(name, &flows));
    }
    let notes = vec![
        "by remote address, most payload first; a connection whose two ends are in the report counts once".to_owned(),
        "failed paths: subflows whose path failed, even if it works again; RTT: median of the subflows' medians".to_owned(),
    ];
    Some(Overview { title: "peers", notes, grid: Grid::from_rows(COLUMNS, &rows)? })
}

#[cfg(test)]
mod tests {
    use mpwatch_fixtures as fixture;

    use super::*;

    /// A connection to 192.0.2.`peer` with a failed subflow.
    fn failed(token: u32, peer: u8) -> Connection {
        let remote = format!("192.0.2.{peer}:80").parse().ok();
        let mut connection = Connection { remote, ..fixture::closed(token) };
        connection.subflows[0].path_failures = 2;
        connection
    }

    fn rows(connections: Vec<Connection>) -> Option<Vec<Vec<String>>> {
        overview(&fixture::report(connections)).map(|overview| overview.grid.rows)
    }

    #[test]
    fn the_peer_with_most_payload_comes_first() {
        let rows = rows(vec![failed(1, 7), failed(2, 8), failed(3, 8)]).unwrap();
        assert_eq!((rows[0][0].as_str(), rows[1][0].as_str()), ("192.0.2.8", "192.0.2.7"));
        // Connections, fallbacks, and subflows whose path failed.
        assert_eq!(rows[0][1..4], ["2", "0", "2"]);
        assert_eq!(rows[1][1..4], ["1", "0", "1"]);
    }

    #[test]
    fn one_peer_needs_no_table() {
        assert!(rows(vec![failed(1, 7), failed(2, 7)]).is_none());
        assert!(rows(Vec::new()).is_none());
    }

    #[test]
    fn small_peers_share_a_row() {
        let rows = rows((1..=15).map(|peer| failed(peer.into(), peer)).collect()).unwrap();
        assert_eq!(rows.len(), MAX_ROWS + 1);
        assert_eq!(rows[MAX_ROWS][..2], ["5 others", "5"]);
    }
}
