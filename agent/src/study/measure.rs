// SPDX-License-Identifier: MIT OR Apache-2.0
//! From what a run showed to the values of its quantities. Pure. A quantity that cannot be known in this run has no value.

use std::time::Duration;

use mpwatch_lab::traffic::Transport;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::outage::outages;
use mpwatch_model::flow::pairing::{Flow, flows};
use mpwatch_model::flow::ratio::{mean_rtt, retransmitted_ratio};
use mpwatch_model::statistics::{mean, median};
use mpwatch_model::study::quantity::Quantity;
use mpwatch_model::unit::Nanos;

use super::judge::Judgement;
use super::outcome::Outcome;
use super::run::{Evidence, Observed, Sample, is_to};

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

/// The values of these quantities that are known, with the verdicts of one of the methods.
pub(crate) fn values(evidence: &Evidence, method: usize, quantities: &[Quantity]) -> Vec<(Quantity, f64)> {
    let run = Measured::of(evidence, method);
    let known = quantities.iter().filter_map(|&quantity| Some((quantity, run.value(quantity)?)));
    known.filter(|(_, value)| value.is_finite()).collect()
}

/// The measured connections of a run.
struct Measured<'a> {
    evidence: &'a Evidence,
    outcome: &'a Outcome,
    flows: Vec<Flow<'a>>,
    /// Index of the method of detection.
    method: usize,
}

impl<'a> Measured<'a> {
    fn of(evidence: &'a Evidence, method: usize) -> Self {
        let all = flows(&evidence.report.connections).into_iter();
        let flows = all.filter(|flow| is_to(flow.end, &evidence.ports)).collect();
        Self { evidence, outcome: &evidence.outcome, flows, method }
    }

