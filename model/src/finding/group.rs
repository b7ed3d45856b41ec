// SPDX-License-Identifier: MIT OR Apache-2.0
//! Problems of a report grouped by cause and peer: one line for many connections with the same problem.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use crate::flow::connection::Connection;
use crate::flow::outage;
use crate::flow::pairing::{Flow, flows};
use crate::flow::subflow::Subflow;
use crate::host::energy::FlowEnergy;
use crate::kernel::lifecycle::{CloseReason, Role};
use crate::metric::{Unit, count, display};
use crate::snapshot::Report;
use crate::unit::Micros;

use super::detect;
use super::fact::{Fact, Finding, Severity};
use super::sentence::{Format, path_cause, path_name};

/// Maximum number of connections that a line names as examples.
const MAX_EXAMPLES: usize = 3;

/// The other end of a connection, without the port of a client, which is random.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Peer {
    /// This host connected to this service.
    Service(SocketAddr),
    /// This address connected to this port of this host.
    Client(IpAddr, u16),
}

impl Peer {
    /// The peer of a connection. `None`: its addresses are unknown.
    pub fn new(connection: &Connection) -> Option<Self> {
        let (local, remote) = (connection.local?, connection.remote?);
        Some(match connection.role {
            Some(Role::Server) => Self::Client(remote.ip(), local.port()),
            Some(Role::Client) | None => Self::Service(remote),
        })
    }

    fn phrase(self, format: &Format<'_>) -> String {
        match self {
            Self::Service(address) => {
                let ip = (format.address)(address.ip());
                let ip = if address.is_ipv6() && ip.contains(':') { format!("[{ip}]") } else { ip };
                format!(" to {ip}:{}", address.port())
            }
            Self::Client(address, port) => format!(" from {} to port {port}", (format.address)(address)),
        }
    }
}

/// Problems with one cause and one peer; of the host, one problem.
#[derive(Clone, Debug, PartialEq)]
pub struct ProblemGroup {
    /// `None`: the host, or no address is known.
    pub peer: Option<Peer>,
    /// In the order of their connections; at least one.
    findings: Vec<Finding>,
}

/// Rank, peer and cause of the findings of a group.
type GroupKey = ((Severity, u8), Option<Peer>, String);

/// The problems of a report: most important first, of one kind the most frequent first. If both ends of a connection are in the report, a
/// problem that both have is listed once, from the connecting end.
pub fn problems_of_report(report: &Report) -> Vec<ProblemGroup> {
    let mut groups: Vec<ProblemGroup> = Vec::new();
    let mut places: HashMap<GroupKey, usize> = HashMap::new();
    let of_host = detect::of_host(report).into_iter().map(|finding| (None, finding));
    let of_flows = flows(&report.connections).into_iter().flat_map(of_flow);
    for (peer, finding) in of_host.chain(of_flows).filter(|(_, finding)| finding.is_problem()) {
        let key = (finding.rank(), peer, cause(&finding, &Format::default()));
        if let Some(group) = places.get(&key).and_then(|&place| groups.get_mut(place)) {
            group.findings.push(finding);
        } else {
            places.insert(key, groups.len());
            groups.push(ProblemGroup { peer, findings: vec![finding] });
        }
    }
    groups.sort_by_key(|group| (group.rank(), std::cmp::Reverse(group.connections())));
    groups
}

/// The findings of both ends of a connection, with the peer of each end.
fn of_flow(flow: Flow<'_>) -> Vec<(Option<Peer>, Finding)> {
    let of = |end: &Connection, other: Option<&Connection>| {
        let mut findings = detect::of_connection(end);
        findings.retain(|finding| !other.is_some_and(|other| is_explained(finding, end, other)));
        (Peer::new(end), findings)
    };
    let (peer, findings) = of(flow.end, flow.other);
    let kinds: Vec<_> = findings.iter().map(Finding::rank).collect();
    let (other_peer, others) = flow.other.map(|other| of(other, Some(flow.end))).unwrap_or_default();
    let is_new = |finding: &Finding| match (&finding.fact, flow.other) {
        (Fact::PathFailed(failed), Some(other)) => !counterpart(other, failed.subflow, flow.end)
            .is_some_and(|there| outage::has_failed(flow.end, there)),
        _ => !kinds.contains(&finding.rank()),
    };
    let new = others.into_iter().filter(is_new);
    findings
        .into_iter()
        .map(|finding| (peer, finding))
        .chain(new.map(|finding| (other_peer, finding)))
        .collect()
}

/// Whether the other end has a more specific finding on the same problem: a subflow that was closed late here has
/// a failed path there, and a subflow that was reset here was removed there on purpose.
fn is_explained(finding: &Finding, end: &Connection, other: &Connection) -> bool {
    match &finding.fact {
        Fact::ClosedLate { subflow, .. } => {
            counterpart(end, *subflow, other).is_some_and(|there| outage::has_failed(other, there))
        }
        Fact::PathFailed(failed) => {
            let was_reset = failed.ended.is_some_and(|(reason, at)| {
                reason == CloseReason::ResetReceived && failed.noticed == Some(at)
            });
            let removed = |there: &Subflow| {
                there.closed.is_some_and(|closed| closed.reason == CloseReason::RemovedByAdmin)
            };
            was_reset && counterpart(end, failed.subflow, other).is_some_and(removed)
        }
        _ => false,
    }
}

