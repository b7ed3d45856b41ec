// SPDX-License-Identifier: MIT OR Apache-2.0
//! Everything that can be set: a row for each, from which the file's keys, the environment, the schema and `config show` follow.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mpwatch_model::bottleneck::DetectionMethod;
use tracing::level_filters::LevelFilter;

use super::{Config, DATABASE, SOCKET};
use crate::cli::parse_interval;

/// Most connections that may have series of their own.
const MOST_TOP_FLOWS: usize = 500;

/// One thing that can be set.
pub(super) struct Key {
    /// Name in the file; a dot parts the table from the key.
    pub(super) name: &'static str,
    /// Variable of the environment.
    pub(super) environment: &'static str,
    /// Flag of the command line.
    pub(super) flag: &'static str,
    /// Type in the file, in the words of JSON Schema.
    pub(super) kind: &'static str,
    /// One sentence.
    pub(super) help: &'static str,
    /// Whether SIGHUP is enough, or a restart is needed.
    pub(super) reloads: bool,
    /// Takes the value from its text; the error says what a value looks like.
    pub(super) set: fn(&mut Config, &str) -> Result<(), String>,
    /// The value as a file says it.
    pub(super) show: fn(&Config) -> String,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(1),
            socket: PathBuf::from(SOCKET),
            socket_group: "mpwatch".to_owned(),
            listen: SocketAddr::from(([127, 0, 0, 1], 9917)),
            web_config: None,
            top_flows: 0,
            store_path: Some(PathBuf::from(DATABASE)),
            store_keep: Some(Duration::from_hours(7 * 24)),
            store_max_size: Some(1 << 30),
            store_sample_every: Duration::from_secs(10),
            tcp: false,
            ledger: true,
            method: DetectionMethod::default(),
            log_level: LevelFilter::INFO,
            log_json: false,
        }
    }
}

pub(super) static KEYS: &[Key] = &[
    Key {
        name: "interval",
        environment: "MPWATCH_INTERVAL",
        flag: "--interval",
        kind: "string",
        help: "Time between two snapshots: 100ms to 60s.",
        reloads: false,
        set: |config, text| parse_interval(text).map(|interval| config.interval = interval),
        show: |config| format!("\"{}ms\"", config.interval.as_millis()),
    },
    Key {
        name: "socket",
        environment: "MPWATCH_SOCKET",
        flag: "--socket",
        kind: "string",
        help: "Unix socket at which `top`, `ls` and `show` attach.",
        reloads: false,
        set: |config, text| absolute(text).map(|path| config.socket = path),
        show: |config| quoted(&config.socket.to_string_lossy()),
    },
    Key {
        name: "socket_group",
        environment: "MPWATCH_SOCKET_GROUP",
        flag: "",
        kind: "string",
        help: "Group whose members may read from the socket: a name, or a number.",
        reloads: false,
        set: |config, text| {
            text.clone_into(&mut config.socket_group);
            Ok(())
        },
        show: |config| quoted(&config.socket_group),
    },
    Key {
        name: "web.listen",
        environment: "MPWATCH_WEB_LISTEN",
        flag: "--listen",
        kind: "string",
        help: "Address and port of the web server, which serves /metrics.",
        reloads: false,
        set: |config, text| {
            let address =
                text.parse().map_err(|_| "an address is like 127.0.0.1:9917 or [::1]:9917".to_owned());
            address.map(|address| config.listen = address)
        },
        show: |config| quoted(&config.listen.to_string()),
    },
    Key {
        name: "web.config",
        environment: "MPWATCH_WEB_CONFIG",
        flag: "--web.config.file",
        kind: "string",
        help: "Web-config file of Prometheus exporters: TLS and basic auth of the web server. Empty: neither. Read again when it changes.",
        reloads: false,
        set: |config, text| {
            config.web_config = if text.is_empty() { None } else { Some(absolute(text)?) };
            Ok(())
        },
        show: |config| {
            quoted(&config.web_config.iter().map(|path| path.to_string_lossy()).collect::<String>())
        },
    },
    Key {
        name: "metrics.top_flows",
        environment: "MPWATCH_METRICS_TOP_FLOWS",
        flag: "--metrics.top-flows",
        kind: "integer",
        help: "So many of the largest connections have series of their own, 0 to 500.",
        reloads: true,
        set: |config, text| {
            let number = text.parse().ok().filter(|number| *number <= MOST_TOP_FLOWS);
            let number = number.ok_or_else(|| format!("it is a number from 0 to {MOST_TOP_FLOWS}"));
            number.map(|number| config.top_flows = number)
        },
        show: |config| config.top_flows.to_string(),
    },
    Key {
        name: "store.path",
        environment: "MPWATCH_STORE_PATH",
        flag: "--db",
        kind: "string",
        help: "Database of every connection, for `mpwatch report`; empty: none.",
        reloads: false,
        set: |config, text| {
            let path = if text.is_empty() { Ok(None) } else { absolute(text).map(Some) };
            path.map(|path| config.store_path = path)
        },
        show: |config| quoted(&config.store_path.as_deref().unwrap_or(Path::new("")).to_string_lossy()),
    },
    Key {
        name: "store.keep",
        environment: "MPWATCH_STORE_KEEP",
        flag: "",
        kind: "string",
        help: "How long closed connections are kept there, for example 12h or 30d; 0: for ever.",
        reloads: true,
        set: |config, text| lasting(text).map(|time| config.store_keep = (!time.is_zero()).then_some(time)),
        show: |config| quoted(&in_units(config.store_keep.unwrap_or_default().as_secs(), TIMES)),
    },
    Key {
        name: "store.max_size",
        environment: "MPWATCH_STORE_MAX_SIZE",
        flag: "",
        kind: "string",
        help: "How large it may become, for example 512M or 4G; then the oldest connections go. 0: as large as the disk.",
        reloads: true,
        set: |config, text| size(text).map(|size| config.store_max_size = (size > 0).then_some(size)),
        show: |config| quoted(&in_units(config.store_max_size.unwrap_or_default(), SIZES)),
    },
    Key {
        name: "store.sample_every",
        environment: "MPWATCH_STORE_SAMPLE_EVERY",
        flag: "",
        kind: "string",
        help: "Longest time between two samples of a long connection: 1s to 1h.",
        reloads: true,
        set: |config, text| {
            let time = lasting(text).ok().filter(|time| (1..=3_600).contains(&time.as_secs()));
            time.map(|time| config.store_sample_every = time)
                .ok_or_else(|| "it lies between 1s and 1h".to_owned())
        },
        show: |config| quoted(&in_units(config.store_sample_every.as_secs(), TIMES)),
    },
    Key {
        name: "trace.tcp",
        environment: "MPWATCH_TRACE_TCP",
        flag: "--tcp",
        kind: "boolean",
        help: "Also trace plain TCP, as the baseline to compare with.",
        reloads: false,
        set: |config, text| boolean(text).map(|value| config.tcp = value),
        show: |config| config.tcp.to_string(),
    },
    Key {
        name: "trace.ledger",
        environment: "MPWATCH_TRACE_LEDGER",
        flag: "--no-ledger",
        kind: "boolean",
        help: "Account for CPU time and energy.",
        reloads: false,
        set: |config, text| boolean(text).map(|value| config.ledger = value),
        show: |config| config.ledger.to_string(),
    },
    Key {
        name: "trace.method",
        environment: "MPWATCH_TRACE_METHOD",
        flag: "--method",
        kind: "string",
        help: "How to find subflows that share a bottleneck: concordance, or one of the published methods, to compare with: ese, ese-literal, rfc8382, dcw, dwc.",
        reloads: false,
        set: |config, text| method(text).map(|method| config.method = method),
        show: |config| quoted(config.method.as_str()),
    },
    Key {
        name: "log.level",
        environment: "MPWATCH_LOG_LEVEL",
        flag: "--log-level",
        kind: "string",
        help: "What is worth a line: error, warn, info or debug.",
        reloads: false,
        set: |config, text| level(text).map(|level| config.log_level = level),
        show: |config| quoted(&config.log_level.to_string()),
    },
    Key {
        name: "log.format",
        environment: "MPWATCH_LOG_FORMAT",
        flag: "--log-format",
        kind: "string",
        help: "text, or json for one object a line.",
        reloads: false,
        set: |config, text| match text {
            "text" | "json" => {
                config.log_json = text == "json";
                Ok(())
            }
            _ => Err("it is text or json".to_owned()),
        },
        show: |config| quoted(if config.log_json { "json" } else { "text" }),
    },
];

