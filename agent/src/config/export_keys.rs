// SPDX-License-Identifier: MIT OR Apache-2.0
//! The configuration keys of exports. Each target has the same.

use super::key::{Key, optional_path, path_value};
use crate::compression::Compression;
use crate::quantity::{SIZES, in_time_units, in_units, parse_sample, parse_step};

/// Maximum number of connections in a request.
const MAX_BATCH: u32 = 100_000;

/// The keys of a target: its table in the file, its field of the configuration, and an example of its address.
macro_rules! keys_of {
    ($table:literal, $field:ident, $url:literal) => {
        [
            Key {
                name: concat!("export.", $table, ".url"),
                flag: "",
                help: concat!("Address that connections are sent to, such as ", $url, "; empty for none."),
                reloads: false,
                set: |config, text| address(text).map(|url| config.$field.url = url),
                show: |config| config.$field.url.as_deref().unwrap_or_default().into(),
            },
            Key {
                name: concat!("export.", $table, ".user"),
                flag: "",
                help: "Authenticate as this user; empty for none.",
                reloads: false,
                set: |config, text| {
                    config.$field.credentials.user = (!text.is_empty()).then(|| text.to_owned());
                    Ok(())
                },
                show: |config| config.$field.credentials.user.as_deref().unwrap_or_default().into(),
            },
            keys_of!(@file $table, $field, "password_file", password_file, "Password of the user: the first line of this file, which is read for each request."),
            keys_of!(@file $table, $field, "token_file", token_file, "Bearer token: the first line of this file, which is read for each request."),
            keys_of!(@file $table, $field, "ca_file", ca_file, "Certificate authorities (PEM) that are trusted; empty for those of the system."),
            keys_of!(@file $table, $field, "cert_file", cert_file, "Client certificate (PEM); empty for none."),
            keys_of!(@file $table, $field, "key_file", key_file, "Private key (PEM) of the client certificate."),
            Key {
                name: concat!("export.", $table, ".batch"),
                flag: "",
                help: "Maximum number of connections in a request; as many waiting ones are sent at once, 1 to 100000.",
                reloads: false,
                set: |config, text| batch(text).map(|batch| config.$field.batch = batch),
                show: |config| config.$field.batch.into(),
            },
            Key {
                name: concat!("export.", $table, ".compression"),
                flag: "",
                help: "How requests are compressed: zstd or gzip, which takes ten times as much CPU time but is understood everywhere.",
                reloads: false,
                set: |config, text| compression(text).map(|compression| config.$field.compression = compression),
                show: |config| config.$field.compression.as_str().into(),
            },
            Key {
                name: concat!("export.", $table, ".every"),
                flag: "",
                help: "Longest time that connections wait for a request: 100ms to 600s.",
                reloads: false,
                set: |config, text| parse_step(text).map(|every| config.$field.every = every),
                show: |config| in_time_units(config.$field.every).into(),
            },
            Key {
                name: concat!("export.", $table, ".timeout"),
                flag: "",
                help: "Give up a request that takes longer, and repeat it later: 100ms to 600s.",
                reloads: false,
                set: |config, text| parse_step(text).map(|timeout| config.$field.timeout = timeout),
                show: |config| in_time_units(config.$field.timeout).into(),
            },
        ]
    };
    (@file $table:literal, $field:ident, $name:literal, $credential:ident, $help:literal) => {
        Key {
            name: concat!("export.", $table, ".", $name),
            flag: "",
            help: $help,
            reloads: false,
            set: |config, text| optional_path(text).map(|path| config.$field.credentials.$credential = path),
            show: |config| path_value(config.$field.credentials.$credential.as_deref()),
        }
    };
}

static CLICKHOUSE: &[Key] = &keys_of!("clickhouse", clickhouse, "https://clickhouse:8443");
static OTLP: &[Key] = &keys_of!("otlp", otlp, "https://collector:4318");
static SPANS: &[Key] = &keys_of!("otlp_spans", otlp_spans, "https://collector:4318");
static DATABASE: Key = Key {
    name: "export.clickhouse.database",
    flag: "",
    help: "Name of the database in ClickHouse.",
    reloads: false,
    set: |config, text| {
        if text.is_empty() {
            return Err("use a name".to_owned());
        }
        text.clone_into(&mut config.clickhouse.database);
        Ok(())
    },
    show: |config| config.clickhouse.database.as_str().into(),
};

static SAMPLE: Key = Key {
    name: "export.sample",
    flag: "",
    help: "Export connections with less payload than this with a probability in proportion to it, and record their weight, for example 10M; empty for all.",
    reloads: false,
    set: |config, text| {
        let sample = if text.is_empty() { Ok(None) } else { parse_sample(text).map(Some) };
        sample.map(|sample| config.export_sample = sample)
    },
    show: |config| config.export_sample.map(|size| in_units(size, SIZES)).unwrap_or_default().into(),
};

/// All keys of exports.
pub(super) fn export_keys() -> impl Iterator<Item = &'static Key> + Clone {
    std::iter::once(&SAMPLE).chain(CLICKHOUSE).chain([&DATABASE]).chain(OTLP).chain(SPANS)
}

/// Empty: none. The whole address is checked where it is used.
fn address(text: &str) -> Result<Option<String>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    match rest.map(|rest| rest.split('/').next().unwrap_or_default()) {
        Some(authority) if authority.contains('@') => {
            Err("a user's name belongs into `user`, a password into the file `password_file`".to_owned())
        }
        Some(authority) if !authority.is_empty() => Ok(Some(text.to_owned())),
        _ => Err("use an address that begins with http:// or https://".to_owned()),
    }
}

fn batch(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (1..=MAX_BATCH).contains(number));
    number.ok_or_else(|| format!("use a number from 1 to {MAX_BATCH}"))
}

fn compression(text: &str) -> Result<Compression, String> {
    Compression::from_word(text).ok_or_else(|| format!("use {}", Compression::WORDS.join(" or ")))
}
