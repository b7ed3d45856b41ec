// SPDX-License-Identifier: MIT OR Apache-2.0
//! The daemon's configuration. The file overrides defaults, the environment overrides the file, and the command line overrides both.

pub(crate) mod environment;
mod form;
mod keys;
mod nearest;

use std::collections::HashMap;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use mpwatch_model::flow::elimination::EliminationMode;
use serde_json::{Value, json};
use toml::de::{DeInteger, DeTable, DeValue};

pub(crate) use keys::Config;
pub use nearest::suggest;

use crate::error::Failure;
use crate::system::paths;
use keys::{Key, keys};

/// The origin of a value that is not set.
const DEFAULT: &str = "default";

pub(crate) fn unreadable(path: &Path, error: &io::Error) -> Failure {
    let advice = "choose another file with --config, or omit it for the default";
    Failure::usage(format!("cannot read the configuration {}: {error}; {advice}", path.display()))
}

/// The error for a key that does not exist. `place`: the file, with the line if known.
pub(crate) fn unknown_key(place: &str, key: &str, hint: &str) -> String {
    format!("{place} sets `{key}`, which does not exist; {hint}")
}

/// The error for a wrong value. `origin`: where the value comes from.
pub(crate) fn bad_value(origin: &str, key: &str, value: &str, reason: &str) -> String {
    format!("{origin} sets {key} to `{}`: {reason}", without_password(value))
}

/// Replaces the user's name and password in an address: no message may show them.
fn without_password(value: &str) -> String {
    match (value.find("://"), value.rfind('@')) {
        (Some(scheme), Some(at)) if scheme < at => format!("{}...{}", &value[..scheme + 3], &value[at..]),
        _ => value.to_owned(),
    }
}

/// A configuration, and the origin of each value in the order of `keys`.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub(crate) config: Config,
    origins: Vec<String>,
}

/// The sources of the configuration. Each reload reads the file and the environment again.
#[derive(Clone, Debug)]
pub(crate) struct Layers {
    /// File that `--config` names. `None`: the default file, if it exists.
    pub(crate) file: Option<PathBuf>,
    /// Values of the command line, by key.
    pub(crate) flags: Vec<(&'static str, String)>,
}

/// A value that a layer sets.
#[derive(Clone, Debug)]
struct Set {
    text: String,
    origin: String,
    /// The line in the file. 0: the value does not come from a file.
    line: usize,
}

impl Set {
    /// The origin of the value, with its line, for an error message.
    fn place(&self) -> String {
        if self.line == 0 { self.origin.clone() } else { format!("{}, line {},", self.origin, self.line) }
    }
}

/// The settings of a file by key, and its errors by line.
#[derive(Debug, Default)]
struct FileValues {
    values: HashMap<&'static str, Set>,
    errors: Vec<(usize, String)>,
}

impl Layers {
    pub(crate) fn load(&self) -> Result<Loaded, Failure> {
        self.merge(&self.read_file()?, |name| std::env::var(name).ok())
    }

    /// As [`Self::load`], from `text` instead of a file, without the environment. `path` is for messages.
    #[cfg(feature = "fuzz")]
    pub(crate) fn load_text(&self, path: &Path, text: &str) -> Result<Loaded, Failure> {
        self.merge(&parse(path, text)?, |_| None)
    }

