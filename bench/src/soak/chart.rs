// SPDX-License-Identifier: MIT OR Apache-2.0
//! Draws a column of line charts with a common horizontal axis as SVG. No I/O.

use std::fmt::Write as _;

use mpwatch_report::html::axis::round_step;

/// The chart of a quantity of several processes.
pub(super) struct Panel<'a> {
    /// The quantity and its unit.
    pub(super) title: &'a str,
    pub(super) lines: Vec<Line<'a>>,
}

/// The line of one process.
pub(super) struct Line<'a> {
    pub(super) name: &'a str,
    /// Pairs of time and value.
    pub(super) values: Vec<(f64, f64)>,
}

const WIDTH: f64 = 760.0;
const PANEL_HEIGHT: f64 = 120.0;
/// Margins: at the left for the numbers of the vertical axis, at the right for half of the last number of the horizontal axis.
const LEFT: f64 = 60.0;
const RIGHT: f64 = 24.0;
/// Height of the title of a panel.
const TITLE_HEIGHT: f64 = 26.0;
const BOTTOM: f64 = 40.0;
/// Two colours that also differ in lightness.
const COLOURS: [&str; 2] = ["#0b62a8", "#d9730d"];
/// Maximum number of intervals between the lines of a grid.
const INTERVALS: u32 = 4;

/// Draws panels below each other. `horizontal`: title of the horizontal axis.
pub(super) fn draw(panels: &[Panel<'_>], horizontal: &str) -> String {
    let height = panels.len() as f64 * (PANEL_HEIGHT + TITLE_HEIGHT) + BOTTOM;
    let all = panels.iter().flat_map(|panel| &panel.lines).flat_map(|line| &line.values);
    let longest = all.map(|(time, _)| *time).fold(0.0, f64::max).max(1e-9);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\">\n\
         <title>Soak: {}, by {horizontal}</title>\n\
         <style>text{{font:12px sans-serif;fill:#222}} .t{{font-weight:bold}} .n{{text-anchor:end}} .m{{text-anchor:middle}} line{{stroke:#ddd}} polyline{{fill:none;stroke-width:1.5}}</style>\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n",
        panels.iter().map(|panel| panel.title).collect::<Vec<_>>().join("; "),
    );
    for (index, panel) in panels.iter().enumerate() {
        let top = index as f64 * (PANEL_HEIGHT + TITLE_HEIGHT) + TITLE_HEIGHT;
        draw_panel(&mut svg, panel, top, longest);
    }
    let bottom = height - BOTTOM;
    let step = round_step(longest, INTERVALS);
    for number in ticks(longest, step) {
        let x = across(number, longest);
        let _ = writeln!(
            svg,
            "<text class=\"m\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
            bottom + 15.0,
            label(number, step)
        );
    }
    let middle = (LEFT + WIDTH - RIGHT) / 2.0;
    let _ =
        writeln!(svg, "<text class=\"m\" x=\"{middle:.1}\" y=\"{:.1}\">{horizontal}</text>", bottom + 32.0);
    svg.push_str("</svg>\n");
    svg
}

fn draw_panel(svg: &mut String, panel: &Panel<'_>, top: f64, longest: f64) {
    let values = panel.lines.iter().flat_map(|line| &line.values).map(|(_, value)| *value);
    let largest = values.fold(0.0, f64::max).max(1.0);
    let step = round_step(largest, INTERVALS);
    // Rounded up, so that the axis ends at a line of the grid.
    let limit = (largest / step).ceil() * step;
    let up = |value: f64| top + PANEL_HEIGHT * (1.0 - value / limit);
    for number in ticks(limit, step) {
        let y = up(number);
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\"/><text class=\"n\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            y + 4.0,
            label(number, step)
        );
    }
    let _ = writeln!(svg, "<text class=\"t\" x=\"{LEFT}\" y=\"{:.1}\">{}</text>", top - 8.0, panel.title);
    for (index, (line, colour)) in panel.lines.iter().zip(COLOURS.iter().cycle()).enumerate() {
        let corners: Vec<String> =
            line.values.iter().map(|(x, y)| format!("{:.1},{:.1}", across(*x, longest), up(*y))).collect();
        let _ = writeln!(svg, "<polyline stroke=\"{colour}\" points=\"{}\"/>", corners.join(" "));
        let x = WIDTH - RIGHT - index as f64 * 70.0;
        let _ = writeln!(
            svg,
            "<text class=\"n\" x=\"{x:.1}\" y=\"{:.1}\" style=\"fill:{colour}\">{}</text>",
            top - 8.0,
            line.name
        );
    }
}

fn across(value: f64, longest: f64) -> f64 {
    LEFT + (WIDTH - LEFT - RIGHT) * value / longest
}

/// Multiples of `step` from 0 to `limit`.
fn ticks(limit: f64, step: f64) -> impl Iterator<Item = f64> {
    (0_u32..)
        .map(move |number| f64::from(number) * step)
        .take_while(move |&value| value <= limit * (1.0 + 1e-9))
}

fn label(number: f64, step: f64) -> String {
    let decimals = if step >= 1.0 { 0 } else { 2 };
    format!("{number:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_grid_are_round_numbers() {
        let steps = [1.0, 4.0, 7.0, 40.0, 55.0, 0.3].map(|largest| round_step(largest, INTERVALS));
        for (found, expected) in steps.iter().zip([0.5, 1.0, 2.0, 10.0, 20.0, 0.1]) {
            assert!((found - expected).abs() < 1e-9, "{found} instead of {expected}");
        }
        assert_eq!(ticks(20.0, 5.0).count(), 5);
    }

    #[test]
    fn a_panel_has_its_title_its_numbers_and_a_line_within_its_bounds() {
        let lines = vec![Line { name: "daemon", values: vec![(0.0, 10.0), (5.0, 48.0)] }];
        let svg = draw(&[Panel { title: "memory, MiB", lines }], "minutes");
        for piece in ["memory, MiB</text>", ">daemon</text>", ">minutes</text>", ">60</text>", ">4</text>"] {
            assert!(svg.contains(piece), "{piece} is missing in {svg}");
        }
        assert!(svg.contains("points=\"60.0,126.0 736.0,50.0\""), "{svg}");
        assert!(svg.ends_with("</svg>\n") && draw(&[], "minutes").ends_with("</svg>\n"));
    }
}
