// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exports of the live view: files in the current directory that only the user may read. No file is overwritten.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use mpwatch_model::flow::series::CounterSeries;
use mpwatch_model::snapshot::Report;
use mpwatch_report::json::{self, Layout};
use mpwatch_report::markdown;
use mpwatch_store::SheetKind;
use mpwatch_tui::screen::ExportFormat;

use crate::command::sheet::sheet;

/// Maximum number of files with the same name.
const MAX_FILES: u32 = 1_000;

/// Writes a report. Returns a message with its path and size.
pub(super) fn write(report: &Report, format: ExportFormat) -> anyhow::Result<String> {
    let directory = std::env::current_dir().context("cannot find the current directory")?;
    let text = text(report, format)?;
    let path = write_to(&directory, &stem(report), format.description().1, &text)?;
    Ok(format!("wrote {} ({} bytes)", path.display(), text.len()))
}

fn text(report: &Report, format: ExportFormat) -> anyhow::Result<String> {
    Ok(match format {
        ExportFormat::Json => format!("{}\n", json::text(report, Layout::Pretty)?),
        ExportFormat::Csv => sheet(report, &CounterSeries::new(), SheetKind::Subflows)?,
        ExportFormat::Markdown => markdown::report(report),
    })
}

fn stem(report: &Report) -> String {
    let what = match &report.connections[..] {
        [only] => only.id.short(),
        several => format!("{}-connections", several.len()),
    };
    format!("mpwatch-{what}-{}", report.run.to.strftime("%Y%m%d-%H%M%S"))
}

fn write_to(directory: &Path, stem: &str, ending: &str, text: &str) -> anyhow::Result<PathBuf> {
    for number in 1..=MAX_FILES {
        let number = if number == 1 { String::new() } else { format!("-{number}") };
        let path = directory.join(format!("{stem}{number}.{ending}"));
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Ok(mut file) => {
                file.write_all(text.as_bytes())
                    .with_context(|| format!("cannot write {}", path.display()))?;
                return Ok(path);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).with_context(|| format!("cannot create {}", path.display())),
        }
    }
    anyhow::bail!("{} already has {MAX_FILES} files named {stem}", directory.display())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use mpwatch_fixtures as fixture;

    use super::*;

    #[test]
    fn every_export_is_a_new_private_file_in_its_format() {
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
