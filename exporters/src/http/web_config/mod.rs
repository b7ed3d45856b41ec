// SPDX-License-Identifier: MIT OR Apache-2.0
//! TLS and basic auth from the web-config file of Prometheus exporters. Changed files are reloaded; if that fails, the previous rules stay.

mod auth;
mod file;
mod tls;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio_rustls::TlsAcceptor;

use auth::Users;
use file::{ClientAuth, TlsServer};

/// Why a web-config file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("web-config file {}: {reason}", path.display())]
pub struct WebConfigError {
    path: PathBuf,
    reason: String,
}

/// The rules of access.
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
        Self { path: None, state: Mutex::default() }
    }

    /// Loads a web-config file.
    pub fn from_file(path: &Path) -> Result<Self, WebConfigError> {
        let mut versions = Versions::new();
        let rules = Arc::new(load(path, &mut versions)?);
        Ok(Self { path: Some(path.to_owned()), state: Mutex::new(State { rules, versions }) })
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
        let loaded = load(path, &mut versions);
        state.versions = versions;
        let outcome = loaded.map(|rules| state.rules = Arc::new(rules));
        (Arc::clone(&state.rules), Some(outcome))
    }
}

/// Loads a web-config file and the files that it names. Records the version of each file before reading it, so that no change is missed.
fn load(path: &Path, versions: &mut Versions) -> Result<Rules, WebConfigError> {
    let invalid = |reason: String| WebConfigError { path: path.to_owned(), reason };
    versions.insert(path.to_owned(), version_of(path));
    let text = fs::read(path).map_err(|error| invalid(error.to_string()))?;
    let parsed = file::parse(&String::from_utf8_lossy(&text)).map_err(invalid)?;
    let tls = parsed.tls_server_config.map(|server| server.resolved(path));
    for file in tls.iter().flat_map(TlsServer::files) {
        versions.insert(file.clone(), version_of(&file));
    }
    let users = parsed.basic_auth_users.filter(|users| !users.is_empty());
    let requires = |server: &TlsServer| server.client_auth_type == ClientAuth::RequireAndVerifyClientCert;
    let is_authenticated = tls.as_ref().is_some_and(requires) || users.is_some();
    let tls = tls.as_ref().map(tls::server).transpose().map_err(invalid)?;
    Ok(Rules {
        tls: tls.map(|server| TlsAcceptor::from(Arc::new(server))),
        users: users.map(Users::new).transpose().map_err(invalid)?,
        is_authenticated,
    })
}

/// Checks the text of the web-config file at `path`, but not the files that it names.
#[cfg(feature = "fuzz")]
pub(super) fn check_text(path: &Path, text: &str) -> Result<(), String> {
    let parsed = file::parse(text)?;
    if let Some(server) = &parsed.tls_server_config {
        server.resolved(path);
    }
    parsed.basic_auth_users.map(Users::new).transpose().map(drop)
}

fn version_of(file: &Path) -> Option<Version> {
    let metadata = fs::metadata(file).ok()?;
    Some((metadata.mtime(), metadata.mtime_nsec(), metadata.size(), metadata.ino()))
}
