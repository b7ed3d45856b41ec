// SPDX-License-Identifier: MIT OR Apache-2.0
//! Formats the checks as text for a terminal of 80 columns; a fix is not wrapped. The passed checks of a group share one line.

use std::collections::BTreeSet;

use super::check::{Check, Outcome, Status};

const COLUMNS: usize = 80;
const STATUS: usize = 6;
const FIX: &str = "fix: ";

/// A line to print. Long text is wrapped within its column.
struct Line {
    status: &'static str,
    name: String,
    text: String,
}

/// All checks and the verdict.
pub(super) fn text(checks: &[Check], outcome: Outcome) -> String {
    let lines = lines(checks);
    let names = lines.iter().map(|line| line.name.len()).max().unwrap_or(0) + 2;
    let mut out = String::new();
    for line in &lines {
        let head = format!("{:STATUS$}{:names$}", line.status, line.name);
        if line.text.starts_with(FIX) {
            // It may be a command that is pasted.
            out.extend([head.as_str(), &line.text, "\n"]);
        } else {
            push_wrapped(&mut out, &head, &line.text);
        }
    }
    out + "\n" + &verdict(checks, outcome) + "\n"
}

fn lines(checks: &[Check]) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut folded = Vec::new();
    for check in checks {
        match check.name.split_once('/') {
            Some((group, leaf)) => {
                if !folded.contains(&group) {
                    folded.push(group);
                    lines.extend(summary(checks, group));
                }
                if check.status != Status::Ok {
                    push_check(&mut lines, leaf, check);
                }
            }
            None => push_check(&mut lines, &check.name, check),
        }
    }
    lines
}

/// One line for the passed checks of a group.
fn summary(checks: &[Check], group: &str) -> Option<Line> {
    let of_group =
        checks.iter().filter(|check| check.name.split_once('/').is_some_and(|(first, _)| first == group));
    let (good, bad): (Vec<_>, Vec<_>) = of_group.partition(|check| check.status == Status::Ok);
    let text = format!("{} of {}", good.len(), good.len() + bad.len());
    (!good.is_empty()).then(|| Line { status: Status::Ok.as_str(), name: group.to_owned(), text })
}

fn push_check(lines: &mut Vec<Line>, name: &str, check: &Check) {
    lines.push(Line { status: check.status.as_str(), name: name.to_owned(), text: check.message.clone() });
    if let Some(fix) = &check.fix {
        let text = format!("{FIX}{fix}");
        // A fix for several checks is printed once, after the last.
        lines.retain(|line| line.text != text);
        lines.push(Line { status: "", name: String::new(), text });
    }
}

fn push_wrapped(out: &mut String, head: &str, text: &str) {
    let mut line = head.to_owned();
    for (number, word) in text.split(' ').enumerate() {
        if number > 0 && line.len() + 1 + word.len() > COLUMNS {
            out.push_str(&line);
            out.push('\n');
            line = " ".repeat(head.len()) + word;
        } else {
            line += if number > 0 { " " } else { "" };
            line += word;
        }
    }
    out.push_str(line.trim_end());
    out.push('\n');
}

fn verdict(checks: &[Check], outcome: Outcome) -> String {
    // Warnings on one topic, such as the energy source and its counters, count as one limitation.
    let topic = |check: &Check| check.name.split(' ').next().map(str::to_owned);
    let warnings = checks.iter().filter(|check| check.status == Status::Warn).filter_map(topic);
    let warnings = warnings.collect::<BTreeSet<String>>().len();
    match (outcome, warnings) {
        (Outcome::Paths, 0) => "Nothing prevents a second path here.".to_owned(),
        (Outcome::Paths, _) => "See above; `mpwatch why` explains open connections.".to_owned(),
        (Outcome::CanRun, 0) => "mpwatch can run; nothing is missing.".to_owned(),
        (Outcome::CanRun, 1) => "mpwatch can run, with 1 limitation (see above).".to_owned(),
        (Outcome::CanRun, n) => format!("mpwatch can run, with {n} limitations (see above)."),
        (Outcome::KernelUnsupported, _) => "mpwatch cannot run: the kernel lacks something (see above).".to_owned(),
        (Outcome::NotPermitted, _) => "mpwatch cannot trace as this user (see above); reports, replays and a running daemon can be read.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passed_checks_share_a_line_and_the_others_have_a_fix() {
        let checks = [
            Check::ok("kernel", "6.12.1"),
            Check::ok("hooks/tcp_probe", "present"),
            Check::ok("hooks/tcp", "present"),
            Check::warn(
                "hooks/sock_send_length",
                "this kernel lacks it. Unknown without it: CPU time of send calls, in the ledger of flows only",
            ),
            Check::warn("mptcp_enabled", "off").fix("sysctl net.mptcp.enabled=1"),
        ];
        let expected = "\
ok    kernel            6.12.1
ok    hooks             2 of 3
warn  sock_send_length  this kernel lacks it. Unknown without it: CPU time of
                        send calls, in the ledger of flows only
warn  mptcp_enabled     off
                        fix: sysctl net.mptcp.enabled=1

mpwatch can run, with 2 limitations (see above).
";
        assert_eq!(text(&checks, Outcome::CanRun), expected);
    }

    #[test]
    fn a_missing_counter_and_its_consequence_are_one_limitation() {
        let checks = [Check::warn("energy", "not measured"), Check::warn("energy counters", "none")];
        assert!(
            text(&checks, Outcome::CanRun).ends_with("mpwatch can run, with 1 limitation (see above).\n")
        );
    }

    #[test]
    fn a_fix_for_several_checks_is_printed_once_after_the_last() {
        let checks = [Check::fail("a", "gone").fix("do this"), Check::fail("b", "gone").fix("do this")];
        let printed = text(&checks, Outcome::NotPermitted);
        assert_eq!(printed.matches("do this").count(), 1);
        assert!(printed.find("FAIL  b") < printed.find("do this"), "{printed}");
        assert!(printed.ends_with("mpwatch cannot trace as this user (see above); reports, replays and a running daemon can be read.\n"));
    }
}
