// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the rules of access from a web-config file.

use std::fs;
use std::path::Path;
use std::sync::Arc;

pub(super) use tokio_rustls::TlsAcceptor;

pub(super) use super::auth::Users;
use super::file::{self, ClientAuth, TlsServer};
use super::{Rules, Versions, WebConfigError, tls, version_of};

/// Loads a web-config file and the files that it names. Records the version of each file before reading it, so that no change is missed.
pub(super) fn load(path: &Path, versions: &mut Versions) -> Result<Rules, WebConfigError> {
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
pub(in crate::http) fn check_text(path: &Path, text: &str) -> Result<(), String> {
    let parsed = file::parse(text)?;
    if let Some(server) = &parsed.tls_server_config {
        server.resolved(path);
    }
    parsed.basic_auth_users.map(Users::new).transpose().map(drop)
}
