// SPDX-License-Identifier: MIT OR Apache-2.0
//! One trial runs the same transfers during a dry run and during elimination, and measures the effect of the removals.

use std::collections::BTreeMap;
use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use mpwatch_lab::Namespace;
use mpwatch_lab::corpus::{Condition, Network, Run};
use mpwatch_lab::traffic::{Control, PORT, TrafficSpec, Transfer, TransferOutcome, Transport, Workload};
use serde_json::Value;

use super::eliminator::Elimination;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// After the start of the transfers, elimination has the time `SETTLE` to close extra subflows. Then the throughput is measured for `MEASURE`.
const SETTLE: Duration = Duration::from_secs(12);
const MEASURE: Duration = Duration::from_secs(10);
const LINKS: usize = 2;
/// Subflows of a connection on each link.
const SUBFLOWS: usize = 2;
/// Timeout of the transfers, longer than a trial.
const TIMEOUT: Duration = Duration::from_mins(2);
const CROSS_CONNECTIONS: u32 = 2;
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The two links and their traffic. Rates are in Mbit/s, queues in ms.
pub(super) struct Trial {
    pub(super) rates: [u32; 2],
    pub(super) queues: [u32; 2],
    pub(super) cross: bool,
    pub(super) connections: u32,
    pub(super) seed: u64,
}

/// The results of a trial.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) removals: usize,
    /// Removals for which the kept subflow uses another link than the removed subflow.
    pub(super) wrong: usize,
    /// Links over which a connection lost all subflows.
    pub(super) lost: usize,
    /// Subflows that never opened.
    pub(super) missing: usize,
    /// Extra subflows that were open at the end.
    pub(super) left: usize,
    /// Time from the start of the transfers until no extra subflow was open.
    pub(super) gone: Option<Duration>,
    /// Payload per second of all connections, divided by the payload per second during a dry run.
    pub(super) payload: f64,
    /// The same ratio for all bytes per second on both links, including cross traffic.
    pub(super) links: f64,
    pub(super) left_alone: usize,
    pub(super) failed: usize,
}

/// Measurements during one run of the transfers.
struct Observed {
    payload: u64,
    links: u64,
    gone: Option<Duration>,
    left: usize,
    missing: usize,
    steps: Vec<Value>,
}

impl Trial {
    /// `options`: further options of `control eliminate`.
    pub(super) fn run(&self, options: &[String]) -> Result<Outcome> {
        let baseline = self.observe(&["--dry-run"])?;
        let options: Vec<&str> = std::iter::once("--yes").chain(options.iter().map(String::as_str)).collect();
        let Observed { payload, links, gone, left, missing, steps } = self.observe(&options)?;
        let count = |name: &str| steps.iter().filter(|step| step["step"] == name).count();
        let removed: Vec<&Value> = steps.iter().filter(|step| step["step"] == "removed").collect();
        for failed in steps.iter().filter(|step| step["step"] == "failed") {
            eprintln!("{}", failed["error"]);
        }
        Ok(Outcome {
            removals: removed.len(),
            wrong: removed.iter().filter(|step| link(&step["removed"]) != link(&step["kept"])).count(),
            lost: lost(&removed),
            missing,
            left,
            gone,
            payload: payload as f64 / baseline.payload as f64,
            links: links as f64 / baseline.links as f64,
            left_alone: count("left_alone"),
            failed: count("failed"),
        })
    }

    /// Runs the transfers during `control eliminate` with these options. Fails if bytes are lost.
    fn observe(&self, options: &[&str]) -> Result<Observed> {
        let [fast, slow] = self.rates;
        let condition: Condition = format!(
            "trial evaluation halves {} {fast},{slow} 50 cubic bulk none 1 fifo fixed",
            LINKS * SUBFLOWS
        )
        .parse()?;
        let run = Run { condition, connections: 1, round: 0, seed: self.seed, length_ms: 0 };
        let network = Network::build(&run)?;
        for (link, queue) in self.queues.into_iter().enumerate() {
            network.set_buffer(&run.condition, link, queue)?;
        }
        let elimination = Elimination::start(network.client.name(), options)?;
        let cross = self.cross.then(|| self.cross_traffic(&network)).transpose()?;
        let control = Arc::new(Control::default());
        let mut spec = self.spec(Network::client_address(0).into(), PORT);
        (spec.connections, spec.concurrency) = (self.connections, self.connections);
        let start = Instant::now();
        let transfer = Transfer::start(&network.client, &network.server, &spec, &control)?;
        let (gone, missing) = self.watch(&network.client, start)?;
        let before = (control.received(), carried(&network.router)?);
        thread::sleep(MEASURE);
        let after = (control.received(), carried(&network.router)?);
        let left = open_subflows(&network.client)?.saturating_sub(LINKS * self.connections as usize);
        check_bytes(&transfer.join()?)?;
        drop(cross);
        let (payload, links, steps) = (after.0 - before.0, after.1 - before.1, elimination.stop()?);
        Ok(Observed { payload, links, gone, left, missing, steps })
    }

