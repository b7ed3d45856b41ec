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

/// The picture shows at least this many values of a rate history.
const MIN_HISTORY: usize = 8;
const TIMEOUT: Duration = Duration::from_mins(2);

/// A picture.
pub struct Picture {
    /// Name of its file, without extension.
    name: &'static str,
    /// The document that shows it.
    document: &'static str,
    /// Columns and rows.
    size: (u16, u16),
    /// Name of the theme.
    theme: &'static str,
    arguments: &'static str,
    /// Parts of the screen once it is worth a picture.
    words: &'static [&'static str],
}

const FAILOVER: &str = "demo failover --seconds 40";
const FAILED: &[&str] = &["failed at", "outage from"];

/// All pictures.
pub const PICTURES: [Picture; 5] = [
    Picture {
        name: "shared",
        document: "README.md",
        size: (120, 22),
        theme: "dark",
        arguments: "demo shared --seconds 120",
        words: &["share one bottleneck"],
    },
    failover("failover", "README.md", (120, 22), "dark"),
    failover("failover-80x24", "docs/screen.md", (80, 24), "colour-blind"),
    failover("failover-120x40", "docs/screen.md", (120, 40), "light"),
    failover("failover-200x60", "docs/screen.md", (200, 60), "dark"),
];

const fn failover(
    name: &'static str,
    document: &'static str,
    size: (u16, u16),
    theme: &'static str,
) -> Picture {
    Picture { name, document, size, theme, arguments: FAILOVER, words: FAILED }
}

/// Draws all pictures into a folder. Needs root.
pub fn draw_all(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for picture in &PICTURES {
        let title = format!("mpwatch {}", picture.arguments);
        eprintln!("pictures: {title}, {}x{}, {}", picture.size.0, picture.size.1, picture.theme);
        let path = folder.join(format!("{}.svg", picture.name));
        let palette = if picture.theme == "light" { ansi::LIGHT } else { ansi::DARK };
        fs::write(&path, svg::picture(&capture(picture)?, picture.size.0, &title, palette))?;
        eprintln!("pictures: wrote {} for {}", path.display(), picture.document);
    }
    Ok(())
}

/// Runs the program until its screen shows these words, and returns the screen with its colours.
fn capture(picture: &Picture) -> io::Result<String> {
    let Picture { size, theme, arguments, words, .. } = *picture;
    let settings = std::env::temp_dir().join(format!("mpwatch-pictures-{}.toml", std::process::id()));
    fs::write(&settings, format!("theme = \"{theme}\"\n"))?;
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
    let pieces = screen.lines().flat_map(|line| line.split(|letter| !('▁'..='█').contains(&letter)));
    pieces.map(|piece| piece.chars().count()).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documents_have_their_pictures_and_these_are_small() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for Picture { name, document, .. } in PICTURES {
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
