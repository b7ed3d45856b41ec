// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch export otlp`.

use mpwatch_exporters::send::{Signal, Target};
use mpwatch_store::end_columns;

use super::send::send;
use crate::cli::OtlpOptions;
use crate::error::of_target;

pub(super) fn run(options: &OtlpOptions) -> anyhow::Result<()> {
    let signal = if options.spans { Signal::Traces } else { Signal::Logs };
    let target = &options.target.options;
    send(Target::otlp(target, signal, end_columns()).map_err(of_target)?, target.batch, &options.delivery)
}
