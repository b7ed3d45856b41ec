// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch man`: one man page for all commands. Options that several commands share are described once, with the program.

use std::{io, iter};

use clap::{Arg, Command, CommandFactory as _};
use clap_mangen::Man;
use mpwatch_model::filter::HELP;

use crate::cli::{Cli, EXIT_CODES};
use crate::{config, paths};

/// The page, in roff.
pub(super) fn page() -> io::Result<String> {
    let mut program = Cli::command();
    program.build();
    let man = Man::new(program.clone());
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    page.extend(synopsis(&program).into_bytes());
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    let mut page = String::from_utf8_lossy(&page).into_owned();
    let mut described = headings(&program);
    let commands =
        program.get_subcommands().flat_map(|command| iter::once(command).chain(command.get_subcommands()));
    for command in commands.filter(|command| command.get_name() != "help") {
        page += &section(command, &mut described)?;
    }
    let environment = [
        "MPWATCH_SCREEN_CONFIG: settings of the live view; empty for none",
        "NO_COLOR: if not empty, disable colours",
        "Every key of the daemon's configuration:",
    ];
    let environment = environment.map(str::to_owned).into_iter().chain(config::environment_variables());
    let files =
        [paths::CONFIG, paths::DATABASE, paths::SOCKET, paths::POWER_CURVE, "~/.config/mpwatch/screen.toml"];
    page += &verbatim("FILTER EXPRESSIONS", HELP);
    page += &verbatim("ENVIRONMENT", &environment.collect::<Vec<_>>().join("\n"));
    page += &verbatim("FILES", &files.join("\n"));
    Ok(page + &verbatim("EXIT STATUS", EXIT_CODES))
}

/// Headings of its groups of options.
fn headings(command: &Command) -> Vec<String> {
    let mut headings = Vec::new();
    for heading in command.get_arguments().filter_map(Arg::get_help_heading) {
        if !headings.iter().any(|known| known == heading) {
            headings.push(heading.to_owned());
        }
    }
    headings
}

/// A command: its synopsis, what it does, and its options except for the groups in `described`, which is extended.
fn section(command: &Command, described: &mut Vec<String>) -> io::Result<String> {
    let (known, new): (Vec<_>, Vec<_>) =
        headings(command).into_iter().partition(|heading| described.contains(heading));
    let command = command.clone().mut_args(|argument| {
        let is_known =
            argument.get_help_heading().is_some_and(|heading| known.iter().any(|one| one == heading));
        let is_hidden = is_known || argument.get_id() == "help";
        argument.hide(is_hidden)
    });
    let name = command.get_bin_name().unwrap_or_default().to_uppercase();
    let mut body = synopsis(&command).into_bytes();
    let man = Man::new(command);
    man.render_description_section(&mut body)?;
    man.render_options_section(&mut body)?;
    described.extend(new);
    let body = String::from_utf8_lossy(&body).replace(".SH ", ".SS ");
    let also = if known.is_empty() {
        String::new()
    } else {
        format!(".PP\nAlso takes the {} (see above).\n", known.join(" and ").to_lowercase())
    };
    Ok(format!(".SH \"{name}\"\n{body}{also}"))
}

/// The synopsis with the values of the options, which `clap_mangen` leaves out.
fn synopsis(command: &Command) -> String {
    let parts = command.get_arguments().filter(|argument| !argument.is_hide_set()).map(usage);
    let subcommand = command.has_subcommands().then(|| {
        let value = italic("COMMAND");
        if command.is_subcommand_required_set() { value } else { format!("[{value}]") }
    });
    let name = bold(command.get_bin_name().unwrap_or(command.get_name()));
    let parts: Vec<String> = iter::once(name).chain(parts).chain(subcommand).collect();
    format!(".SH SYNOPSIS\n{}\n", parts.join(" "))
}

/// `[-n|--count N]`, `FILE`.
fn usage(argument: &Arg) -> String {
    let values = argument.get_value_names().unwrap_or_default().iter().map(|name| italic(name));
    let values = values.collect::<Vec<_>>().join(" ");
    let short = argument.get_short().map(|letter| bold(&format!("-{letter}")));
    let long = argument.get_long().map(|word| bold(&format!("--{word}")));
    let names = short.into_iter().chain(long).collect::<Vec<_>>().join("|");
    let text = match (names.is_empty(), argument.get_action().takes_values()) {
        (true, _) => values,
        (false, true) => format!("{names} {values}"),
        (false, false) => names,
    };
    if argument.is_required_set() { text } else { format!("[{text}]") }
}

fn bold(text: &str) -> String {
    format!("\\fB{}\\fR", text.replace('-', "\\-"))
}

fn italic(text: &str) -> String {
    format!("\\fI{}\\fR", text.replace('-', "\\-"))
}

fn verbatim(title: &str, text: &str) -> String {
    format!(".SH \"{title}\"\n.nf\n{text}\n.fi\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::unwrap_used, reason = "a test")]
    fn the_synopsis_has_the_values_of_options() {
        let page =
            page().unwrap().replace(r"\fB", "").replace(r"\fI", "").replace(r"\fR", "").replace(r"\-", "-");
        let of = |name: &str| {
            let start = format!("{name} [");
            page.lines().find(|line| line.starts_with(&start)).map(str::to_owned).unwrap()
        };
        assert!(of("mpwatch").starts_with(
            "mpwatch [-b|--batch] [-n|--count N] [-i|--interval DURATION] [--json] [--db FILE]"
        ));
        assert!(of("mpwatch").ends_with(" [COMMAND]"), "{}", of("mpwatch"));
        assert!(of("mpwatch report").contains("[--since TIME]"), "{}", of("mpwatch report"));
        assert!(page.contains("\nmpwatch replay FILE ["), "a file is required");
        assert!(page.contains("\nmpwatch config COMMAND\n"), "a subcommand is required");
    }
}
