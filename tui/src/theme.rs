// SPDX-License-Identifier: MIT OR Apache-2.0
//! Themes map the meaning of a text to a style. Colour is never the only sign of a meaning, because one theme has no colours.

use ratatui::style::{Color, Modifier, Style};

/// The meaning of a piece of text, which determines its style.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ink {
    /// Most text.
    #[default]
    Normal,
    /// Titles, totals.
    Strong,
    /// Closed flows, hints, rules.
    Faint,
    /// Lost data, failed paths.
    Alarm,
    /// Problems that are not failures.
    Warning,
    /// Results without a problem.
    Good,
    /// Keys, and the selected tab.
    Accent,
    /// The subflow with this index, or the part of an energy zone with this index.
    Path(usize),
    /// The group of subflows with this index that share a bottleneck.
    Group(usize),
}

mpwatch_model::words! {
    /// A set of colours, with its name in the configuration. The key `t` selects the next theme in this order.
    #[derive(Default)]
    pub enum Theme {
        /// The sixteen colours of the terminal.
        #[default]
        Dark = "dark",
        /// For light backgrounds.
        Light = "light",
        /// Colours that colour-blind users can distinguish (after Okabe and Ito).
        Safe = "colour-blind",
        /// No colours, only bold, dim and underlined text. Selected if `NO_COLOR` is set.
        Mono = "mono",
    }
}

impl Theme {
    /// The colours of alarm, warning, good and accent, then of subflows. `None`: no colours.
    fn palette(self) -> Option<[Color; 11]> {
        use Color::{
            Blue, Cyan, Green, LightCyan, LightGreen, LightMagenta, LightRed, LightYellow, Magenta, Yellow,
        };
        let indexed = |numbers: [u8; 11]| Some(numbers.map(Color::Indexed));
        match self {
            #[rustfmt::skip]
            Self::Dark => Some([
                LightRed, LightYellow, LightGreen, LightCyan,
                Cyan, Magenta, Yellow, Blue, Green, LightCyan, LightMagenta,
            ]),
            Self::Light => indexed([160, 130, 22, 26, 26, 90, 94, 28, 55, 30, 125]),
            Self::Safe => indexed([202, 214, 74, 117, 74, 214, 36, 227, 32, 175, 250]),
            Self::Mono => None,
        }
    }

    pub(crate) fn style(self, ink: Ink) -> Style {
        let plain = match ink {
            Ink::Strong | Ink::Alarm | Ink::Accent | Ink::Group(_) => {
                Style::new().add_modifier(Modifier::BOLD)
            }
            Ink::Faint => Style::new().add_modifier(Modifier::DIM),
            _ => Style::new(),
        };
        let Some([alarm, warning, good, accent, paths @ ..]) = self.palette() else { return plain };
        match ink {
            Ink::Normal | Ink::Strong | Ink::Faint => plain,
            Ink::Alarm => plain.fg(alarm),
            Ink::Warning => plain.fg(warning),
            Ink::Good => plain.fg(good),
            Ink::Accent => plain.fg(accent),
            Ink::Path(number) => plain.fg(paths[number % paths.len()]),
            // Starts at the end of the palette, so that a group and its first subflow have different colours.
            Ink::Group(number) => plain.fg(paths[(paths.len() - 1 + number * 4) % paths.len()]),
        }
    }

    /// The style that is added to the text of the selected row. Reversed video would invert sparklines and bars.
    pub(crate) fn selected(self) -> Style {
        match self {
            Self::Dark | Self::Safe => Style::new().bg(Color::Indexed(237)),
            Self::Light => Style::new().bg(Color::Indexed(253)),
            Self::Mono => Style::new().add_modifier(Modifier::UNDERLINED),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_theme_without_colours_draws_no_colours() {
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
    fn themes_are_found_by_their_names_and_follow_each_other() {
        for theme in Theme::ALL {
            assert_eq!(Theme::from_word(theme.as_str()), Some(theme));
        }
        assert_eq!(Theme::Mono.next(), Theme::Dark);
        assert_eq!(Theme::from_word("pink"), None);
    }
}
