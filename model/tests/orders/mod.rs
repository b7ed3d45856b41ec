// SPDX-License-Identifier: MIT OR Apache-2.0
//! Orders of the events that show whether the first of two paths works, and the findings that each order must produce.

use mpwatch_fixtures as fixture;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::progress::Progress;
use mpwatch_model::flow::subflow::Closed;
use mpwatch_model::flow::timeline::{ObservedBy, TimelineEntry, TimelineEvent};
use mpwatch_model::kernel::lifecycle::CloseReason;
use mpwatch_model::unit::Micros;

/// An event of the first of two subflows, or of the connection.
#[derive(Clone, Copy)]
pub(crate) enum Sign {
    Stall(u64),
    Stale,
    Works,
    Ended(CloseReason),
    OtherEnded(CloseReason),
    Closed,
}

use CloseReason::{Fin, RemovedByAdmin, RemovedByPeer, ResetReceived, ResetSent, Timeout, Unreachable};
use Sign::{Closed as End, Ended, OtherEnded, Stale, Stall, Works};

pub(crate) fn connection_with(signs: &[(i64, Sign)]) -> Connection {
    let mut connection = fixture::connection(1, 2);
    let id = connection.subflows[0].id;
    for &(millis, sign) in signs {
        let at = fixture::at(millis * 1_000);
        let event = match sign {
            Stall(millis) => TimelineEvent::Stalled { gap: Micros(millis * 1_000), timeout: None },
            Stale | Works => {
                let stale = matches!(sign, Stale);
                connection.subflows[0].progress = if stale { Progress::Failed } else { Progress::Working };
                TimelineEvent::SubflowStale { subflow: id, stale, silent: None }
            }
            Ended(reason) | OtherEnded(reason) => {
                let subflow = &mut connection.subflows[usize::from(matches!(sign, OtherEnded(_)))];
                subflow.closed = Some(Closed { at, reason });
                TimelineEvent::SubflowClosed { subflow: subflow.id, reason }
            }
            End => {
                connection.closed_at = Some(at);
                TimelineEvent::Closed
            }
        };
        connection.timeline.push(TimelineEntry { at, source: ObservedBy::Tracepoint, event });
    }
    connection
}

