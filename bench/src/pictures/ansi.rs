// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses the output of `tmux capture-pane -e`: text with escape sequences for its style (SGR), in the colours of a terminal.

/// Colours of a terminal.
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

/// A part of a line in one style.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) text: String,
    marks: Marks,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Marks {
    foreground: Option<String>,
    background: Option<String>,
    bold: bool,
    dim: bool,
    reversed: bool,
}

/// How a run is drawn.
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

    pub(super) fn style(&self, terminal: Terminal) -> Style {
        let Marks { foreground, background, bold, dim, reversed } = self.marks.clone();
        let usual = if dim { terminal.faint } else { terminal.foreground };
        let foreground = foreground.unwrap_or_else(|| usual.to_owned());
        if reversed {
            let behind = background.unwrap_or_else(|| terminal.background.to_owned());
            return Style { foreground: behind, background: Some(foreground), bold };
        }
        Style { foreground, background, bold }
    }
}

/// The lines of a screen. A style continues on the next line.
pub(super) fn lines(screen: &str) -> Vec<Vec<Run>> {
    let mut marks = Marks::default();
    screen.lines().map(|line| line_of(line, &mut marks)).collect()
}

fn line_of(line: &str, marks: &mut Marks) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (number, piece) in line.split("\x1b[").enumerate() {
        let mut text = piece;
        if number > 0 {
            let Some(end) = piece.find(|letter: char| letter.is_ascii_alphabetic()) else { continue };
            if piece[end..].starts_with('m') {
                apply(&piece[..end], marks);
            }
            text = &piece[end + 1..];
        }
        if !text.is_empty() {
            runs.push(Run { text: text.to_owned(), marks: marks.clone() });
        }
    }
    runs
}

/// Applies a sequence, such as `1;38;5;11`.
fn apply(codes: &str, marks: &mut Marks) {
    let mut numbers = codes.split([';', ':']).map(|code| code.parse::<u8>().unwrap_or(0));
    while let Some(number) = numbers.next() {
        match number {
            0 => *marks = Marks::default(),
            1 => marks.bold = true,
            2 => marks.dim = true,
            7 => marks.reversed = true,
            22 => (marks.bold, marks.dim) = (false, false),
            27 => marks.reversed = false,
            30..=37 => marks.foreground = Some(indexed(number - 30)),
            90..=97 => marks.foreground = Some(indexed(number - 82)),
            40..=47 => marks.background = Some(indexed(number - 40)),
            38 => marks.foreground = extended(&mut numbers),
            48 => marks.background = extended(&mut numbers),
            39 => marks.foreground = None,
            49 => marks.background = None,
            _ => {}
        }
    }
}

fn extended(numbers: &mut impl Iterator<Item = u8>) -> Option<String> {
    match numbers.next()? {
        5 => numbers.next().map(indexed),
        2 => Some(format!("#{:02x}{:02x}{:02x}", numbers.next()?, numbers.next()?, numbers.next()?)),
        _ => None,
    }
}

/// One of 256 colours: the palette, a cube with six levels per channel, and greys.
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
        let lines = lines("a\x1b[1;38;5;208mb\nc\x1b[0m\x1b[7md\x1b[48;2;1;2;3me");
        let texts: Vec<Vec<&str>> =
            lines.iter().map(|line| line.iter().map(|run| run.text.as_str()).collect()).collect();
        assert_eq!(texts, [vec!["a", "b"], vec!["c", "d", "e"]]);
        let orange = lines[0][1].style(DARK);
        assert_eq!((orange.foreground.as_str(), orange.bold), ("#ff8700", true));
        assert_eq!(lines[1][0].style(DARK).foreground, "#ff8700");
        assert_eq!(lines[1][1].style(DARK).foreground, DARK.background);
        assert_eq!(lines[1][2].style(DARK).foreground, "#010203");
        assert_eq!(indexed(255), "#eeeeee");
    }
}
