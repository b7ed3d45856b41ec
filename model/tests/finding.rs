// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sentences of findings.
#![allow(clippy::unwrap_used, reason = "a test")]

use mpwatch_fixtures as fixture;
use mpwatch_model::finding::{Finding, Format, Severity, of_connection, unmeasured};
use mpwatch_model::flow::bottleneck::{DetectionMethod, Verdict};
use mpwatch_model::flow::class::FlowClass;
use mpwatch_model::flow::class_totals::completion_times;
use mpwatch_model::flow::connection::{Connection, Fallback};
use mpwatch_model::flow::pairing::flows;
use mpwatch_model::flow::progress::Progress;
use mpwatch_model::flow::subflow::Closed;
use mpwatch_model::flow::timeline::{ObservedBy, TimelineEntry, TimelineEvent};
use mpwatch_model::kernel::lifecycle::{CloseReason, FallbackReason, TcpState};
use mpwatch_model::unit::{BitsPerSecond, Bytes, Micros};

fn texts(connection: &Connection) -> Vec<String> {
    let mark = |finding: &Finding| match finding.severity() {
        Severity::Failure => '✗',
        Severity::Warning => '!',
        Severity::Good => '✓',
        Severity::Note => '·',
    };
    let findings = of_connection(connection);
    findings.iter().map(|found| format!("{} {}", mark(found), found.sentence(&Format::default()))).collect()
}

fn stall(micros: i64, gap: u64) -> TimelineEntry {
    let event = TimelineEvent::Stalled { gap: Micros(gap), timeout: None };
    TimelineEntry { at: fixture::at(micros), source: ObservedBy::Tracepoint, event }
}

#[test]
fn a_failed_path_comes_first_then_its_outage() {
    assert_eq!(
        texts(&fixture::failover(1))[..4],
        [
            "✗ path 1 (10.0.1.1 -> 10.0.1.2 over eth1) failed at 2026-03-01 12:00:05Z (+5.600200 s): no acknowledgements (noticed at +6.000000 s), timed out at +9.412000 s; down for 6.90 s so far, at +12.5 s",
            "✗ path 2 (10.0.2.1 -> 10.0.2.2 over eth2) failed: no acknowledgements",
            "✗ 412 ms outage from 2026-03-01 12:00:05Z (+5.600200 s): no path made progress",
            "· no two subflows share a bottleneck since +1.75 s (probability of sharing 0.00)",
        ]
    );
}

#[test]
fn a_stale_path_says_when_it_was_noticed() {
    let mut connection = fixture::failover(1);
    (connection.subflows[0].closed, connection.subflows[0].progress) = (None, Progress::Failed);
    let why = "no acknowledgements (noticed at +6.000000 s); down for";
    assert!(texts(&connection)[0].ends_with(&format!(
        "failed at 2026-03-01 12:00:05Z (+5.600200 s): {why} 6.90 s so far, at +12.5 s"
    )));
    connection.timeline.retain(|entry| !matches!(entry.event, TimelineEvent::Stalled { .. }));
    let why = "no acknowledgements, noticed at 2026-03-01 12:00:06Z (+6.000000 s); down for";
    assert!(texts(&connection)[0].ends_with(&format!("over eth1) failed: {why} 6.50 s so far, at +12.5 s")));
    connection.opened_at = None;
    assert!(!texts(&connection)[0].contains("so far"), "the age of the connection is unknown");
}

#[test]
fn several_stalls_are_one_outage_and_the_longest_outage_is_named() {
    let mut connection = fixture::failover(1);
    connection.timeline.extend([stall(6_050_200, 162_000), stall(6_260_200, 163_000)]);
    connection.timeline.push(stall(14_600_200, 700_000));
    assert_eq!(
        texts(&connection)[2],
        "✗ 823 ms outage from 2026-03-01 12:00:05Z (+5.600200 s): no path made progress for 737 ms of it (3 stalls); the longest of 2 outages"
    );
}

