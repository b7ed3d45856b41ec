// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads the access rules from a web-config file.

use std::fs;
use std::path::Path;
use std::sync::Arc;

pub(super) use tokio_rustls::TlsAcceptor;

pub(super) use super::auth::Users;
use super::file::{self, ClientAuth, TlsServer};
use super::tls;

pub(super) type Loaded = (Option<TlsAcceptor>, Option<Users>, bool);

/// Loads a web-config file and the files that it names. Returns TLS, the users, and whether every client must authenticate. Calls `note` for
/// each file before reading it, so that no change is missed. With `is_restricted`, rules are in force: a file without rules is then an error,
/// because a file that is being written is empty for a time.
pub(super) fn load(path: &Path, is_restricted: bool, note: &mut dyn FnMut(&Path)) -> Result<Loaded, String> {
    note(path);
    let text = fs::read(path).map_err(|error| error.to_string())?;
    let parsed = file::parse(&String::from_utf8_lossy(&text))?;
    if is_restricted && parsed.tls_server_config.is_none() && parsed.basic_auth_users.is_none() {
        return Err(
            "it has no rules; to switch TLS and basic auth off, write `basic_auth_users: {}`".to_owned()
        );
    }
    let tls = parsed.tls_server_config.map(|server| server.resolved(path));
    tls.iter().flat_map(TlsServer::files).for_each(|file| note(&file));
    let users = parsed.basic_auth_users.filter(|users| !users.is_empty());
    let requires = |server: &TlsServer| server.client_auth_type == ClientAuth::RequireAndVerifyClientCert;
    let is_authenticated = tls.as_ref().is_some_and(requires) || users.is_some();
    let tls = tls.as_ref().map(tls::server).transpose()?;
    let tls = tls.map(|server| TlsAcceptor::from(Arc::new(server)));
    Ok((tls, users.map(Users::new).transpose()?, is_authenticated))
}

/// Checks the text of the web-config file at `path`, but not the files that it names.
#[cfg(feature = "fuzz")]
pub(in crate::http) fn check_text(path: &Path, text: &str) -> Result<(), String> {
    let parsed = file::parse(text)?;
    if let Some(server) = &parsed.tls_server_config {
        server.resolved(path);
    }
    parsed.basic_auth_users.map(Users::new).transpose().map(drop)
}
