// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pictures of the live view for the documents: real demos in a real terminal, drawn as SVG. `./dev pictures` makes them.

mod ansi;
mod svg;

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use mpwatch_lab::poll_until;

use crate::harness::program;
use crate::harness::tmux::Tmux;

/// Columns and rows.
const SIZE: (u16, u16) = (120, 22);
/// The picture shows at least this many values of a rate history.
const MIN_HISTORY: usize = 8;
const TIMEOUT: Duration = Duration::from_mins(2);

/// A picture: its name, the command, and parts of the findings that the screen shows once it is worth a picture.
pub const PICTURES: [(&str, &str, &[&str]); 2] = [
    ("shared", "demo shared --seconds 120", &["share one bottleneck"]),
    ("failover", "demo failover --seconds 40", &["failed at", "outage from"]),
];

/// Draws all pictures into a folder. Needs root.
pub fn draw_all(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for (name, arguments, words) in PICTURES {
        eprintln!("pictures: mpwatch {arguments}");
        let path = folder.join(format!("{name}.svg"));
        fs::write(&path, svg::picture(&capture(arguments, words), SIZE.0, &format!("mpwatch {arguments}")))?;
        eprintln!("pictures: wrote {}", path.display());
    }
    Ok(())
}

/// Runs the program until its screen shows these words, and returns the screen with its colours.
fn capture(arguments: &str, words: &[&str]) -> String {
    let command = format!(
        "exec env -u NO_COLOR LC_ALL=C.UTF-8 MPWATCH_SCREEN_CONFIG= {} {arguments}",
        program().display()
    );
    let tmux = Tmux::start(SIZE, &["sh", "-c", &command]);
    let ready = poll_until("the picture", TIMEOUT, || {
        let screen = tmux.screen();
        let is_ready =
            words.iter().all(|word| screen.contains(word)) && history_length(&screen) >= MIN_HISTORY;
        is_ready.then_some(())
    });
    ready.unwrap_or_else(|error| panic!("{error}; the screen:\n{}", tmux.screen()));
    let screen = tmux.coloured();
    tmux.press(&["q"]);
    screen
}

/// Number of values in the longest rate history on the screen.
fn history_length(screen: &str) -> usize {
    let pieces = screen.lines().flat_map(|line| line.split(|letter| !('▁'..='█').contains(&letter)));
    pieces.map(|piece| piece.chars().count()).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documents_have_their_pictures_and_these_are_small() {
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

    #[test]
    fn the_longest_history_on_the_screen_counts() {
        assert_eq!(history_length("a ▁▂█ b ▁▁▁▁▁\n█"), 5);
    }
}
