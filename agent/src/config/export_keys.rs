// SPDX-License-Identifier: MIT OR Apache-2.0
//! The configuration keys of exports, from the options of targets.

use mpwatch_exporters::options::{self, TargetOption, TargetOptions};
use toml::Value;

use super::key::{Key, OPTIONAL_PATH};

/// The keys of a target: its table in the file, its field of the configuration, and its options.
macro_rules! keys_of {
    ($table:literal, $field:ident, $url:ident $(, $more_name:literal $more:ident)?) => {
        keys_of!(@rows $table, $field, "url" $url, "user" USER, "password_file" PASSWORD_FILE, "token_file" TOKEN_FILE,
            "ca_file" CA_FILE, "cert_file" CERT_FILE, "key_file" KEY_FILE, "batch" BATCH, "compression" COMPRESSION,
            "every" EVERY, "timeout" TIMEOUT $(, $more_name $more)?)
    };
    (@rows $table:literal, $field:ident, $($name:literal $option:ident),+) => {
        [$(Key {
            name: concat!("export.", $table, ".", $name),
            flag: "",
            help: options::$option.help,
            reloads: false,
            set: |config, text| set(&options::$option, &mut config.$field, text),
            show: |config| show(&options::$option, &config.$field),
        }),+]
    };
}

static CLICKHOUSE: &[Key] = &keys_of!("clickhouse", clickhouse, CLICKHOUSE_URL, "database" DATABASE);
static OTLP: &[Key] = &keys_of!("otlp", otlp, OTLP_URL);
static SPANS: &[Key] = &keys_of!("otlp_spans", otlp_spans, OTLP_URL);
static SAMPLE: Key = Key {
    name: "export.sample",
    flag: "",
    help: options::SAMPLE.help,
    reloads: false,
    set: |config, text| {
        let targets = [&mut config.clickhouse, &mut config.otlp, &mut config.otlp_spans];
        targets.into_iter().try_for_each(|target| set(&options::SAMPLE, target, text))
    },
    show: |config| show(&options::SAMPLE, &config.clickhouse),
};

/// All keys of exports.
pub(super) fn export_keys() -> impl Iterator<Item = &'static Key> + Clone {
    std::iter::once(&SAMPLE).chain(CLICKHOUSE).chain(OTLP).chain(SPANS)
}

/// Files have absolute paths, as for other keys.
fn set(option: &TargetOption, target: &mut TargetOptions, text: &str) -> Result<(), String> {
    if option.value_name == "FILE" {
        (OPTIONAL_PATH.parse)(text)?;
    }
    (option.set)(target, text)
}

fn show(option: &TargetOption, target: &TargetOptions) -> Value {
    let text = (option.show)(target);
    let number = text.parse().ok().filter(|_| option.value_name == "N");
    number.map_or_else(|| text.into(), Value::Integer)
}
