// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compression of the bodies of requests.

use std::io::{self, Write as _};

use flate2::write::GzEncoder;

use crate::options::Compression;

/// Compromises between CPU time and size: docs/measurements/export.md.
const GZIP: flate2::Compression = flate2::Compression::new(5);
const ZSTD: i32 = 1;

pub(super) fn compressed(compression: Compression, body: &[u8]) -> io::Result<Vec<u8>> {
    match compression {
        Compression::Zstd => zstd::encode_all(body, ZSTD),
        Compression::Gzip => {
            let mut encoder = GzEncoder::new(Vec::new(), GZIP);
            encoder.write_all(body)?;
            encoder.finish()
        }
    }
}
