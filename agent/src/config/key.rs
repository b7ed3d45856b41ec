// SPDX-License-Identifier: MIT OR Apache-2.0
//! The definition of a configuration key, and values that several keys share.

use std::path::{Path, PathBuf};

use toml::Value;

use super::values::Config;

pub(super) struct Key {
    /// Name in the file. A dot separates table and key.
    pub(super) name: &'static str,
    /// Option of the command line. Empty: none.
    pub(super) flag: &'static str,
    /// One sentence.
    pub(super) help: &'static str,
    /// Whether SIGHUP applies a change; otherwise a restart does.
    pub(super) reloads: bool,
    /// Parses and sets the value. The error says what a value looks like.
    pub(super) set: fn(&mut Config, &str) -> Result<(), String>,
    /// The value as in the file.
    pub(super) show: fn(&Config) -> Value,
}

impl Key {
    /// Type in the file, in the words of JSON Schema.
    pub(super) fn kind(&self) -> &'static str {
        (self.show)(&Config::default()).type_str()
    }

    /// Name of its environment variable.
    pub(super) fn environment(&self) -> String {
        format!("MPWATCH_{}", self.name.replace('.', "_").to_uppercase())
    }
}

/// `None` is an empty string.
pub(super) fn path_value(path: Option<&Path>) -> Value {
    path.unwrap_or(Path::new("")).to_string_lossy().as_ref().into()
}

/// A service has no directory that a relative path could start in.
pub(super) fn absolute(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.is_absolute() { Ok(path) } else { Err("use a path that begins with /".to_owned()) }
}

pub(super) fn optional_path(text: &str) -> Result<Option<PathBuf>, String> {
    if text.is_empty() { Ok(None) } else { absolute(text).map(Some) }
}
