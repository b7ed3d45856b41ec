// SPDX-License-Identifier: MIT OR Apache-2.0
//! The health view: lost data, missing hooks, CPU time of the machine and of mpwatch, kernel counters.

use mpwatch_model::kernel::cpu::CpuAccounts;
use mpwatch_model::kernel::endpoint::printable;
use mpwatch_model::metric::{Unit, display};
use mpwatch_model::snapshot::Snapshot;
use ratatui::Frame;
use ratatui::layout::Rect;

use super::areas::areas;
use super::frame::{put_lines, scrollbar};
use crate::state::app::App;
use crate::state::message::Link;
use crate::state::settings::Origin;
use crate::text::{Text, count, glyph, stacked, wrapped};
use crate::theme::{Ink, Theme};

/// Maximum scroll offset.
pub(crate) fn max_scroll(app: &App) -> usize {
    let body = areas(app).body;
    lines(app, body.width.into()).len().saturating_sub(body.height.into())
}

pub(super) fn draw(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let all = lines(app, area.width.into());
    let max = all.len().saturating_sub(area.height.into());
    let (rows, offset) = (all.len(), app.table().offset.min(max));
    put_lines(app, frame, area, all.into_iter().skip(offset));
    scrollbar(app, frame, area, (rows, offset));
}

fn lines(app: &App, width: usize) -> Vec<Text> {
    let Some(snapshot) = app.snapshot() else { return Vec::new() };
    let mut cpu = cpu_time(snapshot, width, app.settings.theme);
    cpu.push(fact("cost of mpwatch", cost(snapshot)));
    cpu.push(fact("BPF programs", programs(app, snapshot)));
    let sections = [
        ("Source", source(app, snapshot)),
        ("Missing from mpwatch's records", losses(snapshot)),
        ("Not available or reduced", hooks(snapshot, width)),
        ("CPU time of the machine since tracing began", cpu),
        ("Kernel counters", counters(snapshot)),
    ];
    let mut lines = Vec::new();
    for (title, section) in sections {
        if !lines.is_empty() {
            lines.push(Text::default());
        }
        lines.push(Text::new(title, Ink::Strong));
        lines.extend(section);
    }
    lines
}

fn fact(word: &str, text: impl Into<String>) -> Text {
    Text::new(format!("  {word:<24}"), Ink::Faint).and(text, Ink::Normal)
}

fn source(app: &App, snapshot: &Snapshot) -> Vec<Text> {
    let origin = match (&app.settings.origin, &app.link) {
        (_, Link::Gone(why)) => format!("a daemon that is gone: {why}"),
        (Origin::Tracer, _) => "traced by this process".to_owned(),
        (Origin::Daemon(path), _) => format!("the daemon at {path}"),
        (Origin::Replay(file), _) => format!("the recording {file}"),
    };
    let host = &snapshot.host;
    let name = if app.mask.is_on { "masked".into() } else { printable(&host.name) };
    let frames = app.history.latest() + 1 - app.history.oldest();
    vec![
        fact("origin", origin),
        fact("host", format!("{name}, Linux {}", printable(&host.kernel))),
        fact("version", format!("mpwatch {}", printable(&host.mpwatch))),
        fact("interval", display(Unit::Seconds, interval(app, snapshot))),
        fact("history", count(usize::try_from(frames).unwrap_or(usize::MAX), "snapshot")),
        fact("closed, remembered", count(app.history.closed().len(), "connection")),
    ]
}

/// Time between two snapshots, in seconds: the longer of the last two intervals, because the last interval of a run is short.
fn interval(app: &App, snapshot: &Snapshot) -> Option<f64> {
    let before = app.tick().checked_sub(1).and_then(|tick| app.history.frame(tick));
    let before = before.and_then(|before| before.snapshot.interval_s);
    before.into_iter().chain(snapshot.interval_s).reduce(f64::max)
}

fn losses(snapshot: &Snapshot) -> Vec<Text> {
    let losses = &snapshot.losses;
    let mut lines: Vec<Text> =
        losses.phrases().into_iter().map(|phrase| Text::new(format!("  ✗ {phrase}"), Ink::Alarm)).collect();
    if lines.is_empty() {
        lines.push(Text::new("  ✓ nothing: mpwatch's records are complete", Ink::Good));
    }
    let harmless = [
        (losses.ring_full_recovered, "final records that arrived late, through the overflow ring"),
        (losses.events_missed, "events missed on the packet path; no total depends on them"),
        (
            losses.timeline_dropped,
            "timeline entries left out of connections with very many; no total depends on them",
        ),
        (losses.subflows_dropped, "ended subflows left out of connections with very many; sums contain them"),
        (losses.delay_samples_lost, "delay samples missed; bottleneck verdicts take longer"),
    ];
    let known = harmless.iter().filter(|(count, _)| *count > 0);
    lines.extend(known.map(|(count, what)| Text::new(format!("  · {what}: {count}"), Ink::Faint)));
    lines
}

