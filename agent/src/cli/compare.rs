// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `compare`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use mpwatch_model::host::setup::Label;

use super::options::FilterOptions;
use crate::time_spec::TimeSpec;

#[derive(Args, Clone, Debug)]
pub(crate) struct CompareOptions {
    /// Database or recording that is the baseline
    #[arg(value_name = "A")]
    pub(crate) a: PathBuf,
    /// Database or recording to compare with A; not with --by, --label or --split
    #[arg(value_name = "B", conflicts_with_all = ["by", "labels", "split"])]
    pub(crate) b: Option<PathBuf>,
    /// Compare two kinds of connections of the file A with each other
    #[arg(long, value_enum, value_name = "WHAT", conflicts_with_all = ["split", "labels"])]
    pub(crate) by: Option<CompareBy>,
    /// Compare the runs in the database A that have this label; give two labels, for example `--label cc=cubic --label cc=bbr`
    #[arg(long = "label", value_name = "NAME=VALUE", conflicts_with = "split")]
    pub(crate) labels: Vec<Label>,
    /// Compare connections of the file A that opened at this time or later with earlier ones: a duration before now (2h, 7d), a time of the day (14:05), yesterday or a date, local time
    #[arg(long, value_name = "TIME")]
    pub(crate) split: Option<TimeSpec>,
    /// Set the format of the comparison
    #[arg(long, value_enum, default_value_t = CompareFormat::Text)]
    pub(crate) format: CompareFormat,
    /// Write the comparison to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) filter: FilterOptions,
}

/// Kinds of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompareBy {
    /// Plain TCP (A) and MPTCP (B); connections that fell back to TCP are in neither
    Protocol,
}

/// Formats of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompareFormat {
    /// Plain text
    Text,
    /// HTML page with plots, in a single file
    Html,
    /// JSON
    Json,
}
