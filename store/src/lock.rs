// SPDX-License-Identifier: MIT OR Apache-2.0
//! One writer at a time: a lock on a file beside the database.

use std::fs::{File, Metadata, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::error::{StoreError, beside};

/// Keeps other writers out while it lives. Its file is removed with it, unless the process is killed.
pub(crate) struct Lock {
    name: PathBuf,
    // Held, never read.
    _file: File,
}

impl Lock {
    /// Takes it; fails where another writer has it.
    pub(crate) fn take(path: &Path) -> Result<Self, StoreError> {
        let name = beside(path, ".lock");
        let advice = "its folder must exist, and this user must be allowed to write there";
        let refuse = |error: io::Error| StoreError {
            is_temporary: error.kind() == io::ErrorKind::StorageFull,
            is_denied: error.kind() == io::ErrorKind::PermissionDenied,
            ..StoreError::refused(path, format!("{}: {error}", name.display()), advice)
        };
        loop {
            let file =
                File::options().create(true).truncate(false).write(true).open(&name).map_err(refuse)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(StoreError::in_use(path)),
                Err(TryLockError::Error(error)) => return Err(refuse(error)),
            }
            // If another process has removed the name meanwhile, this lock excludes no other process.
            if is_still(&name, identity(&file.metadata().map_err(refuse)?)) {
                return Ok(Self { name, _file: file });
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // While it is still held, so no other process can have taken it.
        let _ = std::fs::remove_file(&self.name);
    }
}

/// Device and inode of a file: another file under the same name differs in them.
pub(crate) fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Whether a name still means this file.
pub(crate) fn is_still(path: &Path, file: (u64, u64)) -> bool {
    std::fs::metadata(path).is_ok_and(|found| identity(&found) == file)
}
