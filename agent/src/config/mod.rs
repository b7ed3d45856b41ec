// SPDX-License-Identifier: MIT OR Apache-2.0
//! The daemon's configuration: defaults, then the file, then the environment, then flags; each value knows where it came from.
//! What can be set stands in [`keys`], once.

mod keys;

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mpwatch_model::bottleneck::DetectionMethod;
use serde_json::{Value, json};
use tracing::level_filters::LevelFilter;

use keys::{KEYS, Key};

/// Read where nobody names another file, if it exists.
pub(crate) const PATH: &str = "/etc/mpwatch/mpwatch.toml";
/// Where the daemon keeps every connection, and where `report` looks.
pub(crate) const DATABASE: &str = "/var/lib/mpwatch/flows.db";
/// Where the daemon listens for `top`, `ls` and `show`.
pub(crate) const SOCKET: &str = "/run/mpwatch/mpwatch.sock";

/// Everything that can be set.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a key of its own")]
#[allow(clippy::struct_field_names, reason = "`web_config` is what Prometheus calls that file")]
pub(crate) struct Config {
    /// Time between two snapshots.
    pub(crate) interval: Duration,
    /// Unix socket for snapshots.
    pub(crate) socket: PathBuf,
    /// Group whose members may read from it: a name or a number.
    pub(crate) socket_group: String,
    /// Address of the web server.
    pub(crate) listen: SocketAddr,
    /// TLS and basic auth of the web server. `None`: neither.
    pub(crate) web_config: Option<PathBuf>,
    /// So many of the largest connections have series of their own.
    pub(crate) top_flows: usize,
    /// Database of every connection. `None`: there is to be none.
    pub(crate) store_path: Option<PathBuf>,
    /// How long closed connections are kept there. `None`: for ever.
    pub(crate) store_keep: Option<Duration>,
    /// How large it may become, bytes. `None`: as large as the disk.
    pub(crate) store_max_size: Option<u64>,
    /// Longest time between two samples of a long connection.
    pub(crate) store_sample_every: Duration,
    /// Trace plain TCP too.
    pub(crate) tcp: bool,
    /// Account for CPU time and energy.
    pub(crate) ledger: bool,
    /// How shared bottlenecks are found.
    pub(crate) method: DetectionMethod,
    /// What is worth a line of log.
    pub(crate) log_level: LevelFilter,
    /// One JSON object a line instead of text.
    pub(crate) log_json: bool,
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    File(PathBuf),
    Environment(&'static str),
    Flag(&'static str),
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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
        "cannot read the configuration {path}: {source}; name another file (--config), or none for the usual one"
    )]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{path} is no TOML: {why}")]
    NotToml { path: PathBuf, why: String },
    #[error("{path} sets `{key}`, which does not exist; {hint}")]
    UnknownKey { path: PathBuf, key: String, hint: String },
    #[error("{origin} sets {key} to `{value}`: {why}")]
    BadValue { origin: Origin, key: &'static str, value: String, why: String },
    #[error("the daemon follows all connections; --netns and --filter are for `top`, `ls` and `report`")]
    KeepsAll,
}

/// Values that the command line gives, by the name of their key.
pub(crate) type Flags = Vec<(&'static str, String)>;

/// A configuration and where each value comes from, in the order of the table.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub(crate) config: Config,
    origins: Vec<Origin>,
}

/// Where the layers come from: the same at each reload.
#[derive(Clone, Debug)]
pub(crate) struct Layers {
    /// The file that was asked for. `None`: the usual one, if it exists.
    pub(crate) file: Option<PathBuf>,
    /// What the command line says.
    pub(crate) flags: Flags,
}

impl Layers {
    /// Reads all layers.
    pub(crate) fn load(&self) -> Result<Loaded, ConfigError> {
        let environment = |key: &Key| std::env::var(key.environment).ok();
        self.load_with(&self.file_values()?, environment)
    }

