// SPDX-License-Identifier: MIT OR Apache-2.0
//! TLS of the exports: certificate authorities and client certificates from PEM files, checked so that an error names the file.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::sign::CertifiedKey;
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};

use crate::options::TargetOptions;
use crate::pem::{certificates, private_key};

/// The system's certificate authorities on Debian and Arch, on Fedora and RHEL, on SUSE.
const SYSTEM: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem"];

pub(super) fn config(options: &TargetOptions) -> Result<TlsConfig, String> {
    let authorities = match &options.ca_file {
        Some(path) => path.clone(),
        None => SYSTEM.map(PathBuf::from).into_iter().find(|path| path.exists()).ok_or(
            "this system has no file of certificate authorities; install ca-certificates, or name a file (ca_file, --ca-file)",
        )?,
    };
    let roots = certificates(&authorities)?;
    // rustls ignores certificates that it does not accept, which a system's file may contain.
    if RootCertStore::empty().add_parsable_certificates(roots.iter().cloned()).0 == 0 {
        return Err(format!("{} has no valid certificate authority", authorities.display()));
    }
    let client = match (&options.cert_file, &options.key_file) {
        (Some(chain), Some(key)) => Some(client(chain, key)?),
        _ => None,
    };
    Ok(TlsConfig::builder()
        .unversioned_rustls_crypto_provider(Arc::new(default_provider()))
        .root_certs(RootCerts::from(owned(&roots)))
        .client_cert(client)
        .build())
}

fn client(chain: &Path, key_file: &Path) -> Result<ClientCert, String> {
    let (certificates, key) = (certificates(chain)?, private_key(key_file)?);
    // ureq panics if the key does not belong to the certificate.
    CertifiedKey::from_der(certificates.clone(), key, &default_provider())
        .map_err(|error| format!("{} and its key: {error}", chain.display()))?;
    let pem = fs::read(key_file).map_err(|error| format!("cannot read {}: {error}", key_file.display()))?;
    let key = PrivateKey::from_pem(&pem).map_err(|error| format!("{}: {error}", key_file.display()))?;
    Ok(ClientCert::new_with_certs(&owned(&certificates), key))
}

fn owned(certificates: &[CertificateDer<'_>]) -> Vec<Certificate<'static>> {
    certificates.iter().map(|der| Certificate::from_der(der).to_owned()).collect()
}
