// SPDX-License-Identifier: MIT OR Apache-2.0
//! The few colours of the screen. None carries a meaning alone: a word or a mark always says the same, and red and
//! green never stand against each other.

/// Whether text is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// For pipes and files, and with `NO_COLOR`.
    Plain,
    /// With the colours of the terminal's own palette (ANSI SGR).
    Colour,
}

/// What a piece of text is, as far as its colour goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ink {
    /// Most of it.
    Normal,
    /// Titles.
    Strong,
    /// What is over: closed flows, hints.
    Faint,
    /// Lost data, failed paths.
    Alarm,
    /// Works, but not as asked for: fallback, stale path, missing hook.
    Warning,
    /// The share bars.
    Bar,
}

impl Style {
    /// The text in this ink.
    pub(crate) fn paint(self, text: &str, ink: Ink) -> String {
        let code = match ink {
            Ink::Normal => return text.to_owned(),
            Ink::Strong => "1",
            Ink::Faint => "2",
            Ink::Alarm => "1;31",
            Ink::Warning => "33",
            Ink::Bar => "36",
        };
        match self {
            Self::Colour if !text.trim().is_empty() => format!("\x1b[{code}m{text}\x1b[0m"),
            _ => text.to_owned(),
        }
    }
}
