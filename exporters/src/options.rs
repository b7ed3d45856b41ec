// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of an export over HTTP. Each is declared once: the command line, the configuration and their help follow from its row here.
//! Secrets are in files, which are read for each request, so that they can be replaced at any time.

use std::path::{Path, PathBuf};
use std::time::Duration;

use mpwatch_model::quantity::{SIZES, in_time_units, in_units, parse_duration_up_to, parse_size};
use mpwatch_model::words;

/// Maximum number of connections in a request.
const MAX_BATCH: u32 = 100_000;
/// Longest timeout, and longest time that connections wait.
const MAX_WAIT: Duration = Duration::from_mins(10);

words! {
    /// How requests are compressed. The word is also the value of the header `content-encoding`.
    pub enum Compression {
        /// A tenth of the CPU time of gzip, and smaller.
        Zstd = "zstd",
        /// Every receiver of OTLP supports it.
        Gzip = "gzip",
    }
}

/// Where connections are sent, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetOptions {
    /// `None`: nowhere.
    pub url: Option<String>,
    /// Name of the database in ClickHouse; others have none.
    pub database: String,
    /// `None`: requests have no user name.
    pub user: Option<String>,
    /// Its first line is the password of the user.
    pub password_file: Option<PathBuf>,
    /// Its first line is a bearer token.
    pub token_file: Option<PathBuf>,
    /// Trusted certificate authorities (PEM). `None`: the system's.
    pub ca_file: Option<PathBuf>,
    /// Client certificate (PEM).
    pub cert_file: Option<PathBuf>,
    /// Private key (PEM) of the client certificate.
    pub key_file: Option<PathBuf>,
    /// Maximum number of connections in a request.
    pub batch: u32,
    /// `None`: zstd for ClickHouse, gzip for OTLP, whose receivers need not support anything else.
    pub compression: Option<Compression>,
    /// Connections with at least this payload, in bytes, are always sent. `None`: all are.
    pub sample: Option<u64>,
    /// Longest time that the daemon lets connections wait for a request.
    pub every: Duration,
    /// Time limit of a request.
    pub timeout: Duration,
}

impl Default for TargetOptions {
    fn default() -> Self {
        Self {
            url: None,
            database: "mpwatch".to_owned(),
            user: None,
            password_file: None,
            token_file: None,
            ca_file: None,
            cert_file: None,
            key_file: None,
            batch: 2_000,
            compression: None,
            sample: None,
            every: Duration::from_secs(10),
            timeout: Duration::from_secs(30),
        }
    }
}

/// An option of a target.
#[derive(Clone, Copy, Debug)]
pub struct TargetOption {
    /// Its key in the configuration; the command line has dashes for underscores.
    pub name: &'static str,
    /// Kind of value, in help texts.
    pub value_name: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// Another option without which this option has no effect.
    pub needs: Option<&'static str>,
    /// Another option that contradicts this option.
    pub excludes: Option<&'static str>,
    /// Parses and sets the value; empty: none. The error describes a valid value.
    pub set: fn(&mut TargetOptions, &str) -> Result<(), String>,
    /// The value as [`Self::set`] reads it. Empty: none.
    pub show: fn(&TargetOptions) -> String,
}

