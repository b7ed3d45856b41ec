// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

/// Repeat experiments of published papers in private namespaces, and compare the results with the papers
#[derive(Debug, Parser)]
#[command(name = "mpwatch-study", bin_name = "mpwatch study", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Command {
    /// List the experiments
    List,
    /// Run experiments in private namespaces, or an experiment of your own between two machines; Ctrl-C keeps the finished runs
    Run(RunOptions),
    /// Run one end of a user's experiment, as requested on standard input
    #[command(hide = true)]
    Endpoint,
    /// Write the report of a finished or interrupted study again
    Report {
        /// Folder that `study run` wrote
        #[arg(value_name = "DIR", default_value = DEFAULT_FOLDER)]
        folder: PathBuf,
    },
    /// Print the completion script of a shell, for the program mpwatch-study
    Completions {
        /// Name of the shell
        shell: Shell,
    },
    /// Print the man page
    Man,
    /// Run mpwatch with the published detection methods
    #[command(hide = true, disable_help_flag = true)]
    Mpwatch {
        /// Arguments of mpwatch
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
        arguments: Vec<OsString>,
    },
}

/// Name of the folder with the results, unless `--out` gives another.
const DEFAULT_FOLDER: &str = "mpwatch-study";

#[derive(Args, Clone, Debug)]
pub(crate) struct RunOptions {
    /// Names of experiments from `mpwatch study list`, or `all`
    #[arg(required_unless_present = "file", value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// Run the experiment in this file, between two machines that the file names
    #[arg(long, value_name = "FILE", conflicts_with_all = ["names", "quick"])]
    pub(crate) file: Option<PathBuf>,
    /// Run each cell this many times [default: 5, or 2 with --quick, or as the file says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) repeat: Option<u32>,
    /// Seed of the order of runs and of all random numbers in them
    #[arg(long, value_name = "SEED", default_value_t = 1, conflicts_with = "resume")]
    pub(crate) seed: u64,
    /// Write results to this folder: study.db, study.html, study.json and study.csv
    #[arg(long, value_name = "DIR", default_value = DEFAULT_FOLDER)]
    pub(crate) out: PathBuf,
    /// Run fewer cells with smaller transfers, as a check that everything works
    #[arg(long, conflicts_with = "resume")]
    pub(crate) quick: bool,
    /// Continue a study in the folder of --out: runs that succeeded are not repeated
    #[arg(long)]
    pub(crate) resume: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_tree_is_valid_and_every_option_has_a_help_text() {
        fn check(command: &clap::Command) {
            assert!(command.get_arguments().all(|argument| argument.get_help().is_some()), "{command:?}");
            command.get_subcommands().for_each(check);
        }
        Cli::command().debug_assert();
        check(&Cli::command());
    }
}
