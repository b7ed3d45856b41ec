// SPDX-License-Identifier: MIT OR Apache-2.0
//! Draws a screen of text as an SVG picture.

use std::fmt::Write as _;

use crate::pictures::ansi::{self, Run, Style, Terminal};

/// Width and height of a character, in pixels.
const CELL: (usize, usize) = (8, 17);
const MARGIN: usize = 10;

/// Draws a screen of `columns` columns, whose text contains escape sequences.
pub(super) fn picture(screen: &str, columns: u16, title: &str, terminal: Terminal) -> String {
    let lines: Vec<Vec<Run>> = ansi::lines(screen, columns, terminal);
    let columns = usize::from(columns);
    let (width, height) = (columns * CELL.0 + 2 * MARGIN, lines.len() * CELL.1 + 2 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\">\n\
         <title>{title}</title>\n\
         <style>text{{font:13px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;white-space:pre}}</style>\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"6\" fill=\"{}\"/>\n",
        terminal.background,
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

/// Draws a run. Background, block and Braille characters are drawn as shapes, which need no font, other characters as text.
fn draw(svg: &mut String, run: &Run, (left, top): (usize, usize)) {
    let Style { foreground, background, bold } = &run.style;
    let width = run.width() * CELL.0;
    if let Some(colour) = background {
        let _ = writeln!(
            svg,
            "<rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{}\" fill=\"{colour}\"/>",
            CELL.1
        );
    }
    for (column, letter) in run.text.chars().enumerate() {
        if let Some((right, up)) = eighths(letter) {
            let (wide, high) = (CELL.0 as f64 * right / 8.0, CELL.1 as f64 * up / 8.0);
            let (x, y) = (left + column * CELL.0, (top + CELL.1) as f64 - high);
            let _ = writeln!(
                svg,
                "<rect x=\"{x}\" y=\"{y:.1}\" width=\"{wide:.1}\" height=\"{high:.1}\" fill=\"{foreground}\"/>"
            );
        }
    }
    let dots = run.text.chars().enumerate().fold(String::new(), |mut path, (column, letter)| {
        dots(letter).for_each(|(x, y)| {
            let (x, y) = ((left + column * CELL.0) as f64 + x, top as f64 + y);
            let _ = write!(path, "M{x} {y:.1}h2v2h-2z");
        });
        path
    });
    if !dots.is_empty() {
        let _ = writeln!(svg, "<path fill=\"{foreground}\" d=\"{dots}\"/>");
    }
    let is_shape = |letter: char| eighths(letter).is_some() || is_braille(letter);
    let text: String = run.text.chars().map(|letter| if is_shape(letter) { ' ' } else { letter }).collect();
    let text = text.trim_end();
    if text.trim_start().is_empty() {
        return;
    }
    let weight = if *bold { " font-weight=\"bold\"" } else { "" };
    let _ = writeln!(
        svg,
        "<text x=\"{left}\" y=\"{}\" textLength=\"{}\" xml:space=\"preserve\" fill=\"{foreground}\"{weight}>{}</text>",
        top + CELL.1 - 4,
        text.chars().count() * CELL.0,
        escaped(text)
    );
}

/// The part of a cell that a block character fills from the left and from below, in eighths. `None`: not a block character.
fn eighths(letter: char) -> Option<(f64, f64)> {
    let code = u32::from(letter);
    match code {
        0x2581..=0x2588 => Some((8.0, f64::from(code - 0x2580))),
        0x2589..=0x258f => Some((f64::from(0x2590 - code), 8.0)),
        _ => None,
    }
}

fn is_braille(letter: char) -> bool {
    ('\u{2800}'..='\u{28ff}').contains(&letter)
}

/// Positions of the dots of a Braille character in its cell, in pixels.
fn dots(letter: char) -> impl Iterator<Item = (f64, f64)> {
    // Column and row of each bit.
    const PLACES: [(u8, u8); 8] = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3)];
    let bits = if is_braille(letter) { u32::from(letter) - 0x2800 } else { 0 };
    let set = PLACES.into_iter().enumerate().filter(move |(bit, _)| bits >> bit & 1 == 1);
    set.map(|(_, (column, row))| (1.0 + 4.0 * f64::from(column), 1.0 + 4.25 * f64::from(row)))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_the_text_and_blocks_of_the_screen() {
        let svg =
            picture("\x1b[1ma<b\x1b[0m  \x1b[36m▄█\x1b[7m x\x1b[0m\nplain ⠁⢀", 120, "a & b", ansi::DARK);
        assert!(svg.contains("<title>a &amp; b</title>"));
        assert!(svg.contains("font-weight=\"bold\">a&lt;b</text>"), "{svg}");
        assert!(svg.contains("height=\"8.5\"") && svg.contains("height=\"17.0\""), "{svg}");
        assert!(svg.contains(">plain</text>"), "{svg}");
        assert!(svg.contains("M59 28.0h2v2h-2zM71 40.8h2v2h-2z"), "dots of Braille characters: {svg}");
    }
}
