// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch man`: a man page for the program and for each command. Options come from the clap commands, the rest from [`manuals`].

mod manuals;
mod roff;

use std::path::Path;
use std::{fs, io};

use anyhow::Context as _;
use clap::{Command, CommandFactory as _};
use clap_mangen::Man;
use mpwatch_model::filter::HELP;
use mpwatch_tui::screen::{BINDINGS, Binding};

use self::manuals::MANUALS;
pub use self::manuals::{Environment, Manual};
use self::roff::{bold, entry, escaped, section, synopsis, verbatim};
use super::output::print;
use crate::cli::{Cli, EXIT_CODES, ManOptions};
use crate::config::{environment, suggest};
use crate::error::Failure;
use crate::system::companion;

/// The command whose man page `mpwatch-study` provides.
const STUDY: &str = "study";
const PROGRAM: &str = "mpwatch";

pub(super) fn run(options: &ManOptions) -> anyhow::Result<()> {
    match &options.dir {
        Some(directory) => write_all(directory),
        None if options.command.as_deref() == Some(STUDY) => {
            Err(companion::replace_process(vec!["man".into()], "this page").into())
        }
        None => print(&page_of(Cli::command(), find(options.command.as_deref().unwrap_or_default())?)?),
    }
}

fn write_all(directory: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    for manual in MANUALS {
        let file = directory.join(format!("{}.1", page_name(manual.command)));
        fs::write(&file, page_of(Cli::command(), manual)?)
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

fn find(command: &str) -> Result<&'static Manual, Failure> {
    MANUALS.iter().find(|manual| manual.command == command).ok_or_else(|| {
        let names: Vec<&str> = MANUALS.iter().map(|manual| manual.command).collect();
        let hint = suggest(command, &names).unwrap_or_else(|| "`mpwatch help` lists all commands".to_owned());
        Failure::usage(format!("there is no command `{command}`; {hint}"))
    })
}

/// The name of a page, such as `mpwatch` or `mpwatch-top`.
fn page_name(command: &str) -> String {
    if command.is_empty() { PROGRAM.to_owned() } else { format!("{PROGRAM}-{command}") }
}

/// The page of a command of a program, in roff.
pub fn page_of(mut program: Command, manual: &Manual) -> io::Result<String> {
    program.build();
    let command = program.find_subcommand(manual.command).unwrap_or(&program);
    // By default, the title would have the name and version of the command instead of the program.
    let source = format!("{PROGRAM} {}", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone()).title(page_name(manual.command).to_uppercase()).source(source);
    let synopses: Vec<String> = if command.is_subcommand_required_set() {
        subcommands(command).map(synopsis).collect()
    } else {
        vec![synopsis(command)]
    };
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    text.extend(section("SYNOPSIS", &synopses.join(".br\n")).into_bytes());
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    let mut text = String::from_utf8_lossy(&text).into_owned();
    if manual.command.is_empty() {
        text += &section("COMMANDS", &commands(command));
    } else {
        for subcommand in subcommands(command) {
            text += &options_of(subcommand)?;
        }
    }
    if matches!(manual.environment, Environment::Screen) {
        let keys = |binding: &Binding| entry(&binding.keys.join(", "), &format!("{}.", binding.help));
        text += &section("KEYS", &BINDINGS.iter().map(keys).collect::<String>());
    }
    if command.get_after_long_help().is_some() {
        text += &section("FILTER EXPRESSIONS", &verbatim(HELP));
    }
    let examples = manual
        .examples
        .iter()
        .map(|(what, line)| format!(".PP\n{}:\n.RS 4\n{}.RE\n", escaped(what), verbatim(line)));
    text += &section("EXAMPLES", &examples.collect::<String>());
    text += &section("FILES", &manual.files.iter().map(|(file, what)| entry(file, what)).collect::<String>());
    text += &section("ENVIRONMENT", &variables(manual.environment));
    text += &section("EXIT STATUS", &verbatim(&exit_codes(manual)));
    let others = MANUALS.iter().map(|other| other.command).filter(|other| *other != manual.command);
    let pages: Vec<String> = others.map(|command| format!("{}(1)", bold(&page_name(command)))).collect();
    text += &section("SEE ALSO", &format!("{}\n", pages.join(",\n")));
    Ok(text)
}

fn subcommands(command: &Command) -> impl Iterator<Item = &Command> {
    command
        .get_subcommands()
        .filter(|subcommand| subcommand.get_name() != "help" && !subcommand.is_hide_set())
}

/// The commands of the program, with the pages that describe them.
fn commands(program: &Command) -> String {
    let describe = |command: &Command| {
        let page = format!("{}(1)", page_name(command.get_name()));
        entry(&page, &format!("{}.", command.get_about().map(ToString::to_string).unwrap_or_default()))
    };
    subcommands(program).map(describe).collect()
}

/// A section on a subcommand: its effect and its options.
fn options_of(command: &Command) -> io::Result<String> {
    let title = command.get_bin_name().unwrap_or_default().to_uppercase();
    let man = Man::new(command.clone().mut_args(|argument| {
        let is_help = argument.get_id() == "help";
        argument.hide(is_help)
    }));
    let mut body = Vec::new();
    man.render_description_section(&mut body)?;
    man.render_options_section(&mut body)?;
    Ok(section(&title, &String::from_utf8_lossy(&body).replace(".SH ", ".SS ")))
}

fn variables(concerned: Environment) -> String {
    let screen = ["MPWATCH_SCREEN_CONFIG"];
    let tracing = ["MPWATCH_LIBBPF_LOG"];
    let is_listed = |name: &str| match concerned {
        Environment::Nothing => false,
        Environment::Tracing => tracing.contains(&name),
        Environment::Screen => tracing.contains(&name) || screen.contains(&name),
        Environment::Daemon => !screen.contains(&name),
        Environment::All => true,
    };
    let listed = environment::variables().into_iter().filter(|(name, _)| is_listed(name));
    let mut text: String = listed.map(|(name, help)| entry(&name, help)).collect();
    if matches!(concerned, Environment::Screen | Environment::All) {
        text += &entry("NO_COLOR", "If not empty, disable colours.");
        text += &entry("LC_ALL, LC_CTYPE, LANG", "Without UTF-8, the screen and tables are drawn in ASCII.");
    }
    text + ".PP\nUnknown variables whose names begin with MPWATCH_ are errors.\n"
}

fn exit_codes(manual: &Manual) -> String {
    let concerns = |line: &&str| {
        let code = line.split_whitespace().next().and_then(|code| code.parse().ok());
        code.is_none_or(|code: u8| code == 0 || manual.exit.contains(&code))
    };
    EXIT_CODES.lines().filter(concerns).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    /// The text of a page, without the marks for bold and italic.
    fn plain(command: &str) -> String {
        let page = page_of(Cli::command(), find(command).unwrap()).unwrap();
        page.replace(r"\fB", "").replace(r"\fI", "").replace(r"\fR", "").replace(r"\-", "-")
    }

    /// The words of a command line, in which only single quotes have a meaning.
    fn words(line: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        let mut quoted = false;
        for letter in line.chars() {
            match letter {
                '\'' => quoted = !quoted,
                ' ' if !quoted => words.push(String::new()),
                _ => words.last_mut().unwrap().push(letter),
            }
        }
        words
    }

    #[test]
    fn every_command_has_a_page_with_all_sections() {
        let mut program = Cli::command();
        program.build();
        let commands: Vec<&str> =
            subcommands(&program).map(Command::get_name).filter(|name| *name != STUDY).collect();
        let manuals: Vec<&str> =
            MANUALS.iter().map(|manual| manual.command).filter(|name| !name.is_empty()).collect();
        assert_eq!(commands, manuals);
        for manual in MANUALS {
            let page = plain(manual.command);
            let titles = "NAME,SYNOPSIS,DESCRIPTION,OPTIONS,EXAMPLES,FILES,ENVIRONMENT,EXIT STATUS,SEE ALSO";
            for title in titles.split(',') {
                let start =
                    page.find(&format!(".SH {title}\n")).or_else(|| page.find(&format!(".SH \"{title}\"\n")));
                let start = start.unwrap_or_else(|| panic!("{title} of `{}` in {page}", manual.command));
                assert!(
                    page[start..].lines().nth(1).is_some_and(|line| !line.starts_with(".SH")),
                    "{title} is empty"
                );
            }
            assert!(!manual.examples.is_empty() && !manual.files.is_empty(), "{}", manual.command);
        }
    }

    #[test]
    fn every_option_has_a_help_text() {
        fn check(command: &Command) {
            for argument in command.get_arguments() {
                let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
                assert!(help.len() > 5, "{} {}", command.get_name(), argument.get_id());
            }
            assert!(command.get_about().is_some(), "{}", command.get_name());
            command.get_subcommands().for_each(check);
        }
        let mut program = Cli::command();
        program.build();
        check(&program);
    }

    #[test]
    fn every_example_is_accepted_by_the_command_line() {
        for manual in MANUALS {
            for (_, line) in manual.examples {
                let parsed = Cli::try_parse_from(words(line));
                assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
            }
        }
    }

    #[test]
    fn the_synopsis_has_the_values_of_options() {
        let of = |command: &str| {
            plain(command).lines().skip_while(|line| !line.contains("SYNOPSIS")).nth(1).unwrap().to_owned()
        };
        assert!(
            of("").starts_with(
                "mpwatch [-b|--batch] [-n|--count N] [-i|--interval DURATION] [--json] [--db FILE]"
            ),
            "{}",
            of("")
        );
        assert!(of("").ends_with(" [COMMAND]"), "{}", of(""));
        assert!(of("report").contains("[--since TIME]"), "{}", of("report"));
        assert!(of("replay").starts_with("mpwatch replay FILE ["), "{}", of("replay"));
        assert!(of("config").starts_with("mpwatch config check ["), "{}", of("config"));
    }

    #[test]
    fn pages_of_the_live_view_list_its_keys() {
        let page = plain("top");
        let keys = &page[page.find(".SH \"KEYS\"").unwrap()..page.find(".SH \"EXAMPLES\"").unwrap()];
        assert!(keys.contains("\npgup, ctrl-u\none page up.\n"), "{keys}");
        assert!(!plain("report").contains("KEYS"));
    }

    #[test]
    fn a_page_that_does_not_exist_is_an_error_with_the_nearest_name() {
        let error = find("reprot").err().unwrap().to_string();
        assert!(error.contains("`report`?"), "{error}");
    }
}
