// SPDX-License-Identifier: MIT OR Apache-2.0
//! Problems of a report grouped by cause: one line for many connections with the same problem.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};

use crate::flow::connection::Connection;
use crate::flow::outage;
use crate::flow::pairing::{Flow, flows};
use crate::flow::subflow::Subflow;
use crate::host::energy::FlowEnergy;
use crate::id::ConnectionId;
use crate::kernel::endpoint::printable;
use crate::kernel::lifecycle::{CloseReason, Role};
use crate::metric::{Unit, count, display};
use crate::snapshot::Report;
use crate::unit::Micros;

use super::detect;
use super::fact::{DownTime, Fact, Finding, Severity};
use super::sentence::{Format, joined, no_second_path, path_cause, path_name};

/// Maximum number of connections, and of processes, that a line names as examples.
const MAX_EXAMPLES: usize = 3;

/// The other end of a connection. The port of a client is left out, because it is random.
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

/// Problems with the same cause. Each problem of the host is a group of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct ProblemGroup {
    /// Peers of the connections. Empty: a problem of the host, or no address is known.
    pub peers: Vec<Peer>,
    /// Names of the processes of the connections.
    processes: Vec<String>,
    /// The findings, at least one, in the order of their connections.
    findings: Vec<Finding>,
}

/// The peer and the process of a connection, if they are known.
type Ends = (Option<Peer>, Option<String>);

/// The problems of a report, the most important kind first, and within a kind the group with the most connections. If both ends of a
/// connection are in the report, a problem of both ends is listed once, for the connecting end.
pub fn problems_of_report(report: &Report) -> Vec<ProblemGroup> {
    let mut groups: Vec<ProblemGroup> = Vec::new();
    let mut places: HashMap<((Severity, u8), String), usize> = HashMap::new();
    let of_host = detect::of_host(report).into_iter().map(|finding| (Ends::default(), finding));
    let of_flows = flows(&report.connections).into_iter().flat_map(of_flow);
    for ((peer, process), finding) in of_host.chain(of_flows).filter(|(_, finding)| finding.is_problem()) {
        let key = (finding.rank(), cause(&finding, &Format::default(), false));
        let place = *places.entry(key).or_insert(groups.len());
        if place == groups.len() {
            groups.push(ProblemGroup { peers: Vec::new(), processes: Vec::new(), findings: Vec::new() });
        }
        let group = &mut groups[place];
        group.peers.extend(peer.filter(|peer| !group.peers.contains(peer)));
        group.processes.extend(process.filter(|process| !group.processes.contains(process)));
        group.findings.push(finding);
    }
    groups.sort_by_key(|group| (group.rank(), std::cmp::Reverse(group.connections())));
    groups
}

/// The findings of both ends of a connection, each with the peer and the process of its end.
fn of_flow(flow: Flow<'_>) -> Vec<(Ends, Finding)> {
    let of = |end: &Connection, other: Option<&Connection>| {
        let mut findings = detect::of_connection(end);
        findings.retain(|finding| !other.is_some_and(|other| is_explained(finding, end, other)));
        let process = end.process.map(|process| printable(&process.comm.text()).into_owned());
        ((Peer::new(end), process), findings)
    };
    let (ends, findings) = of(flow.end, flow.other);
    let kinds: Vec<_> = findings.iter().map(Finding::rank).collect();
    let (other_ends, others) = flow.other.map(|other| of(other, Some(flow.end))).unwrap_or_default();
    let is_new = |finding: &Finding| match (&finding.fact, flow.other) {
        (Fact::PathFailed(failed), Some(other)) => !counterpart(other, failed.subflow, flow.end)
            .is_some_and(|there| outage::has_failed(flow.end, there)),
        _ => !kinds.contains(&finding.rank()),
    };
    let new = others.into_iter().filter(is_new);
    findings
        .into_iter()
        .map(|finding| (ends.clone(), finding))
        .chain(new.map(|finding| (other_ends.clone(), finding)))
        .collect()
}

/// Whether the other end has a more specific finding on the same problem: if a subflow closed late at this end, its path failed at the
/// other end; if it was reset at this end, the other end removed it on purpose.
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

/// The other end's record of the subflow with this number. `None`: it has no such record, or NAT changes the addresses.
fn counterpart<'a>(end: &Connection, number: usize, other: &'a Connection) -> Option<&'a Subflow> {
    let here = end.subflows.get(number.checked_sub(1)?)?;
    other.subflows.iter().find(|there| (there.local, there.remote) == (here.remote, here.local))
}

impl ProblemGroup {
    /// The first finding of the group.
    pub fn first(&self) -> Option<&Finding> {
        self.findings.first()
    }

    /// The place of the group in the order of importance. It is the same for all groups of a kind.
    pub fn rank(&self) -> (Severity, u8) {
        self.first().map_or((Severity::Note, u8::MAX), Finding::rank)
    }

    /// The connections of the group. Empty: a problem of the host. A connection whose subflows failed one after the other counts once.
    pub fn ids(&self) -> BTreeSet<ConnectionId> {
        self.findings.iter().filter_map(|finding| finding.connection).collect()
    }

    /// Number of connections of the group.
    pub fn connections(&self) -> usize {
        self.ids().len()
    }

