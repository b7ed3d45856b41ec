// SPDX-License-Identifier: MIT OR Apache-2.0
//! From what a run showed to the values of its quantities. Pure. A quantity that cannot be known in this run has no value.

use std::time::Duration;

use mpwatch_lab::traffic::{ConnectionReport, TrafficReport, TransferOutcome, Transport};
use mpwatch_model::connection::Connection;
use mpwatch_model::outage::outages;
use mpwatch_model::pairing::{Flow, flows};
use mpwatch_model::statistics::median;
use mpwatch_model::study::quantity::Quantity;
use mpwatch_model::unit::Nanos;

use super::experiment::{Load, Role};
use super::run::{Evidence, Sample, is_of_load};

/// What a short flow has at most, to be in time.
const DEADLINE: Duration = Duration::from_millis(200);
/// A path with a smaller share of the payload is not used.
const MIN_SHARE: f64 = 0.1;
/// Rates of the first seconds are those of slow start.
const SLOW_START: Nanos = Nanos(2_000_000_000);
/// Rates are means over as many samples, so that the time between two of them does not matter.
const SAMPLES_PER_RATE: usize = 10;
/// Fewer rates have no correlation.
const MIN_RATES: usize = 5;

/// The values of these quantities that are known.
pub(crate) fn values(evidence: &Evidence, quantities: &[Quantity]) -> Vec<(Quantity, f64)> {
    let run = Measured::of(evidence);
    let known = quantities.iter().filter_map(|&quantity| Some((quantity, run.value(quantity)?)));
    known.filter(|(_, value)| value.is_finite()).collect()
}

/// The measured connections of a run.
struct Measured<'a> {
    evidence: &'a Evidence,
    load: Load,
    outcome: &'a TransferOutcome,
    flows: Vec<Flow<'a>>,
    /// Received by the server, bytes.
    payload: f64,
    /// From the first connect to the last byte, seconds.
    seconds: f64,
}

impl<'a> Measured<'a> {
    fn of(evidence: &'a Evidence) -> Self {
        let nth = evidence.loads.iter().position(|(load, _)| load.role == Role::Measured).unwrap_or_default();
        let (load, outcome) = &evidence.loads[nth];
        let all = flows(&evidence.report.connections);
        let payload = outcome.server.received() + outcome.client.received();
        Self {
            evidence,
            load: *load,
            outcome,
            flows: all.into_iter().filter(|flow| is_of_load(flow.end, nth)).collect(),
            payload: payload as f64,
            seconds: seconds_of(outcome, *load),
        }
    }

    fn value(&self, quantity: Quantity) -> Option<f64> {
        match quantity {
            Quantity::Goodput => self.all_complete().then(|| self.payload * 8.0 / self.seconds),
            Quantity::CompletionTime => median(&completion_times(self.outcome)),
            Quantity::SlowestCompletion => {
                let times = completion_times(self.outcome);
                self.all_complete().then(|| times.into_iter().reduce(f64::max)).flatten()
            }
            Quantity::Power => self.power(),
            Quantity::MachineEnergy => Some(self.power()? * self.seconds),
            Quantity::FlowEnergy => self.flow_energy(),
            Quantity::EnergyPerPayload => Some(self.flow_energy()? * 1e9 / self.payload),
            Quantity::CpuTime => self.cpu_time(),
            Quantity::CpuPerPayload => Some(self.cpu_time()? * 1e9 / self.payload),
            Quantity::Retransmitted => self.retransmitted(),
            Quantity::Excess => self.mean(Connection::excess_ratio),
            Quantity::Rtt => self.rtt(),
            Quantity::SecondSubflow => self.mean(|one| Some(one.second_path?.after.seconds())),
            Quantity::SecondSubflowBytes => self.mean(|one| Some(one.second_path?.after_bytes?.0 as f64)),
            Quantity::EffectiveBytes => {
                self.mean(|one| Some(one.second_path?.effective_after_bytes?.0 as f64))
            }
            Quantity::Outage => self.outage(),
            Quantity::Completed => Some(self.completed()),
            Quantity::Jain => self.mean(|one| one.jain_index),
            Quantity::Utilization => self.mean(|one| Some(self.utilization(one))),
            Quantity::Groups => self.mean(|one| Some(one.bottlenecks.as_ref()?.groups.len() as f64)),
            Quantity::ExtraSubflows => self.mean(|one| one.extra_subflows.map(f64::from)),
            Quantity::Timeouts => {
                let timeouts = self.senders().flat_map(|one| &one.subflows).map(|one| one.timeouts);
                timeouts.sum::<Option<u32>>().map(f64::from)
            }
            Quantity::ShortCompletion => median(&self.short_flows()),
            Quantity::DeadlinesMissed => {
                let times = self.short_flows();
                let missed = times.iter().filter(|time| **time > DEADLINE.as_secs_f64()).count();
                (!times.is_empty()).then(|| missed as f64 / times.len() as f64)
            }
            Quantity::RateCorrelation => self.rate_correlation(),
        }
    }

