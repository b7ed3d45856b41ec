// SPDX-License-Identifier: MIT OR Apache-2.0
//! Identifies the content of files, and refuses a command whose output would overwrite another of its files.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::live::recording::is_recording;

/// First bytes of every SQLite file.
const SQLITE: &[u8; 16] = b"SQLite format 3\0";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Database,
    Recording,
    Other,
}

impl Content {
    /// Identifies a file by its first bytes. A pipe or a device is `Other`.
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        // Opening a pipe would wait for its other end.
        if !std::fs::metadata(path)?.is_file() {
            return Ok(Self::Other);
        }
        let mut begin = Vec::new();
        File::open(path)?.take(SQLITE.len() as u64).read_to_end(&mut begin)?;
        if begin == SQLITE {
            return Ok(Self::Database);
        }
        Ok(if is_recording(&File::open(path)?) { Self::Recording } else { Self::Other })
    }
}

/// Fails if two of the given paths are the same file.
pub(super) fn ensure_distinct(paths: &[Option<&Path>]) -> anyhow::Result<()> {
    let given: Vec<&Path> = paths.iter().copied().flatten().collect();
    for (index, path) in given.iter().enumerate() {
        for other in &given[index + 1..] {
            anyhow::ensure!(
                !is_same(path, other),
                "{} and {} are the same file and would overwrite each other; choose another file",
                path.display(),
                other.display()
            );
        }
    }
    Ok(())
}

/// Whether two paths are the same file: by device and inode if both are regular files, by name if neither exists, otherwise `false`.
pub(super) fn is_same(a: &Path, b: &Path) -> bool {
    let regular = |path: &Path| std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file);
    match (regular(a), regular(b)) {
        (Some(a), Some(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        (None, None) if !a.exists() && !b.exists() => {
            std::path::absolute(a).ok() == std::path::absolute(b).ok()
        }
        _ => false,
    }
}
