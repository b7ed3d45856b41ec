// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes the values of a run's quantities. A quantity that is unknown in this run has no value. No I/O.

use std::time::Duration;

use mpwatch_engine::bottleneck::correlation;
use mpwatch_lab::traffic::Transport;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::outage::outages;
use mpwatch_model::flow::pairing::{Flow, flows};
use mpwatch_model::flow::subflow::{mean_rtt, retransmitted_ratio};
use mpwatch_model::statistics::{mean, median};
use mpwatch_model::unit::Nanos;

use crate::data::quantity::Quantity;
use crate::judge::Judgement;
use crate::outcome::Outcome;
use crate::run::{MachineTrace, RunData, Sample, is_to};

/// Time in which a short flow must complete.
const DEADLINE: Duration = Duration::from_millis(200);
/// A path or switch with less than this share of the payload or traffic counts as unused.
const MIN_SHARE: f64 = 0.1;
/// Rates in this time after the start are ignored, because of slow start.
const SLOW_START: Nanos = Nanos(2_000_000_000);
/// Correlated rates are means over this number of samples, to smooth variations between snapshots.
const SAMPLES_PER_RATE: usize = 10;
/// Minimum number of rates for a correlation.
const MIN_RATES: usize = 5;

/// The known values of these quantities. `method`: index of the detection method whose verdicts are used.
pub(crate) fn values(run: &RunData, method: usize, quantities: &[Quantity]) -> Vec<(Quantity, f64)> {
    let measured = MeasuredConnections::new(run, method);
    let known = quantities.iter().filter_map(|&quantity| Some((quantity, measured.value(quantity)?)));
    known.filter(|(_, value)| value.is_finite()).collect()
}

/// The measured connections of a run.
struct MeasuredConnections<'a> {
    run: &'a RunData,
    outcome: &'a Outcome,
    flows: Vec<Flow<'a>>,
    /// Index of the detection method.
    method: usize,
}

impl<'a> MeasuredConnections<'a> {
    fn new(run: &'a RunData, method: usize) -> Self {
        let all = flows(&run.report.connections).into_iter();
        let flows = all.filter(|flow| is_to(flow.end, &run.ports)).collect();
        Self { run, outcome: &run.outcome, flows, method }
    }

    fn value(&self, quantity: Quantity) -> Option<f64> {
        match quantity {
            Quantity::Goodput => self.goodput(),
            Quantity::Throughput => Some(self.goodput()? / (1.0 - self.mean(Connection::excess_ratio)?)),
            Quantity::CompletionTime => median(&self.outcome.completion),
            Quantity::SlowestCompletion => self.extreme_of_all(&self.outcome.completion, f64::max),
            Quantity::SlowestFlow => self.extreme_of_all(&self.outcome.rates, f64::min),
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
            Quantity::SecondSubflow => self.mean(|connection| Some(connection.second_path?.after.seconds())),
            Quantity::SecondSubflowBytes => {
                self.mean(|connection| Some(connection.second_path?.after_bytes?.0 as f64))
            }
            Quantity::EffectiveBytes => {
                self.mean(|connection| Some(connection.second_path?.effective_after_bytes?.0 as f64))
            }
            Quantity::Outage => self.outage(),
            Quantity::Completed => Some(self.outcome.completed()),
            Quantity::Jain => self.mean(|connection| connection.jain_index),
            Quantity::Utilization => self.mean(|connection| self.utilization(connection)),
            Quantity::Groups => {
                self.mean(|connection| Some(connection.bottlenecks.as_ref()?.groups.len() as f64))
            }
            Quantity::ExtraSubflows => self.mean(|connection| connection.extra_subflows.map(f64::from)),
            Quantity::Timeouts => {
                let timeouts =
                    self.senders().flat_map(|sender| &sender.subflows).map(|subflow| subflow.timeouts);
                timeouts.sum::<Option<u32>>().map(f64::from)
            }
            Quantity::CoreUse => self.core_use(),
            Quantity::Found => self.last_judgement()?.found(),
            Quantity::FalselyClosed => self.last_judgement()?.falsely_closed(),
            Quantity::DecisionTime => {
                let (decided, _) = self.judgements().find(|(_, judgement)| judgement.is_decided())?;
                Some(decided.since(self.run.trace.began).seconds())
            }
            Quantity::Removed => self.run.removed.map(f64::from),
            Quantity::ShortCompletion => median(&self.run.short),
            Quantity::DeadlinesMissed => {
                let times = &self.run.short;
                let missed = times.iter().filter(|time| **time > DEADLINE.as_secs_f64()).count();
                (!times.is_empty()).then(|| missed as f64 / times.len() as f64)
            }
            Quantity::RateCorrelation => self.rate_correlation(),
        }
    }

