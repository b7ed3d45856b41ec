// SPDX-License-Identifier: MIT OR Apache-2.0
//! `./dev pictures`: draws the SVG pictures of the documents from demos in a real terminal, and from plots in HTML reports.

mod ansi;
mod report;
mod svg;

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use mpwatch_lab::poll_until;

use mpwatch_testkit::program;
use mpwatch_testkit::tmux::Tmux;

/// Minimum number of values of a rate history in a picture.
const MIN_HISTORY: usize = 8;
const TIMEOUT: Duration = Duration::from_mins(2);

/// A picture of the live view.
pub struct Picture {
    /// Name of the file, without extension.
    name: &'static str,
    /// The document that contains the picture.
    document: &'static str,
    /// Columns and rows of the screen.
    size: (u16, u16),
    /// The content of the screen's configuration file.
    settings: &'static str,
    arguments: &'static str,
    /// Texts that the screen must contain before the picture is taken.
    words: &'static [&'static str],
}

const FAILOVER: &str = "demo failover --seconds 40";
const FAILED: &[&str] = &["failed at", "outage from"];

/// All pictures of the live view. Together they show each theme, and the screen in ASCII.
pub const PICTURES: [Picture; 6] = [
    Picture {
        name: "shared",
        document: "README.md",
        size: (120, 22),
        settings: "theme = 'dark'",
        arguments: "demo shared --seconds 120",
        words: &["share one bottleneck"],
    },
    failover("failover", "README.md", (120, 22), "theme = 'dark'"),
    failover("failover-80x24", "docs/screen.md", (80, 24), "theme = 'colour-blind'"),
    failover("failover-120x40", "docs/screen.md", (120, 40), "theme = 'light'"),
    failover("failover-200x60", "docs/screen.md", (200, 60), "theme = 'dark'"),
    failover("failover-ascii", "docs/screen.md", (80, 24), "theme = 'mono'\ncharacters = 'ascii'"),
];

const fn failover(
    name: &'static str,
    document: &'static str,
    size: (u16, u16),
    settings: &'static str,
) -> Picture {
    Picture { name, document, size, settings, arguments: FAILOVER, words: FAILED }
}

/// Draws all pictures into a folder. Needs root.
pub fn draw_all(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for picture in &PICTURES {
        let title = format!("mpwatch {}", picture.arguments);
        eprintln!("pictures: {title}, {}x{}, {:?}", picture.size.0, picture.size.1, picture.settings);
        let palette = if picture.settings.contains("light") { ansi::LIGHT } else { ansi::DARK };
        let drawing = svg::picture(&capture(picture)?, picture.size.0, &title, palette);
        write(folder, picture.name, picture.document, &drawing)?;
    }
    for report in &report::REPORTS {
        let page = report.page()?;
        for plot in report.plots {
            write(folder, plot.name, plot.document, &plot.in_page(&page)?)?;
        }
    }
    Ok(())
}

fn write(folder: &Path, name: &str, document: &str, drawing: &str) -> io::Result<()> {
    let path = folder.join(format!("{name}.svg"));
    fs::write(&path, drawing)?;
    eprintln!("pictures: wrote {} for {document}", path.display());
    Ok(())
}

/// Runs the program until its screen is ready for the picture. Returns the text of the screen with escape sequences.
fn capture(picture: &Picture) -> io::Result<String> {
    let Picture { size, settings: lines, arguments, words, .. } = *picture;
    let settings = std::env::temp_dir().join(format!("mpwatch-pictures-{}.toml", std::process::id()));
    fs::write(&settings, lines)?;
    let command = format!(
        "exec env -u NO_COLOR LC_ALL=C.UTF-8 MPWATCH_SCREEN_CONFIG={} {} {arguments}",
        settings.display(),
        program().display()
    );
    let tmux = Tmux::start(size, &["sh", "-c", &command]);
    let ready = poll_until("the picture", TIMEOUT, || {
        let screen = tmux.screen();
        let is_ready =
            words.iter().all(|word| screen.contains(word)) && history_length(&screen) >= MIN_HISTORY;
        is_ready.then_some(())
    });
    ready.unwrap_or_else(|error| panic!("{error}; the screen:\n{}", tmux.screen()));
    let screen = tmux.coloured();
    tmux.press(&["q"]);
    fs::remove_file(&settings)?;
    Ok(screen)
}

/// Number of values in the longest rate history on the screen.
fn history_length(screen: &str) -> usize {
    let is_level = |letter: char| ('▁'..='█').contains(&letter) || "_-~=+*%#".contains(letter);
    let pieces = screen.lines().flat_map(|line| line.split(|letter| !is_level(letter)));
    pieces.map(|piece| piece.chars().count()).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documents_show_the_pictures_and_the_pictures_are_small() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let plots = report::REPORTS.iter().flat_map(|report| report.plots);
        let plots = plots.map(|plot| (plot.name, plot.document));
        let screens = PICTURES.iter().map(|picture| (picture.name, picture.document));
        for (name, document) in screens.chain(plots) {
            let path = format!("docs/images/{name}.svg");
            let text = fs::read_to_string(root.join(document)).unwrap();
            assert!(text.contains(&format!("images/{name}.svg")), "{document} does not show {path}");
            let picture = fs::read_to_string(root.join(&path)).unwrap();
            assert!(picture.len() < 200_000, "{path}: {} bytes", picture.len());
            assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
        }
    }

    #[test]
    fn the_longest_history_on_the_screen_counts() {
        assert_eq!(history_length("a ▁▂█ b ▁▁▁▁▁\n█"), 5);
    }
}
