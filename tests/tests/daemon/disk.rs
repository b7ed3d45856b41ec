// SPDX-License-Identifier: MIT OR Apache-2.0
//! A small file system in memory, to test a full and a read-only disk.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

/// A tmpfs of 1 MiB. Dropping it unmounts it.
pub(crate) struct Disk(TempDir);

impl Disk {
    pub(crate) fn new() -> Self {
        let disk = Self(TempDir::new().unwrap());
        disk.mount(&["-t", "tmpfs", "-o", "size=1m", "tmpfs"]);
        disk
    }

    pub(crate) fn mount(&self, arguments: &[&str]) {
        let status = Command::new("mount").args(arguments).arg(self.0.path()).status().unwrap();
        assert!(status.success(), "mount {arguments:?}");
    }

    /// Path of a database on the disk.
    pub(crate) fn database(&self) -> PathBuf {
        self.0.path().join("flows.db")
    }

    /// Fills the disk. Returns the file to delete later.
    pub(crate) fn fill(&self) -> PathBuf {
        let filler = self.0.path().join("filler");
        fs::write(&filler, vec![0; 2 << 20]).expect_err("the file is larger than the disk");
        filler
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}
