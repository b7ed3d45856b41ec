// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lock that admits one writer at a time, on a file next to the database.

use std::fs::{File, Metadata, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::error::{ErrorKind, StoreError, with_suffix};

/// Number of further attempts to lock the file, because a reader that tests the lock ([`is_held`]) holds it for an instant.
const RETRIES: u32 = 10;
/// Time between two attempts.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// Excludes other writers while it lives. Dropping it removes its file.
pub(crate) struct Lock {
    name: PathBuf,
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
        let mut retries = 0..RETRIES;
        loop {
            let mut options = File::options();
            let file = options.create(true).truncate(false).write(true).mode(0o600);
            let file = file.open(&name).map_err(refuse)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) if retries.next().is_some() => {
                    thread::sleep(RETRY_PAUSE);
                    continue;
                }
                Err(TryLockError::WouldBlock) => return Err(StoreError::in_use(path)),
                Err(TryLockError::Error(error)) => return Err(refuse(error)),
            }
            // If another process has removed the file meanwhile, the lock does not exclude others.
            if is_still(&name, identity(&file.metadata().map_err(refuse)?)) {
                return Ok(Self { name, file });
            }
        }
    }

    /// Gives readers of the database read access to the lock, so that they can test whether the database is being written.
    pub(crate) fn share_with_readers_of(&self, database: &Path) {
        // If this fails, readers assume that the database is being written.
        if let Ok(found) = std::fs::metadata(database) {
            let _ = fchown(&self.file, None, Some(found.gid()));
            let _ = self.file.set_permissions(Permissions::from_mode(found.mode() & 0o666));
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The lock is still held, so the file does not belong to another process.
        let _ = std::fs::remove_file(&self.name);
    }
}

/// Whether a process is writing a database. A lock that this user may not open counts as held.
pub(crate) fn is_held(path: &Path) -> bool {
    match File::open(with_suffix(path, ".lock")) {
        Ok(file) => matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

/// Device and inode of a file, which distinguish it from another file with the same name.
pub(crate) fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Whether a path still refers to the file with this identity.
pub(crate) fn is_still(path: &Path, wanted: (u64, u64)) -> bool {
    std::fs::metadata(path).is_ok_and(|found| identity(&found) == wanted)
}
