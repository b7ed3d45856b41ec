// SPDX-License-Identifier: MIT OR Apache-2.0
//! The daemon's configuration: defaults, file, environment, command line, in this order. Each value knows its origin. [`keys`] lists all.

mod keys;
mod values;

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

pub(crate) use values::Config;

use crate::paths;
use keys::{KEYS, Key};

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    File(PathBuf),
    Environment(String),
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error(
        "cannot read the configuration {path}: {source}; choose another file with --config, or omit it for the default"
    )]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{path} is not TOML: {reason}")]
    NotToml { path: PathBuf, reason: String },
    #[error("{path} sets `{key}`, which does not exist; {hint}")]
    UnknownKey { path: PathBuf, key: String, hint: String },
    #[error("{origin} sets {key} to `{value}`: {reason}")]
    BadValue { origin: Origin, key: &'static str, value: String, reason: String },
}

/// A configuration, and the origin of each value in the order of `KEYS`.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub(crate) config: Config,
    origins: Vec<Origin>,
}

/// Where the layers are; the same at each reload.
#[derive(Clone, Debug)]
pub(crate) struct Layers {
    /// File of the command line. `None`: the default file, if it exists.
    pub(crate) file: Option<PathBuf>,
    /// Values of the command line, by key.
    pub(crate) flags: Vec<(&'static str, String)>,
}

/// A value in a file.
struct FileValue {
    key: &'static Key,
    text: String,
    path: PathBuf,
}

impl Layers {
    /// Reads all layers.
    pub(crate) fn load(&self) -> Result<Loaded, ConfigError> {
        self.merge(&self.read_file()?, |name| std::env::var(name).ok())
    }

    fn merge(
        &self,
        file: &[FileValue],
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Loaded, ConfigError> {
        let mut loaded = Loaded { config: Config::default(), origins: Vec::new() };
        for key in KEYS {
            let flag = self.flags.iter().find(|(name, _)| *name == key.name);
            let in_file = file.iter().find(|value| value.key.name == key.name);
            let variable = key.environment();
            let found = flag
                .map(|(_, text)| (text.clone(), Origin::Flag(key.flag)))
                .or_else(|| environment(&variable).map(|text| (text, Origin::Environment(variable))))
                .or_else(|| in_file.map(|value| (value.text.clone(), Origin::File(value.path.clone()))));
            let Some((value, origin)) = found else {
                loaded.origins.push(Origin::Default);
                continue;
            };
            if let Err(reason) = (key.set)(&mut loaded.config, &value) {
                return Err(ConfigError::BadValue { origin, key: key.name, value, reason });
            }
            loaded.origins.push(origin);
        }
        Ok(loaded)
    }

    fn read_file(&self) -> Result<Vec<FileValue>, ConfigError> {
        let path = self.file.clone().unwrap_or_else(|| PathBuf::from(paths::CONFIG));
        match fs::read_to_string(&path) {
            Ok(text) => parse(&path, &text),
            Err(source) if source.kind() == io::ErrorKind::NotFound && self.file.is_none() => Ok(Vec::new()),
            Err(source) => Err(ConfigError::Unreadable { path, source }),
        }
    }
}

impl Loaded {
    /// The values as in a file, optionally with their origins as comments.
    pub(crate) fn show(&self, with_origin: bool) -> String {
        let lines = KEYS.iter().zip(&self.origins).map(|(key, origin)| {
            let line = format!("{} = {}", key.name, (key.show)(&self.config));
            if with_origin { format!("{line}  # {origin}\n") } else { format!("{line}\n") }
        });
        lines.collect()
    }

    /// Keys that changed since `before` and that only a restart applies.
    pub(crate) fn needs_restart(&self, before: &Config) -> Vec<&'static str> {
        let differs = |key: &&Key| !key.reloads && (key.show)(&self.config) != (key.show)(before);
        KEYS.iter().filter(differs).map(|key| key.name).collect()
    }
}

pub(crate) fn read_toml(path: &Path, text: &str) -> Result<toml::Table, ConfigError> {
    text.parse().map_err(|error: toml::de::Error| ConfigError::NotToml {
        path: path.to_owned(),
        reason: error.to_string(),
    })
}

fn parse(path: &Path, text: &str) -> Result<Vec<FileValue>, ConfigError> {
    let mut values = Vec::new();
    flatten("", &read_toml(path, text)?, &mut values);
    let known = |(name, kind, text): (String, &str, String)| match KEYS.iter().find(|key| key.name == name) {
        Some(key) if key.kind() == kind => Ok(FileValue { key, text, path: path.to_owned() }),
        Some(key) => Err(ConfigError::BadValue {
            origin: Origin::File(path.to_owned()),
            key: key.name,
            value: text,
            reason: format!("use {}", in_toml(key.kind())),
        }),
        None => {
            let names: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
            let hint =
                suggest(&name, &names).unwrap_or_else(|| "`mpwatch config schema` lists all keys".to_owned());
            Err(ConfigError::UnknownKey { path: path.to_owned(), hint, key: name })
        }
    };
    values.into_iter().map(known).collect()
}

fn in_toml(kind: &str) -> &'static str {
    match kind {
        "integer" => "a whole number without quotes",
        "boolean" => "true or false, without quotes",
        _ => "a string in quotes",
    }
}

/// Name, kind in the words of JSON Schema, and text of each value. Tables become dots in names.
fn flatten(prefix: &str, table: &toml::Table, values: &mut Vec<(String, &'static str, String)>) {
    for (name, value) in table {
        let name = format!("{prefix}{name}");
        match value {
            toml::Value::Table(inner) => flatten(&format!("{name}."), inner, values),
            toml::Value::String(text) => values.push((name, "string", text.clone())),
            toml::Value::Integer(number) => values.push((name, "integer", number.to_string())),
            toml::Value::Boolean(value) => values.push((name, "boolean", value.to_string())),
            other => values.push((name, "", other.to_string())),
        }
    }
}

/// A hint at the name that is most like a wrong one. `None`: no name is like it.
pub(crate) fn suggest(wrong: &str, names: &[&str]) -> Option<String> {
    // A key in the wrong table is as likely as a typing error.
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    let likeness = |name: &str| {
        let whole = strsim::normalized_damerau_levenshtein(name, wrong);
        whole.max(strsim::normalized_damerau_levenshtein(&last(name), &last(wrong)))
    };
    let nearest = names.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(nearest) > 0.5).then(|| format!("did you mean `{nearest}`?"))
}

pub(crate) fn environment_variables() -> impl Iterator<Item = String> {
    KEYS.iter().map(Key::environment)
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
    for key in KEYS {
        let mut property = json!({ "type": key.kind(), "description": key.help });
        // Values of these kinds look the same in TOML and in JSON.
        property["default"] = serde_json::from_str(&(key.show)(&defaults)).unwrap_or(Value::Null);
        match key.name.split_once('.') {
            None => schema["properties"][key.name] = property,
            Some((table, name)) => {
                let inner = &mut schema["properties"][table];
                inner["type"] = "object".into();
                inner["additionalProperties"] = false.into();
                inner["properties"][name] = property;
            }
        }
    }
    schema
}

#[cfg(test)]
mod tests;
