// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recognises the content of a file, and rejects a command whose output would overwrite another of its files.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::recording::is_recording;

/// How every SQLite file begins.
const SQLITE: &[u8; 16] = b"SQLite format 3\0";

/// Content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// Of SQLite.
    Database,
    /// Of `mpwatch record`.
    Recording,
    Other,
}

impl Content {
    /// Recognises the content by the first bytes. A pipe or a device is `Other`.
    pub(super) fn from_path(path: &Path) -> io::Result<Self> {
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
    for (index, one) in given.iter().enumerate() {
        for other in &given[index + 1..] {
            anyhow::ensure!(
                !is_same(one, other),
                "{} and {} are the same file and would overwrite each other; choose another file",
                one.display(),
                other.display()
            );
        }
    }
    Ok(())
}

/// Whether two paths are the same file: by device and inode if both exist, by name if neither does.
pub(super) fn is_same(one: &Path, other: &Path) -> bool {
    let regular = |path: &Path| std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file);
    match (regular(one), regular(other)) {
        (Some(one), Some(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        (None, None) if !one.exists() && !other.exists() => {
            std::path::absolute(one).ok() == std::path::absolute(other).ok()
        }
        _ => false,
    }
}
