// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replaces the non-ASCII characters of a drawn screen by ASCII characters of the same width, for terminals without UTF-8.

use ratatui::buffer::Buffer;
use ratatui::style::Color;
use unicode_width::UnicodeWidthChar as _;

/// Replaces every non-ASCII character of a drawn screen.
pub(crate) fn replace(buffer: &mut Buffer) {
    for cell in &mut buffer.content {
        let mut letters = cell.symbol().chars();
        match letters.next() {
            Some(letter) if !letter.is_ascii() || letters.next().is_some() => {
                cell.set_char(ascii(letter));
            }
            _ => {}
        }
        // Charts draw a block with the same foreground and background colour, which would hide its replacement.
        if cell.bg == cell.fg {
            cell.set_bg(Color::Reset);
        }
    }
}

/// Converts text to ASCII text of the same width, for a terminal without UTF-8.
pub fn text(text: &str) -> String {
    let letters = text.chars().flat_map(|letter| {
        // `width` returns `None` for a line feed, which must be kept.
        let width = if letter.is_ascii() { 1 } else { letter.width().unwrap_or(0) };
        std::iter::repeat_n(ascii(letter), width)
    });
    letters.collect()
}

/// The ASCII replacement of a character. Any other character becomes a question mark.
#[expect(clippy::match_same_arms, reason = "the arms are grouped by kind of drawing")]
fn ascii(letter: char) -> char {
    match letter {
        '─' => '-',
        '│' | '├' | '┤' => '|',
        '╭' | '╮' | '╰' | '╯' | '┌' | '┐' | '└' | '┘' | '┼' | '▸' => '+',
        '▾' => '-',
        '┃' | '█' => '#',
        '→' | '…' | '▌' | '▋' | '▊' | '▉' => '>',
        '←' => '<',
        '↑' | '▲' => '^',
        '↓' | '▼' => 'v',
        '✗' => 'x',
        '✓' | '•' => '*',
        '·' => '.',
        // Sparklines.
        '▁' => '_',
        '▂' => '-',
        '▃' => '~',
        '▄' => '=',
        '▅' => '+',
        '▆' => '*',
        '▇' => '%',
        // The last cell of a bar, less than half full.
        '▏' | '▎' | '▍' => ' ',
        // Shades that distinguish the parts of a bar without colours.
        '▓' => '@',
        '▒' => ':',
        '░' => '.',
        letter if letter.is_ascii() => letter,
        _ => '?',
    }
}

#[cfg(test)]
mod tests {
    use ratatui::buffer::Cell;
    use ratatui::layout::Rect;
    use unicode_width::UnicodeWidthStr as _;

    use super::*;

    #[test]
    fn a_block_of_a_chart_is_visible_as_its_character() {
        let mut cell = Cell::default();
        cell.set_char('█').set_fg(Color::Cyan).set_bg(Color::Cyan);
        let mut buffer = Buffer::filled(Rect::new(0, 0, 1, 1), cell);
        replace(&mut buffer);
        let cell = &buffer.content[0];
        assert_eq!((cell.symbol(), cell.fg, cell.bg), ("#", Color::Cyan, Color::Reset));
    }

    #[test]
    fn the_replacement_has_the_same_width() {
        for original in ["├─ 1 eth1 → 日本…", "▁▂▃▄▅▆▇█·", "e\u{301}"] {
            let replaced = text(original);
            assert!(replaced.is_ascii(), "{replaced}");
            assert_eq!(replaced.len(), original.width());
        }
        assert_eq!(text("├─ ✗ ↑ ▁▂▃▄▅▆▇█"), "|- x ^ _-~=+*%#");
    }
}
