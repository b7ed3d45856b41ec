// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds out why a connection does not use MPTCP or has no second path. [`table`] declares each cause once; a condition is a pure function of
//! the facts.

mod case;
mod client;
mod network;
mod protocol;
mod server;
pub mod table;
mod traced;

pub use traced::Question;

pub use case::Case;

use case::Found;
use mpwatch_model::kernel::lifecycle::CarriedBy;
use mpwatch_model::why::answer::{Answer, Cause, Certainty, Fix, Place};
use mpwatch_model::why::facts::{Endpoint, Listener, Namespace};
use std::net::IpAddr;
use table::{CAUSES, Group, Row};

/// Answers for each connection, and joins the answers that are the same. Without connections, predicts a new one.
pub fn explain(cases: &[Case<'_>]) -> Vec<Answer> {
    let mut answers: Vec<Answer> = Vec::new();
    for case in cases {
        let (state, found) = (state(case), causes(case));
        let name = case.connection.map(|connection| format!("{} -> {}", connection.local, connection.remote));
        let is_same = |earlier: &&mut Answer| {
            name.is_some()
                && earlier.netns == case.here.name
                && earlier.state == state
                && earlier.causes == found
        };
        if let Some(earlier) = answers.iter_mut().find(is_same) {
            earlier.count += 1;
            earlier.connections.extend(name.filter(|_| earlier.count <= Answer::MAX_LISTED));
            continue;
        }
        answers.push(Answer {
            netns: case.here.name.clone(),
            count: usize::from(name.is_some()),
            peer: case.peer.filter(|_| name.is_none()).map(|peer| peer.to_string()),
            connections: name.into_iter().collect(),
            state,
            causes: found,
        });
    }
    answers.sort_by_key(|answer| (answer.causes.is_empty(), std::cmp::Reverse(answer.count)));
    answers
}

/// The most important cause for which a traced connection has no second path, or fell back. `None`: nothing was found. Counters of the whole
/// namespace are evidence of a failed join only if the connection had one.
pub fn cause_of(here: &Namespace, question: &Question) -> Option<Cause> {
    let case = Case::with_connection(here, &question.facts);
    let is_unfounded = |cause: &Cause| {
        NEED_JOIN.contains(&&*cause.id) && !question.has_join && cause.certainty == Certainty::Likely
    };
    causes(&case).into_iter().find(|cause| !is_unfounded(cause))
}

/// Causes whose only evidence may be failed joins of other connections.
const NEED_JOIN: [&str; 8] = [
    "reverse-path-filter",
    "join-unreachable",
    "join-unanswered",
    "join-refused",
    "join-reset",
    "join-option-removed",
    "join-without-connection",
    "join-hmac",
];

/// Checks of the configuration for connections that this host opens, or for all connections if `peer` is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    /// What prevents every new connection from having a second path.
    pub general: Vec<Cause>,
    /// The endpoints, each with what prevents subflows over it.
    pub endpoints: Vec<(String, Vec<Cause>)>,
}

/// Checks the endpoints one by one, and what concerns all of them.
pub fn check(here: &Namespace, peer: Option<IpAddr>) -> Configuration {
    // Without a peer, a host that accepts MPTCP need not be a client, and only a client opens subflows.
    let accepts = |listener: &Listener| listener.mptcp && !listener.address.ip().is_loopback();
    let is_server = peer.is_none() && here.listeners.iter().any(accepts);
    let about = |case: &Case<'_>, is_of_endpoint: bool| -> Vec<Cause> {
        let found = CAUSES.iter().filter_map(|row| Some((row, (row.find)(case)?)));
        let wanted = found.filter(|(row, found)| {
            // A server announces its endpoints; another endpoint may have the flag.
            let is_flag = row.id == "endpoint-without-subflow"
                && case.only.is_none_or(|endpoint| endpoint.has(Endpoint::SIGNAL | Endpoint::LAMINAR));
            let is_of_client = ["no-endpoint", "single-address"].contains(&row.id);
            let is_left_out = is_flag || is_server && is_of_client;
            !is_left_out && found.values.iter().any(|(name, _)| *name == "id") == is_of_endpoint
        });
        wanted.map(|(row, found)| cause(row, case, &found)).collect()
    };
    let case = Case::new(here, peer);
    let set = here.endpoints.iter().filter(|endpoint| !endpoint.has(Endpoint::IMPLICIT));
    let checked = set.map(|endpoint| {
        // The initial subflow does not use its own endpoint.
        let is_initial = Some(endpoint.address) == case.initial();
        let only = Case { only: Some(endpoint), ..case };
        (client::shown(endpoint), if is_initial { Vec::new() } else { about(&only, true) })
    });
    Configuration { general: about(&case, false), endpoints: checked.collect() }
}

