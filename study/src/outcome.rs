// SPDX-License-Identifier: MIT OR Apache-2.0
//! The measured traffic as observed by the programs at both ends (the lab's traffic or a real program). No I/O.

use mpwatch_lab::traffic::{ConnectionReport, TrafficReport, TransferOutcome};

/// Measured traffic, as observed by the programs that sent and received it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    /// Sum of the payload that the two ends received, bytes. `None`: the program does not report it.
    pub(crate) payload: Option<f64>,
    /// Time from the first connect to the last byte, seconds.
    pub(crate) seconds: f64,
    /// Time from connect to the last byte at the receiver of each complete connection, or of a program's transfer, seconds.
    pub(crate) completion: Vec<f64>,
    /// Goodput of each complete connection, bits per second.
    pub(crate) rates: Vec<f64>,
    /// Number of connections that should be opened.
    pub(crate) expected: u32,
    /// Requests with a response per second. `None`: the traffic has no requests.
    pub(crate) requests: Option<f64>,
}

impl Outcome {
    /// The outcome of a transfer of `expected` connections. `one_by_one`: the connections were not all open in parallel.
    pub(crate) fn from_transfer(outcome: &TransferOutcome, expected: u32, one_by_one: bool) -> Self {
        let complete: Vec<(f64, u64)> = outcome
            .client
            .connections
            .iter()
            .filter(|connection| is_complete(connection))
            .filter_map(|connection| completion(connection, &outcome.server))
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

    /// Adds traffic that ran in parallel.
    pub(crate) fn with(mut self, other: Self) -> Self {
        self.payload = self.payload.zip(other.payload).map(|(own, other)| own + other);
        self.seconds = self.seconds.max(other.seconds);
        self.completion.extend(other.completion);
        self.rates.extend(other.rates);
        self.expected += other.expected;
        self
    }

    /// The durations of the short flows, which run one after the other, that began before the first connection of the load ended. Later
    /// flows ran under a decreasing load. `flows`, `load`: durations of all short flows, and of the connections of the load.
    pub(crate) fn began_under_full_load(flows: &[f64], load: &[f64]) -> Vec<f64> {
        let first_end = load.iter().copied().fold(f64::INFINITY, f64::min);
        let mut began = 0.0;
        let has_full_load = |duration: &&f64| {
            let has_full_load = began < first_end;
            began += **duration;
            has_full_load
        };
        flows.iter().take_while(has_full_load).copied().collect()
    }

    /// The share of the connections whose payload arrived completely.
    pub(crate) fn completed(&self) -> f64 {
        self.completion.len() as f64 / f64::from(self.expected.max(1))
    }

    /// Jain's fairness index of the connections' goodput. `None`: there is only one connection, or a connection did not complete.
    pub(crate) fn jain(&self) -> Option<f64> {
        let (sum, squares) =
            self.rates.iter().fold((0.0, 0.0), |(sum, squares), rate| (sum + rate, squares + rate * rate));
        let is_known = self.rates.len() > 1 && self.rates.len() == self.expected as usize;
        is_known.then(|| sum * sum / (squares * self.rates.len() as f64))
    }
}

/// Whether a connection ended without an error at this end.
fn is_complete(connection: &ConnectionReport) -> bool {
    connection.error.is_none() && !connection.reset
}

/// Completion time in seconds and payload in bytes. `None`: one end did not receive all bytes that the other end sent.
fn completion(client: &ConnectionReport, server: &TrafficReport) -> Option<(f64, u64)> {
    let is_other_end = |other: &&ConnectionReport| other.remote == client.local;
    let is_whole =
        |server: &&ConnectionReport| (server.received, server.sent) == (client.sent, client.received);
    let server = server.connections.iter().find(is_other_end).filter(is_whole)?;
    // Not `transfer_time`, which ends after the FIN: before its FIN, the sender waits up to 3 s for acknowledgements on a failed subflow.
    let receiver = if client.sent > client.received { server } else { client };
    Some(((client.connect_time + receiver.receive_time).as_secs_f64(), client.sent + client.received))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A connection as one end reports it. All addresses are equal here, so that the reports of two ends match.
    fn end(sent: u64, received: u64) -> ConnectionReport {
        let address = "127.0.0.1:1".parse().unwrap();
        let second = Duration::from_secs(1);
        ConnectionReport {
            local: address,
            remote: address,
            sent,
            received,
            sent_hash: 0,
            received_hash: 0,
            exchanges: 0,
            connect_time: second,
            open_time: second,
            transfer_time: second,
            receive_time: second,
            reset: false,
            socket_info: None,
            error: None,
        }
    }

    #[test]
    fn a_transfer_that_was_cut_in_either_direction_has_no_completion_time() {
        let server = |sent, received| TrafficReport {
            connections: vec![end(sent, received)],
            ..TrafficReport::default()
        };
        assert_eq!(completion(&end(10, 900), &server(900, 10)), Some((2.0, 910)));
        assert_eq!(completion(&end(10, 899), &server(900, 10)), None, "a download");
        assert_eq!(completion(&end(900, 0), &server(0, 899)), None, "an upload");
    }

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
    fn only_short_flows_that_began_under_the_whole_load_are_counted() {
        let counted = |load: &[f64]| Outcome::began_under_full_load(&[2.0, 5.0, 0.1, 0.1], load);
        assert_eq!(counted(&[6.0, 9.0]), [2.0, 5.0]);
        assert_eq!(counted(&[7.05, 9.0]), [2.0, 5.0, 0.1]);
        assert_eq!(counted(&[]).len(), 4);
    }

    #[test]
    fn fairness_covers_all_connections_and_is_unknown_if_one_is_missing() {
        let both = with_rates(&[3.0]).with(with_rates(&[1.0]));
        assert!((both.jain().unwrap() - 0.8).abs() < 1e-9);
        assert_eq!((both.expected, both.payload), (2, Some(2.0)));
        let missing = with_rates(&[3.0]).with(with_rates(&[1.0])).with(with_rates(&[]));
        assert_eq!(missing.jain(), None);
        assert!((missing.completed() - 2.0 / 3.0).abs() < 1e-9);
        assert_eq!(with_rates(&[3.0]).jain(), None);
    }
}
