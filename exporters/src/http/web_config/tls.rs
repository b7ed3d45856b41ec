// SPDX-License-Identifier: MIT OR Apache-2.0
//! TLS as the file asks for it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{self, RootCertStore, ServerConfig};

use super::file::{ClientAuth, TlsServer, Version};

#[derive(Debug, thiserror::Error)]
pub(super) enum TlsError {
    #[error("cannot read {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{} holds no {what} in PEM: {why}", path.display())]
    NotPem { path: PathBuf, what: &'static str, why: String },
    #[error("client_auth_type wants client_ca_file, and the other way round")]
    NoAuthority,
    #[error("min_version is above max_version")]
    NoVersion,
    #[error("certificate and key cannot be used: {0}")]
    Unusable(#[from] rustls::Error),
    #[error("client_ca_file cannot be used: {0}")]
    Authority(#[from] VerifierBuilderError),
}

pub(super) fn server(wanted: &TlsServer) -> Result<ServerConfig, TlsError> {
    let versions = [(Version::V12, &TLS12), (Version::V13, &TLS13)]
        .into_iter()
        .filter(|(version, _)| (wanted.min_version..=wanted.max_version).contains(version));
    let versions: Vec<_> = versions.map(|(_, version)| version).collect();
    if versions.is_empty() {
        return Err(TlsError::NoVersion);
    }
    let provider = Arc::new(default_provider());
    let builder =
        ServerConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(&versions)?;
    let builder = match (wanted.client_auth_type, &wanted.client_ca_file) {
        (ClientAuth::NoClientCert, None) => builder.with_no_client_auth(),
        (ClientAuth::NoClientCert, Some(_)) | (_, None) => return Err(TlsError::NoAuthority),
        (kind, Some(authority)) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(authority)? {
                roots.add(certificate)?;
            }
            let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let clients = match kind {
                ClientAuth::VerifyClientCertIfGiven => clients.allow_unauthenticated(),
                ClientAuth::NoClientCert | ClientAuth::RequireAndVerifyClientCert => clients,
            };
            builder.with_client_cert_verifier(clients.build()?)
        }
    };
    let mut config = builder.with_single_cert(certificates(&wanted.cert_file)?, key(&wanted.key_file)?)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let not_pem = |why: String| TlsError::NotPem { path: path.to_owned(), what: "certificate", why };
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(path)?).collect();
    match all {
        Ok(none) if none.is_empty() => Err(not_pem("there is none".to_owned())),
        Ok(some) => Ok(some),
        Err(error) => Err(not_pem(error.to_string())),
    }
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(&read(path)?).map_err(|error| TlsError::NotPem {
        path: path.to_owned(),
        what: "private key",
        why: error.to_string(),
    })
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|source| TlsError::Unreadable { path: path.to_owned(), source })
}
