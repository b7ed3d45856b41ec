// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command-line options of an export target, generated from the same table as its configuration keys.

use clap::builder::PossibleValuesParser;
use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches, ValueHint};
use mpwatch_exporters::options::{
    CLICKHOUSE_URL, COMMON, Compression, DATABASE, OTLP_URL, TargetOption, TargetOptions,
};

/// The options of a ClickHouse server if `CLICKHOUSE`, otherwise of an OTLP receiver.
#[derive(Clone, Debug, Default)]
pub(crate) struct TargetArgs<const CLICKHOUSE: bool> {
    pub(crate) options: TargetOptions,
}

fn options(clickhouse: bool) -> impl Iterator<Item = &'static TargetOption> {
    static SHARED: [TargetOption; COMMON.len()] = COMMON;
    static CLICKHOUSE: [TargetOption; 2] = [CLICKHOUSE_URL, DATABASE];
    static OTLP: [TargetOption; 1] = [OTLP_URL];
    if clickhouse { &CLICKHOUSE[..] } else { &OTLP }.iter().chain(&SHARED)
}

impl<const CLICKHOUSE: bool> Args for TargetArgs<CLICKHOUSE> {
    fn augment_args(command: Command) -> Command {
        options(CLICKHOUSE).fold(command, |command, option| {
            // clap prints a value that this parser rejects. An address may have a password, so it is checked later.
            let parse = |text: &str| match option.name {
                "url" => Ok(text.to_owned()),
                _ => (option.set)(&mut TargetOptions::default(), text).map(|()| text.to_owned()),
            };
            let default = (option.show)(&TargetOptions::default());
            let is_file = option.value_name == "FILE";
            let hint = if is_file { ValueHint::FilePath } else { ValueHint::Unknown };
            let arg = Arg::new(option.name)
                .long(option.name.replace('_', "-"))
                .value_name(option.value_name)
                .help(option.help.trim_end_matches('.'))
                .value_parser(parse)
                .value_hint(hint)
                .conflicts_with_all(option.excludes);
            let arg = if default.is_empty() { arg } else { arg.default_value(default) };
            let arg = option.needs.into_iter().fold(arg, clap::Arg::requires);
            command.arg(match option.name {
                "url" if CLICKHOUSE => arg.required_unless_present("schema"),
                "url" => arg.required(true),
                "compression" => arg.value_parser(PossibleValuesParser::new(Compression::WORDS)),
                _ => arg,
            })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const CLICKHOUSE: bool> FromArgMatches for TargetArgs<CLICKHOUSE> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut args = Self::default();
        args.update_from_arg_matches(matches)?;
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        options(CLICKHOUSE).try_for_each(|option| {
            let text = matches.get_one::<String>(option.name);
            let set = text.map_or(Ok(()), |text| (option.set)(&mut self.options, text));
            set.map_err(|reason| Error::raw(ErrorKind::ValueValidation, reason + "\n"))
        })
    }
}
