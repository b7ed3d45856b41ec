// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which subflows share a bottleneck, in a sentence: who, since when, how sure, and what the extra ones cost.

use mpwatch_model::bottleneck::{Bottlenecks, PairVerdict, SharedCap, Verdict};
use mpwatch_model::connection::Connection;
use mpwatch_model::energy::FlowEnergy;
use mpwatch_model::id::SubflowId;
use mpwatch_model::metric::{self, Unit};
use mpwatch_model::subflow::Subflow;

use super::{cost, count, place, seconds};

/// What is known of a connection's bottlenecks. `None`: it has one subflow, or nobody looks.
pub(super) fn sentence(connection: &Connection) -> Option<String> {
    let found = connection.bottlenecks.as_ref()?;
    let groups = found.groups.iter().filter(|group| group.len() > 1);
    let mut phrases: Vec<String> = groups.map(|group| shared(connection, found, group)).collect();
    phrases.extend(found.shared_caps.iter().map(|cap| divided(connection, cap)));
    phrases.extend(rest(found));
    let judge = match found.method {
        method if method.is_default() => String::new(),
        method => format!("judged by {}: ", method.as_str()),
    };
    Some(format!("{judge}{}", phrases.join("; ")))
}

/// A group behind one bottleneck.
fn shared(connection: &Connection, found: &Bottlenecks, group: &[SubflowId]) -> String {
    let (first, extra) = (group.first().copied(), group.get(1..).unwrap_or_default());
    let inside = |pair: &&PairVerdict| group.contains(&pair.a) && group.contains(&pair.b);
    let sharing = found.pairs.iter().filter(inside).filter(|pair| pair.verdict == Verdict::Shared);
    let (subflows, share, they, add) = match extra.len() {
        1 => ("subflow", "shares", "it", "adds"),
        _ => ("subflows", "share", "they", "add"),
    };
    let names: Vec<String> = extra.iter().map(|id| place(connection, *id)).collect();
    let first = first.map(|id| place(connection, id)).unwrap_or_default();
    format!(
        "{subflows} {} {share} a bottleneck with {first}{}: {they} {add} no throughput{}",
        listed(&names),
        reached(sharing),
        costs(connection, extra)
    )
}

/// Those that divide a cap.
fn divided(connection: &Connection, cap: &SharedCap) -> String {
    let names: Vec<String> = cap.subflows.iter().map(|id| place(connection, *id)).collect();
    format!(
        "subflows {} share a cap of {} since {}, without a common queue: what one gets the others lose",
        listed(&names),
        metric::display(Unit::BitsPerSecond, Some(cap.sum.0 as f64)),
        seconds(cap.since.0)
    )
}

/// When these pairs came to the verdict that they have in common, and the probability of sharing of the one that is least sure: the
/// figure of JSON, near 1 where they share and near 0 where they do not.
pub(super) fn reached<'a>(pairs: impl Iterator<Item = &'a PairVerdict> + Clone) -> String {
    let since = pairs.clone().filter_map(|pair| pair.since).max();
    let since = since.map(|since| format!(" since {}", seconds(since.0))).unwrap_or_default();
    let distance = |p: &f64| (p - 0.5).abs();
    let known = pairs.filter_map(|pair| Some((pair.verdict, pair.probability?)));
    let least_sure = known.min_by(|(_, a), (_, b)| distance(a).total_cmp(&distance(b)));
    let sure = match least_sure {
        None => String::new(),
        Some((Verdict::Shared, p)) => format!(" (p {p:.2})"),
        Some((_, p)) => format!(" (p of sharing {p:.2})"),
    };
    format!("{since}{sure}")
}

/// What these subflows have carried and cost.
fn costs(connection: &Connection, extra: &[SubflowId]) -> String {
    let those: Vec<&Subflow> =
        connection.subflows.iter().filter(|subflow| extra.contains(&subflow.id)).collect();
    let share: f64 = those.iter().filter_map(|subflow| subflow.share_sent).sum();
    let energies: Vec<FlowEnergy> = those.iter().filter_map(|subflow| subflow.energy).collect();
    let energy = FlowEnergy::sum(&energies);
    let cpu = those.iter().map(|subflow| subflow.cpu).reduce(|a, b| Some(a? + b?)).flatten();
    let price = match (energy.active.filter(|_| !energies.is_empty()), cpu) {
        (Some(active), _) => format!(" and cost {}", cost::estimated(energy.source, active)),
        (None, Some(cpu)) => format!(" and cost {} of CPU time", cost::time_of(cpu.total())),
        (None, None) => String::new(),
    };
    format!(", carried {:.0} % of what was sent{price}", share * 100.0)
}

/// What is to be said of the pairs that do not share.
fn rest(found: &Bottlenecks) -> Option<String> {
    // Of those that share a cap it was said.
    let others: Vec<&PairVerdict> = found.pairs.iter().filter(|pair| !found.is_capped(pair)).collect();
    if others.is_empty() {
        return None;
    }
    let of = |verdict| others.iter().copied().filter(move |pair| pair.verdict == verdict);
    let number = |verdict| of(verdict).count();
    let pairs = found.pairs.len();
    let sure = reached(of(Verdict::Disjoint));
    if number(Verdict::Disjoint) == pairs {
        return Some(format!("no two subflows share a bottleneck{sure}"));
    }
    if number(Verdict::NoBottleneck) == pairs {
        return Some("no subflow is congested, so that none is in another's way".to_owned());
    }
    if number(Verdict::Unknown) == pairs {
        return Some(
            "not known yet: too few samples of what this end sends, or they contradict each other".to_owned(),
        );
    }
    let open = number(Verdict::Unknown);
    let apart = number(Verdict::Disjoint);
    let apart = (apart > 0)
        .then(|| format!("{} of subflows {}{sure}", count(apart, "pair"), Verdict::Disjoint.description()));
    let open = (open > 0).then(|| format!("of {} it is not known", count(open, "pair")));
    let parts: Vec<String> = apart.into_iter().chain(open).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// `2`, `2 and 3`, `2, 3 and 4`.
pub(super) fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [only] => only.clone(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}
