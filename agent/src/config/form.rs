// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses and prints each type of configuration value.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mpwatch_model::filter::Filter;
use mpwatch_model::flow::bottleneck::DetectionMethod;
use mpwatch_model::flow::elimination::{EliminationAction, EliminationMode};
use mpwatch_model::host::setup::{Label, by_name};
use mpwatch_model::kernel::cpu::LedgerMode;
use mpwatch_model::quantity::{SIZES, in_time_units, in_units, parse_duration, parse_size};
use toml::Value;
use tracing::level_filters::LevelFilter;

use crate::quantity::{in_percent, parse_budget, parse_count, parse_interval, parse_ring_size, parse_step};

/// Maximum of `metrics.top_flows`, the number of connections with series of their own.
const MAX_TOP_FLOWS: u32 = 500;
/// Minimum of `store.max_size` in bytes: a smaller database has no room for its tables.
const MIN_STORE_SIZE: u64 = 1 << 20;

pub(super) struct Form<T> {
    pub(super) parse: fn(&str) -> Result<T, String>,
    pub(super) show: fn(&T) -> Value,
}

/// Parses and prints an enumeration that has a word for each value.
macro_rules! words {
    ($words:ident) => {
        Form {
            parse: |text| {
                $words::from_word(text).ok_or_else(|| format!("use one of {}", $words::WORDS.join(", ")))
            },
            show: |value| value.as_str().into(),
        }
    };
}

pub(super) const LEDGER: Form<LedgerMode> = words!(LedgerMode);
pub(super) const DETECTION_METHOD: Form<DetectionMethod> = words!(DetectionMethod);
pub(super) const ELIMINATION: Form<EliminationMode> = words!(EliminationMode);
pub(super) const ACTION: Form<EliminationAction> = words!(EliminationAction);
pub(super) const FLAG: Form<bool> = Form {
    parse: |text| text.parse().map_err(|_| "use true or false".to_owned()),
    show: |value| (*value).into(),
};
pub(super) const TEXT: Form<String> =
    Form { parse: |text| Ok(text.to_owned()), show: |text| text.as_str().into() };
pub(super) const INTERVAL: Form<Duration> = Form { parse: parse_interval, show: time };
pub(super) const STEP: Form<Duration> = Form { parse: parse_step, show: time };
pub(super) const OPTIONAL_STEP: Form<Option<Duration>> = Form {
    parse: |text| if text.is_empty() { Ok(None) } else { parse_step(text).map(Some) },
    show: |step| step.map(in_time_units).unwrap_or_default().into(),
};
pub(super) const LONG_INTERVAL: Form<Duration> = Form {
    parse: |text| {
        let allowed = Duration::from_secs(1)..=Duration::from_hours(1);
        let time = parse_duration(text).filter(|time| allowed.contains(time));
        time.ok_or_else(|| "use a duration between 1s and 1h, for example 30s".to_owned())
    },
    show: time,
};
/// A maximum age. `None`: no limit, written as 0, which needs no unit.
pub(super) const AGE: Form<Option<Duration>> = Form {
    parse: |text| {
        let age = if text == "0" { Some(Duration::ZERO) } else { parse_duration(text) };
        let age = age.ok_or("use a number with s, m, h or d, for example 36h, or 0")?;
        Ok((!age.is_zero()).then_some(age))
    },
    show: |age| in_time_units(age.unwrap_or_default()).into(),
};
/// A maximum size in bytes. `None`: no limit, written as 0, which needs no unit.
pub(super) const SIZE: Form<Option<u64>> = Form {
    parse: |text| {
        let size = if text == "0" { Some(0) } else { parse_size(text) };
        let size = size.filter(|size| *size == 0 || *size >= MIN_STORE_SIZE);
        let size = size.ok_or("use a whole number with K, M or G, at least 1M, or 0")?;
        Ok((size > 0).then_some(size))
    },
    show: |size| in_units(size.unwrap_or_default(), SIZES).into(),
};
pub(super) const RING_SIZE: Form<u32> =
    Form { parse: parse_ring_size, show: |bytes| in_units((*bytes).into(), SIZES).into() };
pub(super) const BUDGET: Form<f64> = Form { parse: parse_budget, show: |share| in_percent(*share).into() };
pub(super) const TOP_FLOWS: Form<u32> = Form {
    parse: |text| {
        let number = text.parse().ok().filter(|number| *number <= MAX_TOP_FLOWS);
        number.ok_or_else(|| format!("use a number from 0 to {MAX_TOP_FLOWS}"))
    },
    show: |number| (*number).into(),
};
pub(super) const POSITIVE: Form<u32> = Form { parse: parse_count, show: |number| (*number).into() };
pub(super) const ADDRESS: Form<SocketAddr> = Form {
    parse: |text| {
        text.parse().map_err(|_| "use an IP address and a port such as 127.0.0.1:9917 or [::1]:9917; [::]:9917 listens on every address; host names are not accepted".to_owned())
    },
    show: |address| address.to_string().into(),
};
pub(super) const PATH: Form<PathBuf> = Form { parse: absolute, show: |path| path_value(path) };
pub(super) const OPTIONAL_PATH: Form<Option<PathBuf>> = Form {
    parse: |text| if text.is_empty() { Ok(None) } else { absolute(text).map(Some) },
    show: |path| path_value(path.as_deref().unwrap_or(Path::new(""))),
};
/// Labels separated by commas. Empty: none.
pub(super) const LABELS: Form<BTreeMap<String, String>> = Form {
    parse: |text| {
        let words = text.split(',').filter(|_| !text.is_empty());
        let labels = words.map(str::parse).collect::<Result<Vec<Label>, _>>();
        labels.and_then(by_name).map_err(|error| error.to_string())
    },
    show: |labels| {
        let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        labels.join(",").into()
    },
};
pub(super) const FILTER: Form<Filter> = Form {
    parse: |text| Filter::parse(text).map_err(|error| error.to_string()),
    show: |filter| filter.to_string().into(),
};
pub(super) const LOG_LEVEL: Form<LevelFilter> = Form {
    parse: |text| {
        let is_known = ["error", "warn", "info", "debug"].contains(&text);
        let level = text.parse().ok().filter(|_| is_known);
        level.ok_or_else(|| "use error, warn, info or debug".to_owned())
    },
    show: |level| level.to_string().into(),
};
/// Whether the log is JSON.
pub(super) const LOG_FORMAT: Form<bool> = Form {
    parse: |text| match text {
        "text" => Ok(false),
        "json" => Ok(true),
        _ => Err("use text or json".to_owned()),
    },
    show: |is_json| if *is_json { "json" } else { "text" }.into(),
};

fn time(time: &Duration) -> Value {
    in_time_units(*time).into()
}

fn path_value(path: &Path) -> Value {
    path.to_string_lossy().as_ref().into()
}

/// Rejects relative paths: a service has no meaningful working directory.
fn absolute(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.is_absolute() { Ok(path) } else { Err("use a path that begins with /".to_owned()) }
}