#[test]
fn subflows_behind_one_bottleneck_are_named_with_their_cost() {
    let mut connection = fixture::connection(1, 3);
    connection.bottlenecks = Some(fixture::bottleneck::shared(&connection.subflows));
    let head = "! subflows 1, 2 and 3 share one bottleneck since +1.75 s (probability 0.98): 2 extra subflows add no throughput, \
                carried 45 % of what was sent and cost";
    assert_eq!(texts(&connection), [format!("{head} 5.20 J")]);
    connection.subflows.iter_mut().for_each(|subflow| subflow.energy = None);
    assert_eq!(texts(&connection), [format!("{head} 1.09 s of CPU time")]);
    connection.bottlenecks = Some(fixture::bottleneck::capped(&connection.subflows[..2]));
    assert_eq!(
        texts(&connection),
        [
            "! subflows 1 and 2 share a cap of 48.1 Mbit/s since +4.25 s, without a common queue: what one gains the others lose"
        ]
    );
}

#[test]
fn the_rates_of_all_connections_are_named_as_evidence() {
    let mut connection = fixture::connection(1, 3);
    let mut found = fixture::bottleneck::shared(&connection.subflows);
    for pair in &mut found.pairs {
        let evidence = pair.evidence.as_mut().unwrap();
        (evidence.connections, evidence.link_rate) = (Some(47), Some(BitsPerSecond(94_100_000)));
    }
    connection.bottlenecks = Some(found);
    let [text] = &texts(&connection)[..] else { panic!("one bottleneck") };
    let certainty = "(probability 0.98; 47 connections over these paths together carry 94.1 Mbit/s)";
    assert!(text.contains(certainty), "{text}");
}

#[test]
fn pairs_without_a_verdict_are_undecided() {
    let mut connection = fixture::connection(1, 3);
    let set = |connection: &mut Connection, verdicts: [Verdict; 3]| {
        let found = connection.bottlenecks.as_mut().unwrap();
        found.pairs.iter_mut().zip(verdicts).for_each(|(pair, verdict)| pair.verdict = verdict);
    };
    set(&mut connection, [Verdict::Disjoint, Verdict::Disjoint, Verdict::Unknown]);
    assert_eq!(
        texts(&connection),
        [
            "· 2 pairs of subflows with separate bottlenecks since +1.75 s (probability of sharing 0.00), 1 pair undecided"
        ]
    );
    set(&mut connection, [Verdict::Unknown; 3]);
    assert!(texts(&connection)[0].ends_with(": not enough samples from this sender yet"));
    (connection.bytes_sent, connection.bytes_received) = (connection.bytes_received, connection.bytes_sent);
    assert!(texts(&connection)[0].ends_with(": this end mostly receives, and only the sender can judge"));
    set(&mut connection, [Verdict::NoBottleneck; 3]);
    connection.bottlenecks.as_mut().unwrap().method = DetectionMethod::Dcw;
    assert_eq!(
        texts(&connection),
        ["✓ no subflow is congested", "· bottlenecks are judged by dcw, not by mpwatch's own method"]
    );
}

#[test]
fn a_failed_path_adds_no_throughput_even_after_the_end() {
    let verdict = "no two subflows share a bottleneck since +1.75 s (probability of sharing 0.00)";
    let mut connection = fixture::closed(1);
    assert!(texts(&connection).contains(&format!("✓ {verdict}: each adds throughput")));
    connection.subflows[0].closed.as_mut().unwrap().reason = CloseReason::Timeout;
    assert!(texts(&connection).contains(&format!("· {verdict}")), "{:?}", texts(&connection));
}

