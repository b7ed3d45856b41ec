// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cells of traffic: share, rate and trend; for aggregates also RTT, bytes and retransmissions.

use mpwatch_model::metric::{self, Unit};
use mpwatch_model::unit::Micros;

use super::column::{Column, RowKind, Value, numbers, sum, words};
use super::order::Order;
use super::row::{Row, Subject};
use crate::aggregate::{Aggregate, TREND};
use crate::text::{Text, bar, pad, sparkline};
use crate::theme::Ink;

/// An aggregate with at least this retransmitted share has the colour of warnings.
const HIGH_LOSS: f64 = 0.02;

pub(super) const COLUMNS: &[Column] = &[
    words(
        ("share", "SHARE", "share of the payload sent by its subflows, without TCP retransmissions"),
        (9, 17),
        RowKind::Flows,
        Value::Cell(share, |row| {
            let subflows = row.connection().map(|connection| connection.subflows.iter());
            Order::number(
                subflows.and_then(|all| all.filter_map(|subflow| subflow.share_sent).reduce(f64::max)),
            )
        }),
    ),
    numbers(
        ("rate", "RATE", "current rate; the arrow is the busier direction"),
        8,
        RowKind::All,
        Value::Cell(rate, |row| {
            Order::number(row.rates().map(|(send, receive)| send.saturating_add(receive) as f64))
        }),
    ),
    words(
        ("rates", "TREND", "rate over time, subflows on the scale of their connection"),
        (8, TREND),
        RowKind::All,
        Value::Cell(trend, |row| Order::Number(row.recent())),
    ),
    sum(("rtt", "RTT", "median of the smoothed RTTs"), 7, Unit::Seconds, |sums| {
        sums.rtt.map(Micros::seconds)
    }),
    sum(("rtt_lowest", "BEST RTT", "lowest of the smoothed RTTs"), 7, Unit::Seconds, |sums| {
        sums.min_rtt.map(Micros::seconds)
    }),
    numbers(
        ("loss", "RETX %", "retransmitted share of the bytes sent"),
        6,
        RowKind::Aggregates,
        Value::Cell(
            |row, _| {
                let share = retransmitted(row);
                let is_high = share.is_some_and(|share| share >= HIGH_LOSS);
                Text::new(
                    metric::compact(Unit::Ratio, share),
                    if is_high { Ink::Warning } else { Ink::Normal },
                )
            },
            |row| Order::number(retransmitted(row)),
        ),
    ),
    sum(("sent", "SENT", "payload sent, retransmissions included"), 7, Unit::Bytes, |sums| {
        Some(sums.sent as f64)
    }),
    sum(("received", "RECV", "payload received"), 7, Unit::Bytes, |sums| Some(sums.received as f64)),
];

fn share(row: &Row<'_>, width: usize) -> Text {
    let Subject::Subflow { subflow, index, .. } = row.subject else { return Text::default() };
    let percent = subflow.share_sent.map_or_else(|| "-".to_owned(), |share| format!("{:.0}%", share * 100.0));
    let room = width.min(17).saturating_sub(5);
    let drawn = pad(&bar(subflow.share_sent.unwrap_or(0.0), room), room, false);
    Text::new(drawn, Ink::Path(index)).and(pad(&percent, 5.min(width), true), Ink::Normal)
}

fn rate(row: &Row<'_>, _: usize) -> Text {
    let Some((send, receive)) = row.rates() else { return Text::new("-", Ink::Faint) };
    let (arrow, rate) = if receive > send { ("↓", receive) } else { ("↑", send) };
    if rate == 0 {
        return Text::new(if row.is_closed() { "-" } else { "0" }, Ink::Faint);
    }
    let amount = row.context.units.compact(Unit::BitsPerSecond, Some(rate as f64));
    Text::new(arrow, Ink::Faint).and(amount, Ink::Normal)
}

fn trend(row: &Row<'_>, width: usize) -> Text {
    let (own, whole) = row.trend();
    let width = width.min(TREND);
    let recent = &whole[whole.len().saturating_sub(width)..];
    let max = recent.iter().copied().fold(0.0, f32::max);
    let ink = if let Subject::Subflow { index, .. } = row.subject { Ink::Path(index) } else { Ink::Normal };
    Text::new(sparkline(&own, max, width), ink)
}

fn retransmitted(row: &Row<'_>) -> Option<f64> {
    row.sums().and_then(Aggregate::retransmitted)
}