    fn load_with(
        &self,
        file: &[(&'static Key, String, PathBuf)],
        environment: impl Fn(&Key) -> Option<String>,
    ) -> Result<Loaded, ConfigError> {
        let mut loaded = Loaded { config: Config::default(), origins: Vec::new() };
        for key in KEYS {
            let from_file = file.iter().find(|(of, ..)| of.name == key.name);
            let flag = self.flags.iter().find(|(name, _)| *name == key.name);
            let found = flag
                .map(|(_, value)| (value.clone(), Origin::Flag(key.flag)))
                .or_else(|| environment(key).map(|value| (value, Origin::Environment(key.environment))))
                .or_else(|| from_file.map(|(_, value, path)| (value.clone(), Origin::File(path.clone()))));
            let origin = match found {
                None => Origin::Default,
                Some((value, origin)) => {
                    (key.set)(&mut loaded.config, &value).map_err(|why| ConfigError::BadValue {
                        origin: origin.clone(),
                        key: key.name,
                        value,
                        why,
                    })?;
                    origin
                }
            };
            loaded.origins.push(origin);
        }
        Ok(loaded)
    }

    fn file_values(&self) -> Result<Vec<(&'static Key, String, PathBuf)>, ConfigError> {
        let path = self.file.clone().unwrap_or_else(|| PathBuf::from(PATH));
        match fs::read_to_string(&path) {
            Ok(text) => parse(&path, &text),
            Err(source) if source.kind() == io::ErrorKind::NotFound && self.file.is_none() => Ok(Vec::new()),
            Err(source) => Err(ConfigError::Unreadable { path, source }),
        }
    }
}

impl Loaded {
    /// As a file would say it, with where each value comes from if that is asked for.
    pub(crate) fn show(&self, with_origin: bool) -> String {
        let lines = KEYS.iter().zip(&self.origins).map(|(key, origin)| {
            let line = format!("{} = {}", key.name, (key.show)(&self.config));
            if with_origin { format!("{line}  # {origin}\n") } else { format!("{line}\n") }
        });
        lines.collect()
    }

    /// What of it differs from the one before and is only read at the start.
    pub(crate) fn needs_restart(&self, before: &Config) -> Vec<&'static str> {
        let differs = |key: &&Key| !key.reloads && (key.show)(&self.config) != (key.show)(before);
        KEYS.iter().filter(differs).map(|key| key.name).collect()
    }
}

/// The values of a file, each with its key.
fn parse(path: &Path, text: &str) -> Result<Vec<(&'static Key, String, PathBuf)>, ConfigError> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| ConfigError::NotToml {
        path: path.to_owned(),
        why: error.to_string(),
    })?;
    let mut values = Vec::new();
    flatten("", &table, &mut values);
    let known = |(name, kind, value): (String, &str, String)| match KEYS.iter().find(|key| key.name == name) {
        Some(key) if key.kind == kind => Ok((key, value, path.to_owned())),
        Some(key) => Err(ConfigError::BadValue {
            origin: Origin::File(path.to_owned()),
            key: key.name,
            value,
            why: format!("in a file it is {}", in_a_file(key.kind)),
        }),
        None => Err(ConfigError::UnknownKey { path: path.to_owned(), hint: hint(&name), key: name }),
    };
    values.into_iter().map(known).collect()
}

/// How a value of a kind is written.
fn in_a_file(kind: &str) -> &'static str {
    match kind {
        "string" => "a text in quotes",
        "integer" => "a whole number without quotes",
        "boolean" => "true or false, without quotes",
        _ => "something else",
    }
}

/// Tables become names with dots; each value has its kind in the words of JSON Schema.
fn flatten(prefix: &str, table: &toml::Table, values: &mut Vec<(String, &'static str, String)>) {
    for (name, value) in table {
        let name = format!("{prefix}{name}");
        match value {
            toml::Value::Table(inner) => flatten(&format!("{name}."), inner, values),
            toml::Value::String(text) => values.push((name, "string", text.clone())),
            toml::Value::Integer(number) => values.push((name, "integer", number.to_string())),
            toml::Value::Boolean(is_so) => values.push((name, "boolean", is_so.to_string())),
            other => values.push((name, "", other.to_string())),
        }
    }
}

fn hint(wrong: &str) -> String {
    let likeness = |key: &&Key| {
        // A key in the wrong table is as likely as a typing error.
        let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
        let whole = strsim::normalized_damerau_levenshtein(key.name, wrong);
        whole.max(strsim::normalized_damerau_levenshtein(&last(key.name), &last(wrong)))
    };
    match KEYS.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b))) {
        Some(key) if likeness(&key) > 0.5 => format!("did you mean `{}`?", key.name),
        _ => "`mpwatch config schema` lists all keys".to_owned(),
    }
}

/// The name among these that is most like a wrong one, as a hint.
pub(crate) fn nearest(wrong: &str, names: &[&str]) -> String {
    let likeness = |name: &&str| strsim::normalized_damerau_levenshtein(name, wrong);
    match names.iter().copied().max_by(|a, b| likeness(a).total_cmp(&likeness(b))) {
        Some(name) if likeness(&name) > 0.5 => format!("did you mean `{name}`?"),
        _ => format!("there are {}", names.join(", ")),
    }
}

/// JSON Schema of the file.
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
        let mut property = json!({ "type": key.kind, "description": key.help });
        // What is shown is TOML, and of these kinds JSON too.
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
