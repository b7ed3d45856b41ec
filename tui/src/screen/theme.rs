// SPDX-License-Identifier: MIT OR Apache-2.0
//! The themes: which style a piece of text has by what it is. No colour carries a meaning alone: a word, a letter or a mark always says
//! the same, so that the theme without colours shows as much as the others.

use ratatui::style::{Color, Modifier, Style};

/// What a piece of the screen is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ink {
    /// Most of it.
    #[default]
    Normal,
    /// Titles, totals.
    Strong,
    /// What is over, hints, rules.
    Faint,
    /// Lost data, failed paths.
    Alarm,
    /// Works, but not as asked for; subflows that share a bottleneck.
    Warning,
    /// As it should be.
    Good,
    /// Keys, and the place where one is.
    Accent,
    /// A subflow by its place in the connection, a part of a zone: told apart by number.
    Path(usize),
    /// A group of subflows behind one bottleneck, by its number.
    Group(usize),
}

/// A set of colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    /// The sixteen colours of the terminal's own palette.
    #[default]
    Dark,
    /// For light backgrounds.
    Light,
    /// Told apart by people of any colour vision (after Okabe and Ito).
    Safe,
    /// No colours: bold, dim and reversed only; what `NO_COLOR` selects.
    Mono,
}

/// Colours of the paths of a theme; their number is also how many can be told apart.
const DARK: [Color; 7] = [
    Color::Cyan,
    Color::Magenta,
    Color::Yellow,
    Color::Blue,
    Color::Green,
    Color::LightCyan,
    Color::LightMagenta,
];
const LIGHT: [Color; 7] = [
    Color::Indexed(26),
    Color::Indexed(90),
    Color::Indexed(94),
    Color::Indexed(28),
    Color::Indexed(55),
    Color::Indexed(30),
    Color::Indexed(125),
];
const SAFE: [Color; 7] = [
    Color::Indexed(74),
    Color::Indexed(214),
    Color::Indexed(36),
    Color::Indexed(227),
    Color::Indexed(32),
    Color::Indexed(175),
    Color::Indexed(250),
];

/// Alarm, warning, good, accent.
struct Signals {
    alarm: Color,
    warning: Color,
    good: Color,
    accent: Color,
}

impl Theme {
    /// Each of them, in the order of the key that changes them.
    pub const ALL: [Self; 4] = [Self::Dark, Self::Light, Self::Safe, Self::Mono];

    /// The word in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dark => "dark",
            Self::Light => "light",
            Self::Safe => "colour-blind",
            Self::Mono => "mono",
        }
    }

    /// By its word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|theme| theme.as_str() == word)
    }

    /// The one after it.
    pub(crate) fn next(self) -> Self {
        let place = Self::ALL.iter().position(|theme| *theme == self).unwrap_or(0);
        Self::ALL[(place + 1) % Self::ALL.len()]
    }

    fn paths(self) -> Option<&'static [Color]> {
        match self {
            Self::Dark => Some(&DARK),
            Self::Light => Some(&LIGHT),
            Self::Safe => Some(&SAFE),
            Self::Mono => None,
        }
    }

    fn signals(self) -> Option<Signals> {
        let of = |alarm, warning, good, accent| Some(Signals { alarm, warning, good, accent });
        match self {
            Self::Dark => of(Color::LightRed, Color::LightYellow, Color::LightGreen, Color::LightCyan),
            Self::Light => {
                of(Color::Indexed(160), Color::Indexed(130), Color::Indexed(22), Color::Indexed(26))
            }
            Self::Safe => {
                of(Color::Indexed(202), Color::Indexed(214), Color::Indexed(74), Color::Indexed(117))
            }
            Self::Mono => None,
        }
    }

    /// The style of something.
    pub(crate) fn style(self, ink: Ink) -> Style {
        let plain = Style::new();
        let signal = |read: fn(&Signals) -> Color| self.signals().map_or(plain, |all| plain.fg(read(&all)));
        match ink {
            Ink::Normal => plain,
            Ink::Strong => plain.add_modifier(Modifier::BOLD),
            Ink::Faint => plain.add_modifier(Modifier::DIM),
            Ink::Alarm => signal(|all| all.alarm).add_modifier(Modifier::BOLD),
            Ink::Warning => signal(|all| all.warning),
            Ink::Good => signal(|all| all.good),
            Ink::Accent => signal(|all| all.accent).add_modifier(Modifier::BOLD),
            Ink::Path(number) => {
                self.paths().map_or(plain, |colours| plain.fg(colours[number % colours.len()]))
            }
            // From the other end, so that a group does not look like its first path.
            Ink::Group(number) => {
                let of = |colours: &[Color]| colours[(colours.len() - 1 + number * 4) % colours.len()];
                self.paths().map_or(plain, |colours| plain.fg(of(colours))).add_modifier(Modifier::BOLD)
            }
        }
    }

    /// The style over the selected row.
    pub(crate) fn selected() -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_theme_without_colours_has_none() {
        let inks = [
            Ink::Normal,
            Ink::Strong,
            Ink::Faint,
            Ink::Alarm,
            Ink::Warning,
            Ink::Good,
            Ink::Accent,
            Ink::Path(1),
            Ink::Group(1),
        ];
        for ink in inks {
            let style = Theme::Mono.style(ink);
            assert_eq!((style.fg, style.bg), (None, None), "{ink:?}");
        }
    }

    #[test]
    fn themes_are_found_by_their_words_and_follow_each_other() {
        for theme in Theme::ALL {
            assert_eq!(Theme::from_word(theme.as_str()), Some(theme));
        }
        assert_eq!(Theme::Mono.next(), Theme::Dark);
        assert_eq!(Theme::from_word("pink"), None);
    }
}
