// SPDX-License-Identifier: MIT OR Apache-2.0
//! The view of mpwatch itself: what was lost, which hooks are missing, what it costs, where CPU time went.

use mpwatch_model::cpu::CpuAccounts;
use mpwatch_model::endpoint::printable;
use mpwatch_model::metric::{Unit, display};
use mpwatch_model::snapshot::Snapshot;
use ratatui::Frame;
use ratatui::layout::Rect;

use super::super::app::{App, Link, Origin};
use super::super::areas::areas;
use super::super::text::{Text, glyph, stacked, wrapped};
use super::super::theme::{Ink, Theme};
use super::{put_lines, scrollbar};
use crate::header::count;

/// How far it can be scrolled.
pub(crate) fn most_scroll(app: &App) -> usize {
    let body = areas(app).body;
    lines(app, body.width.into()).len().saturating_sub(body.height.into())
}

pub(super) fn draw(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let all = lines(app, area.width.into());
    let most = all.len().saturating_sub(area.height.into());
    let (rows, offset) = (all.len(), app.table().offset.min(most));
    put_lines(app, frame, area, all.into_iter().skip(offset));
    scrollbar(app, frame, area, (rows, offset));
}

fn lines(app: &App, width: usize) -> Vec<Text> {
    let Some(snapshot) = app.snapshot() else { return Vec::new() };
    let mut lines = source(app, snapshot);
    lines.push(Text::default());
    lines.extend(losses(snapshot));
    lines.push(Text::default());
    lines.extend(hooks(snapshot, width));
    lines.push(Text::default());
    lines.extend(overhead(snapshot, width, app.settings.theme));
    lines.push(programs(app, snapshot));
    lines.push(Text::default());
    lines.extend(counters(snapshot));
    lines
}

fn fact(word: &str, text: impl Into<String>) -> Text {
    Text::new(format!("  {word:<22}"), Ink::Faint).and(text, Ink::Normal)
}

fn source(app: &App, snapshot: &Snapshot) -> Vec<Text> {
    let origin = match (&app.settings.origin, &app.link) {
        (_, Link::Gone(why)) => format!("a daemon that is gone: {why}"),
        (Origin::Tracer, _) => "this process traces".to_owned(),
        (Origin::Daemon(path), _) => format!("the daemon at {path}"),
        (Origin::Replay(file), _) => format!("the recording {file}"),
    };
    let host = &snapshot.host;
    let name = if app.mask.is_on() { "masked".into() } else { printable(&host.name) };
    let frames = app.history.latest() + 1 - app.history.oldest();
    vec![
        Text::new("Where it comes from", Ink::Strong),
        fact("source", origin),
        fact("machine", format!("{name}, Linux {}", printable(&host.kernel))),
        fact("version", format!("mpwatch {}", printable(&host.mpwatch))),
        fact("interval", display(Unit::Seconds, Some(snapshot.interval_s))),
        fact("to step back through", count(usize::try_from(frames).unwrap_or(usize::MAX), "snapshot")),
        fact("closed, remembered", count(app.history.closed().len(), "connection")),
    ]
}

fn losses(snapshot: &Snapshot) -> Vec<Text> {
    let mut lines = vec![Text::new("What was lost", Ink::Strong)];
    let phrases = snapshot.losses.phrases();
    if phrases.is_empty() {
        lines.push(Text::new("  ✓ nothing: the record is complete", Ink::Good));
    }
    lines.extend(phrases.into_iter().map(|phrase| Text::new(format!("  ✗ {phrase}"), Ink::Alarm)));
    let losses = &snapshot.losses;
    let harmless = [
        (losses.ring_full_recovered, "final records that came late, by the overflow ring"),
        (losses.events_missed, "events missed on the packet path; no total depends on them"),
        (losses.points_lost, "points of samples missed; verdicts on bottlenecks take longer"),
    ];
    let told = harmless.iter().filter(|(count, _)| *count > 0);
    lines.extend(told.map(|(count, what)| Text::new(format!("  · {what}: {count}"), Ink::Faint)));
    lines
}