/// The subflow with this number as the other end has it. `None`: it has none, or addresses are translated in between.
fn counterpart<'a>(end: &Connection, number: usize, other: &'a Connection) -> Option<&'a Subflow> {
    let here = end.subflows.get(number.checked_sub(1)?)?;
    other.subflows.iter().find(|there| (there.local, there.remote) == (here.remote, here.local))
}

impl ProblemGroup {
    /// The first of its findings.
    pub fn first(&self) -> Option<&Finding> {
        self.findings.first()
    }

    /// Its place in the order of importance; the same for all groups of a kind.
    pub fn rank(&self) -> (Severity, u8) {
        self.first().map_or((Severity::Note, u8::MAX), Finding::rank)
    }

    /// Number of its connections; 0 for a problem of the host. A connection whose subflows failed one after the other counts once.
    pub fn connections(&self) -> usize {
        let mut ids: Vec<_> = self.findings.iter().filter_map(|finding| finding.connection).collect();
        ids.sort_unstable();
        ids.dedup();
        ids.len()
    }

    /// One line: the finding of a single connection, or the common cause of several with some examples.
    pub fn line(&self, format: &Format<'_>) -> String {
        let Some(first) = self.first() else { return String::new() };
        let connections = self.connections();
        if connections <= 1 {
            let others = self.findings.iter().skip(1).map(|other| other.sentence(format));
            return others.fold(first.line(format), |line, other| format!("{line}; {other}"));
        }
        let peer = self.peer.map(|peer| peer.phrase(format)).unwrap_or_default();
        format!(
            "{}{peer} {}{} ({})",
            count(connections, "connection"),
            cause(first, format),
            self.extent(format).map(|extent| format!(", {extent}")).unwrap_or_default(),
            self.examples()
        )
    }

    /// Short ids of the first connections.
    fn examples(&self) -> String {
        let mut ids: Vec<String> =
            self.findings.iter().filter_map(|finding| finding.connection).map(|id| id.short()).collect();
        ids.dedup();
        let more = ids.len().saturating_sub(MAX_EXAMPLES);
        ids.truncate(MAX_EXAMPLES);
        let names = ids.join(", ");
        if more > 0 { format!("{names} and {more} more") } else { names }
    }

    /// How long their outages were or their paths failed, or what their extra subflows cost. `None`: the cause has no such figure, or it is unknown.
    fn extent(&self, format: &Format<'_>) -> Option<String> {
        let facts = || self.findings.iter().map(|finding| &finding.fact);
        let times = facts().filter_map(|fact| match fact {
            Fact::Outage(main) => Some(main.duration),
            Fact::PathFailed(path) => path.duration(),
            _ => None,
        });
        let extra = facts().map(|fact| match fact {
            Fact::SharedBottleneck(shared) => shared.extra_energy,
            _ => None,
        });
        let range = times.fold(None, |range: Option<(Micros, Micros)>, time| {
            Some(range.map_or((time, time), |(low, high)| (low.min(time), high.max(time))))
        });
        let cost = || format.cost(&FlowEnergy::sum(&extra.collect::<Option<Vec<FlowEnergy>>>()?));
        range.map(between).or_else(|| Some(format!("cost {}", cost()?)))
    }
}

fn between((low, high): (Micros, Micros)) -> String {
    let [low, high] = [low, high].map(|micros| display(Unit::Seconds, Some(micros.seconds())));
    if low == high { format!("for {low}") } else { format!("for {low} to {high}") }
}

/// The problem as a predicate, after "N connections".
fn cause(finding: &Finding, format: &Format<'_>) -> String {
    match &finding.fact {
        Fact::PathFailed(path) => {
            let again = if path.recovered.is_some() { "; it works again" } else { "" };
            let name = path_name(path.local, path.remote, path.interface, format);
            format!("lost the path {name}: {}{again}", path_cause(path))
        }
        Fact::ClosedLate { reason, .. } => format!(
            "closed a subflow later than the others: {}; its path may have failed, which only the sender notices",
            reason.description()
        ),
        Fact::Refused => "were refused: the peer answered the SYN with a reset".to_owned(),
        Fact::Unanswered => "were unanswered: no answer to the SYN".to_owned(),
        Fact::JoinFailed(join) => {
            let name = path_name(join.local, join.remote, join.interface, format);
            format!("had no subflow {name}: {}", join.reason.description())
        }
        Fact::Aborted { by_this_host: true } => "were aborted by this host (reset)".to_owned(),
        Fact::Aborted { by_this_host: false } => "were aborted by the peer (reset)".to_owned(),
        Fact::Outage(main) if main.lasts => "have an outage: no path makes progress".to_owned(),
        Fact::Outage(_) => "had an outage: no path made progress".to_owned(),
        Fact::SharedBottleneck(shared) => {
            let extra = count(shared.subflows.len().saturating_sub(1), "extra subflow");
            format!("have {extra} behind a shared bottleneck without additional throughput")
        }
        Fact::SharedCap { subflows, .. } => {
            format!("have {} that share a cap without a common queue", count(subflows.len(), "subflow"))
        }
        Fact::SinglePath { is_long: true } => {
            "are long flows over one path only: no second subflow joined (see ip mptcp endpoint show; ip mptcp limits)"
                .to_owned()
        }
        Fact::DataLost(_)
        | Fact::InvalidMappings(_)
        | Fact::ChecksumFailures(_)
        | Fact::FellBack(_)
        | Fact::LimitedByReceiver { .. }
        | Fact::SinglePath { .. }
        | Fact::DetectedBy(_)
        | Fact::OtherPairs(_)
        | Fact::Closed { .. } => finding.sentence(format),
    }
}
