// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch man`: one man page for all commands. Options that several commands share are described once, with the program.

use std::io;

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
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    let mut page = String::from_utf8_lossy(&page).into_owned();
    for command in program.get_subcommands().filter(|command| command.get_name() != "help") {
        page += &section(command, None)?;
        let daemon = program.find_subcommand("daemon");
        for action in command.get_subcommands().filter(|action| action.get_name() != "help") {
            page += &section(action, daemon)?;
        }
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

/// A command: its synopsis, what it does, and its options, without those of `described` and those that the program shares.
fn section(command: &Command, described: Option<&Command>) -> io::Result<String> {
    let is_described = |argument: &Arg| {
        described.is_some_and(|other| other.get_arguments().any(|known| known.get_id() == argument.get_id()))
    };
    let mut elsewhere: Vec<String> = Vec::new();
    for argument in command.get_arguments().filter(|argument| argument.get_id() != "help") {
        let owner = match argument.get_help_heading() {
            Some(heading) => heading.to_uppercase(),
            None if is_described(argument) => "options of the daemon".to_owned(),
            None => continue,
        };
        if !elsewhere.contains(&owner) {
            elsewhere.push(owner);
        }
    }
    let own = command.clone().mut_args(|argument| {
        let is_help = argument.get_id() == "help";
        let is_hidden = is_help || argument.get_help_heading().is_some() || is_described(&argument);
        argument.hide(is_hidden)
    });
    let name = command.get_bin_name().unwrap_or_default().to_uppercase();
    let mut body = Vec::new();
    let man = Man::new(own);
    man.render_synopsis_section(&mut body)?;
    man.render_description_section(&mut body)?;
    man.render_options_section(&mut body)?;
    let body = String::from_utf8_lossy(&body).replace(".SH ", ".SS ");
    let also = match &elsewhere[..] {
        [] => String::new(),
        owners => format!(".PP\nAlso takes the {}.\n", owners.join(" and ")),
    };
    Ok(format!(".SH \"{name}\"\n{body}{also}"))
}

fn verbatim(title: &str, text: &str) -> String {
    format!(".SH \"{title}\"\n.nf\n{text}\n.fi\n")
}
