// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the bodies of exports are compressed.

use mpwatch_model::words;

words! {
    /// Its word is also that of the header `content-encoding`.
    pub(crate) enum Compression {
        /// A tenth of the CPU time of gzip, and smaller. ClickHouse understands it since 2020, not every receiver of OTLP does.
        Zstd = "zstd",
        /// What every receiver of OTLP has to understand.
        Gzip = "gzip",
    }
}
