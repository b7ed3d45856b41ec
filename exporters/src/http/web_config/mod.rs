// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who may read: TLS and basic auth by the web-config file of Prometheus exporters. The file, and the certificates that it names,
//! are read again as soon as one of them changes; a bad one leaves what was in force.

mod auth;
mod file;
mod tls;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio_rustls::TlsAcceptor;

pub(super) use auth::Users;

/// Why a web-config file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WebConfigError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is no YAML, or says what is not understood.
    #[error("{}: {why}", path.display())]
    Wrong {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

/// What a web-config file asks for.
pub(super) struct Rules {
    /// `None`: plain HTTP.
    pub(super) tls: Option<TlsAcceptor>,
    /// `None`: everyone may read.
    pub(super) users: Option<Users>,
}

/// A web-config file and what it asked for when it was last good.
pub struct Access {
    /// `None`: there is no file, and so no rules.
    path: Option<PathBuf>,
    state: Mutex<State>,
}

struct State {
    rules: Arc<Rules>,
    stamps: Stamps,
}

/// All files that the rules come from, each with what tells a change. `None`: it was not there.
type Stamps = BTreeMap<PathBuf, Option<(i64, i64, u64, u64)>>;

impl Access {
    /// Everyone may read, without TLS.
    pub fn open() -> Self {
        let rules = Arc::new(Rules { tls: None, users: None });
        Self { path: None, state: Mutex::new(State { rules, stamps: Stamps::new() }) }
    }

    /// As a file says.
    pub fn by_file(path: &Path) -> Result<Self, WebConfigError> {
        let mut stamps = Stamps::new();
        let rules = Arc::new(load(path, &mut stamps)?);
        Ok(Self { path: Some(path.to_owned()), state: Mutex::new(State { rules, stamps }) })
    }

    /// The rules in force; and, if a file has changed, whether what it says now can be used.
    pub(super) fn current(&self) -> (Arc<Rules>, Option<Result<(), WebConfigError>>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(path) = &self.path else { return (Arc::clone(&state.rules), None) };
        if state.stamps.iter().all(|(file, stamp)| stamp_of(file) == *stamp) {
            return (Arc::clone(&state.rules), None);
        }
        // After a failure all files known so far are looked at: mending any of them is a change again.
        let mut stamps: Stamps = state.stamps.keys().map(|file| (file.clone(), stamp_of(file))).collect();
        let loaded = load(path, &mut stamps);
        state.stamps = stamps;
        let outcome = loaded.map(|rules| state.rules = Arc::new(rules));
        (Arc::clone(&state.rules), Some(outcome))
    }
}

/// Reads a file and those that it names; notes each as it was before it was read, so that what changes meanwhile is a change.
fn load(path: &Path, stamps: &mut Stamps) -> Result<Rules, WebConfigError> {
    let wrong = |why: String| WebConfigError::Wrong { path: path.to_owned(), why };
    stamps.insert(path.to_owned(), stamp_of(path));
    let text =
        fs::read(path).map_err(|source| WebConfigError::Unreadable { path: path.to_owned(), source })?;
    let parsed = file::parse(&String::from_utf8_lossy(&text)).map_err(wrong)?;
    let tls = parsed.tls_server_config.map(|server| server.beside(path));
    for file in tls.iter().flat_map(file::TlsServer::files) {
        stamps.insert(file.clone(), stamp_of(&file));
    }
    let tls = tls.as_ref().map(tls::server).transpose().map_err(|error| match error {
        tls::TlsError::Unreadable { path, source } => WebConfigError::Unreadable { path, source },
        other => wrong(other.to_string()),
    })?;
    let users = parsed.basic_auth_users.filter(|users| !users.is_empty());
    Ok(Rules {
        tls: tls.map(|server| TlsAcceptor::from(Arc::new(server))),
        users: users.map(Users::new).transpose().map_err(wrong)?,
    })
}

/// A file that was replaced within the clock's grain has another inode.
fn stamp_of(file: &Path) -> Option<(i64, i64, u64, u64)> {
    let about = fs::metadata(file).ok()?;
    Some((about.mtime(), about.mtime_nsec(), about.size(), about.ino()))
}
