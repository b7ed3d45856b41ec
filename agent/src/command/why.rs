// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch why`: explains why connections do not use MPTCP or have no second path, from configuration, counters and sockets.

use std::net::IpAddr;

use anyhow::bail;
use mpwatch_ebpf::namespace;
use mpwatch_engine::why::{Case, explain, table::CAUSES};
use mpwatch_model::kernel::endpoint::printable;
use mpwatch_model::kernel::lifecycle::{CarriedBy, TcpState};
use mpwatch_model::why::answer::{Answer, Cause, Certainty, Place};
use mpwatch_model::why::facts::{Connection, Namespace};
use serde::Serialize;

use super::output::{print, print_table, table_width};
use crate::cli::WhyOptions;
use crate::error::{Failure, NO_SUCH_CONNECTION};
use crate::why;

/// What the user asks about.
#[derive(Debug, PartialEq, Eq)]
enum Subject {
    /// All MPTCP connections.
    All,
    /// The connections with this beginning of the token.
    Token(String),
    /// The connections with a peer. `None`: any port.
    Peer(IpAddr, Option<u16>),
}

/// Output of `why --json`.
#[derive(Serialize)]
struct Document {
    /// Version of this schema.
    schema: u32,
    answers: Vec<Answer>,
}

pub(super) fn run(options: &WhyOptions) -> anyhow::Result<()> {
    let subject = options.subject.as_deref().map_or(Ok(Subject::All), parse)?;
    let peer = if let Subject::Peer(address, _) = subject { Some(address) } else { None };
    let process = options.process.as_deref();
    let is_of_process =
        |connection: &Connection| process.is_none() || connection.program.as_deref() == process;
    let has_connection = |here: &Namespace| {
        let mut of_process = here.connections.iter().filter(|connection| is_of_process(connection));
        of_process.any(|connection| process.is_some() || is_mptcp(connection))
    };
    let mut facts = why::read(options.netns.as_deref(), peer, has_connection)?;
    for here in &mut facts {
        here.connections.retain(is_of_process);
    }
    if let Some(process) = process.filter(|_| facts.iter().all(|here| here.connections.is_empty())) {
        bail!(Failure {
            code: NO_SUCH_CONNECTION,
            message: format!(
                "no process named `{process}` has an open connection; root sees the processes of all users"
            ),
        });
    }
    let answers = explain(&cases(&subject, &facts, options)?);
    if options.json {
        return print(&serde_json::to_string_pretty(&Document { schema: 1, answers })?);
    }
    print_table(&text(&answers, &facts, table_width()))
}

/// A peer has a dot or a colon; an id or a token has neither.
fn parse(text: &str) -> anyhow::Result<Subject> {
    if text.contains(['.', ':']) {
        return why::parse_peer(text).map(|(address, port)| Subject::Peer(address, port));
    }
    // An id is `NETNS-TOKEN-COOKIE`.
    let token = text.split('-').nth(1).unwrap_or(text);
    if token.len() > 8 || !token.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        bail!(Failure::usage(format!(
            "`{text}` is neither an id, a token nor a peer; `mpwatch ls` lists ids, and a peer is ADDRESS, ADDRESS:PORT or HOST:PORT"
        )));
    }
    Ok(Subject::Token(token.to_ascii_lowercase()))
}

/// Whether a connection asked for MPTCP.
fn is_mptcp(connection: &Connection) -> bool {
    connection.carried_by != CarriedBy::Tcp
}

/// One case for each connection; without connections, a new connection from the first namespace.
fn cases<'a>(
    subject: &Subject,
    facts: &'a [Namespace],
    options: &WhyOptions,
) -> anyhow::Result<Vec<Case<'a>>> {
    let is_meant = |connection: &Connection| match subject {
        Subject::All => options.process.is_some() || is_mptcp(connection),
        Subject::Token(prefix) => connection.token.is_some_and(|token| token.to_string().starts_with(prefix)),
        Subject::Peer(address, port) => {
            let ends = [Some(connection.remote.port()), Some(connection.local.port())];
            connection.remote.ip() == *address && port.is_none_or(|port| ends.contains(&Some(port)))
        }
    };
    let connected = |connection: &&Connection| {
        is_meant(connection)
            && connection.subflows.first().is_some_and(|first| first.state != TcpState::SynSent)
    };
    let of = |here: &'a Namespace| {
        here.connections
            .iter()
            .filter(connected)
            .map(move |connection| Case::with_connection(here, connection))
    };
    let found: Vec<Case<'a>> = facts.iter().flat_map(of).collect();
    if let Subject::Token(prefix) = subject
        && found.is_empty()
    {
        bail!(Failure {
            code: NO_SUCH_CONNECTION,
            message: format!(
                "no open MPTCP connection has the token `{prefix}`{}; `mpwatch ls` lists the open connections",
                if options.netns.is_some() { " in this network namespace" } else { "" }
            ),
        });
    }
    let peer = if let Subject::Peer(address, _) = subject { Some(*address) } else { None };
    let new = facts.first().map(|here| Case::new(here, peer));
    Ok(if found.is_empty() { new.into_iter().collect() } else { found })
}