fn hooks(snapshot: &Snapshot, width: usize) -> Vec<Text> {
    let mut lines = Vec::new();
    for hook in &snapshot.host.missing {
        let [costs, what, why] = [&hook.costs, &hook.what, &hook.why].map(|text| printable(text));
        let no = if hook.is_reduction() { "reduced" } else { "no" };
        let text = format!("{costs} ({no} {what}: {why})");
        for (number, line) in wrapped(&text, width.saturating_sub(4)).into_iter().enumerate() {
            let mark = if number == 0 { "!" } else { " " };
            lines.push(Text::new(format!("  {mark} {line}"), Ink::Warning));
        }
    }
    if lines.is_empty() {
        lines.push(Text::new("  ✓ every hook is attached", Ink::Good));
    }
    lines
}

/// The consumers of CPU time, including mpwatch: a bar, then a line for each.
fn cpu_time(snapshot: &Snapshot, width: usize, theme: Theme) -> Vec<Text> {
    let Some(cpus) = snapshot.cpus.as_ref().filter(|cpus| !cpus.is_empty()) else {
        return vec![Text::new("  not accounted for (--ledger off, or a hook is missing)", Ink::Warning)];
    };
    let ink = |index, name| if name == "idle" { Ink::Faint } else { Ink::Path(index) };
    let parts = CpuAccounts::parts(cpus).into_iter().enumerate();
    let parts: Vec<_> = parts.map(|(index, (_, name, time))| (name, time, ink(index, name))).collect();
    let wall = cpus.iter().map(|cpu| cpu.wall.0).sum::<u64>().max(1);
    let amounts: Vec<(u64, Ink)> = parts.iter().map(|(_, time, ink)| (time.0, *ink)).collect();
    let bar = stacked(&amounts, width.saturating_sub(4), theme);
    let mut lines = vec![Text::plain("  ").join(bar)];
    for (index, (name, time, ink)) in parts.into_iter().enumerate() {
        let percent = time.0 as f64 / wall as f64 * 100.0;
        let seconds = display(Unit::Seconds, Some(time.seconds()));
        let of_one_cpu = percent * cpus.len() as f64;
        let suffix =
            if name == "mpwatch" { format!("   {of_one_cpu:.1} % of one CPU") } else { String::new() };
        let text = format!("{name:<20} {seconds:>9} {percent:>6.1} %{suffix}");
        lines.push(Text::new(format!("  {} ", glyph(theme, index)), ink).and(text, Ink::Normal));
    }
    lines
}

/// The estimated share of mpwatch in the machine's CPU time, and the configured limit of this share.
fn cost(snapshot: &Snapshot) -> String {
    let Some(overhead) = snapshot.overhead else { return "not measured".to_owned() };
    let percent = |ratio: f64| format!("{:.2} %", ratio * 100.0);
    let limit =
        overhead.budget.map_or("no budget is set".to_owned(), |limit| format!("budget {}", percent(limit)));
    let reduced = match overhead.reductions {
        0 => String::new(),
        steps => format!("; {} taken to keep it", count(steps.into(), "step")),
    };
    format!("about {} of the machine's CPU time; {limit}{reduced}", percent(overhead.ratio))
}

/// CPU time of the BPF programs in the latest interval. Each run of a program counts as an event.
fn programs(app: &App, snapshot: &Snapshot) -> String {
    let before = app.tick().checked_sub(1).and_then(|tick| app.history.frame(tick));
    let measured = before.and_then(|before| {
        let (ns, runs) = snapshot.counters.runs_since(&before.snapshot.counters)?;
        let seconds = snapshot.interval_s.filter(|seconds| *seconds > 0.0)?;
        let rate = runs as f64 / seconds;
        let percent = rate * ns / 1e7;
        Some(format!(
            "{ns:.0} ns per event, {rate:.0} events/s: {percent:.2} % of one CPU, measuring included"
        ))
    });
    measured.unwrap_or_else(|| "not measured: sysctl -w kernel.bpf_stats_enabled=1".to_owned())
}

fn counters(snapshot: &Snapshot) -> Vec<Text> {
    let counters = &snapshot.counters;
    let problems = &counters.mapping_problems;
    let problem = |word: &str, count: u64| {
        fact(word, "").and(count.to_string(), if count > 0 { Ink::Warning } else { Ink::Normal })
    };
    vec![
        fact("final records", format!("{} sent, {} received", counters.records, counters.records_received)),
        problem("SYN-ACKs retransmitted", counters.synack_retransmits),
        problem("invalid mappings", problems.invalid),
        problem("checksum failures", problems.bad_checksum),
    ]
}