/// Name of the case, events with their times, failures of the first path (from, until), and the start of the sentence on each problem.
/// Times are in milliseconds after the opening.
pub(crate) type Case =
    (&'static str, &'static [(i64, Sign)], &'static [(i64, Option<i64>)], &'static [&'static str]);

pub(crate) const FAILED: &str = "path 1 (10.0.1.1 -> 10.0.1.2 over eth1) failed";

/// Cases marked `kernel` were recorded on Linux 6.18: the first three with `mpwatch demo failover`, cases with destroyed sockets with
/// `ss --kill` during a demo, the other marked cases by `host_event_orders`, which repeats them. Unmarked cases were not recorded.
pub(crate) const CASES: &[Case] = &[
    (
        "kernel, sender: the stale subflow is reset after the end",
        &[
            (6_094, Stall(806)),
            (7_513, Stale),
            (15_140, End),
            (15_160, OtherEnded(Fin)),
            (15_632, Ended(ResetSent)),
        ],
        &[(6_094, None)],
        &[FAILED, "806 ms outage"],
    ),
    (
        "kernel, sender: the stale subflow has not ended yet",
        &[(6_094, Stall(806)), (6_997, Stale), (15_140, End), (15_160, OtherEnded(Fin))],
        &[(6_094, None)],
        &[FAILED, "806 ms outage"],
    ),
    (
        "short stalls of a busy host before the outage",
        &[(4_500, Stall(110)), (6_094, Stall(806)), (7_013, Stale), (15_140, End), (15_160, OtherEnded(Fin))],
        &[(6_094, None)],
        &[FAILED, "806 ms outage"],
    ),
    (
        "a short stall and no outage: the other path carried on",
        &[(4_500, Stall(110)), (6_997, Stale), (15_140, End), (15_160, OtherEnded(Fin))],
        &[(6_997, None)],
        &[FAILED],
    ),
    (
        "kernel, receiver: reset after the end, no time of the failure",
        &[(15_134, End), (15_155, OtherEnded(Fin)), (15_619, Ended(ResetSent))],
        &[],
        &[
            "subflow 1 did not close with the others: reset by this host (RST sent) at 2026-03-01 12:00:15Z (+15.619000 s)",
        ],
    ),
    (
        "link down: unreachable, then closed normally",
        &[(6_000, Stall(420)), (6_400, Ended(Unreachable)), (9_000, OtherEnded(Fin)), (9_001, End)],
        &[(6_000, None)],
        &[FAILED, "420 ms outage"],
    ),
    (
        "kernel, the FIN gets no acknowledgement",
        &[(10_002, End), (10_022, OtherEnded(Fin)), (12_155, Ended(Timeout))],
        &[(12_155, None)],
        &[FAILED],
    ),
    (
        "stale until it closes with the others",
        &[(7_000, Stale), (9_000, End), (9_001, OtherEnded(Fin)), (9_001, Ended(Fin))],
        &[(7_000, None)],
        &[FAILED],
    ),
    (
        "kernel, sender: stale, then removed by the path manager",
        &[
            (996, Stall(588)),
            (2_580, Stale),
            (9_489, End),
            (9_509, OtherEnded(Fin)),
            (9_564, Ended(RemovedByAdmin)),
        ],
        &[(996, None)],
        &[FAILED, "588 ms outage"],
    ),
    (
        "kernel, receiver: stale, then removed by the path manager",
        &[(9_489, End), (9_509, OtherEnded(Fin)), (10_130, Ended(RemovedByPeer))],
        &[],
        &[],
    ),
    (
        "the stale mark of the subflow vanishes with its socket",
        &[(7_000, Stale), (8_000, Ended(ResetSent)), (8_500, Works), (9_000, OtherEnded(Fin)), (9_001, End)],
        &[(7_000, None)],
        &[FAILED],
    ),
    (
        "kernel, closed normally, with a short stall",
        &[(392, Stall(100)), (9_516, End), (9_536, OtherEnded(Fin)), (9_536, Ended(Fin))],
        &[],
        &[],
    ),
    (
        "kernel, sender: aborted",
        &[(9_529, End), (9_529, OtherEnded(ResetSent)), (9_529, Ended(ResetSent))],
        &[],
        &["aborted by this host"],
    ),
    (
        "kernel, receiver: aborted",
        &[(9_529, OtherEnded(ResetReceived)), (9_529, Ended(ResetReceived)), (9_529, End)],
        &[],
        &["aborted by the peer"],
    ),
    (
        "kernel, receiver on a busy host: aborted, noticed by the application later",
        &[(9_531, OtherEnded(ResetReceived)), (9_531, Ended(ResetReceived)), (10_056, End)],
        &[],
        &["aborted by the peer"],
    ),
    (
        "kernel, sender: both subflows destroyed, ended by the kernel after its close timeout",
        &[(3_700, OtherEnded(RemovedByAdmin)), (3_701, Ended(RemovedByAdmin)), (8_720, End)],
        &[],
        &["aborted by this host"],
    ),
    (
        "kernel, receiver: both subflows destroyed by the peer",
        &[(3_725, OtherEnded(ResetReceived)), (3_728, Ended(ResetReceived)), (13_024, End)],
        &[],
        &["aborted by the peer"],
    ),
    (
        "closed in order: the resets come after the end",
        &[(9_000, End), (9_600, Ended(ResetReceived)), (9_600, OtherEnded(ResetReceived))],
        &[],
        &[],
    ),
    (
        "kernel, sender: aborted after a path had failed",
        &[
            (1_002, Stall(757)),
            (1_760, Stall(223)),
            (3_234, Stale),
            (12_076, End),
            (12_076, OtherEnded(ResetSent)),
            (12_076, Ended(ResetSent)),
        ],
        &[(1_002, None)],
        &[FAILED, "aborted by this host", "981 ms outage"],
    ),
    (
        "a reset at the end of a connection that closes normally",
        &[(9_000, OtherEnded(Fin)), (9_001, End), (9_020, Ended(ResetReceived))],
        &[],
        &[],
    ),
    (
        "kernel, receiver: reset long before the end",
        &[(1_037, Ended(ResetReceived)), (9_505, End), (9_525, OtherEnded(Fin))],
        &[(1_037, None)],
        &[FAILED],
    ),
    (
        "kernel, sender: reset by the peer",
        &[(997, Stall(220)), (997, Ended(ResetReceived)), (9_604, End), (9_624, OtherEnded(Fin))],
        &[(997, None)],
        &[FAILED, "220 ms outage"],
    ),
    (
        "kernel, sender: destroyed by an administrator",
        &[(985, Ended(RemovedByAdmin)), (1_043, Stall(317)), (9_442, End), (9_463, OtherEnded(Fin))],
        &[],
        &["317 ms outage"],
    ),
    (
        "reset by this host long before the end",
        &[(992, Ended(ResetSent)), (1_028, Stall(732)), (9_505, End), (9_525, OtherEnded(Fin))],
        &[(992, None)],
        &[FAILED, "732 ms outage"],
    ),
    (
        "kernel, sender: link down, given up after the end",
        &[
            (1_060, Stall(699)),
            (3_234, Stale),
            (12_445, End),
            (12_465, OtherEnded(Fin)),
            (18_395, Ended(Unreachable)),
        ],
        &[(1_060, None)],
        &[FAILED, "699 ms outage"],
    ),
    (
        "kernel, receiver: link down, given up after the end",
        &[(12_439, End), (12_459, OtherEnded(Fin)), (16_047, Ended(Timeout))],
        &[(16_047, None)],
        &[FAILED],
    ),
    (
        "kernel, sender: removed by the path manager",
        &[(1_049, Stall(336)), (1_054, Ended(RemovedByAdmin)), (9_515, End), (9_535, OtherEnded(Fin))],
        &[],
        &["336 ms outage"],
    ),
    (
        "kernel, receiver: removed by the peer",
        &[(1_034, Ended(RemovedByPeer)), (9_515, End), (9_536, OtherEnded(Fin))],
        &[],
        &[],
    ),
    (
        "one failure with short recoveries",
        &[(620, Stale), (1_000, Works), (1_810, Stale), (2_400, Works), (8_050, Stale)],
        &[(620, None)],
        &[FAILED],
    ),
    (
        "the path works again",
        &[(620, Stale), (1_000, Works), (1_810, Stale), (2_400, Works)],
        &[(620, Some(2_400))],
        &[FAILED],
    ),
    (
        "kernel, sender: the path works again, closed normally",
        &[
            (1_019, Stall(739)),
            (3_233, Stale),
            (5_233, Works),
            (9_624, End),
            (9_644, OtherEnded(Fin)),
            (9_644, Ended(Fin)),
        ],
        &[(1_019, Some(5_233))],
        &["739 ms outage", FAILED],
    ),
    (
        "kernel, sender: works for a short time, given up after the end",
        &[
            (2_310, Stall(743)),
            (4_440, Stale),
            (5_438, Works),
            (8_044, Stale),
            (12_376, End),
            (12_396, OtherEnded(Fin)),
            (12_767, Ended(Timeout)),
        ],
        &[(2_310, None)],
        &[FAILED, "743 ms outage"],
    ),
    (
        "two failures",
        &[(620, Stale), (1_000, Works), (60_000, Stale)],
        &[(620, Some(1_000)), (60_000, None)],
        &[FAILED],
    ),
];
