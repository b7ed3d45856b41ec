// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compression of the bodies of requests.

use std::io::{self, Write as _};

use flate2::write::GzEncoder;

use crate::options::Compression;

/// Compromises between CPU time and size: docs/measurements/export.md.
const GZIP: flate2::Compression = flate2::Compression::new(5);
const ZSTD: i32 = 1;

/// Compresses a body.
pub(super) enum Compressor {
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
    Gzip(GzEncoder<Vec<u8>>),
}

impl Compressor {
    pub(super) fn new(compression: Compression) -> io::Result<Self> {
        Ok(match compression {
            Compression::Zstd => Self::Zstd(zstd::Encoder::new(Vec::new(), ZSTD)?),
            Compression::Gzip => Self::Gzip(GzEncoder::new(Vec::new(), GZIP)),
        })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Zstd(encoder) => encoder.write_all(bytes),
            Self::Gzip(encoder) => encoder.write_all(bytes),
        }
    }

    pub(super) fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            Self::Zstd(encoder) => encoder.finish(),
            Self::Gzip(encoder) => encoder.finish(),
        }
    }
}
