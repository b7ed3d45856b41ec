// SPDX-License-Identifier: MIT OR Apache-2.0
//! Styles of curves. They also differ without colours: by dashes and marks. Values from a paper are black, with hollow diamonds.

use super::drawing::colour;

/// Number of dash patterns of the style sheet, and of marks.
const KINDS: usize = 6;

/// The style of a curve.
#[derive(Clone, Copy)]
pub(super) struct CurveStyle {
    /// Position from 0: among the curves from papers if `is_paper`, else among the measured curves.
    number: usize,
    is_paper: bool,
}

impl CurveStyle {
    /// The styles of curves, in order. `true`: a paper reports the curve.
    pub(super) fn from_papers(papers: impl Iterator<Item = bool>) -> Vec<Self> {
        let mut numbers = [0.., 0..];
        let style = |is_paper: bool| Some(Self { number: numbers[usize::from(is_paper)].next()?, is_paper });
        papers.filter_map(style).collect()
    }

    /// CSS classes of the line. Curves of one colour have different dashes.
    pub(super) fn line(self) -> String {
        let repeats = if self.is_paper { 0 } else { self.number / KINDS };
        format!("{} d{}", self.stroke(), (self.number + repeats) % KINDS + 1)
    }

    /// CSS class of the colour, which intervals use too.
    pub(super) fn stroke(self) -> String {
        if self.is_paper { "paper".to_owned() } else { format!("l{}", colour(self.number)) }
    }

    pub(super) fn mark(self, x: f64, y: f64) -> String {
        let (stroke, fill) = (self.stroke(), colour(self.number));
        let [left, top] = [x - 2.6, y - 2.6];
        match self.number % KINDS {
            _ if self.is_paper => {
                format!(
                    "<path class=\"hollow {stroke}\" d=\"M{x:.1} {:.1}l4.5 4.5l-4.5 4.5l-4.5-4.5z\"/>\n",
                    y - 4.5
                )
            }
            0 => format!("<circle class=\"f{fill}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.8\"/>\n"),
            1 => format!("<path class=\"f{fill}\" d=\"M{left:.1} {top:.1}h5.2v5.2h-5.2z\"/>\n"),
            2 => format!("<path class=\"f{fill}\" d=\"M{x:.1} {:.1}l3.6 6.2h-7.2z\"/>\n", y - 3.8),
            3 => format!("<circle class=\"hollow {stroke}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.8\"/>\n"),
            4 => format!(
                "<path class=\"hollow {stroke}\" d=\"M{left:.1} {top:.1}l5.2 5.2m0-5.2l-5.2 5.2\"/>\n"
            ),
            _ => format!("<path class=\"hollow {stroke}\" d=\"M{left:.1} {top:.1}h5.2v5.2h-5.2z\"/>\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twelve_measured_curves_and_a_paper_have_different_styles() {
        let styles = CurveStyle::from_papers((0..12).map(|_| false).chain([true]));
        let all: std::collections::BTreeSet<(String, String)> =
            styles.iter().map(|style| (style.line(), style.stroke())).collect();
        assert_eq!(all.len(), 13);
        assert!(styles[12].mark(0.0, 0.0).contains("hollow paper"));
    }

    #[test]
    fn without_colours_six_curves_differ_by_mark_and_by_dash() {
        let without = |text: String| text.replace(|c: char| c.is_ascii_digit(), "");
        let styles = CurveStyle::from_papers((0..6).map(|_| false));
        let dashes: std::collections::BTreeSet<String> =
            styles.iter().map(|it| it.line().split(' ').nth(1).unwrap_or_default().to_owned()).collect();
        let marks: std::collections::BTreeSet<String> =
            styles.iter().map(|style| without(style.mark(9.0, 9.0))).collect();
        assert_eq!((dashes.len(), marks.len()), (6, 6));
    }
}
