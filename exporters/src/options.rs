// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of an export over HTTP. The command line, the configuration and their help are derived from them. Secrets are in
//! files that are read for each request, so that they can be replaced at any time.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper::Uri;
use mpwatch_model::quantity::{SIZES, in_time_units, in_units, parse_duration_up_to, parse_size};
use mpwatch_model::words;

/// Maximum number of connections in a request.
const MAX_BATCH: u32 = 100_000;
/// Maximum of the options `timeout` and `every`.
const MAX_WAIT: Duration = Duration::from_mins(10);

words! {
    /// Compression of requests. The word is also the value of the header `content-encoding`.
    pub enum Compression {
        /// Takes a tenth of the CPU time of gzip, and its results are smaller.
        Zstd = "zstd",
        /// Every receiver of OTLP supports it.
        Gzip = "gzip",
    }
}

/// The target of an export, and how connections are sent there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetOptions {
    /// Address of the server. `None`: nothing is sent.
    pub url: Option<String>,
    /// Name of the database; only for ClickHouse.
    pub database: String,
    /// User name. `None`: requests have no user name.
    pub user: Option<String>,
    /// File whose first line is the password of the user. `None`: no password.
    pub password_file: Option<PathBuf>,
    /// File whose first line is a bearer token. `None`: no token.
    pub token_file: Option<PathBuf>,
    /// Trusted certificate authorities (PEM). `None`: the system's.
    pub ca_file: Option<PathBuf>,
    /// Client certificate (PEM). `None`: no certificate is sent.
    pub cert_file: Option<PathBuf>,
    /// Private key (PEM) of the client certificate.
    pub key_file: Option<PathBuf>,
    /// Maximum number of connections in a request.
    pub batch: u32,
    /// Compression of requests. `None`: zstd for ClickHouse, gzip for OTLP, whose receivers need not support anything else.
    pub compression: Option<Compression>,
    /// Connections with at least this payload, in bytes, are always sent, other connections are sampled. `None`: all are sent.
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
    /// Help text: one sentence.
    pub help: &'static str,
    /// Another option without which this option has no effect.
    pub needs: Option<&'static str>,
    /// Another option that contradicts this option.
    pub excludes: Option<&'static str>,
    /// Parses and sets the value. Empty text: no value, or an error if the option needs a value. The error describes a valid value.
    pub set: fn(&mut TargetOptions, &str) -> Result<(), String>,
    /// The value in the form that [`Self::set`] parses. Empty: no value.
    pub show: fn(&TargetOptions) -> String,
}

/// The usual way to set and show a value.
trait Value {
    fn set(&mut self, text: &str) -> Result<(), String>;
    fn show(&self) -> String;
}

/// An empty text sets `None`.
impl<T: for<'a> From<&'a str> + AsRef<Path>> Value for Option<T> {
    fn set(&mut self, text: &str) -> Result<(), String> {
        *self = (!text.is_empty()).then(|| text.into());
        Ok(())
    }

    fn show(&self) -> String {
        self.as_ref().map(|text| text.as_ref().display().to_string()).unwrap_or_default()
    }
}

impl Value for Duration {
    fn set(&mut self, text: &str) -> Result<(), String> {
        parse_duration_up_to(MAX_WAIT, text).map(|duration| *self = duration)
    }

    fn show(&self) -> String {
        in_time_units(*self)
    }
}

/// Declares an option, documented by its help text.
macro_rules! option {
    ($constant:ident $field:ident $value_name:literal $help:literal $($rule:ident $other:literal)?) => {
        option! { $constant $field $value_name $help $($rule $other)? =>
            |options, text| options.$field.set(text), |options| options.$field.show() }
    };
    ($constant:ident $field:ident $value_name:literal $help:literal $($rule:ident $other:literal)? => $set:expr, $show:expr) => {
        #[doc = $help]
        pub const $constant: TargetOption = TargetOption {
            $($rule: Some($other),)?
            ..option(stringify!($field), $value_name, $help, $set, $show)
        };
    };
}

const fn option(
    name: &'static str,
    value_name: &'static str,
    help: &'static str,
    set: fn(&mut TargetOptions, &str) -> Result<(), String>,
    show: fn(&TargetOptions) -> String,
) -> TargetOption {
    TargetOption { name, value_name, help, needs: None, excludes: None, set, show }
}

option!(CLICKHOUSE_URL url "URL" "Send connections to the HTTP interface at this address, such as https://clickhouse:8443." =>
    |options, text| address(text).map(|url| options.url = url), |options| options.url.show());
option!(OTLP_URL url "URL"
    "Send connections to the OTLP/HTTP receiver at this address, such as https://collector:4318; without a path, to /v1/logs or /v1/traces." =>
    |options, text| address(text).map(|url| options.url = url), |options| options.url.show());
