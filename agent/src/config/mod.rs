// SPDX-License-Identifier: MIT OR Apache-2.0
//! The daemon's configuration: defaults, file, environment, command line, in this order. Each value knows its origin. [`keys`] lists all.

pub(crate) mod environment;
mod keys;
mod nearest;
mod values;

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

pub(crate) use nearest::suggest;
pub(crate) use values::Config;

use crate::control::switch::Switch;
use crate::error::Failure;
use crate::paths;
use keys::{KEYS, Key};

/// The origin of a value that nothing sets.
const DEFAULT: &str = "default";

/// A file of settings cannot be read.
pub(crate) fn unreadable(path: &Path, error: &io::Error) -> Failure {
    let advice = "choose another file with --config, or omit it for the default";
    Failure::usage(format!("cannot read the configuration {}: {error}; {advice}", path.display()))
}

/// A file has a key that does not exist.
pub(crate) fn unknown_key(path: &Path, key: &str, hint: &str) -> Failure {
    Failure::usage(format!("{} sets `{key}`, which does not exist; {hint}", path.display()))
}

/// A value is wrong. `origin`: where it comes from.
pub(crate) fn bad_value(origin: &str, key: &str, value: &str, reason: &str) -> Failure {
    Failure::usage(format!("{origin} sets {key} to `{value}`: {reason}"))
}

/// A configuration, and the origin of each value in the order of `KEYS`.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub(crate) config: Config,
    origins: Vec<String>,
}

/// Where the layers are; the same at each reload.
#[derive(Clone, Debug)]
pub(crate) struct Layers {
    /// File of the command line. `None`: the default file, if it exists.
    pub(crate) file: Option<PathBuf>,
    /// Values of the command line, by key.
    pub(crate) flags: Vec<(&'static str, String)>,
}

/// The values of a file and their origin, by key.
type FileValues = HashMap<&'static str, (String, String)>;

impl Layers {
    /// Reads all layers.
    pub(crate) fn load(&self) -> Result<Loaded, Failure> {
        self.merge(&self.read_file()?, |name| std::env::var(name).ok())
    }

    /// Reads the text of a file, and neither the environment nor the file itself.
    #[cfg(feature = "fuzz")]
    pub(crate) fn load_text(&self, path: &Path, text: &str) -> Result<Loaded, Failure> {
        self.merge(&parse(path, text)?, |_| None)
    }

    fn merge(
        &self,
        file: &FileValues,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Loaded, Failure> {
        let mut loaded = Loaded { config: Config::default(), origins: Vec::new() };
        for key in KEYS {
            let flag = self.flags.iter().find(|(name, _)| *name == key.name);
            let variable = key.environment();
            let found = flag
                .map(|(_, text)| (text.clone(), format!("flag {}", key.flag)))
                .or_else(|| environment(&variable).map(|text| (text, format!("environment {variable}"))))
                .or_else(|| file.get(key.name).cloned());
            let Some((value, origin)) = found else {
                loaded.origins.push(DEFAULT.to_owned());
                continue;
            };
            let with_default =
                |reason: String| format!("{reason}; the default is {}", (key.show)(&Config::default()));
            (key.set)(&mut loaded.config, &value)
                .map_err(|reason| bad_value(&origin, key.name, &value, &with_default(reason)))?;
            loaded.origins.push(origin);
        }
        loaded.check_method()?;
        loaded.check_elimination()?;
        let Config { interval, store_sample_step, .. } = loaded.config;
        match store_sample_step.filter(|step| *step < interval) {
            None => Ok(loaded),
            Some(step) => Err(Failure::usage(format!(
                "store.sample_step {step:?} is less than interval {interval:?}, and samples are taken from snapshots; use the same for both"
            ))),
        }
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
                Ok(HashMap::new())
            }
            Err(error) => Err(unreadable(&path, &error)),
        }
    }
}

impl Loaded {
    /// A method without detection would have no effect.
    fn check_method(&self) -> Result<(), Failure> {
        let [method, detection] = [keys::METHOD, keys::DETECTION].map(|name| self.origin(name));
        if self.config.bottlenecks || method == DEFAULT {
            return Ok(());
        }
        let value = self.config.method.as_str();
        let reason = format!(
            "it has no effect while {DETECTION} is false ({detection}); set {DETECTION} to true, or remove {METHOD}",
            DETECTION = keys::DETECTION,
            METHOD = keys::METHOD,
        );
        Err(bad_value(method, keys::METHOD, value, &reason))
    }

    /// Without detection there is nothing to remove.
    fn check_elimination(&self) -> Result<(), Failure> {
        let Config { eliminate, bottlenecks, .. } = self.config;
        if bottlenecks || eliminate == Switch::Off {
            return Ok(());
        }
        let reason =
            format!("it needs {}, which is false ({})", keys::DETECTION, self.origin(keys::DETECTION));
        Err(bad_value(self.origin(keys::ELIMINATE), keys::ELIMINATE, eliminate.as_str(), &reason))
    }

    /// Where the value of a key comes from.
    fn origin(&self, name: &str) -> &str {
        let mut origins = KEYS.iter().zip(&self.origins);
        origins.find(|(key, _)| key.name == name).map_or(DEFAULT, |(_, origin)| origin)
    }

    /// The values as in a file, optionally with their origins as comments.
    pub(crate) fn show(&self, with_origin: bool) -> String {
        // Without detection there is no method.
        let is_used = |key: &Key| self.config.bottlenecks || key.name != keys::METHOD;
        let lines = KEYS.iter().zip(&self.origins).filter(|(key, _)| is_used(key)).map(|(key, origin)| {
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

/// Reads TOML.
pub(crate) fn read_toml(path: &Path, text: &str) -> Result<toml::Table, Failure> {
    let table = text.parse::<toml::Table>();
    table.map_err(|error| Failure::usage(format!("{} is not TOML: {error}", path.display())))
}

/// The values of a file.
fn parse(path: &Path, text: &str) -> Result<FileValues, Failure> {
    let mut values = Vec::new();
    flatten("", &read_toml(path, text)?, &mut values);
    let origin = format!("file {}", path.display());
    let known = |(name, kind, text): (String, &str, String)| match KEYS.iter().find(|key| key.name == name) {
        Some(key) if key.kind() == kind => Ok((key.name, (text, origin.clone()))),
        Some(key) => {
            let example = (key.show)(&Config::default());
            let hint = format!("use {}, such as {example}", in_toml(key.kind()));
            Err(bad_value(&origin, key.name, &text, &hint))
        }
        None => {
            let names: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
            let hint =
                suggest(&name, &names).unwrap_or_else(|| "`mpwatch config schema` lists all keys".to_owned());
            Err(unknown_key(path, &name, &hint))
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