#[test]
fn a_healthy_connection_says_so_and_a_single_path_is_a_problem_only_for_a_long_flow() {
    let healthy = "✓ no two subflows share a bottleneck since +1.75 s (probability of sharing 0.00): each adds throughput";
    assert_eq!(texts(&fixture::connection(1, 2)), [healthy]);
    let mut single = fixture::connection(1, 1);
    assert!(texts(&single)[0].starts_with("! long flow over one path only: no second subflow joined"));
    single.state = TcpState::FinWait2;
    assert!(!texts(&single).iter().any(|text| text.contains("one path only")), "no subflow can join");
    (single.state, single.flow_class) = (TcpState::Established, FlowClass::Short);
    assert!(texts(&single)[0].starts_with("· one path only"));
    assert_eq!(
        texts(&fixture::closed(1))[1],
        "· closed at 2026-03-01 12:00:12Z after 12.0 s: closed normally (FIN)"
    );
    let mut fallen_back = fixture::fallen_back(1);
    let why = "10.0.1.2 answered without MP_CAPABLE; fix, at the peer: sysctl -w net.mptcp.enabled=1";
    assert_eq!(texts(&fallen_back)[0], format!("! fell back to plain TCP: {why}"));
    fallen_back.cause = None;
    assert_eq!(texts(&fallen_back)[0], "! fell back to plain TCP: no MP_CAPABLE in the SYN-ACK");
}

#[test]
fn problems_that_cannot_be_found_are_listed() {
    let mut connection = fixture::connection(1, 2);
    assert!(unmeasured(&connection).is_empty());
    connection.bottlenecks = None;
    assert!(unmeasured(&connection)[0].starts_with("shared bottlenecks, because detection is disabled"));
    connection.subflows.truncate(1);
    assert!(unmeasured(&connection).is_empty(), "one subflow shares nothing");
    connection.age_s += 10.0;
    assert_eq!(unmeasured(&connection), ["failures and outages while mpwatch was not running"]);
    assert_eq!(unmeasured(&fixture::fallen_back(1)), ["failures and outages before mpwatch started"]);
}

#[test]
fn a_path_that_can_hold_up_the_others_is_a_problem() {
    let mut connection = fixture::connection(1, 2);
    let slow =
        |connection: &Connection| texts(connection).iter().any(|text| text.starts_with("! path 2 is slow"));
    assert!(!slow(&connection), "twice the RTT is not slow");
    connection.subflows[1].rtt_p50 = Some(Micros(620_000));
    let text = "! path 2 is slow: median RTT 620 ms, path 1 has 20.6 ms; it can hold up the others";
    assert!(texts(&connection).iter().any(|found| found.starts_with(text)), "{:?}", texts(&connection));
    let samples = std::mem::replace(&mut connection.subflows[1].rtt_samples, 4);
    assert!(!slow(&connection), "the few ACKs that an outage delayed");
    connection.subflows[1].rtt_samples = samples;
    connection.subflows[1].backup = true;
    assert!(!slow(&connection), "a backup carries nothing");
    connection.subflows[1].backup = false;
    assert!(slow(&connection));
    (connection.subflows[1].bytes_sent, connection.subflows[1].bytes_received) = (Bytes(0), Bytes(0));
    assert!(!slow(&connection), "only the handshake measured its RTT");
}

#[test]
fn a_subflow_that_did_not_join_is_neither_a_path_nor_a_failed_path() {
    let join = "subflow 2 (10.0.2.1 -> 10.0.2.2 over eth2) did not join";
    for (reason, why) in [
        (Some(CloseReason::Refused), "refused (the handshake was answered with RST)"),
        (Some(CloseReason::Unanswered), "unanswered (no answer to the SYN)"),
        (Some(CloseReason::OptionRemoved), "MP_JOIN removed on the path"),
        (None, "unanswered (no answer to the SYN)"),
    ] {
        let mut connection = fixture::connection(1, 2);
        (connection.second_path, connection.bottlenecks) = (None, None);
        let subflow = &mut connection.subflows[1];
        (subflow.handshake, subflow.bytes_acked, subflow.bytes_received) = (None, Bytes(0), Bytes(0));
        subflow.state = TcpState::SynSent;
        subflow.closed = reason.map(|reason| Closed { at: fixture::at(5_000_000), reason });
        let found = texts(&connection);
        assert_eq!(found[0], format!("! {join}: {why}"), "{found:?}");
        assert!(found[1].starts_with("! long flow over one path only"), "{found:?}");
        assert_eq!(found.len(), 2, "{found:?}");
    }
}