const fn row(
    (name, value_name, help): (&'static str, &'static str, &'static str),
    set: fn(&mut TargetOptions, &str) -> Result<(), String>,
    show: fn(&TargetOptions) -> String,
) -> TargetOption {
    TargetOption { name, value_name, help, needs: None, excludes: None, set, show }
}

/// A row of an option that may have no value: a text or a path.
macro_rules! optional {
    ($field:ident, $value_name:literal, $help:literal) => {
        row(
            (stringify!($field), $value_name, $help),
            |options, text| {
                options.$field = (!text.is_empty()).then(|| text.into());
                Ok(())
            },
            |options| {
                options.$field.as_ref().map(|text| Path::new(text).display().to_string()).unwrap_or_default()
            },
        )
    };
}

const fn url(help: &'static str) -> TargetOption {
    row(
        ("url", "URL", help),
        |options, text| address(text).map(|url| options.url = url),
        |options| options.url.clone().unwrap_or_default(),
    )
}

/// Address of a ClickHouse server.
pub const CLICKHOUSE_URL: TargetOption =
    url("Send connections to the HTTP interface at this address, such as https://clickhouse:8443.");
/// Address of a receiver of OTLP.
pub const OTLP_URL: TargetOption = url(
    "Send connections to the OTLP/HTTP receiver at this address, such as https://collector:4318; without a path, to /v1/logs or /v1/traces.",
);
/// Database in ClickHouse.
pub const DATABASE: TargetOption = row(
    ("database", "NAME", "Name of the database in ClickHouse."),
    |options, text| {
        text.clone_into(&mut options.database);
        if text.is_empty() { Err("use a name".to_owned()) } else { Ok(()) }
    },
    |options| options.database.clone(),
);
/// User.
pub const USER: TargetOption = optional!(user, "NAME", "Authenticate as this user.");
/// Password.
pub const PASSWORD_FILE: TargetOption = TargetOption {
    needs: Some("user"),
    ..optional!(
        password_file,
        "FILE",
        "Read the password of the user from the first line of this file, for each request."
    )
};
/// Bearer token.
pub const TOKEN_FILE: TargetOption = TargetOption {
    excludes: Some("user"),
    ..optional!(
        token_file,
        "FILE",
        "Authenticate with the bearer token in the first line of this file, which is read for each request."
    )
};
/// Certificate authorities.
pub const CA_FILE: TargetOption =
    optional!(ca_file, "FILE", "Trust the certificate authorities in this PEM file instead of the system's.");
/// Client certificate.
pub const CERT_FILE: TargetOption = TargetOption {
    needs: Some("key_file"),
    ..optional!(cert_file, "FILE", "Send the client certificate in this PEM file.")
};
/// Key of the client certificate.
pub const KEY_FILE: TargetOption = TargetOption {
    needs: Some("cert_file"),
    ..optional!(key_file, "FILE", "Read the private key of the client certificate from this PEM file.")
};
/// Size of requests.
pub const BATCH: TargetOption = row(
    ("batch", "N", "Maximum number of connections in a request, 1 to 100000."),
    |options, text| {
        let number = text.parse().ok().filter(|number| (1..=MAX_BATCH).contains(number));
        number.map(|batch| options.batch = batch).ok_or_else(|| format!("use a number from 1 to {MAX_BATCH}"))
    },
    |options| options.batch.to_string(),
);
/// Compression of requests.
pub const COMPRESSION: TargetOption = row(
    (
        "compression",
        "METHOD",
        "Compress requests with zstd (default for ClickHouse) or gzip (default for OTLP), which takes ten times the CPU time but is supported everywhere.",
    ),
    |options, text| {
        let method = Compression::from_word(text);
        let expected = || format!("use {}", Compression::WORDS.join(" or "));
        method.map(|method| options.compression = Some(method)).ok_or_else(expected)
    },
    |options| options.compression.map(Compression::as_str).unwrap_or_default().to_owned(),
);
/// Sampling.
pub const SAMPLE: TargetOption = row(
    (
        "sample",
        "SIZE",
        "Sample connections with less payload than this, for example 10M, in proportion to their payload, and record the weight.",
    ),
    |options, text| {
        let size = parse_size(text.strip_suffix('B').unwrap_or(text)).filter(|size| *size > 0);
        if size.is_none() && !text.is_empty() {
            return Err("use a whole number with K, M or G, such as 10M".to_owned());
        }
        options.sample = size;
        Ok(())
    },
    |options| options.sample.map(|size| in_units(size, SIZES)).unwrap_or_default(),
);
/// Longest time that connections wait for a request of the daemon.
pub const EVERY: TargetOption = row(
    (
        "every",
        "DURATION",
        "Send connections after this time, or once there are enough for a request: 100ms to 600s.",
    ),
    |options, text| parse_duration_up_to(MAX_WAIT, text).map(|every| options.every = every),
    |options| in_time_units(options.every),
);
/// Time limit of a request.
pub const TIMEOUT: TargetOption = row(
    (
        "timeout",
        "DURATION",
        "Give up a request that takes longer than this, and repeat it later: 100ms to 600s.",
    ),
    |options, text| parse_duration_up_to(MAX_WAIT, text).map(|timeout| options.timeout = timeout),
    |options| in_time_units(options.timeout),
);

/// The options that all targets have on the command line, without the address.
pub const COMMON: [TargetOption; 10] =
    [USER, PASSWORD_FILE, TOKEN_FILE, CA_FILE, CERT_FILE, KEY_FILE, BATCH, COMPRESSION, SAMPLE, TIMEOUT];

impl TargetOptions {
    /// Two options that contradict each other, in the words of the configuration.
    pub fn contradiction(&self) -> Option<String> {
        let is_set =
            |name: &str| COMMON.iter().any(|option| option.name == name && !(option.show)(self).is_empty());
        COMMON.iter().filter(|option| is_set(option.name)).find_map(|option| {
            let missing = option.needs.filter(|other| !is_set(other));
            let contrary = option.excludes.filter(|other| is_set(other));
            missing
                .map(|other| format!("`{}` needs `{other}`", option.name))
                .or_else(|| contrary.map(|other| format!("use either `{other}` or `{}`", option.name)))
        })
    }
}

/// Empty: none. The whole address is checked where it is used.
fn address(text: &str) -> Result<Option<String>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    match rest.map(|rest| rest.split('/').next().unwrap_or_default()) {
        Some(authority) if authority.contains('@') => Err(
            "a user name belongs into `user` (--user), a password into the file of `password_file` (--password-file), which no list of processes shows"
                .to_owned(),
        ),
        Some(authority) if !authority.is_empty() => Ok(Some(text.to_owned())),
        _ => Err("use an address that begins with http:// or https://".to_owned()),
    }
}
