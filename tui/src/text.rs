// SPDX-License-Identifier: MIT OR Apache-2.0
//! Styled text, its width on the screen, and bars and sparklines made of characters. The width of a wide character is 2.

pub(crate) use mpwatch_model::metric::count;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::theme::{Ink, Theme};

/// Pieces of text side by side, each with its style.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text(pub(crate) Vec<(String, Ink)>);

impl Text {
    pub(crate) fn new(text: impl Into<String>, ink: Ink) -> Self {
        Self(vec![(text.into(), ink)])
    }

    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self::new(text, Ink::Normal)
    }

    #[must_use]
    pub(crate) fn and(mut self, text: impl Into<String>, ink: Ink) -> Self {
        self.0.push((text.into(), ink));
        self
    }

    /// Appends the pieces of another text.
    #[must_use]
    pub(crate) fn join(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    pub(crate) fn width(&self) -> usize {
        self.0.iter().map(|(text, _)| text.width()).sum()
    }

    /// The whole text in one ink.
    #[must_use]
    pub(crate) fn all(self, ink: Ink) -> Self {
        Self(self.0.into_iter().map(|(text, _)| (text, ink)).collect())
    }

    /// The first of `forms` that fits into `width`. If none fits, the last form is cut.
    pub(crate) fn first_that_fits(forms: impl IntoIterator<Item = Self>, width: usize) -> Self {
        let mut last = Self::default();
        for form in forms {
            if form.width() <= width {
                return form;
            }
            last = form;
        }
        last.clipped(width)
    }

    /// Cuts the text at `width`.
    #[must_use]
    pub(crate) fn clipped(self, width: usize) -> Self {
        let mut room = width;
        let mut kept = Vec::with_capacity(self.0.len());
        for (text, ink) in self.0 {
            let wanted = text.width();
            if wanted <= room {
                room -= wanted;
                kept.push((text, ink));
            } else {
                kept.push((clip(&text, room), ink));
                break;
            }
        }
        Self(kept)
    }

    /// Cuts or pads the text to exactly `width`.
    #[must_use]
    pub(crate) fn fitted(self, width: usize, align_right: bool) -> Self {
        let mut text = self.clipped(width);
        let padding = " ".repeat(width.saturating_sub(text.width()));
        text.0.insert(if align_right { 0 } else { text.0.len() }, (padding, Ink::Normal));
        text
    }

    pub(crate) fn string(&self) -> String {
        self.0.iter().map(|(text, _)| text.as_str()).collect()
    }
}

/// The lines that fit into `height`. If some do not fit, the last line ends in `…` within `width`.
pub(crate) fn truncated(mut lines: Vec<Text>, (width, height): (usize, usize), ink: Ink) -> Vec<Text> {
    if lines.len() > height {
        lines.truncate(height);
        let last = lines.pop().map(|last| last.clipped(width.saturating_sub(2)).and(" …", ink));
        lines.extend(last);
    }
    lines
}

/// The text cut to `width`. A cut text ends in an ellipsis.
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

pub(crate) fn pad(text: &str, width: usize, align_right: bool) -> String {
    let padding = " ".repeat(width.saturating_sub(text.width()));
    if align_right { format!("{padding}{text}") } else { format!("{text}{padding}") }
}

/// A horizontal bar that fills the fraction `share` of `width`, with a resolution of an eighth of a block.
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

/// Wraps words into lines of at most `width`. A number and its unit stay on one line; a word wider than `width` is cut.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (word, after) = next_piece(rest);
        match lines.last_mut() {
            Some(line) if line.width() + 1 + word.width() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(clip(word, width)),
        }
        rest = after;
    }
    lines
}

/// Splits off the first word, or a first number together with the word after it. Also returns the remaining text.
fn next_piece(text: &str) -> (&str, &str) {
    let end = text.find(' ').unwrap_or(text.len());
    let is_number = text[..end].ends_with(|letter: char| letter.is_ascii_digit());
    let unit = text.get(end + 1..).filter(|_| is_number).map(|rest| rest.find(' ').unwrap_or(rest.len()));
    let end = unit.map_or(end, |unit| end + 1 + unit);
    (&text[..end], text.get(end + 1..).unwrap_or(""))
}

