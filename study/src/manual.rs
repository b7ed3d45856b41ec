// SPDX-License-Identifier: MIT OR Apache-2.0
//! The man page and the shell completions, generated from the definition of the command line.

use clap::CommandFactory as _;
use clap_complete::Shell;
use mpwatch::shared::{Environment, KERNEL, Manual, PERMISSION, RUNTIME, USAGE, man_page, print};

use crate::cli::Cli;

const PROGRAM: &str = "mpwatch-study";

const MANUAL: Manual = Manual {
    command: "study",
    examples: &[
        ("Check that every experiment works on this machine", "mpwatch study run all --quick"),
        (
            "Compare TCP with MPTCP over two to five paths, ten runs each",
            "mpwatch study run energy --repeat 10 --out energy",
        ),
        ("Continue after an interruption", "mpwatch study run energy --repeat 10 --out energy --resume"),
    ],
    files: &[
        ("mpwatch-study/study.html", "Plots, tables and the papers' values."),
        ("mpwatch-study/study.db", "Every run, for --resume and for queries."),
        (
            "/sys/kernel/btf/vmlinux",
            "BTF of the running kernel: offsets of the fields that BPF programs read.",
        ),
        ("/sys/class/powercap", "Energy counters, if the kernel has no power PMU."),
    ],
    environment: Environment::Tracing,
    exit: &[RUNTIME, USAGE, KERNEL, PERMISSION],
};

/// Prints the page mpwatch-study(1).
pub(crate) fn page() -> anyhow::Result<()> {
    // The page describes `mpwatch study`, because users call the program as a command of mpwatch.
    let program = clap::Command::new("mpwatch").subcommand(Cli::command().name(MANUAL.command));
    print(&man_page(program, &MANUAL)?)
}

/// Prints the completions of the program.
pub(crate) fn completions(shell: Shell) -> anyhow::Result<()> {
    // Written to memory first, because `generate` panics if it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command().bin_name(PROGRAM), PROGRAM, &mut script);
    print(&String::from_utf8_lossy(&script))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn every_example_is_accepted_by_the_command_line() {
        for (_, line) in MANUAL.examples {
            let parsed = Cli::try_parse_from(line.split(' ').skip(1));
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
        }
    }
}