    fn senders(&self) -> impl Iterator<Item = &'a Connection> {
        self.flows.iter().map(|flow| flow.sender())
    }

    /// The mean over the sending ends of which it is known.
    fn mean(&self, read: impl Fn(&Connection) -> Option<f64>) -> Option<f64> {
        let values: Vec<f64> = self.senders().filter_map(read).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }

    fn all_complete(&self) -> bool {
        self.completed() >= 1.0
    }

    fn completed(&self) -> f64 {
        let complete = completion_times(self.outcome).len();
        complete as f64 / f64::from(self.load.connections.max(1))
    }

    /// Watts between the first and the last snapshot during the traffic. `None`: it was too short.
    fn power(&self) -> Option<f64> {
        let during = |sample: &&Sample| {
            let elapsed = sample.at.0.saturating_sub(self.evidence.began.0) as f64 / 1e9;
            sample.at >= self.evidence.began && elapsed <= self.seconds
        };
        let mut known =
            self.evidence.samples.iter().filter(during).filter_map(|one| Some((one.at, one.joules?)));
        let (first, last) = (known.next()?, known.next_back()?);
        Some((last.1 - first.1) / last.0.since(first.0).seconds())
    }

    /// Joules above idle.
    fn flow_energy(&self) -> Option<f64> {
        self.flows.iter().map(|flow| Some(flow.energy()?.active?.joules())).sum()
    }

    fn cpu_time(&self) -> Option<f64> {
        self.flows.iter().map(|flow| Some(flow.cpu()?.total().seconds())).sum()
    }

    fn retransmitted(&self) -> Option<f64> {
        let subflows = || self.senders().flat_map(|one| &one.subflows);
        let sent: u64 = subflows().map(|one| one.bytes_sent.0).sum();
        let again: u64 = subflows().map(|one| one.bytes_retransmitted.0).sum();
        (sent > 0).then(|| again as f64 / sent as f64)
    }

    fn rtt(&self) -> Option<f64> {
        let subflows = self.senders().flat_map(|one| &one.subflows);
        let known = subflows.filter_map(|one| Some((one.rtt_p50?.seconds(), one.rtt_samples as f64)));
        let (sum, samples) =
            known.fold((0.0, 0.0), |(sum, all), (rtt, count)| (sum + rtt * count, all + count));
        (samples > 0.0).then(|| sum / samples)
    }

    /// The longest outage of any connection; zero if there was none.
    fn outage(&self) -> Option<f64> {
        // Without a second subflow no stall is recorded.
        let has_stalls = self.load.transport == Transport::Mptcp && !self.flows.is_empty();
        let longest = self.senders().flat_map(outages).map(|outage| outage.duration.seconds());
        has_stalls.then(|| longest.fold(0.0, f64::max))
    }

    fn utilization(&self, one: &Connection) -> f64 {
        let is_used = |share: f64| share >= MIN_SHARE;
        let used = one.subflows.iter().filter(|subflow| subflow.share_sent.is_some_and(is_used)).count();
        used as f64 / self.evidence.paths as f64
    }

    /// Completion times of the short flows.
    fn short_flows(&self) -> Vec<f64> {
        let short = self.evidence.loads.iter().filter(|(load, _)| load.role == Role::Short);
        short.flat_map(|(_, outcome)| completion_times(outcome)).collect()
    }

    fn rate_correlation(&self) -> Option<f64> {
        let from = self.evidence.began + SLOW_START;
        let samples = self.evidence.samples.iter().filter(|sample| sample.at >= from);
        let single: Vec<[f64; 2]> = samples.filter_map(|sample| sample.rates).collect();
        let mean_of = |part: &[[f64; 2]]| {
            [0, 1].map(|nth| part.iter().map(|pair| pair[nth]).sum::<f64>() / SAMPLES_PER_RATE as f64)
        };
        let rates: Vec<[f64; 2]> = single.chunks_exact(SAMPLES_PER_RATE).map(mean_of).collect();
        if rates.len() < MIN_RATES {
            return None;
        }
        let mean = |nth: usize| rates.iter().map(|pair| pair[nth]).sum::<f64>() / rates.len() as f64;
        let means = [mean(0), mean(1)];
        let sum = |a: usize, b: usize| -> f64 {
            rates.iter().map(|pair| (pair[a] - means[a]) * (pair[b] - means[b])).sum()
        };
        Some(sum(0, 1) / (sum(0, 0) * sum(1, 1)).sqrt())
    }
}

/// Whether all that a connection wrote or read has arrived, as far as this end knows.
fn is_complete(one: &ConnectionReport) -> bool {
    one.error.is_none() && !one.reset
}

/// From connect to the last byte at the receiver of each complete connection, seconds.
fn completion_times(outcome: &TransferOutcome) -> Vec<f64> {
    let complete = outcome.client.connections.iter().filter(|one| is_complete(one));
    complete.filter_map(|one| completion_time(one, &outcome.server)).collect()
}

/// `None`: the server did not receive what the client sent.
fn completion_time(client: &ConnectionReport, server: &TrafficReport) -> Option<f64> {
    let is_other_end = |one: &&ConnectionReport| one.remote == client.local;
    let server = server.connections.iter().find(is_other_end).filter(|one| one.received == client.sent)?;
    // The client of an upload also waits until every subflow has its acknowledgements, which a failed one never gets.
    let transfer = if client.sent > client.received { server.transfer_time } else { client.transfer_time };
    Some((client.connect_time + transfer).as_secs_f64())
}

/// How long a load took: its longest connection if all ran at the same time.
fn seconds_of(outcome: &TransferOutcome, load: Load) -> f64 {
    if load.connections > load.concurrency {
        return outcome.client.elapsed.as_secs_f64();
    }
    completion_times(outcome).into_iter().fold(0.0, f64::max)
}
