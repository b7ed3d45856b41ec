// SPDX-License-Identifier: MIT OR Apache-2.0
//! TLS of the exports: certificate authorities and client certificates from PEM files.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::credentials::Credentials;

/// Certificate authorities of the system: of Debian and Arch, of Fedora and RHEL, of SUSE.
const SYSTEM: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem"];

/// Reads the files and makes the client's side of TLS 1.2 or 1.3.
pub(super) fn connector(credentials: &Credentials) -> Result<TlsConnector, String> {
    let authorities = match &credentials.ca_file {
        Some(path) => path.clone(),
        None => SYSTEM.map(PathBuf::from).into_iter().find(|path| path.exists()).ok_or(
            "this system has no file of certificate authorities; install ca-certificates, or name one (ca_file, --ca-file)",
        )?,
    };
    let mut roots = RootCertStore::empty();
    // A system's file may have certificates that rustls does not accept; the others are of use.
    let (added, _) = roots.add_parsable_certificates(certificates(&authorities)?);
    if added == 0 {
        return Err(format!("{} has no valid certificate authority", authorities.display()));
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let config = match (&credentials.cert_file, &credentials.key_file) {
        (Some(chain), Some(key)) => {
            let key = PrivateKeyDer::from_pem_slice(&read(key)?)
                .map_err(|error| format!("{} has no private key in PEM format: {error}", key.display()))?;
            let config = builder.with_client_auth_cert(certificates(chain)?, key);
            config.map_err(|error| format!("{} and its key: {error}", chain.display()))?
        }
        _ => builder.with_no_client_auth(),
    };
    Ok(TlsConnector::from(Arc::new(config)))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = read(path)?;
    let found: Vec<_> = CertificateDer::pem_slice_iter(&text)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("{} has no certificate in PEM format: {error}", path.display()))?;
    if found.is_empty() {
        Err(format!("{} has no certificate in PEM format", path.display()))
    } else {
        Ok(found)
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}
