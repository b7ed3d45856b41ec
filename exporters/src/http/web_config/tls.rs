// SPDX-License-Identifier: MIT OR Apache-2.0
//! The TLS server configuration that the web-config file describes.

use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use super::file::{ClientAuth, TlsServer, Version};
use crate::pem::{certificates, private_key};

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
    let mut config = builder
        .with_single_cert(chain, private_key(&file.key_file)?)
        .map_err(|error| format!("invalid certificate or key: {error}"))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