option!(DATABASE database "NAME" "Name of the database in ClickHouse." =>
    |options, text| {
        text.clone_into(&mut options.database);
        if text.is_empty() { Err("use a name".to_owned()) } else { Ok(()) }
    },
    |options| options.database.clone());
option!(USER user "NAME" "Authenticate as this user.");
option!(PASSWORD_FILE password_file "FILE"
    "Read the password of the user from the first line of this file, for each request." needs "user");
option!(TOKEN_FILE token_file "FILE"
    "Authenticate with the bearer token in the first line of this file, which is read for each request." excludes "user");
option!(CA_FILE ca_file "FILE" "Trust the certificate authorities in this PEM file instead of the system's.");
option!(CERT_FILE cert_file "FILE" "Send the client certificate in this PEM file." needs "key_file");
option!(KEY_FILE key_file "FILE"
    "Read the private key of the client certificate from this PEM file." needs "cert_file");
option!(BATCH batch "N" "Maximum number of connections in a request, 1 to 100000." =>
    |options, text| {
        let number = text.parse().ok().filter(|number| (1..=MAX_BATCH).contains(number));
        number.map(|batch| options.batch = batch).ok_or_else(|| format!("use a number from 1 to {MAX_BATCH}"))
    },
    |options| options.batch.to_string());
option!(COMPRESSION compression "METHOD"
    "Compress requests with zstd (default for ClickHouse) or gzip (default for OTLP); gzip takes ten times the CPU time of zstd, but every receiver supports it." =>
    |options, text| {
        let method = Compression::from_word(text);
        let expected = || format!("use {}", Compression::WORDS.join(" or "));
        method.map(|method| options.compression = Some(method)).ok_or_else(expected)
    },
    |options| options.compression.map(Compression::as_str).unwrap_or_default().to_owned());
option!(SAMPLE sample "SIZE"
    "Send only a sample of the connections with less payload than this, for example 10M, with a probability in proportion to their payload, and record their weight." =>
    |options, text| {
        let size = parse_size(text.strip_suffix('B').unwrap_or(text)).filter(|size| *size > 0);
        if size.is_none() && !text.is_empty() {
            return Err("use a whole number with K, M or G, such as 10M".to_owned());
        }
        options.sample = size;
        Ok(())
    },
    |options| options.sample.map(|size| in_units(size, SIZES)).unwrap_or_default());
option!(EVERY every "DURATION"
    "Send connections that have waited for this time, or once there are enough for a request: 100ms to 600s.");
option!(TIMEOUT timeout "DURATION"
    "Abort a request that takes longer than this, and retry it later: 100ms to 600s.");

/// The options of all targets on the command line, except the address.
pub const COMMON: [TargetOption; 10] =
    [USER, PASSWORD_FILE, TOKEN_FILE, CA_FILE, CERT_FILE, KEY_FILE, BATCH, COMPRESSION, SAMPLE, TIMEOUT];

impl TargetOptions {
    /// An error with the configuration keys of two options, of which one needs or excludes the other. `None`: all are consistent.
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

/// Parses the address of a server. `None`: the text is empty.
fn address(text: &str) -> Result<Option<String>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    let authority = rest.and_then(|rest| rest.split('/').next()).unwrap_or_default();
    if authority.contains('@') {
        return Err(
            "set the user name with `user` (--user), and the password with `password_file` (--password-file), so that no list of processes shows it"
                .to_owned(),
        );
    }
    if authority.is_empty() {
        return Err("use an address that begins with http:// or https://".to_owned());
    }
    let uri: Uri = text.parse().map_err(|error| format!("`{text}` is not an address: {error}"))?;
    if uri.host().is_some_and(|host| host.len() < authority.len()) && uri.port_u16().is_none() {
        return Err(format!("`{text}` has no valid port; ports are 1 to 65535"));
    }
    if uri.query().is_some() || text.contains('#') {
        return Err(format!("`{text}` has more than a path; give settings as options, such as --database"));
    }
    Ok(Some(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_cannot_be_used_are_refused_with_a_reason() {
        for (text, word) in [
            ("http://a b", "not an address"),
            ("http://host:99999", "no valid port"),
            ("http://[::1]:x/", "no valid port"),
            ("http://host:/", "no valid port"),
            ("http://host/?database=x", "--database"),
            ("http://host/#x", "more than a path"),
            ("http://me:secret@host", "--password-file"),
            ("host:8123", "begins with http://"),
        ] {
            let error = address(text).unwrap_err();
            assert!(error.contains(word) && !error.contains("secret"), "{text}: {error}");
        }
        assert_eq!(address("http://[::1]:8123/x"), Ok(Some("http://[::1]:8123/x".to_owned())));
        assert_eq!(address(""), Ok(None));
    }
}
