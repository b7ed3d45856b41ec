// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the bodies of exports are compressed.

use mpwatch_model::words;

words! {
    /// Its word is also that of the header `content-encoding`.
    pub(crate) enum Compression {
        /// A tenth of the CPU time of gzip, and smaller.
        Zstd = "zstd",
        /// What every receiver of OTLP has to understand.
        Gzip = "gzip",
    }
}

impl Compression {
    /// Unless it is configured. Only old servers lack zstd.
    pub(crate) const OF_CLICKHOUSE: Self = Self::Zstd;
    /// Unless it is configured: the protocol requires no other of a receiver.
    pub(crate) const OF_OTLP: Self = Self::Gzip;
}
