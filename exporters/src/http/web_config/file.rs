// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file: what of the exporters' format is understood. A key that is not is an error, as ignoring one would leave open what was
//! meant to be closed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// The whole file. Empty: plain HTTP for everyone.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct WebConfig {
    pub(super) tls_server_config: Option<TlsServer>,
    /// A bcrypt hash by each name.
    pub(super) basic_auth_users: Option<BTreeMap<String, String>>,
}

/// How to speak TLS.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TlsServer {
    /// Certificate chain, PEM.
    pub(super) cert_file: PathBuf,
    /// Its private key, PEM.
    pub(super) key_file: PathBuf,
    /// Whether clients show certificates.
    #[serde(default)]
    pub(super) client_auth_type: ClientAuth,
    /// Who vouches for clients, PEM.
    pub(super) client_ca_file: Option<PathBuf>,
    /// Oldest version.
    #[serde(default)]
    pub(super) min_version: Version,
    /// Newest version.
    #[serde(default = "newest")]
    pub(super) max_version: Version,
}

/// As Go's crypto/tls calls them. The two that ask for a certificate and then do not look at it are not offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) enum ClientAuth {
    #[default]
    NoClientCert,
    VerifyClientCertIfGiven,
    RequireAndVerifyClientCert,
}

/// Versions of TLS that are spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(super) enum Version {
    #[default]
    #[serde(rename = "TLS12")]
    V12,
    #[serde(rename = "TLS13")]
    V13,
}

fn newest() -> Version {
    Version::V13
}

pub(super) fn parse(text: &str) -> Result<WebConfig, String> {
    // A file without a word is a document of nothing.
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(WebConfig::default());
    }
    serde_saphyr::from_str(text).map_err(|error| error.to_string())
}

impl TlsServer {
    /// Relative paths begin at the file that names them.
    pub(super) fn beside(&self, config: &Path) -> Self {
        let folder = config.parent().unwrap_or(Path::new("."));
        Self {
            cert_file: folder.join(&self.cert_file),
            key_file: folder.join(&self.key_file),
            client_ca_file: self.client_ca_file.as_ref().map(|path| folder.join(path)),
            ..self.clone()
        }
    }

    pub(super) fn files(&self) -> impl Iterator<Item = PathBuf> {
        [Some(&self.cert_file), Some(&self.key_file), self.client_ca_file.as_ref()]
            .into_iter()
            .flatten()
            .cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_understood() {
        let text = "# for Prometheus\ntls_server_config:\n  cert_file: a.crt\n  key_file: /k/a.key\n  min_version: TLS13\n\
                    basic_auth_users:\n  prometheus: $2y$10$abc\n";
        let parsed = parse(text).unwrap();
        let server = parsed.tls_server_config.unwrap().beside(Path::new("/etc/mpwatch/web.yml"));
        assert_eq!(server.cert_file, Path::new("/etc/mpwatch/a.crt"));
        assert_eq!(server.key_file, Path::new("/k/a.key"));
        assert_eq!((server.min_version, server.client_auth_type), (Version::V13, ClientAuth::NoClientCert));
        assert_eq!(parsed.basic_auth_users.unwrap()["prometheus"], "$2y$10$abc");
        assert!(parse("# nothing\n\n").unwrap().tls_server_config.is_none());
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        for text in [
            "basic_auth_user:\n  a: b\n",
            "tls_server_config:\n  cert_file: a\n",
            "tls_server_config:\n  cert_file: a\n  key_file: b\n  cipher_suites: []\n",
            "tls_server_config:\n  cert_file: a\n  key_file: b\n  min_version: TLS10\n",
            "tls_server_config:\n  cert_file: a\n  key_file: b\n  client_auth_type: RequireAnyClientCert\n",
            "basic_auth_users:\n  a: b\n  a: c\n",
            "]",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
