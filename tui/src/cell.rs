// SPDX-License-Identifier: MIT OR Apache-2.0
//! One cell of the table: what it says at each width, and how text is cut and padded to a width on the screen
//! (wide letters count two, combining marks none).

use std::net::SocketAddr;

use mpwatch_model::lifecycle::Role;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::style::Ink;

/// What a cell says: the first form that fits is shown; the last one is cut if even that does not.
pub(crate) struct Cell {
    pub(crate) forms: Vec<String>,
    pub(crate) ink: Ink,
}

impl Cell {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { forms: vec![text.into()], ink: Ink::Normal }
    }

    pub(crate) fn either(forms: Vec<String>) -> Self {
        Self { forms, ink: Ink::Normal }
    }

    pub(crate) fn ink(self, ink: Ink) -> Self {
        Self { ink, ..self }
    }

    /// The width of its fullest form.
    pub(crate) fn width(&self) -> usize {
        self.forms.first().map_or(0, |form| form.width())
    }

    /// Its text at this width, not padded.
    pub(crate) fn at(&self, width: usize) -> String {
        let fitting = self.forms.iter().find(|form| form.width() <= width);
        fitting.cloned().unwrap_or_else(|| clip(self.forms.last().map_or("", String::as_str), width))
    }
}

/// The text, cut to this width; an ellipsis says that something is missing.
pub(crate) fn clip(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let (mut kept, mut used) = (String::new(), 1);
    for letter in text.chars() {
        used += letter.width().unwrap_or(0);
        if used > width {
            break;
        }
        kept.push(letter);
    }
    if width > 0 {
        kept.push('…');
    }
    kept
}

/// The text with the blanks that it lacks to this width.
pub(crate) fn pad(text: &str, width: usize, right: bool) -> String {
    let blanks = " ".repeat(width.saturating_sub(text.width()));
    if right { format!("{blanks}{text}") } else { format!("{text}{blanks}") }
}

/// The two ends of a flow, from all of both to the remote address alone. A server's arrow points at itself.
pub(crate) fn endpoints(local: Option<SocketAddr>, remote: Option<SocketAddr>, role: Option<Role>) -> Cell {
    let arrow = if role == Some(Role::Server) { '←' } else { '→' };
    let (Some(local), Some(remote)) = (local, remote) else { return Cell::new("-") };
    let (local_ip, remote_ip) = (local.ip(), remote.ip());
    Cell::either(vec![
        format!("{local} {arrow} {remote}"),
        format!("{local_ip} {arrow} {remote}"),
        format!("{local_ip} {arrow} {remote_ip}"),
        format!("{local_ip}{arrow}{remote_ip}"),
        format!("{arrow} {remote}"),
        format!("{arrow} {remote_ip}"),
    ])
}

/// A horizontal bar of eighths of a block for a fraction of this width.
pub(crate) fn bar(share: f64, width: usize) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a fraction of a screen width"
    )]
    let eighths = (share.clamp(0.0, 1.0) * (width * 8) as f64).round() as usize;
    format!("{}{}", "█".repeat(eighths / 8), PARTS[eighths % 8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_at_its_width_on_the_screen() {
        assert_eq!(clip("abcdef", 6), "abcdef");
        assert_eq!(clip("abcdef", 4), "abc…");
        assert_eq!(clip("日本語", 4), "日…");
        assert_eq!(clip("abc", 0), "");
        assert_eq!(pad("日", 4, true), "  日");
    }

    #[test]
    fn a_narrow_cell_says_the_remote_end() {
        let cell = endpoints("10.0.0.1:4000".parse().ok(), "10.0.0.2:80".parse().ok(), None);
        assert_eq!(cell.at(40), "10.0.0.1:4000 → 10.0.0.2:80");
        assert_eq!(cell.at(19), "10.0.0.1 → 10.0.0.2");
        assert_eq!(cell.at(13), "→ 10.0.0.2:80");
        assert_eq!(cell.at(6), "→ 10.…");
    }

    #[test]
    fn a_bar_is_as_long_as_its_share() {
        assert_eq!(bar(0.0, 4), "");
        assert_eq!(bar(0.5, 4), "██");
        assert_eq!(bar(0.65, 5), "███▎");
        assert_eq!(bar(7.0, 3), "███");
    }
}
