// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of a target on the command line, from the table that the configuration uses too.

use std::marker::PhantomData;

use clap::builder::PossibleValuesParser;
use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches, ValueHint};
#[cfg(feature = "otlp")]
use mpwatch_exporters::options::OTLP_URL;
#[cfg(feature = "clickhouse")]
use mpwatch_exporters::options::{CLICKHOUSE_URL, DATABASE};
use mpwatch_exporters::options::{COMMON, Compression, TargetOption, TargetOptions};

/// A kind of target.
pub(crate) trait Kind {
    /// The options that only this kind has.
    const OWN: &'static [TargetOption];
    /// An option that replaces the address. `None`: the address is required.
    const WITHOUT_URL: Option<&'static str>;
}

/// A ClickHouse server.
#[cfg(feature = "clickhouse")]
#[derive(Clone, Debug)]
pub(crate) struct Clickhouse;

#[cfg(feature = "clickhouse")]
impl Kind for Clickhouse {
    const OWN: &'static [TargetOption] = &[CLICKHOUSE_URL, DATABASE];
    const WITHOUT_URL: Option<&'static str> = Some("schema");
}

/// A receiver of OTLP.
#[cfg(feature = "otlp")]
#[derive(Clone, Debug)]
pub(crate) struct Otlp;

#[cfg(feature = "otlp")]
impl Kind for Otlp {
    const OWN: &'static [TargetOption] = &[OTLP_URL];
    const WITHOUT_URL: Option<&'static str> = None;
}

/// The options of a kind of target.
#[derive(Clone, Debug)]
pub(crate) struct TargetArgs<K> {
    pub(crate) options: TargetOptions,
    kind: PhantomData<K>,
}

fn options<K: Kind>() -> impl Iterator<Item = &'static TargetOption> {
    static SHARED: [TargetOption; COMMON.len()] = COMMON;
    K::OWN.iter().chain(&SHARED)
}

impl<K: Kind> Args for TargetArgs<K> {
    fn augment_args(command: Command) -> Command {
        options::<K>().fold(command, |command, option| {
            // clap shows a value that is refused here; an address may have a password.
            let parse = |text: &str| match option.name {
                "url" => Ok(text.to_owned()),
                _ => (option.set)(&mut TargetOptions::default(), text).map(|()| text.to_owned()),
            };
            let default = (option.show)(&TargetOptions::default());
            let arg = Arg::new(option.name)
                .long(option.name.replace('_', "-"))
                .value_name(option.value_name)
                .help(option.help.trim_end_matches('.'))
                .value_parser(parse)
                .value_hint(if option.value_name == "FILE" {
                    ValueHint::FilePath
                } else {
                    ValueHint::Unknown
                })
                .conflicts_with_all(option.excludes);
            let arg = if default.is_empty() { arg } else { arg.default_value(default) };
            let arg = option.needs.into_iter().fold(arg, clap::Arg::requires);
            command.arg(match (option.name, K::WITHOUT_URL) {
                ("url", Some(other)) => arg.required_unless_present(other),
                ("url", None) => arg.required(true),
                ("compression", _) => arg.value_parser(PossibleValuesParser::new(Compression::WORDS)),
                _ => arg,
            })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<K: Kind> FromArgMatches for TargetArgs<K> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut args = Self { options: TargetOptions::default(), kind: PhantomData };
        args.update_from_arg_matches(matches)?;
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        options::<K>().try_for_each(|option| {
            let text = matches.get_one::<String>(option.name);
            let set = text.map_or(Ok(()), |text| (option.set)(&mut self.options, text));
            set.map_err(|reason| Error::raw(ErrorKind::ValueValidation, reason + "\n"))
        })
    }
}
