// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pictures of the live view for the documents: real demos in a real terminal, drawn as SVG. `./dev pictures` makes them.

mod ansi;

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use mpwatch_lab::poll_until;

use crate::program;
use crate::tmux::Tmux;
use ansi::{Run, Style};

const SIZE: (u16, u16) = (120, 22);
/// A cell of the picture.
const CELL: (usize, usize) = (8, 17);
const MARGIN: usize = 10;
/// So many values over time are to be seen.
const SECONDS: usize = 12;
const PATIENCE: Duration = Duration::from_mins(2);

/// A picture: name, what runs, and words that are on the screen when there is something to see.
pub const PICTURES: [(&str, &str, &[&str]); 2] = [
    ("shared", "demo shared --seconds 120", &["share one bottleneck"]),
    ("failover", "demo failover --seconds 40", &["failed at", " outage from"]),
];

/// Makes all of them in a folder; needs root.
pub fn make_all(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for (name, arguments, words) in PICTURES {
        eprintln!("pictures: mpwatch {arguments}");
        let path = folder.join(format!("{name}.svg"));
        fs::write(&path, svg(&take(arguments, words), &format!("mpwatch {arguments}")))?;
        eprintln!("pictures: wrote {}", path.display());
    }
    Ok(())
}

/// Runs the program until these words are on its screen; the screen with its colours.
fn take(arguments: &str, words: &[&str]) -> String {
    let command = format!("exec env -u NO_COLOR MPWATCH_SCREEN_CONFIG= {} {arguments}", program().display());
    let tmux = Tmux::start(SIZE, &["sh", "-c", &command]);
    let seen = poll_until("the picture", PATIENCE, || {
        let screen = tmux.screen();
        let is_there = words.iter().all(|word| screen.contains(word)) && over_time(&screen) >= SECONDS;
        is_there.then_some(())
    });
    seen.unwrap_or_else(|error| panic!("{error}; the screen:\n{}", tmux.screen()));
    let picture = tmux.coloured();
    tmux.press(&["q"]);
    picture
}

/// How many values over time the longest line of them shows.
fn over_time(screen: &str) -> usize {
    let pieces = screen.lines().flat_map(|line| line.split(|letter| !('▁'..='█').contains(&letter)));
    pieces.map(|piece| piece.chars().count()).max().unwrap_or(0)
}

/// A screen with escape sequences as a picture.
fn svg(screen: &str, title: &str) -> String {
    let lines: Vec<Vec<Run>> = ansi::lines(screen);
    let (columns, rows) = (usize::from(SIZE.0), lines.len());
    let (width, height) = (columns * CELL.0 + 2 * MARGIN, rows * CELL.1 + 2 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\">\n\
         <title>{title}</title>\n\
         <style>text{{font:13px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;white-space:pre}}</style>\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"6\" fill=\"{}\"/>\n",
        ansi::BACKGROUND,
        title = escaped(title),
    );
    for (row, line) in lines.iter().enumerate() {
        let top = MARGIN + row * CELL.1;
        let mut left = MARGIN;
        for run in line {
            draw(&mut svg, run, (left, top));
            left += run.width() * CELL.0;
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// A piece of a line: what lies behind it, blocks as rectangles without gaps between them, the rest as text.
fn draw(svg: &mut String, run: &Run, (left, top): (usize, usize)) {
    let Style { foreground, background, bold } = run.style();
    let width = run.width() * CELL.0;
    if let Some(colour) = background {
        let _ = writeln!(
            svg,
            "<rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{}\" fill=\"{colour}\"/>",
            CELL.1
        );
    }
    for (place, letter) in run.text.chars().enumerate() {
        if let Some((right, up)) = eighths(letter) {
            let (wide, high) = (CELL.0 as f64 * right / 8.0, CELL.1 as f64 * up / 8.0);
            let (x, y) = (left + place * CELL.0, (top + CELL.1) as f64 - high);
            let _ = writeln!(
                svg,
                "<rect x=\"{x}\" y=\"{y:.1}\" width=\"{wide:.1}\" height=\"{high:.1}\" fill=\"{foreground}\"/>"
            );
        }
    }
    let text: String =
        run.text.chars().map(|letter| if eighths(letter).is_some() { ' ' } else { letter }).collect();
    let kept = text.trim_end();
    if kept.trim_start().is_empty() {
        return;
    }
    let weight = if bold { " font-weight=\"bold\"" } else { "" };
    let _ = writeln!(
        svg,
        "<text x=\"{left}\" y=\"{}\" textLength=\"{}\" xml:space=\"preserve\" fill=\"{foreground}\"{weight}>{}</text>",
        top + CELL.1 - 4,
        kept.chars().count() * CELL.0,
        escaped(kept)
    );
}

/// How much of its cell a block fills from the left and from below, in eighths.
fn eighths(letter: char) -> Option<(f64, f64)> {
    let code = u32::from(letter);
    match code {
        0x2581..=0x2588 => Some((8.0, f64::from(code - 0x2580))),
        0x2589..=0x258f => Some((f64::from(0x2590 - code), 8.0)),
        _ => None,
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_becomes_a_picture_that_says_the_same() {
        let svg = svg("\x1b[1ma<b\x1b[0m  \x1b[36m▄█\x1b[7m x\x1b[0m\nplain", "a & b");
        assert!(svg.contains("<title>a &amp; b</title>"));
        assert!(svg.contains("font-weight=\"bold\">a&lt;b</text>"), "{svg}");
        assert!(svg.contains("height=\"8.5\"") && svg.contains("height=\"17.0\""), "{svg}");
        assert!(svg.contains(">plain</text>"), "{svg}");
    }

    #[test]
    fn the_pictures_of_the_documents_are_there_and_small() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let readme = fs::read_to_string(root.join("README.md")).unwrap();
        for (name, ..) in PICTURES {
            let path = format!("docs/images/{name}.svg");
            assert!(readme.contains(&path), "README.md does not show {path}");
            let picture = fs::read_to_string(root.join(&path)).unwrap();
            assert!(picture.len() < 100_000, "{path}: {} bytes", picture.len());
            assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
        }
    }
}