fn text(answers: &[Answer], facts: &[Namespace], width: usize) -> String {
    let mut out = String::new();
    for answer in answers {
        out += &(heading(answer) + "\n");
        for cause in &answer.causes {
            push_cause(&mut out, cause, width);
        }
        if answer.causes.is_empty() {
            push(&mut out, "found", &nothing_found(), width);
        }
        out.push('\n');
    }
    let plain =
        facts.iter().flat_map(|here| &here.connections).filter(|connection| !is_mptcp(connection)).count();
    let is_explained = |answer: &Answer| answer.state == "plain TCP";
    if plain > 0 && !answers.iter().any(is_explained) {
        let which = if plain == 1 { "1 TCP connection" } else { &format!("{plain} TCP connections") };
        push(
            &mut out,
            "tcp",
            &format!("{which} did not ask for MPTCP; `mpwatch why PEER` explains them"),
            width,
        );
    }
    out
}

fn heading(answer: &Answer) -> String {
    let netns = if answer.netns == namespace::OWN_NAME {
        String::new()
    } else {
        format!(" in {}", printable(&answer.netns))
    };
    let of = match (&answer.connections[..], &answer.peer) {
        ([], Some(peer)) => format!("to {peer}"),
        ([], None) => "to any peer".to_owned(),
        ([only], _) => only.clone(),
        ([first, ..], _) => format!("{} connections, such as {first}", answer.count),
    };
    format!("{of}{netns}: {}", answer.state)
}

/// The answer if no condition of the table holds.
fn nothing_found() -> String {
    let ids: Vec<&str> = CAUSES.iter().map(|row| row.id).collect();
    format!("no problem. Checked: {}", ids.join(", "))
}

fn push_cause(out: &mut String, cause: &Cause, width: usize) {
    let likely = if cause.certainty == Certainty::Likely { " (likely)" } else { "" };
    push(out, "why", &format!("{}{likely}", printable(&cause.sentence)), width);
    let evidence: Vec<String> = cause.evidence.iter().map(|entry| printable(entry).into_owned()).collect();
    if !evidence.is_empty() {
        push(out, "evidence", &evidence.join("; "), width);
    }
    cause.advice.iter().for_each(|advice| push(out, "advice", advice, width));
    for fix in &cause.fix {
        let label = if fix.on == Place::Peer { "fix (peer)" } else { "fix" };
        // A command is not wrapped, so that it can be pasted.
        push(out, label, &printable(&fix.command), usize::MAX);
    }
}

/// A label and its text, wrapped at spaces.
fn push(out: &mut String, label: &str, text: &str, width: usize) {
    const LABEL: usize = 12;
    let mut line = format!("  {label:LABEL$}");
    let mut is_first = true;
    for word in text.split(' ') {
        if !is_first && line.chars().count() + 1 + word.chars().count() > width {
            out.push_str(line.trim_end());
            out.push('\n');
            line = " ".repeat(LABEL + 2);
            is_first = true;
        }
        line += if is_first { "" } else { " " };
        line += word;
        is_first = false;
    }
    out.push_str(line.trim_end());
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_a_peer_a_token_or_an_id() {
        let peer = |text: &str| Subject::Peer(text.parse().unwrap(), None);
        assert_eq!(parse("10.0.0.2").unwrap(), peer("10.0.0.2"));
        assert_eq!(parse("::ffff:10.0.0.2").unwrap(), peer("10.0.0.2"), "an IPv4 address in an IPv6 socket");
        assert_eq!(parse("[fd00::1]:443").unwrap(), Subject::Peer("fd00::1".parse().unwrap(), Some(443)));
        assert_eq!(parse("1f-00a1b2c3-9").unwrap(), Subject::Token("00a1b2c3".to_owned()));
        assert_eq!(parse("A1b").unwrap(), Subject::Token("a1b".to_owned()));
        let error = parse("nginx").unwrap_err().to_string();
        assert!(error.contains("`nginx` is neither") && error.contains("mpwatch ls"), "{error}");
    }

    #[test]
    fn text_is_wrapped_and_a_command_is_not() {
        let cause = Cause {
            id: "x".into(),
            sentence: "a sentence of several words".to_owned(),
            certainty: Certainty::Likely,
            evidence: vec!["limits: subflows 0".to_owned()],
            advice: None,
            fix: vec![mpwatch_model::why::answer::Fix {
                on: Place::Here,
                command: "ip mptcp limits set subflows 2".to_owned(),
            }],
        };
        let mut out = String::new();
        push_cause(&mut out, &cause, 34);
        let expected = "  why         a sentence of\n              several words\n              (likely)\n  evidence    limits: subflows 0\n  fix         ip mptcp limits set subflows 2\n";
        assert_eq!(out, expected);
    }
}
