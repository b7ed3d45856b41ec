// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stands for `load.rs` if the cargo feature `web-config` is missing: no file is accepted, so there is neither TLS nor a user.

use std::future::Pending;
use std::io;
use std::path::Path;

use tokio::net::TcpStream;

use super::{Rules, Versions, WebConfigError};

pub(in crate::http) enum TlsAcceptor {}
pub(in crate::http) enum Users {}

impl TlsAcceptor {
    pub(in crate::http) fn accept(&self, _: TcpStream) -> Pending<io::Result<TcpStream>> {
        match *self {}
    }
}

impl Users {
    pub(in crate::http) fn allow(&self, _: Option<&str>) -> Pending<bool> {
        match *self {}
    }
}

pub(super) fn load(path: &Path, _: &mut Versions) -> Result<Rules, WebConfigError> {
    let reason = "this mpwatch was built without the cargo feature `web-config`".to_owned();
    Err(WebConfigError { path: path.to_owned(), reason })
}
