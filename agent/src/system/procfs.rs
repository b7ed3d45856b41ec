// SPDX-License-Identifier: MIT OR Apache-2.0
//! Small text files of `/proc` and `/sys`.

use std::fs;
use std::path::Path;

/// The content without blanks around it. `None`: the file cannot be read.
pub(crate) fn read(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}
