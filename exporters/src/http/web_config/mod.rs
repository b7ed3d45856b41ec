// SPDX-License-Identifier: MIT OR Apache-2.0
//! TLS and basic auth from the web-config file of Prometheus exporters. Changed files are reloaded; if that fails, the previous rules stay.

#[cfg(feature = "web-config")]
mod auth;
#[cfg(feature = "web-config")]
mod file;
#[cfg(feature = "web-config")]
mod load;
#[cfg(not(feature = "web-config"))]
#[path = "without.rs"]
mod load;
#[cfg(feature = "web-config")]
mod tls;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

#[cfg(feature = "fuzz")]
pub(super) use load::check_text;
use load::{TlsAcceptor, Users};

/// Why a web-config file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("web-config file {}: {reason}", path.display())]
pub struct WebConfigError {
    path: PathBuf,
    reason: String,
}

/// The access rules.
#[derive(Default)]
pub(super) struct Rules {
    /// Accepts TLS connections. `None`: plain HTTP.
    pub(super) tls: Option<TlsAcceptor>,
    /// The users who may log in. `None`: no basic auth.
    pub(super) users: Option<Users>,
    /// Whether every client must authenticate.
    pub(super) is_authenticated: bool,
}

/// A web-config file and the rules from its last valid version.
pub struct Access {
    /// Path of the web-config file. `None`: access is unrestricted.
    path: Option<PathBuf>,
    state: Mutex<State>,
    /// Names, separated by commas, that a Host header may have in addition to the names of this machine.
    pub hosts: String,
}

#[derive(Default)]
struct State {
    rules: Arc<Rules>,
    versions: Versions,
}

/// The files from which the rules were loaded, with their versions. `None`: the file did not exist.
type Versions = BTreeMap<PathBuf, Option<Version>>;

/// Modification time, size and inode. The inode reveals a replacement within the resolution of the time.
type Version = (i64, i64, u64, u64);

impl Access {
    /// Access without TLS and without basic auth.
    pub fn unrestricted() -> Self {
        Self { path: None, state: Mutex::default(), hosts: String::new() }
    }

    /// Loads a web-config file.
    pub fn from_file(path: &Path) -> Result<Self, WebConfigError> {
        let mut versions = Versions::new();
        let rules = Arc::new(load(path, false, &mut versions)?);
        let state = Mutex::new(State { rules, versions });
        Ok(Self { path: Some(path.to_owned()), state, ..Self::unrestricted() })
    }

    /// The rules in force. If a file has changed, reloads them first and returns the outcome too.
    pub(super) fn current(&self) -> (Arc<Rules>, Option<Result<(), WebConfigError>>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(path) = &self.path else { return (Arc::clone(&state.rules), None) };
        if state.versions.iter().all(|(file, version)| version_of(file) == *version) {
            return (Arc::clone(&state.rules), None);
        }
        // After a failure, a change of any known file causes another attempt.
        let mut versions: Versions =
            state.versions.keys().map(|file| (file.clone(), version_of(file))).collect();
        let is_restricted = state.rules.tls.is_some() || state.rules.users.is_some();
        let loaded = load(path, is_restricted, &mut versions);
        state.versions = versions;
        let outcome = loaded.map(|rules| state.rules = Arc::new(rules));
        (Arc::clone(&state.rules), Some(outcome))
    }
}

fn load(path: &Path, is_restricted: bool, versions: &mut Versions) -> Result<Rules, WebConfigError> {
    let mut note = |file: &Path| {
        versions.insert(file.to_owned(), version_of(file));
    };
    let loaded = load::load(path, is_restricted, &mut note);
    let (tls, users, is_authenticated) =
        loaded.map_err(|reason| WebConfigError { path: path.to_owned(), reason })?;
    Ok(Rules { tls, users, is_authenticated })
}

fn version_of(file: &Path) -> Option<Version> {
    let metadata = fs::metadata(file).ok()?;
    Some((metadata.mtime(), metadata.mtime_nsec(), metadata.size(), metadata.ino()))
}