#[test]
fn a_connection_without_an_answer_is_a_finding_and_not_a_completed_flow() {
    let mut connection = fixture::closed(1);
    assert_eq!(completion_times(&flows(&[connection.clone()])), [12.0]);
    connection.subflows.truncate(1);
    let subflow = &mut connection.subflows[0];
    (subflow.handshake, subflow.bytes_acked, subflow.bytes_received) = (None, Bytes(0), Bytes(0));
    for (reason, text) in [
        (CloseReason::Unanswered, "✗ not connected: unanswered (no answer to the SYN)"),
        (CloseReason::Refused, "✗ not connected: refused (the handshake was answered with RST)"),
        (
            CloseReason::HostUnreachable,
            "✗ not connected: host unreachable (no route, no ARP answer, or an ICMP error)",
        ),
        (
            CloseReason::NotSent,
            "✗ not connected: no SYN was sent (EADDRNOTAVAIL: no free port, ENETUNREACH: no route)",
        ),
    ] {
        connection.subflows[0].closed.as_mut().unwrap().reason = reason;
        let found = texts(&connection);
        assert_eq!(found[0], text, "{found:?}");
        assert!(!found.iter().any(|found| found.contains("failed")), "{found:?}");
        assert!(completion_times(&flows(&[connection.clone()])).is_empty());
    }
    let (mut unsent, mut waiting) = (connection.clone(), connection);
    (unsent.subflows, unsent.remote) = (Vec::new(), None);
    assert!(texts(&unsent)[0].starts_with("✗ not connected: no SYN was sent"));
    (waiting.closed_at, waiting.subflows[0].closed, waiting.bottlenecks) = (None, None, None);
    (waiting.state, waiting.subflows[0].state) = (TcpState::SynSent, TcpState::SynSent);
    for (age_s, found) in [(2.0, &[][..]), (4.0, &["✗ not connected: unanswered (no answer to the SYN)"])] {
        waiting.age_s = age_s;
        assert_eq!(texts(&waiting), found, "after {age_s} s");
    }
}

#[test]
fn a_program_that_does_not_read_limits_the_connection() {
    let mut connection = fixture::connection(1, 2);
    let subflow = &mut connection.subflows[0];
    (subflow.progress, subflow.progress_since) = (Progress::LimitedByReceiver, Some(fixture::at(2_000_000)));
    let text = "· limited by the receiver's window since +2.000000 s: the program there does not read";
    let found = texts(&connection);
    assert!(found.contains(&text.to_owned()), "{found:?}");
    assert!(!found.iter().any(|found| found.contains("outage") || found.contains("failed")), "{found:?}");
}

/// After a fallback, the kernel closes the MPTCP socket while TCP still has the data, which a reset then discards.
#[test]
fn a_late_reset_aborts_a_connection_that_fell_back() {
    let mut connection = fixture::connection(1, 1);
    connection.closed_at = Some(fixture::at(9_000_000));
    connection.subflows[0].closed =
        Some(Closed { at: fixture::at(9_600_000), reason: CloseReason::ResetReceived });
    let is_aborted =
        |connection: &Connection| texts(connection).iter().any(|text| text.contains("aborted by the peer"));
    connection.fallback = None;
    assert!(!is_aborted(&connection), "{:?}", texts(&connection));
    connection.fallback = Some(Fallback { reason: FallbackReason::NoMpCapableInSynAck });
    assert!(is_aborted(&connection), "{:?}", texts(&connection));
}
