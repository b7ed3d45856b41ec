// SPDX-License-Identifier: MIT OR Apache-2.0
//! One writer at a time: a lock on a file beside the database.

use std::fs::{File, Metadata, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::error::{StoreError, with_suffix};

/// A reader that tests the lock ([`is_held`]) holds it for an instant: how often to try again, and after which time.
const RETRIES: u32 = 10;
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// Keeps other writers out while it lives. Its file is removed with it, unless the process is killed.
pub(crate) struct Lock {
    name: PathBuf,
    file: File,
}

impl Lock {
    /// Takes it; fails where another writer has it.
    pub(crate) fn take(path: &Path) -> Result<Self, StoreError> {
        let name = with_suffix(path, ".lock");
        let advice = "its folder must exist, and this user must be allowed to write there";
        let refuse = |error: io::Error| StoreError {
            is_temporary: error.kind() == io::ErrorKind::StorageFull,
            is_denied: error.kind() == io::ErrorKind::PermissionDenied,
            ..StoreError::refused(path, format!("{}: {error}", name.display()), advice)
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
            // If another process has removed the name meanwhile, this lock excludes no other process.
            if is_still(&name, identity(&file.metadata().map_err(refuse)?)) {
                return Ok(Self { name, file });
            }
        }
    }

    /// Lets those open the lock who may read the database: they test whether it is being written.
    pub(crate) fn share_with_readers_of(&self, database: &Path) {
        // If this fails, readers do not know; nothing else depends on it.
        if let Ok(found) = std::fs::metadata(database) {
            let _ = fchown(&self.file, None, Some(found.gid()));
            let _ = self.file.set_permissions(Permissions::from_mode(found.mode() & 0o666));
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // While it is still held, so no other process can have taken it.
        let _ = std::fs::remove_file(&self.name);
    }
}

/// Whether a process is writing a database. A lock that this user may not open counts as held: then nothing is known.
pub(crate) fn is_held(path: &Path) -> bool {
    match File::open(with_suffix(path, ".lock")) {
        Ok(file) => matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
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
