// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files are private, and reports mark a run that its writer has not ended.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::*;
use crate::error::with_suffix;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// An open store that has written a closed connection.
fn written(file: &Path) -> Store {
    let store = Store::open(file, &Limits::none()).unwrap();
    store.deliver(&tick(0, vec![fixture::closed(1)]));
    wait_until(|| store.figures().written > 0);
    store
}

fn cut_short(file: &Path) -> Option<String> {
    read(file).0.run.cut_short
}

#[test]
fn a_new_file_and_its_log_and_lock_are_private() {
    let (_folder, file) = folder();
    let store = written(&file);
    for ending in ["", "-wal", "-shm", ".lock"] {
        assert_eq!(mode(&with_suffix(&file, ending)), 0o600, "{ending}");
    }
    store.close();
    let (_folder, file) = folder();
    let group = fs::metadata(file.parent().unwrap()).map(|found| std::os::unix::fs::MetadataExt::gid(&found));
    crate::create(&file, Some(group.unwrap())).unwrap();
    let store = written(&file);
    for ending in ["", "-wal", "-shm"] {
        assert_eq!(mode(&with_suffix(&file, ending)), 0o640, "{ending}");
    }
    // A member of the group who can open this file could lock it, and the daemon would not start again.
    assert_eq!(mode(&with_suffix(&file, ".lock")), 0o600);
    store.close();
    // The target of a symbolic link is created as private as a file.
    let (_linked, link) = folder();
    let target = link.with_file_name("target.db");
    std::os::unix::fs::symlink(&target, &link).unwrap();
    written(&link).close();
    assert_eq!(mode(&target), 0o600);
    // An existing file keeps its permissions.
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    written(&file).close();
    assert_eq!(mode(&file), 0o644);
}

#[test]
fn a_run_that_was_not_ended_is_reported_unless_it_is_still_written() {
    let (_folder, file) = folder();
    let store = written(&file);
    assert_eq!(cut_short(&file), None, "the run is being written");
    // The state that a killed writer leaves.
    let (_other, killed) = folder();
    for ending in ["", "-wal"] {
        fs::copy(with_suffix(&file, ending), with_suffix(&killed, ending)).unwrap();
    }
    let reason = cut_short(&killed).unwrap();
    assert!(reason.starts_with("mpwatch was killed"), "{reason}");
    assert_eq!(store.close(), StoreLosses::default());
    assert_eq!(cut_short(&file), None, "the run has ended");
    // The next run does not make the first one complete.
    written(&killed).close();
    let reason = cut_short(&killed).unwrap();
    assert!(reason.starts_with("1 of 2 runs: mpwatch was killed"), "{reason}");
}

#[test]
fn a_run_whose_source_ended_early_keeps_the_reason() {
    let (_folder, file) = folder();
    let store = written(&file);
    store.set_cut_short("the file ends abruptly");
    store.close();
    assert_eq!(cut_short(&file).as_deref(), Some("the file ends abruptly"));
}

#[test]
fn links_in_place_of_its_files_are_not_followed() {
    let (folder, file) = folder();
    let target = folder.path().join("target");
    fs::write(&target, "secret").unwrap();
    fs::set_permissions(&target, fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink(&target, with_suffix(&file, "-reserve")).unwrap();
    written(&file).close();
    std::os::unix::fs::symlink(&target, with_suffix(&file, ".lock")).unwrap();
    assert!(Store::open(&file, &Limits::none()).is_err());
    assert_eq!((fs::read(&target).unwrap(), mode(&target)), (b"secret".to_vec(), 0o640));
}