fn hooks(snapshot: &Snapshot, width: usize) -> Vec<Text> {
    let mut lines = vec![Text::new("What this kernel cannot tell", Ink::Strong)];
    if snapshot.host.missing.is_empty() {
        lines.push(Text::new("  ✓ every hook is attached", Ink::Good));
    }
    for one in &snapshot.host.missing {
        let [costs, what, why] = [&one.costs, &one.what, &one.why].map(|text| printable(text));
        let text = format!("{costs} (no {what}: {why})");
        let wrapped = wrapped(&text, width.saturating_sub(4)).into_iter().enumerate();
        lines.extend(wrapped.map(|(at, line)| {
            Text::new(format!("  {} {line}", if at == 0 { "!" } else { " " }), Ink::Warning)
        }));
    }
    lines
}

/// Where the time of all CPUs has gone, and what of it was mpwatch.
fn overhead(snapshot: &Snapshot, width: usize, theme: Theme) -> Vec<Text> {
    let mut lines = vec![Text::new("CPU time of the machine since tracing began", Ink::Strong)];
    let Some(cpus) = snapshot.cpus.as_ref().filter(|cpus| !cpus.is_empty()) else {
        lines.push(Text::new("  not accounted for (--no-ledger, or a hook is missing)", Ink::Warning));
        return lines;
    };
    let sum = |read: fn(&CpuAccounts) -> u64| cpus.iter().map(read).sum::<u64>();
    let parts = [
        ("flows", sum(|cpu| cpu.flow.0), Ink::Path(0)),
        ("their programs", sum(|cpu| cpu.app.0), Ink::Path(1)),
        ("network, no flow", sum(|cpu| cpu.net_shared.0), Ink::Path(2)),
        ("everybody else", sum(|cpu| cpu.other.0), Ink::Path(3)),
        ("interrupts", sum(|cpu| cpu.irq.0), Ink::Path(4)),
        ("mpwatch", sum(|cpu| cpu.mpwatch.0), Ink::Path(5)),
        ("idle", sum(|cpu| cpu.idle.0), Ink::Faint),
    ];
    let wall = sum(|cpu| cpu.wall.0).max(1);
    let mut bar = Text::plain("  ");
    bar.0.extend(stacked(&parts.map(|(_, time, ink)| (time, ink)), width.saturating_sub(4), theme).0);
    lines.push(bar);
    for (number, (name, time, ink)) in parts.into_iter().enumerate() {
        let percent = time as f64 / wall as f64 * 100.0;
        let seconds = display(Unit::Seconds, Some(time as f64 / 1e9));
        let of_one = percent * cpus.len() as f64;
        let more = if name == "mpwatch" { format!("   {of_one:.1} % of one CPU") } else { String::new() };
        let text = format!("{name:<18} {seconds:>9} {percent:>6.1} %{more}");
        lines.push(Text::new(format!("  {} ", glyph(theme, number)), ink).and(text, Ink::Normal));
    }
    lines
}

/// What a run of our BPF programs takes, over the latest interval: one event is one run, or two.
fn programs(app: &App, snapshot: &Snapshot) -> Text {
    let before = app.turn().checked_sub(1).and_then(|turn| app.history.frame(turn));
    let measured = before.and_then(|before| {
        let (ns, runs) = snapshot.counters.runs_since(&before.snapshot.counters)?;
        let seconds = Some(snapshot.interval_s).filter(|seconds| *seconds > 0.0)?;
        let rate = runs as f64 / seconds;
        let percent = rate * ns / 1e7;
        Some(format!(
            "{ns:.0} ns an event, {rate:.0} events/s: {percent:.2} % of one CPU, measuring included"
        ))
    });
    match measured {
        Some(text) => fact("BPF programs", text),
        None => fact("BPF programs", "ns an event not measured: sysctl -w kernel.bpf_stats_enabled=1 does"),
    }
}

fn counters(snapshot: &Snapshot) -> Vec<Text> {
    let counters = &snapshot.counters;
    let problems = &counters.mapping_problems;
    let number = |number: u64| number.to_string();
    let ink = |count: u64| if count > 0 { Ink::Warning } else { Ink::Normal };
    let problem = |word: &str, count: u64| {
        Text::new(format!("  {word:<22}"), Ink::Faint).and(count.to_string(), ink(count))
    };
    vec![
        Text::new("Counters of the kernel side", Ink::Strong),
        fact("final records", format!("{} sent, {} received", counters.records, counters.records_received)),
        fact("mappings sent", number(counters.mappings_sent)),
        fact("mappings received", number(counters.mappings_received)),
        fact("DATA_ACKs received", number(counters.data_acks)),
        problem("SYN-ACKs sent again", counters.synack_retransmits),
        problem("invalid mappings", problems.invalid),
        problem("checksum failures", problems.bad_checksum),
    ]
}
