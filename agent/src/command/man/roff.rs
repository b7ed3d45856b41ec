// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts of a man page in roff that `clap_mangen` does not generate.

use std::iter;

use clap::{Arg, Command};

/// Escapes text so that it is printed unchanged.
pub(super) fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

pub(super) fn bold(text: &str) -> String {
    format!("\\fB{}\\fR", escaped(text))
}

fn italic(text: &str) -> String {
    format!("\\fI{}\\fR", escaped(text))
}

pub(super) fn section(title: &str, body: &str) -> String {
    format!(".SH \"{title}\"\n{body}")
}

pub(super) fn entry(term: &str, meaning: &str) -> String {
    format!(".TP\n{}\n{}\n", bold(term), escaped(meaning))
}

/// Lines that keep their breaks and indentation.
pub(super) fn verbatim(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(escaped).collect();
    format!(".nf\n{}\n.fi\n", lines.join("\n"))
}

/// The synopsis with the values of the options, which `clap_mangen` leaves out.
pub(super) fn synopsis(command: &Command) -> String {
    let parts = command.get_arguments().filter(|argument| !argument.is_hide_set()).map(usage);
    let subcommand = command.has_subcommands().then(|| {
        let value = italic("COMMAND");
        if command.is_subcommand_required_set() { value } else { format!("[{value}]") }
    });
    let name = bold(command.get_bin_name().unwrap_or(command.get_name()));
    let parts: Vec<String> = iter::once(name).chain(parts).chain(subcommand).collect();
    format!("{}\n", parts.join(" "))
}

/// An option in a synopsis, such as `[-n|--count N]`, or an argument, such as `FILE`.
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