/// The causes, most important first. If one is certain, those that are only likely are left out.
fn causes(case: &Case<'_>) -> Vec<Cause> {
    let mut found: Vec<(Group, Cause)> =
        CAUSES.iter().filter_map(|row| Some((row.group, cause(row, case, &(row.find)(case)?)))).collect();
    let is_certain = |cause: &Cause| cause.certainty == Certainty::Certain;
    if found.iter().any(|(_, cause)| is_certain(cause)) {
        found.retain(|(_, cause)| is_certain(cause));
    }
    // Without MPTCP, nothing else matters.
    if let Some((first, _)) = found.first().filter(|(group, _)| *group <= Group::FellBack) {
        let first = *first;
        found.retain(|(group, _)| *group == first);
    }
    found.into_iter().map(|(_, cause)| cause).collect()
}

fn cause(row: &Row, case: &Case<'_>, found: &Found) -> Cause {
    let fix = |(on, command): &(Place, &str)| {
        let command = filled(
            command,
            found,
            |name, value| {
                if name == "flags" { value.to_owned() } else { quoted(value) }
            },
        );
        Fix {
            on: *on,
            command: if *on == Place::Here { inside(&case.here.enter, &command) } else { command },
        }
    };
    Cause {
        id: row.id.into(),
        sentence: filled(row.sentence, found, |_, value| value.to_owned()),
        certainty: found.certainty,
        evidence: found.evidence.clone(),
        advice: row.advice.map(Into::into),
        fix: row.fix.iter().map(fix).collect(),
    }
}

/// A text of the table with its values. The text is read once, because a value may contain the name of another value in braces.
fn filled(text: &str, found: &Found, value_of: impl Fn(&str, &str) -> String) -> String {
    let mut parts = text.split('{');
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for (name, rest) in parts.filter_map(|part| part.split_once('}')) {
        let value = found.values.iter().find(|(known, _)| *known == name);
        filled.push_str(&value.map_or_else(String::new, |(name, value)| value_of(name, value)));
        filled.push_str(rest);
    }
    filled
}

/// A value for a command. The owner of a namespace chooses the names of its interfaces, and the kernel allows characters that are special to
/// a shell.
pub fn quoted(value: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:@/=-".contains(&byte);
    if value.bytes().all(is_plain) { value.to_owned() } else { format!("'{}'", value.replace('\'', r"'\''")) }
}

/// A command that runs in a namespace.
fn inside(enter: &str, command: &str) -> String {
    match (enter.strip_prefix("ip netns exec "), command.strip_prefix("ip ")) {
        (Some(name), Some(rest)) => format!("ip -n {name}{rest}"),
        _ => format!("{enter}{command}"),
    }
}

fn state(case: &Case<'_>) -> String {
    match (case.carried_by(), case.paths()) {
        (None, _) => "no connection; this is what a new one would meet".to_owned(),
        (Some(CarriedBy::Tcp), _) => "plain TCP".to_owned(),
        (Some(CarriedBy::Fallback), _) => "fell back to plain TCP".to_owned(),
        (Some(CarriedBy::Mptcp), 1) if case.pending_join() == Some(false) => {
            "one subflow, a second is joining".to_owned()
        }
        (Some(CarriedBy::Mptcp), 0 | 1) => "one subflow".to_owned(),
        (Some(CarriedBy::Mptcp), several) => format!("{several} subflows"),
    }
}

#[cfg(test)]
mod tests;
