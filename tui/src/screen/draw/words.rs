// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the screen says when there is nothing to draw: why, and what to try.

use ratatui::Frame;
use ratatui::layout::Rect;

use super::super::app::{App, Link};
use super::super::key::Action;
use super::super::text::{Text, wrapped};
use super::super::theme::Ink;
use super::put_lines;

/// Nothing can be traced here, and nobody is there to ask.
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

/// The first snapshot has not come.
pub(super) fn waiting(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let text = match &app.link {
        Link::Gone(why) => format!("The daemon is gone: {why}. Trying again ..."),
        Link::Ended => "There was no snapshot.".to_owned(),
        _ => "Attaching; the first snapshot comes in a moment ...".to_owned(),
    };
    put_lines(app, frame, area, [Text::default(), Text::new(format!("  {text}"), Ink::Faint)]);
}

const NO_CONNECTION: &[(&str, &str)] = &[
    ("Is MPTCP on here?", "sysctl net.mptcp.enabled   (1: yes)"),
    ("More than one path?", "ip mptcp endpoint show; ip mptcp limits"),
    ("Make a program use it", "mptcpize run PROGRAM"),
    ("or in its source", "socket(AF_INET, SOCK_STREAM, IPPROTO_MPTCP)"),
    ("Plain TCP too", "mpwatch top --tcp"),
    ("See it at work", "mpwatch demo"),
];

/// No row: nothing is there, or nothing passes the filter.
pub(super) fn no_rows(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let connections = app.snapshot().map_or(0, |snapshot| snapshot.connections.len());
    let mut lines = vec![Text::default()];
    if connections > 0 {
        lines.push(Text::new(
            format!("  None of {} matches.", crate::header::count(connections, "connection")),
            Ink::Strong,
        ));
        if !app.filter_text.is_empty() && !app.mask.is_on() {
            lines.push(Text::plain(format!("  The filter is: {}", app.filter_text)));
        }
        let keys = &app.settings.keys;
        lines.push(Text::new(
            if app.filter_text.is_empty() {
                format!("  Closed ones are hidden: {} shows them.", keys.key(Action::Closed))
            } else {
                format!("  {} drops the filter.", keys.key(Action::Back))
            },
            Ink::Faint,
        ));
    } else {
        lines.push(Text::new("  No MPTCP connection at the moment.", Ink::Strong));
        lines.push(Text::default());
        lines.extend(match app.settings.mptcp_enabled {
            Some(true) => Some(Text::new("  MPTCP is on here (net.mptcp.enabled is 1).", Ink::Good)),
            Some(false) => {
                let text = "  MPTCP is OFF here: sysctl -w net.mptcp.enabled=1 switches it on.";
                Some(Text::new(text, Ink::Warning))
            }
            None => None,
        });
        // Whether it is on has been said, where it is known.
        let known = usize::from(app.settings.mptcp_enabled.is_some());
        for (question, answer) in &NO_CONNECTION[known..] {
            lines.push(Text::new(format!("  {question:<23}"), Ink::Faint).and(*answer, Ink::Normal));
        }
    }
    put_lines(app, frame, area, lines);
}