fn method(text: &str) -> Result<DetectionMethod, String> {
    let words: Vec<&str> = DetectionMethod::ALL.iter().map(|method| method.as_str()).collect();
    DetectionMethod::of(text).ok_or_else(|| format!("it is one of {}", words.join(", ")))
}

fn quoted(text: &str) -> String {
    format!("{text:?}")
}

fn boolean(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| "it is true or false".to_owned())
}

/// A service has no folder that a relative path could begin in.
fn absolute(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.is_absolute() { Ok(path) } else { Err("a path begins with /".to_owned()) }
}

/// Units of time, in seconds, the largest first.
const TIMES: &[(&str, u64)] = &[("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];
/// Units of size, in bytes.
const SIZES: &[(&str, u64)] = &[("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)];
/// A smaller store could not keep its own tables.
const LEAST_SIZE: u64 = 1 << 20;

/// A whole number of one of these units; zero needs none.
fn of_units(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    if text == "0" {
        return Some(0);
    }
    let (number, each) = units.iter().find_map(|(unit, each)| Some((text.strip_suffix(unit)?, each)))?;
    number.parse::<u64>().ok()?.checked_mul(*each)
}

/// In the largest unit that it is a whole number of.
fn in_units(value: u64, units: &[(&str, u64)]) -> String {
    let fits = units.iter().find(|(_, each)| value > 0 && value.is_multiple_of(*each));
    fits.map_or_else(|| value.to_string(), |(unit, each)| format!("{}{unit}", value / each))
}

fn lasting(text: &str) -> Result<Duration, String> {
    let seconds = of_units(text, TIMES);
    seconds.map(Duration::from_secs).ok_or_else(|| "it is a whole number with s, m, h or d, or 0".to_owned())
}

fn size(text: &str) -> Result<u64, String> {
    let size = of_units(text, SIZES).filter(|size| *size == 0 || *size >= LEAST_SIZE);
    size.ok_or_else(|| "it is a whole number with K, M or G, from 1M on, or 0".to_owned())
}

fn level(text: &str) -> Result<LevelFilter, String> {
    match text {
        "error" => Ok(LevelFilter::ERROR),
        "warn" => Ok(LevelFilter::WARN),
        "info" => Ok(LevelFilter::INFO),
        "debug" => Ok(LevelFilter::DEBUG),
        _ => Err("it is error, warn, info or debug".to_owned()),
    }
}
