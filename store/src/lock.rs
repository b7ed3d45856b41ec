// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lock that admits one writer at a time, on a file next to the database.

use std::fs::{self, File, Metadata, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

use crate::error::{ErrorKind, StoreError, with_suffix};

/// Excludes other writers while it lives. Dropping it removes its file.
pub(crate) struct Lock {
    name: PathBuf,
    /// Locked while it is open.
    file: File,
}

impl Lock {
    /// Fails if another process holds the lock.
    pub(crate) fn acquire(path: &Path) -> Result<Self, StoreError> {
        let name = with_suffix(path, ".lock");
        let advice = "its folder must exist, and this user must be allowed to write there";
        let refuse = |error: io::Error| {
            let kind = match error.kind() {
                io::ErrorKind::StorageFull => ErrorKind::Temporary,
                io::ErrorKind::PermissionDenied => ErrorKind::Denied,
                _ => ErrorKind::Lasting,
            };
            StoreError::refused(path, format!("{}: {error}", name.display()), advice).with_kind(kind)
        };
        loop {
            let mut options = File::options();
            options.create(true).truncate(false).write(true).mode(0o600);
            // A link that another user has put there is not followed.
            options.custom_flags(OFlag::O_NOFOLLOW.bits());
            let file = options.open(&name).map_err(refuse)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(StoreError::in_use(path)),
                Err(TryLockError::Error(error)) => return Err(refuse(error)),
            }
            // If another process removed the file before it was locked, the lock does not exclude other writers: try again.
            if is_still(&name, identity(&file.metadata().map_err(refuse)?)) {
                return Ok(Self { name, file });
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The lock is still held, so the file does not belong to another process.
        // If the file was removed, another writer may have created it again.
        if self.file.metadata().is_ok_and(|file| is_still(&self.name, identity(&file))) {
            let _ = fs::remove_file(&self.name);
        }
    }
}

/// Whether a process is writing a database, according to the kernel's list of locks. The lock file is not tried, because other users cannot open
/// it: a user who could lock it could prevent the writer from starting.
pub(crate) fn is_held(path: &Path) -> bool {
    let Ok(found) = fs::metadata(with_suffix(path, ".lock")) else { return false };
    // Compares the inode only: on btrfs, the list has another device number than stat(2).
    let inode = format!(":{} ", found.ino());
    let is_ours = |line: &str| line.contains(" FLOCK ") && line.contains(&inode);
    fs::read_to_string("/proc/locks").map_or(true, |locks| locks.lines().any(is_ours))
}

/// Device and inode of a file, which distinguish it from another file with the same name.
pub(crate) fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Whether a path still refers to the file with this identity. A path that cannot be examined, for lack of memory, counts as unchanged.
pub(crate) fn is_still(path: &Path, wanted: (u64, u64)) -> bool {
    match fs::metadata(path) {
        Ok(found) => identity(&found) == wanted,
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}
