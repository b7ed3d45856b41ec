// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replaces `load.rs` if the cargo feature `web-config` is disabled: every file is rejected, so there are no TLS and no users.

use std::future::Pending;
use std::io;
use std::path::Path;

use tokio::net::TcpStream;

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

pub(super) type Loaded = (Option<TlsAcceptor>, Option<Users>, bool);

pub(super) fn load(_: &Path, _: bool, _: &mut dyn FnMut(&Path)) -> Result<Loaded, String> {
    Err("this mpwatch was built without the cargo feature `web-config`".to_owned())
}
