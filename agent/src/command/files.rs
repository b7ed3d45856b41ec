// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files of one command must not be the same: what is written would destroy what is read, without a word.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Refuses two of these that are one file. `None`: not asked for.
pub(super) fn distinct(files: &[Option<&Path>]) -> anyhow::Result<()> {
    let given: Vec<&Path> = files.iter().copied().flatten().collect();
    for (nth, one) in given.iter().enumerate() {
        for other in &given[nth + 1..] {
            anyhow::ensure!(
                !is_same(one, other),
                "{} would be overwritten: this command is given it twice (also as {}); name another file",
                one.display(),
                other.display()
            );
        }
    }
    Ok(())
}

/// By identity where both are there, by name where they are not.
fn is_same(one: &Path, other: &Path) -> bool {
    let regular = |path: &Path| std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file);
    match (regular(one), regular(other)) {
        (Some(one), Some(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        (None, None) if !one.exists() && !other.exists() => {
            std::path::absolute(one).ok() == std::path::absolute(other).ok()
        }
        _ => false,
    }
}
