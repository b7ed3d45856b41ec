// SPDX-License-Identifier: MIT OR Apache-2.0
//! The TLS server configuration that the file describes.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use super::file::{ClientAuth, TlsServer, Version};

pub(super) fn server(file: &TlsServer) -> Result<ServerConfig, String> {
    let versions = [(Version::V12, &TLS12), (Version::V13, &TLS13)]
        .into_iter()
        .filter(|(version, _)| (file.min_version..=file.max_version).contains(version));
    let versions: Vec<_> = versions.map(|(_, version)| version).collect();
    let provider = Arc::new(default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&versions)
        .map_err(|_| "min_version is above max_version")?;
    let builder = match (file.client_auth_type, &file.client_ca_file) {
        (ClientAuth::NoClientCert, None) => builder.with_no_client_auth(),
        (ClientAuth::NoClientCert, Some(_)) | (_, None) => {
            return Err("client_auth_type and client_ca_file require each other".to_owned());
        }
        (kind, Some(ca_file)) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(ca_file)? {
                roots.add(certificate).map_err(|error| format!("invalid client_ca_file: {error}"))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = match kind {
                ClientAuth::VerifyClientCertIfGiven => verifier.allow_unauthenticated(),
                ClientAuth::NoClientCert | ClientAuth::RequireAndVerifyClientCert => verifier,
            };
            let verifier = verifier.build().map_err(|error| format!("invalid client_ca_file: {error}"))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let chain = certificates(&file.cert_file)?;
    let key = parse(&file.key_file, "private key", PrivateKeyDer::from_pem_slice)?;
    let mut config = builder
        .with_single_cert(chain, key)
        .map_err(|error| format!("invalid certificate or key: {error}"))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    parse(path, "certificate", |text| {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(text).collect::<Result<_, _>>()?;
        if chain.is_empty() { Err(pem::Error::NoItemsFound) } else { Ok(chain) }
    })
}

fn parse<T>(path: &Path, what: &str, parse: fn(&[u8]) -> Result<T, pem::Error>) -> Result<T, String> {
    let text = fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    parse(&text).map_err(|error| format!("{} contains no {what} in PEM format: {error}", path.display()))
}
