// SPDX-License-Identifier: MIT OR Apache-2.0
//! The format of the web-config file. An unsupported key is an error: ignoring it could permit access that the user meant to restrict.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// A web-config file. An empty file allows plain HTTP without basic auth.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct WebConfig {
    pub(super) tls_server_config: Option<TlsServer>,
    /// The bcrypt hash of each user's password.
    pub(super) basic_auth_users: Option<BTreeMap<String, String>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TlsServer {
    /// Certificate chain, PEM.
    pub(super) cert_file: PathBuf,
    /// Private key of the certificate, PEM.
    pub(super) key_file: PathBuf,
    /// Whether clients need certificates.
    #[serde(default)]
    pub(super) client_auth_type: ClientAuth,
    /// Certificates of the authorities that sign client certificates, PEM. `None`: clients need no certificates.
    pub(super) client_ca_file: Option<PathBuf>,
    #[serde(default)]
    pub(super) min_version: Version,
    #[serde(default = "newest")]
    pub(super) max_version: Version,
}

/// The names in Go's crypto/tls, without the two values that request a certificate and do not verify it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) enum ClientAuth {
    #[default]
    NoClientCert,
    VerifyClientCertIfGiven,
    RequireAndVerifyClientCert,
}

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
    // YAML parses an empty file as null, not as an empty mapping.
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(WebConfig::default());
    }
    serde_saphyr::from_str(text).map_err(|error| error.to_string())
}

impl TlsServer {
    /// Resolves paths relative to the web-config file.
    pub(super) fn resolved(&self, config: &Path) -> Self {
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
    fn a_valid_file_is_parsed() {
        let text = "# for Prometheus\ntls_server_config:\n  cert_file: a.crt\n  key_file: /k/a.key\n  min_version: TLS13\n\
                    basic_auth_users:\n  prometheus: $2y$10$abc\n";
        let parsed = parse(text).unwrap();
        let server = parsed.tls_server_config.unwrap().resolved(Path::new("/etc/mpwatch/web.yml"));
        assert_eq!(server.cert_file, Path::new("/etc/mpwatch/a.crt"));
        assert_eq!(server.key_file, Path::new("/k/a.key"));
        assert_eq!((server.min_version, server.client_auth_type), (Version::V13, ClientAuth::NoClientCert));
        assert_eq!(parsed.basic_auth_users.unwrap()["prometheus"], "$2y$10$abc");
        assert!(parse("# nothing\n\n").unwrap().tls_server_config.is_none());
    }

    #[test]
    fn unsupported_and_malformed_files_are_rejected() {
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