/// The latest `width` values as blocks scaled to `max`. A dot means zero, a space means unknown.
pub(crate) fn sparkline(values: &[f32], max: f32, width: usize) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let shown = &values[values.len().saturating_sub(width)..];
    let padding = std::iter::repeat_n(' ', width - shown.len());
    let block = |value: &f32| {
        if value.is_nan() {
            ' '
        } else if *value <= 0.0 || max <= 0.0 {
            '·'
        } else {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 7")]
            BLOCKS[((value / max).clamp(0.0, 1.0) * 7.0).round() as usize]
        }
    };
    padding.chain(shown.iter().map(block)).collect()
}

/// The character of a part of a bar. In the theme without colours, the parts have different characters.
pub(crate) fn glyph(theme: Theme, number: usize) -> char {
    const MARKS: [char; 8] = ['█', '▓', '▒', '=', 'o', '+', '%', '░'];
    if theme == Theme::Mono { MARKS[number % MARKS.len()] } else { '█' }
}

/// A bar of exactly `width` cells, divided in proportion to `parts`.
pub(crate) fn stacked(parts: &[(u64, Ink)], width: usize, theme: Theme) -> Text {
    let weights: Vec<u64> = parts.iter().map(|(part, _)| *part).collect();
    let cells = mpwatch_model::kernel::cpu::divide(width as u64, &weights);
    let piece = |(number, (cells, (_, ink))): (usize, (u64, &(u64, Ink)))| {
        let count = usize::try_from(cells).unwrap_or(0);
        (glyph(theme, number).to_string().repeat(count), *ink)
    };
    Text(cells.zip(parts).enumerate().map(piece).filter(|(text, _)| !text.is_empty()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_and_padded_over_its_pieces() {
        let text = Text::plain("abc").and("defg", Ink::Alarm);
        assert_eq!(text.clone().clipped(5).string(), "abcd…");
        assert_eq!(text.clone().fitted(9, true).string(), "  abcdefg");
        let forms = [text, Text::plain("ab"), Text::plain("a")];
        assert_eq!(Text::first_that_fits(forms.clone(), 7).string(), "abcdefg");
        assert_eq!(Text::first_that_fits(forms.clone(), 6).string(), "ab");
        assert_eq!(Text::first_that_fits(forms, 0).string(), "");
    }

    #[test]
    fn a_sparkline_distinguishes_zero_from_unknown() {
        assert_eq!(sparkline(&[f32::NAN, 0.0, 1.0, 4.0, 8.0], 8.0, 7), "    ·▂▅█".replacen(' ', "", 1));
        assert_eq!(sparkline(&[1.0, 2.0, 3.0], 3.0, 2), "▆█");
        assert_eq!(sparkline(&[], 0.0, 3), "   ");
    }

    #[test]
    fn a_stacked_bar_has_exactly_its_width() {
        for width in 0..40 {
            let bar = stacked(
                &[(3, Ink::Path(0)), (1, Ink::Path(1)), (0, Ink::Path(2)), (9, Ink::Faint)],
                width,
                Theme::Dark,
            );
            assert_eq!(bar.width(), width);
        }
        assert_eq!(
            stacked(&[(1, Ink::Good), (1, Ink::Alarm)], 4, Theme::Dark).0[1],
            ("██".to_owned(), Ink::Alarm)
        );
        assert_eq!(stacked(&[(1, Ink::Good), (1, Ink::Alarm)], 4, Theme::Mono).string(), "██▓▓");
    }

    #[test]
    fn words_are_wrapped() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("abcdefgh", 4), ["abc…"]);
        assert_eq!(wrapped("cost ~10.1 J so far", 11), ["cost", "~10.1 J so", "far"]);
        assert_eq!(wrapped("at 7", 4), ["at 7"]);
        assert!(wrapped("", 4).is_empty());
    }

    #[test]
    fn text_is_cut_at_its_width_on_the_screen() {
        assert_eq!(clip("abcdef", 6), "abcdef");
        assert_eq!(clip("abcdef", 4), "abc…");
        assert_eq!(clip("日本語", 4), "日…");
        assert_eq!(clip("abc", 0), "");
        assert_eq!(pad("日", 4, true), "  日");
    }

    #[test]
    fn a_bar_is_as_long_as_its_share() {
        assert_eq!(bar(0.0, 4), "");
        assert_eq!(bar(0.5, 4), "██");
        assert_eq!(bar(0.65, 5), "███▎");
        assert_eq!(bar(7.0, 3), "███");
    }
}
