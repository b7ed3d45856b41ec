// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch export otlp`.

use super::send::{delivery, send};
use crate::cli::OtlpOptions;
use crate::compression::Compression;
use crate::error::Failure;
use crate::export::otlp::Signal;
use crate::export::target::Target;
use crate::export::url::Url;

pub(super) fn run(options: &OtlpOptions) -> anyhow::Result<()> {
    let url = Url::parse(&options.url).map_err(Failure::usage)?;
    let signal = if options.spans { Signal::Traces } else { Signal::Logs };
    send(Target::otlp(url, signal, delivery(&options.delivery, Compression::OF_OTLP))?, &options.delivery)
}
