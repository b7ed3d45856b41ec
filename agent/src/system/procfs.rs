// SPDX-License-Identifier: MIT OR Apache-2.0
//! Small text files of `/proc` and `/sys`.

use std::fs;
use std::path::Path;

/// The content of a small file of `/proc` or `/sys`, without blanks around it. `None`: it cannot be read.
pub(crate) fn read_file(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// A folder with these files.
#[cfg(test)]
pub(crate) fn folder_with(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}
