// SPDX-License-Identifier: MIT OR Apache-2.0
//! The text that replaces the table when there are no rows: the reason, and what to try.

use ratatui::Frame;
use ratatui::layout::Rect;

use super::frame::put_lines;
use crate::state::app::App;
use crate::state::key::Action;
use crate::state::message::Link;
use crate::state::view::ClosedFilter;
use crate::text::{Text, count, wrapped};
use crate::theme::Ink;

/// Draws the text for the case that this process cannot trace and there is no daemon.
pub(super) fn blocked(app: &App, frame: &mut Frame<'_>, area: Rect, why: &[String]) {
    let width = usize::from(area.width).saturating_sub(4);
    let mut lines =
        vec![Text::default(), Text::new("  There is nothing to show yet.", Ink::Strong), Text::default()];
    for paragraph in why {
        lines.extend(wrapped(paragraph, width).into_iter().map(|line| Text::plain(format!("  {line}"))));
        lines.push(Text::default());
    }
    lines.push(Text::new("  Waiting for a daemon ...", Ink::Faint));
    put_lines(app, frame, area, lines);
}

/// Draws the text that is visible before the first snapshot.
pub(super) fn waiting(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let text = match &app.link {
        Link::Gone(why) => format!("The daemon is gone: {why}. Trying again ..."),
        Link::Ended => "There was no snapshot.".to_owned(),
        _ => "Starting; waiting for the first snapshot ...".to_owned(),
    };
    put_lines(app, frame, area, [Text::default(), Text::new(format!("  {text}"), Ink::Faint)]);
}

const HELP: [(&str, &str); 6] = [
    ("Is MPTCP enabled?", "sysctl net.mptcp.enabled   (1: yes)"),
    ("Only one path?", "mpwatch why"),
    ("Run a program with it", "mptcpize run PROGRAM"),
    ("or in its source", "socket(AF_INET, SOCK_STREAM, IPPROTO_MPTCP)"),
    ("Plain TCP too", "mpwatch top --tcp"),
    ("See an example", "mpwatch demo"),
];

/// Draws the text for the case that no connection exists, or none matches the filter.
pub(super) fn no_rows(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let connections = app.snapshot().map_or(0, |snapshot| snapshot.connections.len());
    let lines = if connections > 0 { no_match(app, connections) } else { no_connection(app) };
    put_lines(app, frame, area, std::iter::once(Text::default()).chain(lines));
}

fn no_match(app: &App, connections: usize) -> Vec<Text> {
    let keys = &app.settings.keys;
    let none = format!("  None of {} matches.", count(connections, "connection"));
    let mut lines = vec![Text::new(none, Ink::Strong)];
    if !app.filter_text.is_empty() && !app.mask.is_on {
        lines.push(Text::plain(format!("  The filter is: {}", app.filter_text)));
    }
    let hint = if app.filter_text.is_empty() {
        format!("  Closed connections are hidden: {} shows them.", keys.key(Action::Closed))
    } else {
        format!("  {} clears the filter.", keys.key(Action::Back))
    };
    lines.push(Text::new(hint, Ink::Faint));
    lines
}

/// Text for a recording: does not mention the MPTCP settings of this machine, because a recording does not depend on them.
fn no_recorded_connection(app: &App) -> Vec<Text> {
    let keys = &app.settings.keys;
    let (back, forward) = (keys.key(Action::StepBack), keys.key(Action::StepForward));
    vec![
        Text::new("  No open connection at this time of the recording.", Ink::Strong),
        Text::default(),
        Text::plain(format!(
            "  {back} and {forward} step through the snapshots, {} shows closed connections.",
            keys.key(Action::Closed)
        )),
        Text::plain("  --filter and --netns select connections; plain TCP needs `mpwatch record --tcp`."),
        Text::plain("  mpwatch replay FILE prints a report on all connections."),
    ]
}

fn no_connection(app: &App) -> Vec<Text> {
    if app.is_replay() {
        return no_recorded_connection(app);
    }
    if app.settings.is_narrowed {
        return vec![
            Text::new("  No open connection matches the options --netns and --filter.", Ink::Strong),
            Text::default(),
            Text::plain("  Start mpwatch without them to see all connections; / filters on the screen."),
        ];
    }
    let mut lines = vec![Text::new("  No open MPTCP connection.", Ink::Strong)];
    let closed = app.history.closed().len();
    if closed > 0 && app.closed == ClosedFilter::Recent {
        let key = app.settings.keys.key(Action::Closed);
        let text = format!("  {} closed before: {key} shows all.", count(closed, "connection"));
        lines.push(Text::plain(text));
    }
    lines.push(Text::default());
    lines.extend(app.settings.mptcp_enabled.map(|is_enabled| {
        if is_enabled {
            Text::new("  MPTCP is enabled here (net.mptcp.enabled is 1).", Ink::Good)
        } else {
            Text::new("  MPTCP is DISABLED here: sysctl -w net.mptcp.enabled=1 enables it.", Ink::Warning)
        }
    }));
    let answered = usize::from(app.settings.mptcp_enabled.is_some());
    lines.extend(HELP.iter().skip(answered).map(|(question, answer)| {
        Text::new(format!("  {question:<23}"), Ink::Faint).and(*answer, Ink::Normal)
    }));
    lines
}