    /// Fails with all errors, one per line.
    fn merge(
        &self,
        file: &FileValues,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Loaded, Failure> {
        let mut loaded = Loaded { config: Config::default(), origins: Vec::new() };
        let mut errors = file.errors.clone();
        for key in keys() {
            let flag = self.flags.iter().find(|(name, _)| *name == key.name);
            let variable = key.environment();
            let layer = |text, origin: String| Set { text, origin, line: 0 };
            let found = flag
                .map(|(_, text)| layer(text.clone(), format!("flag {}", key.flag)))
                .or_else(|| environment(&variable).map(|text| layer(text, format!("environment {variable}"))))
                .or_else(|| file.values.get(&*key.name).cloned());
            let Some(set) = found else {
                loaded.origins.push(DEFAULT.to_owned());
                continue;
            };
            if let Err(reason) = (key.set)(&mut loaded.config, &set.text) {
                let reason = format!("{reason}; the default is {}", (key.show)(&Config::default()));
                errors.push((set.line, bad_value(&set.place(), &key.name, &set.text, &reason)));
            }
            loaded.origins.push(set.origin);
        }
        errors.sort_by_key(|(line, _)| *line);
        let mut errors: Vec<String> = errors.into_iter().map(|(_, error)| error).collect();
        // These checks compare keys with each other, so all values must be valid: a rejected value is replaced by the default.
        if errors.is_empty() {
            let checks = [loaded.check_detection(), loaded.check_step(), loaded.check_exports()];
            errors.extend(checks.into_iter().filter_map(Result::err));
        }
        if errors.is_empty() { Ok(loaded) } else { Err(Failure::usage(errors.join("\n"))) }
    }

    /// The file that is read, and whether it exists.
    pub(crate) fn file(&self) -> (PathBuf, bool) {
        let path = self.file.clone().unwrap_or_else(|| PathBuf::from(paths::CONFIG));
        let exists = path.exists();
        (path, exists)
    }

    fn read_file(&self) -> Result<FileValues, Failure> {
        let (path, _) = self.file();
        match fs::read_to_string(&path) {
            Ok(text) => parse(&path, &text),
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.file.is_none() => {
                Ok(FileValues::default())
            }
            Err(error) => Err(unreadable(&path, &error)),
        }
    }
}

impl Loaded {
    /// Fails if detection of bottlenecks is off, but its method is set or extra subflows are to be removed: both need detection.
    fn check_detection(&self) -> Result<(), String> {
        let Config { bottlenecks, method, eliminate, .. } = &self.config;
        let is_set = |name: &str| self.origin(name) != DEFAULT;
        let (name, value) = match (bottlenecks, eliminate) {
            (false, _) if is_set(keys::METHOD) => (keys::METHOD, method.as_str()),
            (false, EliminationMode::DryRun | EliminationMode::On) => (keys::ELIMINATE, eliminate.as_str()),
            _ => return Ok(()),
        };
        let reason = format!(
            "it has no effect while {DETECTION} is false ({}); set {DETECTION} to true, or remove {name}",
            self.origin(keys::DETECTION),
            DETECTION = keys::DETECTION,
        );
        Err(bad_value(self.origin(name), name, value, &reason))
    }

    fn check_step(&self) -> Result<(), String> {
        let Config { interval, store_sample_step, .. } = self.config;
        store_sample_step.filter(|step| *step < interval).map_or(Ok(()), |step| {
            Err(format!(
                "store.sample_step {step:?} is less than interval {interval:?}, and samples are taken from snapshots; use the same for both"
            ))
        })
    }

    /// Fails if the options of a target contradict each other, or if there is no database to export.
    fn check_exports(&self) -> Result<(), String> {
        for (table, target) in self.config.exports() {
            let Some(url) = &target.url else { continue };
            let name = format!("export.{table}.url");
            let without_store = "the daemon exports what is in its database, and store.path is empty";
            let reason = target.contradiction().map(|what| format!("in [export.{table}], {what}"));
            let reason = reason.or(self.config.store_path.is_none().then(|| without_store.to_owned()));
            if let Some(reason) = reason {
                return Err(bad_value(self.origin(&name), &name, url, &reason));
            }
        }
        Ok(())
    }

    fn origin(&self, name: &str) -> &str {
        let mut origins = keys().zip(&self.origins);
        origins.find(|(key, _)| key.name == name).map_or(DEFAULT, |(_, origin)| origin)
    }

    /// The values as in a file, optionally with their origins as comments.
    pub(crate) fn show(&self, with_origin: bool) -> String {
        // Without detection, the method has no effect.
        let is_used = |key: &Key| self.config.bottlenecks || key.name != keys::METHOD;
        let lines = keys().zip(&self.origins).filter(|(key, _)| is_used(key)).map(|(key, origin)| {
            let line = format!("{} = {}", key.name, (key.show)(&self.config));
            if with_origin { format!("{line}  # {origin}\n") } else { format!("{line}\n") }
        });
        lines.collect()
    }