    fn senders(&self) -> impl Iterator<Item = &'a Connection> {
        self.flows.iter().map(|flow| flow.sender())
    }

    /// Mean over the sending ends whose value is known. `None`: no value is known.
    fn mean(&self, read: impl Fn(&Connection) -> Option<f64>) -> Option<f64> {
        mean(&self.senders().filter_map(read).collect::<Vec<f64>>())
    }

    fn goodput(&self) -> Option<f64> {
        (self.outcome.completed() >= 1.0).then_some(self.outcome.payload? * 8.0 / self.outcome.seconds)
    }

    /// The lowest or highest value of all connections, as chosen by `extreme`. `None`: a connection did not complete.
    fn extreme_of_all(&self, values: &[f64], extreme: fn(f64, f64) -> f64) -> Option<f64> {
        values.iter().copied().reduce(extreme).filter(|_| self.outcome.completed() >= 1.0)
    }

    /// The evaluations of the method, each with its time.
    fn judgements(&self) -> impl Iterator<Item = (Nanos, Judgement)> {
        let samples = self.run.trace.samples.iter();
        samples.filter_map(|sample| Some((sample.at, *sample.judgements.get(self.method)?)))
    }

    /// The last evaluation with the maximum number of pairs, that is, while all connections were open.
    fn last_judgement(&self) -> Option<Judgement> {
        self.judgements()
            .map(|(_, judgement)| judgement)
            .filter(Judgement::has_pairs)
            .max_by_key(Judgement::pairs)
    }

    /// The share of the core switches that were used. `None`: no traffic through core switches is known.
    fn core_use(&self) -> Option<f64> {
        let core = &self.run.core;
        let all = core.iter().sum::<u64>() as f64;
        let used = core.iter().filter(|bytes| **bytes as f64 >= MIN_SHARE * all).count();
        (all > 0.0).then(|| used as f64 / core.len() as f64)
    }

    /// Sum of the mean power of all machines, watts. `None`: unknown for a machine.
    fn power(&self) -> Option<f64> {
        let machines = std::iter::once(&self.run.trace).chain(&self.run.server_trace);
        machines.map(|machine| power(machine, self.outcome.seconds)).sum()
    }

    /// Energy above idle of the measured connections, joules. `None`: unknown for a connection.
    fn flow_energy(&self) -> Option<f64> {
        self.flows.iter().map(|flow| Some(flow.energy()?.active?.joules())).sum()
    }

    fn cpu_time(&self) -> Option<f64> {
        self.flows.iter().map(|flow| Some(flow.cpu()?.total().seconds())).sum()
    }

    /// The longest outage of any connection in seconds; zero without an outage. `None`: outages are not recorded.
    fn outage(&self) -> Option<f64> {
        // Outages are computed from stalls, which mpwatch records only for MPTCP connections.
        let has_stalls = self.run.transport == Transport::Mptcp && !self.flows.is_empty();
        let longest = self.senders().flat_map(outages).map(|outage| outage.duration.seconds());
        has_stalls.then(|| longest.fold(0.0, f64::max))
    }

    fn utilization(&self, connection: &Connection) -> Option<f64> {
        let is_used = |share: f64| share >= MIN_SHARE;
        let used =
            connection.subflows.iter().filter(|subflow| subflow.share_sent.is_some_and(is_used)).count();
        (self.run.paths > 0).then(|| used as f64 / self.run.paths as f64)
    }

    fn rate_correlation(&self) -> Option<f64> {
        let from = self.run.trace.began + SLOW_START;
        let samples = self.run.trace.samples.iter().filter(|sample| sample.at >= from);
        let single: Vec<[f64; 2]> = samples.filter_map(|sample| sample.rates).collect();
        let mean_of = |part: &[[f64; 2]]| {
            [0, 1].map(|nth| part.iter().map(|pair| pair[nth]).sum::<f64>() / SAMPLES_PER_RATE as f64)
        };
        let rates: Vec<[f64; 2]> = single.chunks_exact(SAMPLES_PER_RATE).map(mean_of).collect();
        if rates.len() < MIN_RATES {
            return None;
        }
        let subflow = |nth: usize| -> Vec<f64> { rates.iter().map(|pair| pair[nth]).collect() };
        correlation(&subflow(0), &subflow(1))
    }
}

/// Mean power of a machine in the first `seconds` of the traffic, watts. `None`: less than two samples have energy.
fn power(machine: &MachineTrace, seconds: f64) -> Option<f64> {
    let during = |sample: &&Sample| {
        let elapsed = sample.at.0.saturating_sub(machine.began.0) as f64 / 1e9;
        sample.at >= machine.began && elapsed <= seconds
    };
    let mut known =
        machine.samples.iter().filter(during).filter_map(|sample| Some((sample.at, sample.joules?)));
    let (first, last) = (known.next()?, known.next_back()?);
    Some((last.1 - first.1) / last.0.since(first.0).seconds())
}