    /// A specification of transfers that end soon after the measurement.
    fn spec(&self, client: IpAddr, port: u16) -> TrafficSpec {
        let workload = Workload::upload_for(SETTLE + MEASURE + Duration::from_secs(1));
        let mut spec = TrafficSpec::new(Network::SERVER.into(), workload);
        (spec.server, spec.client) = (SocketAddr::new(Network::SERVER.into(), port), Some(client));
        (spec.read_socket_info, spec.timeout, spec.seed) = (false, TIMEOUT, self.seed);
        spec.congestion = Some("cubic".to_owned());
        spec
    }

    /// Starts TCP transfers of another host over the first link, which mpwatch does not trace.
    fn cross_traffic(&self, network: &Network) -> Result<Transfer> {
        let mut spec = self.spec(Network::OTHER.into(), PORT + 1);
        spec.transport = Transport::Tcp;
        (spec.connections, spec.concurrency) = (CROSS_CONNECTIONS, CROSS_CONNECTIONS);
        Ok(Transfer::start(&network.other, &network.server, &spec, &Arc::default())?)
    }

    /// Watches the client's subflows for [`SETTLE`]. Returns the time after which the number of open subflows was at most one per connection
    /// and link, and the number of subflows that never opened.
    fn watch(&self, client: &Namespace, start: Instant) -> Result<(Option<Duration>, usize)> {
        let connections = self.connections as usize;
        let (mut most, mut gone) = (0, None);
        while start.elapsed() < SETTLE {
            let open = open_subflows(client)?;
            most = open.max(most);
            let are_gone = most > LINKS * connections && open <= LINKS * connections;
            gone = gone.or_else(|| are_gone.then(|| start.elapsed()));
            thread::sleep(POLL_INTERVAL);
        }
        Ok((gone, (LINKS * SUBFLOWS * connections).saturating_sub(most)))
    }
}

/// Number of established TCP sockets of the client: its subflows.
fn open_subflows(client: &Namespace) -> Result<usize> {
    const ESTABLISHED: &str = "01";
    let table = client.enter(|| std::fs::read_to_string("/proc/thread-self/net/tcp"))??;
    Ok(table.lines().filter(|line| line.split_whitespace().nth(3) == Some(ESTABLISHED)).count())
}

/// Bytes that the router has sent over all links.
fn carried(router: &Namespace) -> Result<u64> {
    let table = router.enter(|| std::fs::read_to_string("/proc/thread-self/net/dev"))??;
    let sent = |link| {
        let line = table
            .lines()
            .find_map(|line| line.trim().strip_prefix(&format!("{}:", Network::queue_port(link))));
        line.and_then(|line| line.split_whitespace().nth(8)?.parse::<u64>().ok())
    };
    Ok((0..LINKS).filter_map(sent).sum())
}

/// The link of a subflow of a step.
fn link(subflow: &Value) -> Option<usize> {
    let local: SocketAddr = subflow["local"].as_str()?.parse().ok()?;
    (0..LINKS * SUBFLOWS)
        .find(|index| local.ip() == Network::client_address(*index))
        .map(|index| index % LINKS)
}

/// Number of links over which a connection lost all subflows.
fn lost(removed: &[&Value]) -> usize {
    let mut counts: BTreeMap<(String, Option<usize>), usize> = BTreeMap::new();
    for step in removed {
        *counts.entry((step["connection"].to_string(), link(&step["removed"]))).or_default() += 1;
    }
    counts.values().filter(|count| **count >= SUBFLOWS).count()
}

/// Fails unless the server received all bytes of every connection.
fn check_bytes(outcome: &TransferOutcome) -> Result<()> {
    let errors = [outcome.client.first_error(), outcome.server.first_error()];
    if let Some(error) = errors.into_iter().flatten().next() {
        return Err(error.into());
    }
    for client in &outcome.client.connections {
        let server = outcome.server.connections.iter().find(|server| server.remote == client.local);
        let received = server.map(|server| (server.received, server.received_hash));
        if received != Some((client.sent, client.sent_hash)) {
            return Err(format!("bytes were lost: {client:?}, {server:?}").into());
        }
    }
    Ok(())
}
