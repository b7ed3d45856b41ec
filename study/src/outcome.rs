// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the programs at both ends observed of the measured traffic, whether the lab's own or others. Pure.

use mpwatch_lab::traffic::{ConnectionReport, TrafficReport, TransferOutcome};

/// What the ends observed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    /// Received by both ends, bytes. `None`: the program does not report it.
    pub(crate) payload: Option<f64>,
    /// From the first connect to the last byte, seconds.
    pub(crate) seconds: f64,
    /// From connect to the last byte at the receiver of each complete connection, or of a program's transfer, seconds.
    pub(crate) completion: Vec<f64>,
    /// Goodput of each complete connection, bits per second.
    pub(crate) rates: Vec<f64>,
    /// How many connections there should have been.
    pub(crate) expected: u32,
    /// Requests per second with a response. `None`: no requests.
    pub(crate) requests: Option<f64>,
}

impl Outcome {
    /// Of `expected` connections. `one_by_one`: not all at the same time.
    pub(crate) fn of(outcome: &TransferOutcome, expected: u32, one_by_one: bool) -> Self {
        let complete: Vec<(f64, u64)> = outcome
            .client
            .connections
            .iter()
            .filter(|one| is_complete(one))
            .filter_map(|one| completion(one, &outcome.server))
            .collect();
        let completion: Vec<f64> = complete.iter().map(|(time, _)| *time).collect();
        let longest = completion.iter().copied().fold(0.0, f64::max);
        Self {
            payload: Some((outcome.server.received() + outcome.client.received()) as f64),
            seconds: if one_by_one { outcome.client.elapsed.as_secs_f64() } else { longest },
            rates: complete.iter().map(|(time, bytes)| *bytes as f64 * 8.0 / time).collect(),
            completion,
            expected,
            requests: None,
        }
    }

    /// Traffic that ran at the same time.
    pub(crate) fn beside(mut self, other: Self) -> Self {
        self.payload = self.payload.zip(other.payload).map(|(one, other)| one + other);
        self.seconds = self.seconds.max(other.seconds);
        self.completion.extend(other.completion);
        self.rates.extend(other.rates);
        self.expected += other.expected;
        self
    }

    /// Of flows that ran one after the other, those that began before the first of these ended: then the load becomes less, and more and
    /// more of them fit into the same time.
    pub(crate) fn began_beside(flows: &[f64], load: &[f64]) -> Vec<f64> {
        let first_end = load.iter().copied().fold(f64::INFINITY, f64::min);
        let mut began = 0.0;
        let is_beside = |duration: &&f64| {
            let is_beside = began < first_end;
            began += **duration;
            is_beside
        };
        flows.iter().take_while(is_beside).copied().collect()
    }

    /// The share of the connections whose payload arrived completely.
    pub(crate) fn completed(&self) -> f64 {
        self.completion.len() as f64 / f64::from(self.expected.max(1))
    }

    /// Jain's fairness index of the connections. `None`: there is only one, or one did not complete.
    pub(crate) fn jain(&self) -> Option<f64> {
        let (sum, squares) =
            self.rates.iter().fold((0.0, 0.0), |(sum, squares), rate| (sum + rate, squares + rate * rate));
        let is_known = self.rates.len() > 1 && self.rates.len() == self.expected as usize;
        is_known.then(|| sum * sum / (squares * self.rates.len() as f64))
    }
}

/// Whether all that a connection wrote or read has arrived, as far as this end knows.
fn is_complete(one: &ConnectionReport) -> bool {
    one.error.is_none() && !one.reset
}

/// Completion time and payload. `None`: the server did not receive what the client sent.
fn completion(client: &ConnectionReport, server: &TrafficReport) -> Option<(f64, u64)> {
    let is_other_end = |one: &&ConnectionReport| one.remote == client.local;
    let server = server.connections.iter().find(is_other_end).filter(|one| one.received == client.sent)?;
    // Not until the end of the stream: the sender first waits until every subflow has its acknowledgements, which a failed one never gets.
    let receiver = if client.sent > client.received { server } else { client };
    Some(((client.connect_time + receiver.receive_time).as_secs_f64(), client.sent + client.received))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_rates(rates: &[f64]) -> Outcome {
        Outcome {
            rates: rates.to_vec(),
            completion: vec![1.0; rates.len()],
            expected: 1,
            payload: Some(1.0),
            ..Outcome::default()
        }
    }

    #[test]
    fn short_flows_count_that_began_under_the_whole_load() {
        let beside = |load: &[f64]| Outcome::began_beside(&[2.0, 5.0, 0.1, 0.1], load);
        assert_eq!(beside(&[6.0, 9.0]), [2.0, 5.0]);
        assert_eq!(beside(&[7.05, 9.0]), [2.0, 5.0, 0.1]);
        assert_eq!(beside(&[]).len(), 4);
    }

    #[test]
    fn fairness_is_that_of_all_connections_and_unknown_if_one_is_missing() {
        let both = with_rates(&[3.0]).beside(with_rates(&[1.0]));
        assert!((both.jain().unwrap() - 0.8).abs() < 1e-9);
        assert_eq!((both.expected, both.payload), (2, Some(2.0)));
        let missing = with_rates(&[3.0]).beside(with_rates(&[1.0])).beside(with_rates(&[]));
        assert_eq!(missing.jain(), None);
        assert!((missing.completed() - 2.0 / 3.0).abs() < 1e-9);
        assert_eq!(with_rates(&[3.0]).jain(), None);
    }
}