    /// The group as one line: the findings of a single connection, or the common cause of several connections with examples.
    pub fn line(&self, format: &Format<'_>) -> String {
        let Some(first) = self.first() else { return String::new() };
        let connections = self.connections();
        if connections <= 1 {
            let id = first.connection.map(|id| id.short()).unwrap_or_default();
            let ends = format!("{}{}", self.processes.join(", "), self.peers(format));
            let name = match (&*id, ends.trim_start()) {
                ("", _) => String::new(),
                (id, "") => format!("{id}: "),
                (id, ends) => format!("{id} ({ends}): "),
            };
            let sentences: Vec<String> = self.findings.iter().map(|found| found.sentence(format)).collect();
            return format!("{name}{}", sentences.join("; "));
        }
        let mut processes = self.processes.clone();
        let more = processes.len().saturating_sub(MAX_EXAMPLES);
        processes.truncate(MAX_EXAMPLES);
        processes.extend((more > 0).then(|| format!("{more} more")));
        let of = if processes.is_empty() { String::new() } else { format!(" of {}", joined(&processes)) };
        let is_one_path =
            self.findings.iter().all(|found| cause(found, format, true) == cause(first, format, true));
        format!(
            "{}{of}{} {}{} ({})",
            count(connections, "connection"),
            self.peers(format),
            cause(first, format, is_one_path),
            self.extent(format).map(|extent| format!(", {extent}")).unwrap_or_default(),
            self.examples()
        )
    }

    /// The first peer, and the number of other peers.
    fn peers(&self, format: &Format<'_>) -> String {
        let first = self.peers.first().map(|peer| peer.phrase(format)).unwrap_or_default();
        match self.peers.len() {
            0 | 1 => first,
            all => format!("{first} and {}", count(all - 1, "other peer")),
        }
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

    /// Range of the durations of the longest outages or of path failures, with the number of outages or failed intervals, or the cost of
    /// extra subflows. `None`: the cause has no such figure, or the figure is unknown.
    fn extent(&self, format: &Format<'_>) -> Option<String> {
        let facts = || self.findings.iter().map(|finding| &finding.fact);
        let times = facts().filter_map(|fact| match fact {
            Fact::Outage(main) => Some((main.duration, main.outages)),
            Fact::PathFailed(path) => Some((path.duration()?, path.intervals)),
            _ => None,
        });
        let (times, counts): (Vec<Micros>, Vec<usize>) = times.unzip();
        let extra = facts().map(|fact| match fact {
            Fact::SharedBottleneck(shared) => shared.extra_energy,
            _ => None,
        });
        let cost = || format.cost(&FlowEnergy::sum(&extra.collect::<Option<Vec<FlowEnergy>>>()?));
        let Some((low, high)) = range(&times) else { return Some(format!("cost {}", cost()?)) };
        let lasts = facts().any(|fact| match fact {
            Fact::Outage(main) => main.lasts,
            Fact::PathFailed(path) => matches!(path.down, Some(DownTime::SoFar(..))),
            _ => false,
        });
        let (several, works) = match &self.first()?.fact {
            Fact::PathFailed(path) => (several(&counts, " in", "intervals"), path.recovered.is_some()),
            _ => (several(&counts, ", the longest of", "outages"), false),
        };
        let is_bound = facts().any(|fact| match fact {
            Fact::Outage(main) => main.is_bound,
            Fact::PathFailed(path) => matches!(path.down, Some(DownTime::UntilRestart(_))),
            _ => false,
        });
        let most = if is_bound { "at most " } else { "" };
        let again = if works { "; it works again" } else { "" };
        let so_far = if lasts { " so far" } else { "" };
        let [shortest, longest] = [low, high].map(|time| display(Unit::Seconds, Some(time.seconds())));
        let range = if shortest == longest { longest } else { format!("{shortest} to {longest}") };
        Some(format!("for {most}{range}{several}{so_far}{again}"))
    }
}

/// The smallest and the largest of these values. `None`: there are none.
fn range<T: Ord + Copy>(values: &[T]) -> Option<(T, T)> {
    Some((*values.iter().min()?, *values.iter().max()?))
}

/// The number of outages or failed intervals of each connection. Empty: at most one.
fn several(counts: &[usize], before: &str, name: &str) -> String {
    match range(counts) {
        None | Some((_, 0 | 1)) => String::new(),
        Some((low, high)) => format!("{before} {}{high} {name} each", if low < high { "up to " } else { "" }),
    }
}

/// The problem as a predicate, after "N connections". With `has_remote`, it includes the remote address of a failed path, and the sentence of a
/// cause.
fn cause(finding: &Finding, format: &Format<'_>, has_remote: bool) -> String {
    match &finding.fact {
        Fact::PathFailed(path) => {
            let name = path_name(path.local, has_remote.then_some(path.remote), path.interface, format);
            format!("lost the path {name}: {}", path_cause(path))
        }
        Fact::ClosedLate { reason, .. } => format!(
            "closed a subflow later than the others: {}; its path may have failed, which only the sender notices",
            reason.description()
        ),
        Fact::NotConnected(reason) => format!("did not connect: {}", reason.description()),
        Fact::JoinFailed(join) => {
            let name = path_name(join.local, has_remote.then_some(join.remote), join.interface, format);
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
        Fact::SlowPath { .. } => {
            "have a path so slow that it can hold up the others (larger buffers, or make it a backup)"
                .to_owned()
        }
        Fact::SinglePath { is_long: true, cause: Some(found) } if !has_remote => {
            format!("are long flows over one path only: {} (`mpwatch why` explains it)", found.id)
        }
        Fact::SinglePath { is_long: true, cause } => {
            format!("are long flows over one path only: {}", no_second_path(cause.as_deref(), format))
        }
        // The sentence of the cause names the peer.
        Fact::FellBack(reason, _) if !has_remote => {
            format!("fell back to plain TCP: {}", reason.description())
        }
        _ => finding.sentence(format),
    }
}
