// SPDX-License-Identifier: MIT OR Apache-2.0
//! Divides the output of `tmux capture-pane -e` into runs of cells with the same style.

use std::num::NonZeroU16;

use vt100::{Cell, Color, Parser};

/// The default colours of a terminal.
#[derive(Clone, Copy)]
pub(super) struct Terminal {
    pub(super) background: &'static str,
    foreground: &'static str,
    faint: &'static str,
}

pub(super) const DARK: Terminal = Terminal { background: "#16181d", foreground: "#d4d7dd", faint: "#868c98" };
pub(super) const LIGHT: Terminal =
    Terminal { background: "#ffffff", foreground: "#1c2128", faint: "#6a717c" };

/// The sixteen colours of the palette.
const PALETTE: [&str; 16] = [
    "#2b2f38", "#e0605e", "#7fb069", "#d9a441", "#5b9bd5", "#b57edc", "#45b8c5", "#c8ccd4", "#868c98",
    "#ff6b68", "#98d47b", "#ffcf56", "#7ab8f5", "#d4a1f5", "#6fe0ec", "#ffffff",
];

/// Consecutive cells of a line that have the same style.
pub(super) struct Run {
    pub(super) text: String,
    pub(super) style: Style,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Style {
    pub(super) foreground: String,
    pub(super) background: Option<String>,
    pub(super) bold: bool,
}

impl Run {
    /// Number of cells. The screen has no wide characters.
    pub(super) fn width(&self) -> usize {
        self.text.chars().count()
    }
}

/// The lines of a screen of `columns` columns. A style continues on the next line.
pub(super) fn lines(screen: &str, columns: u16, terminal: Terminal) -> Vec<Vec<Run>> {
    let rows = u16::try_from(screen.lines().count()).unwrap_or(u16::MAX);
    let [height, width] = [rows, columns].map(|cells| NonZeroU16::new(cells).unwrap_or(NonZeroU16::MIN));
    let mut parser = Parser::new(height, width, 0);
    parser.process(screen.trim_end_matches('\n').replace('\n', "\r\n").as_bytes());
    let screen = parser.screen();
    let cells = |row| (0..columns).filter_map(move |column| screen.cell(row, column));
    (0..rows).map(|row| runs(cells(row), terminal)).collect()
}

fn runs<'a>(cells: impl Iterator<Item = &'a Cell>, terminal: Terminal) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for cell in cells {
        let (style, text) = (style(cell, terminal), if cell.has_contents() { cell.contents() } else { " " });
        match runs.last_mut().filter(|run| run.style == style) {
            Some(run) => run.text.push_str(text),
            None => runs.push(Run { text: text.to_owned(), style }),
        }
    }
    runs
}

fn style(cell: &Cell, terminal: Terminal) -> Style {
    let default = if cell.dim() { terminal.faint } else { terminal.foreground };
    let foreground = colour(cell.fgcolor()).unwrap_or_else(|| default.to_owned());
    let (background, bold) = (colour(cell.bgcolor()), cell.bold());
    if cell.inverse() {
        let behind = background.unwrap_or_else(|| terminal.background.to_owned());
        return Style { foreground: behind, background: Some(foreground), bold };
    }
    Style { foreground, background, bold }
}

/// The colour in the notation `#rrggbb`. `None`: the default colour.
fn colour(colour: Color) -> Option<String> {
    match colour {
        Color::Default => None,
        Color::Idx(number) => Some(indexed(number)),
        Color::Rgb(red, green, blue) => Some(format!("#{red:02x}{green:02x}{blue:02x}")),
    }
}

/// The colour with this number: 16 colours of the palette, a cube of colours with six levels per channel, then greys.
fn indexed(number: u8) -> String {
    let step = |level: u8| if level == 0 { 0 } else { 55 + 40 * level };
    match number {
        0..16 => PALETTE[usize::from(number)].to_owned(),
        16..232 => {
            let cube = number - 16;
            format!("#{:02x}{:02x}{:02x}", step(cube / 36), step(cube / 6 % 6), step(cube % 6))
        }
        232.. => {
            let grey = 8 + 10 * (number - 232);
            format!("#{grey:02x}{grey:02x}{grey:02x}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_style_continues_on_the_next_line() {
        let lines = lines("a\x1b[1;38;5;208mb\nc\x1b[0m\x1b[7md\x1b[48;2;1;2;3me", 3, DARK);
        let texts: Vec<Vec<&str>> =
            lines.iter().map(|line| line.iter().map(|run| run.text.as_str()).collect()).collect();
        assert_eq!(texts, [vec!["a", "b", " "], vec!["c", "d", "e"]]);
        let orange = &lines[0][1].style;
        assert_eq!((orange.foreground.as_str(), orange.bold), ("#ff8700", true));
        assert_eq!(lines[1][0].style.foreground, "#ff8700");
        assert_eq!(lines[1][1].style.foreground, DARK.background);
        assert_eq!(lines[1][2].style.foreground, "#010203");
        assert_eq!(indexed(255), "#eeeeee");
    }
}
