// SPDX-License-Identifier: MIT OR Apache-2.0
//! Suggests the right option or command for an unknown one.

use clap::Command;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

use crate::config::suggest;

/// Suggests a command if the parser does not. Replaces the parser's suggestion of an option, which may be dissimilar. `words`: the arguments.
pub(super) fn with_hint(mut error: Error, mut tree: Command, words: &[String]) -> Error {
    if let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidSubcommand) {
        let names: Vec<&str> = tree.get_subcommands().map(Command::get_name).collect();
        let hint = suggest(wrong, &names).filter(|_| error.get(ContextKind::SuggestedSubcommand).is_none());
        if let Some(hint) = hint {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(hint)]));
        }
        return error;
    }
    if error.kind() == ErrorKind::ValueValidation && error.context().next().is_none() {
        // clap shows the usage of the whole program for an error that is found after parsing.
        let text = error.to_string();
        let reason =
            text.split("\n\nUsage").next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        tree.build();
        return named(&tree, words).clone().error(error.kind(), reason);
    }
    let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidArg) else { return error };
    if error.kind() != ErrorKind::UnknownArgument || !wrong.starts_with("--") {
        return error;
    }
    let wrong = wrong.clone();
    tree.build();
    let command = named(&tree, words);
    let hint = nearest(command, &wrong).map(|hint| format!("did you mean `{hint}`?"));
    let hint = hint.or_else(|| in_other_commands(&tree, &wrong));
    error.remove(ContextKind::SuggestedArg);
    error.insert(ContextKind::Usage, ContextValue::StyledStr(command.clone().render_usage()));
    match hint {
        Some(hint) => {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(hint)]))
        }
        None => error.remove(ContextKind::Suggested),
    };
    error
}

/// The command that the arguments name.
fn named<'a>(tree: &'a Command, words: &[String]) -> &'a Command {
    words.iter().fold(tree, |command, word| command.find_subcommand(word).unwrap_or(command))
}

/// The option of a command that is most similar to a wrong one. `None`: no option is similar.
fn nearest(command: &Command, wrong: &str) -> Option<String> {
    let options: Vec<&str> = command
        .get_arguments()
        .filter(|option| !option.is_hide_set())
        .filter_map(|option| option.get_long())
        .collect();
    let hint = suggest(wrong.trim_start_matches('-'), &options)?;
    hint.split('`').nth(1).map(|name| format!("--{name}"))
}

/// The nearest option of other commands, and the commands that have it.
fn in_other_commands(tree: &Command, wrong: &str) -> Option<String> {
    let found: Vec<(String, &str)> = tree
        .get_subcommands()
        .filter_map(|command| Some((nearest(command, wrong)?, command.get_name())))
        .collect();
    let option = &found.first()?.0;
    let commands: Vec<String> =
        found.iter().filter(|(other, _)| other == option).map(|(_, name)| format!("`{name}`")).collect();
    Some(format!("`{option}` is an option of {}", commands.join(", ")))
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::*;
    use crate::cli::Cli;

    fn message(arguments: &str) -> String {
        let words: Vec<String> = arguments.split(' ').map(str::to_owned).collect();
        let error = Cli::try_parse_from(std::iter::once("mpwatch").chain(arguments.split(' '))).unwrap_err();
        with_hint(error, Cli::command(), &words).to_string()
    }

    #[test]
    fn an_error_suggests_a_similar_name_or_the_commands_that_have_the_option() {
        let text = message("ls --intervall 1s");
        assert!(text.contains("tip: `--interval` is an option of `top`, "), "{text}");
        assert!(!text.contains("--filter"), "{text}");
        let text = message("top --intervall 1s");
        assert!(text.contains("tip: did you mean `--interval`?"), "{text}");
        let text = message("export otlp --url ftp://x");
        assert!(text.contains("Usage: mpwatch export otlp") && text.starts_with("error: "), "{text}");
        assert!(message("tpo").contains("tip: did you mean `top`?"), "{}", message("tpo"));
        assert!(!message("ls --qqqqq").contains("tip: did"), "{}", message("ls --qqqqq"));
    }
}