    fn value(&self, quantity: Quantity) -> Option<f64> {
        match quantity {
            Quantity::Goodput => self.goodput(),
            Quantity::Throughput => Some(self.goodput()? / (1.0 - self.mean(Connection::excess_ratio)?)),
            Quantity::CompletionTime => median(&self.outcome.completion),
            Quantity::SlowestCompletion => self.of_all(&self.outcome.completion, f64::max),
            Quantity::SlowestFlow => self.of_all(&self.outcome.rates, f64::min),
            Quantity::FlowJain => self.outcome.jain(),
            Quantity::Requests => self.outcome.requests,
            Quantity::Power => self.power(),
            Quantity::MachineEnergy => Some(self.power()? * self.outcome.seconds),
            Quantity::FlowEnergy => self.flow_energy(),
            Quantity::EnergyPerPayload => Some(self.flow_energy()? * 1e9 / self.outcome.payload?),
            Quantity::CpuTime => self.cpu_time(),
            Quantity::CpuPerPayload => Some(self.cpu_time()? * 1e9 / self.outcome.payload?),
            Quantity::Retransmitted => {
                retransmitted_ratio(self.senders().flat_map(|sender| &sender.subflows))
            }
            Quantity::Excess => self.mean(Connection::excess_ratio),
            Quantity::Rtt => mean_rtt(self.senders().flat_map(|sender| &sender.subflows)),
            Quantity::SecondSubflow => self.mean(|one| Some(one.second_path?.after.seconds())),
            Quantity::SecondSubflowBytes => self.mean(|one| Some(one.second_path?.after_bytes?.0 as f64)),
            Quantity::EffectiveBytes => {
                self.mean(|one| Some(one.second_path?.effective_after_bytes?.0 as f64))
            }
            Quantity::Outage => self.outage(),
            Quantity::Completed => Some(self.outcome.completed()),
            Quantity::Jain => self.mean(|one| one.jain_index),
            Quantity::Utilization => self.mean(|one| self.utilization(one)),
            Quantity::Groups => self.mean(|one| Some(one.bottlenecks.as_ref()?.groups.len() as f64)),
            Quantity::ExtraSubflows => self.mean(|one| one.extra_subflows.map(f64::from)),
            Quantity::Timeouts => {
                let timeouts = self.senders().flat_map(|one| &one.subflows).map(|one| one.timeouts);
                timeouts.sum::<Option<u32>>().map(f64::from)
            }
            Quantity::CoreUse => self.core_use(),
            Quantity::Found => self.last_judgement()?.found(),
            Quantity::FalselyClosed => self.last_judgement()?.falsely_closed(),
            Quantity::DecisionTime => {
                let (decided, _) = self.judgements().find(|(_, judgement)| judgement.is_decided())?;
                Some(decided.since(self.evidence.observed.began).seconds())
            }
            Quantity::Removed => self.evidence.removed.map(f64::from),
            Quantity::ShortCompletion => median(&self.evidence.short),
            Quantity::DeadlinesMissed => {
                let times = &self.evidence.short;
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
        mean(&self.senders().filter_map(read).collect::<Vec<f64>>())
    }

    fn goodput(&self) -> Option<f64> {
        (self.outcome.completed() >= 1.0).then_some(self.outcome.payload? * 8.0 / self.outcome.seconds)
    }

    /// The extreme of the values of all connections. `None`: one did not complete.
    fn of_all(&self, values: &[f64], extreme: fn(f64, f64) -> f64) -> Option<f64> {
        values.iter().copied().reduce(extreme).filter(|_| self.outcome.completed() >= 1.0)
    }

    /// Those of the method, each with its time.
    fn judgements(&self) -> impl Iterator<Item = (Nanos, Judgement)> {
        let samples = self.evidence.observed.samples.iter();
        samples.filter_map(|sample| Some((sample.at, *sample.judgements.get(self.method)?)))
    }

    /// The last one while all connections were open.
    fn last_judgement(&self) -> Option<Judgement> {
        self.judgements()
            .map(|(_, judgement)| judgement)
            .filter(Judgement::has_pairs)
            .max_by_key(Judgement::pairs)
    }

    /// The share of the core switches that carried traffic.
    fn core_use(&self) -> Option<f64> {
        let core = &self.evidence.core;
        let all = core.iter().sum::<u64>() as f64;
        let used = core.iter().filter(|bytes| **bytes as f64 >= MIN_SHARE * all).count();
        (all > 0.0).then(|| used as f64 / core.len() as f64)
    }

    /// Of all machines.
    fn power(&self) -> Option<f64> {
        let machines = std::iter::once(&self.evidence.observed).chain(&self.evidence.other_machine);
        machines.map(|machine| power(machine, self.outcome.seconds)).sum()
    }

    /// Joules above idle.
    fn flow_energy(&self) -> Option<f64> {
        self.flows.iter().map(|flow| Some(flow.energy()?.active?.joules())).sum()
    }

    fn cpu_time(&self) -> Option<f64> {
        self.flows.iter().map(|flow| Some(flow.cpu()?.total().seconds())).sum()
    }

    /// The longest outage of any connection; zero if there was none.
    fn outage(&self) -> Option<f64> {
        // Without a second subflow no stall is recorded.
        let has_stalls = self.evidence.transport == Transport::Mptcp && !self.flows.is_empty();
        let longest = self.senders().flat_map(outages).map(|outage| outage.duration.seconds());
        has_stalls.then(|| longest.fold(0.0, f64::max))
    }

    fn utilization(&self, one: &Connection) -> Option<f64> {
        let is_used = |share: f64| share >= MIN_SHARE;
        let used = one.subflows.iter().filter(|subflow| subflow.share_sent.is_some_and(is_used)).count();
        (self.evidence.paths > 0).then(|| used as f64 / self.evidence.paths as f64)
    }

    fn rate_correlation(&self) -> Option<f64> {
        let from = self.evidence.observed.began + SLOW_START;
        let samples = self.evidence.observed.samples.iter().filter(|sample| sample.at >= from);
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

/// Watts between the first and the last snapshot during traffic of this many seconds. `None`: it was too short.
fn power(machine: &Observed, seconds: f64) -> Option<f64> {
    let during = |sample: &&Sample| {
        let elapsed = sample.at.0.saturating_sub(machine.began.0) as f64 / 1e9;
        sample.at >= machine.began && elapsed <= seconds
    };
    let mut known = machine.samples.iter().filter(during).filter_map(|one| Some((one.at, one.joules?)));
    let (first, last) = (known.next()?, known.next_back()?);
    Some((last.1 - first.1) / last.0.since(first.0).seconds())
}
