// SPDX-License-Identifier: MIT OR Apache-2.0
//! Extracts plots from HTML reports: the same SVG files that a reader of the page can save.

use std::io;

use mpwatch_testkit::mpwatch;

/// The beginning of the link with which a reader saves a drawing.
const DRAWING: &str = "href=\"data:image/svg+xml;charset=utf-8,";

/// A demo whose report has plots for the documents.
pub(super) struct DemoReport {
    arguments: &'static [&'static str],
    pub(super) plots: &'static [Plot],
}

/// A plot of a report.
pub(super) struct Plot {
    /// Name of the file, without extension.
    pub(super) name: &'static str,
    /// The document that contains the plot.
    pub(super) document: &'static str,
    /// The beginning of the plot's file name in the page.
    in_page: &'static str,
}

const fn plot(name: &'static str, in_page: &'static str) -> Plot {
    Plot { name, document: "docs/research.md", in_page }
}

pub(super) const REPORTS: [DemoReport; 2] = [
    DemoReport {
        arguments: &["failover", "--seconds", "20", "--samples", "500ms"],
        plots: &[
            plot("report-lanes", "lanes-"),
            plot("report-throughput", "throughput-"),
            plot("report-rtt", "smoothed-rtt-"),
        ],
    },
    DemoReport {
        arguments: &["requests", "--seconds", "20"],
        plots: &[plot("report-completion", "completion-times")],
    },
];

impl DemoReport {
    /// Runs the demo and returns its HTML report.
    pub(super) fn page(&self) -> io::Result<String> {
        let folder = tempfile::tempdir()?;
        let database = folder.path().join("demo.db").display().to_string();
        let demo = [&["demo", "--headless", "--db", &*database], self.arguments].concat();
        succeed(&demo)?;
        succeed(&["report", "--db", &database, "--format", "html"])
    }
}

fn succeed(arguments: &[&str]) -> io::Result<String> {
    eprintln!("pictures: mpwatch {}", arguments.join(" "));
    let output = mpwatch(arguments);
    if output.code == Some(0) { Ok(output.stdout) } else { Err(io::Error::other(output.stderr)) }
}

impl Plot {
    /// The content of the file that a browser saves for this plot in `page`.
    pub(super) fn in_page(&self, page: &str) -> io::Result<String> {
        let link = page.split("<a download=\"").find(|link| link.starts_with(self.in_page));
        let content = link.and_then(|link| link.split_once(DRAWING)?.1.split_once('"'));
        let content = content.ok_or_else(|| io::Error::other(format!("no plot `{}`", self.in_page)))?.0;
        Ok(decoded(content)? + "\n")
    }
}

/// Decodes the percent-encoded text of a URI.
fn decoded(uri: &str) -> io::Result<String> {
    let mut pieces = uri.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let byte = piece.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes
            .push(byte.ok_or_else(|| io::Error::other(format!("%{piece} does not encode a byte of a URI")))?);
        bytes.extend_from_slice(&piece.as_bytes()[2..]);
    }
    String::from_utf8(bytes).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_equals_the_file_that_the_page_saves() {
        let page = "<p class=\"save\"><a download=\"cwnd-1.csv\" href=\"data:text/csv,a\">CSV</a>\
                    <a download=\"lanes-1.svg\" href=\"data:image/svg+xml;charset=utf-8,%3Csvg a='b'%3E100 %25%3C%2Fsvg%3E\">SVG</a>";
        assert_eq!(plot("x", "lanes-").in_page(page).unwrap(), "<svg a='b'>100 %</svg>\n");
        assert!(plot("x", "rtt-").in_page(page).is_err());
        assert!(decoded("100%").is_err());
    }
}