    /// Keys whose values differ from `before` and are applied only by a restart.
    pub(crate) fn needs_restart(&self, before: &Config) -> Vec<&'static str> {
        let differs = |key: &&Key| !key.reloads && (key.show)(&self.config) != (key.show)(before);
        keys().filter(differs).map(|key| &*key.name).collect()
    }
}

pub(crate) fn not_toml(path: &Path, error: &toml::de::Error) -> Failure {
    Failure::usage(format!("{} is not TOML: {error}", path.display()))
}

/// The values of a file.
fn parse(path: &Path, text: &str) -> Result<FileValues, Failure> {
    let table = DeTable::parse(text).map_err(|error| not_toml(path, &error))?;
    let origin = format!("file {}", path.display());
    let mut file = FileValues::default();
    flatten("", table.get_ref(), &mut |name, span, kind, value| {
        let line = 1 + text[..span.start.min(text.len())].matches('\n').count();
        let set = Set { text: value, origin: origin.clone(), line };
        let error = match keys().find(|key| key.name == name) {
            Some(key) if key.kind() == kind => return drop(file.values.insert(&key.name, set)),
            Some(key) => {
                let example = (key.show)(&Config::default());
                let hint = format!("use {}, such as {example}", in_toml(key.kind()));
                bad_value(&set.place(), &key.name, &set.text, &hint)
            }
            None if kind == "table" && keys().any(|key| key.name.starts_with(&format!("{name}."))) => return,
            None => {
                let names: Vec<&str> = keys().map(|key| &*key.name).collect();
                let hint = suggest(name, &names)
                    .unwrap_or_else(|| "`mpwatch config schema` lists all keys".to_owned());
                unknown_key(&set.place(), name, &hint)
            }
        };
        file.errors.push((set.line, error));
    });
    Ok(file)
}

fn in_toml(kind: &str) -> &'static str {
    match kind {
        "integer" => "a whole number without quotes",
        "boolean" => "true or false, without quotes",
        _ => "a string in quotes",
    }
}

/// Receives a value of a file: its key with the names of its tables, the position of the key in the file, the name of its type (TOML and
/// JSON Schema have the same names), and the value.
type EachValue<'a> = dyn FnMut(&str, Range<usize>, &'static str, String) + 'a;

/// Passes each value of a table and of its nested tables to `each`; an empty table counts as a value.
fn flatten(prefix: &str, table: &DeTable<'_>, each: &mut EachValue<'_>) {
    for (key, value) in table {
        let name = format!("{prefix}{}", key.get_ref());
        let (kind, value) = (value.get_ref().type_str(), value.get_ref());
        let value = match value {
            DeValue::Table(inner) if inner.is_empty() => "[]".to_owned(),
            DeValue::Table(inner) => {
                flatten(&format!("{name}."), inner, each);
                continue;
            }
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) => decimal(number),
            DeValue::Boolean(value) => value.to_string(),
            DeValue::Float(number) => number.to_string(),
            DeValue::Datetime(time) => time.to_string(),
            DeValue::Array(_) => "[...]".to_owned(),
        };
        each(&name, key.span(), kind, value);
    }
}

/// Converts an integer to decimal: TOML also has hexadecimal, octal and binary integers.
fn decimal(number: &DeInteger<'_>) -> String {
    let value = i64::from_str_radix(number.as_str(), number.radix());
    value.map_or_else(|_| number.to_string(), |value| value.to_string())
}

pub(crate) fn schema() -> Value {
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "mpwatch.toml",
        "type": "object",
        "additionalProperties": false,
        "properties": {},
    });
    let defaults = Config::default();
    for key in keys() {
        let mut property = json!({ "type": key.kind(), "description": key.help });
        property["default"] = json!((key.show)(&defaults));
        let (tables, name) = key.name.rsplit_once('.').unwrap_or(("", &key.name));
        let mut at = &mut schema;
        for table in tables.split('.').filter(|table| !table.is_empty()) {
            at = &mut at["properties"][table];
            at["type"] = "object".into();
            at["additionalProperties"] = false.into();
        }
        at["properties"][name] = property;
    }
    schema
}

#[cfg(test)]
mod tests;
