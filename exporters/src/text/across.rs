// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which connections to one address share a bottleneck, in a sentence for each address.

use mpwatch_model::across::Destination;
use mpwatch_model::bottleneck::Verdict;
use mpwatch_model::endpoint::printable;
use mpwatch_model::id::{ConnectionId, SubflowId};
use mpwatch_model::snapshot::Snapshot;

use super::bottleneck::{listed, reached};
use super::{count, place};

/// A line for each address that this connection sends to, or any does. Empty: nobody looks, or no two connections go to one address.
pub fn across(snapshot: &Snapshot, only: Option<ConnectionId>) -> String {
    let Some(found) = &snapshot.across else { return String::new() };
    let is_of = |destination: &&Destination| {
        only.is_none_or(|id| destination.subflows.iter().any(|member| member.connection == id))
    };
    let mut lines: Vec<String> =
        found.destinations.iter().filter(is_of).map(|one| sentence(snapshot, one)).collect();
    if found.destinations_left_out > 0 && only.is_none() {
        let left_out = count(found.destinations_left_out as usize, "further address");
        lines.push(format!("there is no room to compare connections to {left_out}\n"));
    }
    lines.concat()
}

fn sentence(snapshot: &Snapshot, destination: &Destination) -> String {
    let name = |id: &SubflowId| {
        let of = destination.connection_of(*id);
        let connection = snapshot.connections.iter().find(|connection| Some(connection.id) == of);
        connection.map_or_else(|| id.to_string(), |one| format!("{}/{}", one.id.short(), place(one, *id)))
    };
    let several = |group: &&Vec<SubflowId>| {
        let of: Vec<_> = group.iter().map(|id| destination.connection_of(*id)).collect();
        of.iter().any(|one| *one != of[0])
    };
    let shared = |group: &Vec<SubflowId>| {
        let inside = |id| group.contains(&id);
        let pairs = destination
            .pairs
            .iter()
            .filter(|pair| pair.verdict == Verdict::Shared && inside(pair.a) && inside(pair.b));
        let names: Vec<String> = group.iter().map(name).collect();
        format!("{} share a bottleneck{}", listed(&names), reached(pairs))
    };
    let mut phrases: Vec<String> = destination.groups.iter().filter(several).map(shared).collect();
    for (verdict, words) in [
        (Verdict::Disjoint, "apart"),
        (Verdict::NoBottleneck, "not congested"),
        (Verdict::Unknown, "not known"),
    ] {
        let pairs = destination.pairs.iter().filter(|pair| pair.verdict == verdict).count();
        if pairs > 0 {
            phrases.push(format!("{} {words}", count(pairs, "pair")));
        }
    }
    if destination.left_out > 0 {
        phrases.push(format!("{} left out", count(destination.left_out as usize, "subflow")));
    }
    let judge = if destination.method.is_default() {
        String::new()
    } else {
        format!(", judged by {}", destination.method.as_str())
    };
    let netns = printable(&destination.netns);
    format!("connections to {} ({netns}){judge}: {}\n", destination.remote, phrases.join("; "))
}
