// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is selected on the screen, as a file in the current folder. Never over another one, and for the user's eyes only.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use mpwatch_exporters::json::{self, Layout};
use mpwatch_exporters::{csv, markdown};
use mpwatch_model::snapshot::Report;
use mpwatch_tui::screen::ExportFormat;

/// So many files of one name at most.
const MOST: u32 = 1_000;

/// Writes it; where, and how much.
pub(super) fn write(report: &Report, format: ExportFormat) -> anyhow::Result<String> {
    let folder = std::env::current_dir().context("there is no current folder to write to")?;
    let text = text(report, format)?;
    let path = write_to(&folder, &stem(report), format.description().1, &text)?;
    Ok(format!("wrote {} ({} bytes)", path.display(), text.len()))
}

fn text(report: &Report, format: ExportFormat) -> anyhow::Result<String> {
    Ok(match format {
        ExportFormat::Json => format!("{}\n", json::report(report, Layout::Pretty)?),
        ExportFormat::Csv => csv::list(&report.connections)?,
        ExportFormat::Markdown => markdown::report(report),
    })
}

fn stem(report: &Report) -> String {
    let what = match &report.connections[..] {
        [one] => one.id.short(),
        several => format!("{}-connections", several.len()),
    };
    format!("mpwatch-{what}-{}", report.run.to.strftime("%Y%m%d-%H%M%S"))
}

fn write_to(folder: &Path, stem: &str, ending: &str, text: &str) -> anyhow::Result<PathBuf> {
    for number in 1..=MOST {
        let number = if number == 1 { String::new() } else { format!("-{number}") };
        let path = folder.join(format!("{stem}{number}.{ending}"));
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Ok(mut file) => {
                file.write_all(text.as_bytes()).with_context(|| format!("writing {}", path.display()))?;
                return Ok(path);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).with_context(|| format!("cannot create {}", path.display())),
        }
    }
    anyhow::bail!("there are {MOST} files called {stem} in {} already", folder.display())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use mpwatch_model::fixture;

    use super::*;

    #[test]
    fn no_file_is_written_over_and_each_format_is_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let report = fixture::report(vec![fixture::connection(0x9f3c_0a1b, 2)]);
        let mut texts = Vec::new();
        for format in ExportFormat::ALL {
            let text = text(&report, format).unwrap();
            let write = || write_to(folder.path(), &stem(&report), format.description().1, &text).unwrap();
            let (first, second) = (write(), write());
            assert_ne!(first, second);
            assert_eq!(std::fs::read_to_string(&second).unwrap(), text);
            assert_eq!(std::fs::metadata(&first).unwrap().permissions().mode() & 0o777, 0o600);
            texts.push(text);
        }
        assert!(serde_json::from_str::<Report>(&texts[0]).is_ok());
        assert_eq!(texts[1].lines().count(), 3);
        assert!(texts[2].starts_with("# mpwatch: "));
        assert!(write_to(Path::new("/proc"), "x", "json", "").is_err());
    }
}
