// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests which ACKs without new data count as answers to retransmissions.

use mpwatch_model::flow::progress::Progress;
use mpwatch_model::flow::timeline::TimelineEvent;
use mpwatch_model::kernel::lifecycle::TcpState;
use mpwatch_model::unit::{Bytes, Nanos};

use super::records::{SECOND, subflow};
use crate::tracker::path::{Interval, PathState};
use crate::tracker::suspension::Suspensions;

/// Of three timeouts of a path, the number that do not count against it after an ACK with a window of `window` bytes. At the tick before, the
/// window was 100 000 bytes.
fn excused(window: u64, segments: u32, state: TcpState) -> u8 {
    let (mut path, suspensions) = (PathState::default(), Suspensions::default());
    let mut record = subflow(1, SECOND, 0);
    record.waiting.in_flight = 10;
    record.state = state;
    let mut evaluate = |second: u64, backoff: u8, window: u64, segments: u32| {
        record.at = Nanos(second * SECOND);
        record.waiting.backoff = backoff;
        record.waiting.window = Bytes(window);
        record.waiting.last_ack = Some(Nanos(second * SECOND - 100_000_000));
        record.tcp.data_segments_in = segments;
        let now = Nanos(second * SECOND);
        let interval = Interval { previous: Nanos(now.0 - SECOND), now, suspensions: &suspensions };
        path.evaluate(&record, false, true, interval).0.excused
    };
    evaluate(10, 2, 100_000, 0);
    evaluate(11, 3, window, segments)
}

#[test]
fn an_ack_without_news_answers_a_retransmission() {
    assert_eq!(excused(100_000, 0, TcpState::Established), 3);
    assert_eq!(excused(50_000, 0, TcpState::Established), 3);
}

#[test]
fn an_ack_with_a_larger_window_or_with_data_answers_no_retransmission() {
    let open = TcpState::Established;
    assert_eq!(excused(200_000, 0, open), 0, "the peer's application read data");
    assert_eq!(excused(100_000, 1_000, open), 0, "the peer sent data");
    assert_eq!(excused(100_000, 0, TcpState::CloseWait), 0, "the peer repeats its FIN");
}

#[test]
#[allow(clippy::field_reassign_with_default, reason = "the other fields are private")]
fn an_idle_path_waits_since_the_last_answered_probe() {
    let mut record = subflow(1, SECOND, 0);
    (record.waiting.last_ack, record.waiting.probes) = (Some(Nanos(40 * SECOND)), 3);
    let mut path = PathState::default();
    path.acked_at = Some(Nanos(SECOND));
    assert_eq!(path.waits_since(&record), Some(Nanos(40 * SECOND)));
    record.waiting.in_flight = 1;
    assert_eq!(path.waits_since(&record), Some(Nanos(SECOND)), "data waits");
}

#[test]
fn a_path_that_recovers_just_before_it_ends_works_again() {
    let (mut path, suspensions) = (PathState::default(), Suspensions::default());
    let mut record = subflow(1, SECOND, 1_000);
    record.waiting.window = Bytes(100_000);
    (record.waiting.in_flight, record.waiting.last_ack) = (10, Some(Nanos(9 * SECOND)));
    for (second, backoff) in [(10, 1), (11, 3)] {
        (record.at, record.waiting.backoff) = (Nanos(second * SECOND), backoff);
        let (previous, now) = (Nanos((second - 1) * SECOND), Nanos(second * SECOND));
        path.evaluate(&record, false, false, Interval { previous, now, suspensions: &suspensions });
    }
    assert_eq!((path.progress, path.end(&record)), (Progress::Failed, None), "nothing was acknowledged");
    (record.tcp.bytes_acked, record.waiting.last_ack) = (Bytes(5_000), Some(Nanos(12 * SECOND)));
    let works = TimelineEvent::SubflowStale { subflow: record.id, stale: false, silent: None };
    assert_eq!(path.end(&record), Some((Nanos(12 * SECOND), works)));
    assert_eq!(path.end(&record), None, "reported once");
}
