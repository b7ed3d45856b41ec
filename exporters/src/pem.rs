// SPDX-License-Identifier: MIT OR Apache-2.0
//! Certificates and keys from PEM files. An error names the file.

use std::fs;
use std::path::Path;

use tokio_rustls::rustls::pki_types::pem::{Error, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    parse(path, "certificate", |text| {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(text).collect::<Result<_, _>>()?;
        if chain.is_empty() { Err(Error::NoItemsFound) } else { Ok(chain) }
    })
}

pub(crate) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    parse(path, "private key", PrivateKeyDer::from_pem_slice)
}

fn parse<T>(path: &Path, what: &str, parse: fn(&[u8]) -> Result<T, Error>) -> Result<T, String> {
    let text = fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    parse(&text).map_err(|error| format!("{} contains no {what} in PEM format: {error}", path.display()))
}
