// SPDX-License-Identifier: MIT OR Apache-2.0
//! How an export authenticates, and whom it trusts. Secrets are in files, which are read for each request, so that they can be replaced
//! at any time.

use std::path::PathBuf;

use clap::Args;

/// Options of a client.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Credentials {
    /// Authenticate as this user
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Read the password of --user from the first line of this file
    #[arg(long, value_name = "FILE", requires = "user")]
    pub(crate) password_file: Option<PathBuf>,
    /// Authenticate with the bearer token in the first line of this file
    #[arg(long, value_name = "FILE", conflicts_with = "user")]
    pub(crate) token_file: Option<PathBuf>,
    /// Trust the certificate authorities in this PEM file instead of the system's
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// Send the client certificate in this PEM file
    #[arg(long, value_name = "FILE", requires = "key_file")]
    pub(crate) cert_file: Option<PathBuf>,
    /// Read the private key of --cert-file from this PEM file
    #[arg(long, value_name = "FILE", requires = "cert_file")]
    pub(crate) key_file: Option<PathBuf>,
}

impl Credentials {
    /// What contradicts itself, in the words of the configuration. The command line checks the same by itself.
    pub(crate) fn contradiction(&self) -> Option<&'static str> {
        let Self { user, password_file, token_file, ca_file: _, cert_file, key_file } = self;
        match () {
            () if password_file.is_some() && user.is_none() => Some("`password_file` needs `user`"),
            () if token_file.is_some() && user.is_some() => Some("use either `user` or `token_file`"),
            () if cert_file.is_some() != key_file.is_some() => {
                Some("`cert_file` and `key_file` need each other")
            }
            () => None,
        }
    }
}
