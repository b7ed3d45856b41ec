// SPDX-License-Identifier: MIT OR Apache-2.0
//! The configuration keys: one row each, from which the file's keys, the environment, the schema and `config show` follow.

use std::collections::BTreeMap;
use std::time::Duration;

use mpwatch_model::filter::FilterError;
use mpwatch_model::flow::bottleneck::DetectionMethod;
use mpwatch_model::flow::elimination::{EliminationAction, EliminationMode};
use mpwatch_model::host::setup::{Label, by_name};
use mpwatch_model::kernel::cpu::LedgerMode;
use mpwatch_model::quantity::{SIZES, in_time_units, in_units, parse_duration, parse_size};
use tracing::level_filters::LevelFilter;

use super::export_keys::export_keys;
use super::key::{Key, absolute, optional_path, path_value};
use crate::quantity::{in_percent, parse_budget, parse_interval, parse_ring_size, parse_step};

/// Maximum number of connections with series of their own.
const MAX_TOP_FLOWS: u32 = 500;
/// Minimum limit of the database in bytes: a smaller one has no room for its own tables.
const MIN_STORE_SIZE: u64 = 1 << 20;

/// Whether shared bottlenecks are detected, and how.
pub(super) const DETECTION: &str = "trace.bottlenecks";
pub(super) const METHOD: &str = "trace.method";
/// Whether extra subflows are removed.
pub(super) const ELIMINATE: &str = "control.eliminate";

/// All keys, in the order in which they are shown.
pub(super) fn keys() -> impl Iterator<Item = &'static Key> + Clone {
    KEYS.iter().chain(export_keys())
}

static KEYS: &[Key] = &[
    Key {
        name: "interval",
        flag: "--interval",
        help: "Time between two snapshots: 100ms to 60s.",
        reloads: false,
        set: |config, text| parse_interval(text).map(|interval| config.interval = interval),
        show: |config| in_time_units(config.interval).into(),
    },
    Key {
        name: "labels",
        flag: "--label",
        help: "Labels of the runs in the database and in JSON: NAME=VALUE, separated by commas, for example site=berlin,rack=7.",
        reloads: false,
        set: |config, text| labels(text).map(|labels| config.labels = labels),
        show: |config| {
            let labels: Vec<String> =
                config.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
            labels.join(",").into()
        },
    },
    Key {
        name: "socket",
        flag: "--socket",
        help: "Unix socket that serves `top`, `ls` and `show`.",
        reloads: false,
        set: |config, text| absolute(text).map(|path| config.socket = path),
        show: |config| path_value(Some(&config.socket)),
    },
    Key {
        name: "socket_group",
        flag: "",
        help: "Group whose members may read from the socket: a name or a number.",
        reloads: false,
        set: |config, text| {
            text.clone_into(&mut config.socket_group);
            Ok(())
        },
        show: |config| config.socket_group.as_str().into(),
    },
    Key {
        name: "web.listen",
        flag: "--listen",
        help: "Address and port of the web server, which serves /metrics.",
        reloads: false,
        set: |config, text| {
            let address =
                text.parse().map_err(|_| "use an IP address and a port such as 127.0.0.1:9917 or [::1]:9917; [::]:9917 is every address, names are not accepted".to_owned());
            address.map(|address| config.listen = address)
        },
        show: |config| config.listen.to_string().into(),
    },
    Key {
        name: "web.config",
        flag: "--web.config.file",
        help: "Web-config file of Prometheus exporters, for TLS and basic auth of the web server; empty for neither. It is read again when it changes.",
        reloads: false,
        set: |config, text| optional_path(text).map(|path| config.web_config = path),
        show: |config| path_value(config.web_config.as_deref()),
    },
    Key {
        name: "metrics.top_flows",
        flag: "--metrics.top-flows",
        help: "Number of the largest connections for which per-connection series are exported, 0 to 500.",
        reloads: true,
        set: |config, text| {
            let number = text.parse().ok().filter(|number| *number <= MAX_TOP_FLOWS);
            let number = number.ok_or_else(|| format!("use a number from 0 to {MAX_TOP_FLOWS}"));
            number.map(|number| config.top_flows = number)
        },
        show: |config| config.top_flows.into(),
    },
    Key {
        name: "store.path",
        flag: "--db",
        help: "Database of every connection, for `mpwatch report`; empty for none.",
        reloads: false,
        set: |config, text| optional_path(text).map(|path| config.store_path = path),
        show: |config| path_value(config.store_path.as_deref()),
    },
    Key {
        name: "store.keep",
        flag: "",
        help: "How long closed connections are kept in the database, for example 12h or 30d; 0 for ever.",
        reloads: true,
        set: |config, text| duration(text).map(|time| config.store_keep = (!time.is_zero()).then_some(time)),
        show: |config| in_time_units(config.store_keep.unwrap_or_default()).into(),
    },
    Key {
        name: "store.max_size",
        flag: "",
        help: "Maximum size of the database, for example 512M or 4G; beyond it the oldest connections are deleted. 0 for no limit.",
        reloads: true,
        set: |config, text| size(text).map(|size| config.store_max_size = (size > 0).then_some(size)),
        show: |config| in_units(config.store_max_size.unwrap_or_default(), SIZES).into(),
    },
    Key {
        name: "store.sample_every",
        flag: "",
        help: "Longest time between two stored samples of a connection: 1s to 1h.",
        reloads: true,
        set: |config, text| {
            let allowed = Duration::from_secs(1)..=Duration::from_hours(1);
            let time = parse_duration(text).filter(|time| allowed.contains(time));
            time.map(|time| config.store_sample_every = time)
                .ok_or_else(|| "use a duration between 1s and 1h".to_owned())
        },
        show: |config| in_time_units(config.store_sample_every).into(),
    },
    Key {
        name: "store.sample_step",
        flag: "--samples",
        help: "Time between two stored samples of every connection, 100ms to 600s and not less than `interval`; empty: store.sample_every and the age of a connection decide.",
        reloads: true,
        set: |config, text| {
            let step = if text.is_empty() { Ok(None) } else { parse_step(text).map(Some) };
            step.map(|step| config.store_sample_step = step)
        },
        show: |config| config.store_sample_step.map(in_time_units).unwrap_or_default().into(),
    },
    Key {
        name: "trace.tcp",
        flag: "--tcp",
        help: "Also trace plain TCP connections, as a baseline for comparison.",
        reloads: false,
        set: |config, text| boolean(text).map(|value| config.tcp = value),
        show: |config| config.tcp.into(),
    },
    Key {
        name: "trace.ledger",
        flag: "--ledger",
        help: "Account for CPU time and energy all the time (exact), in short windows (sampled), or not at all (off).",
        reloads: false,
        set: |config, text| ledger_mode(text).map(|mode| config.ledger = mode),
        show: |config| config.ledger.as_str().into(),
    },
    Key {
        name: "trace.budget",
        flag: "--budget",
        help: "Highest share of the machine's CPU time that mpwatch may take, above 0% and up to 100%; beyond it mpwatch traces less, see docs/performance.md.",
        reloads: false,
        set: |config, text| parse_budget(text).map(|budget| config.budget = budget),
        show: |config| in_percent(config.budget).into(),
    },
    Key {
        name: DETECTION,
        flag: "--no-bottlenecks",
        help: "Detect shared bottlenecks.",
        reloads: false,
        set: |config, text| boolean(text).map(|value| config.bottlenecks = value),
        show: |config| config.bottlenecks.into(),
    },
    Key {
        name: "trace.ring_size",
        flag: "--ring-size",
        help: "Size of the kernel's buffer for closed flows: a power of two, 4K to 1024M.",
        reloads: false,
        set: |config, text| parse_ring_size(text).map(|bytes| config.ring_bytes = bytes),
        show: |config| in_units(config.ring_bytes.into(), SIZES).into(),
    },
    Key {
        name: "trace.overflow_size",
        flag: "--overflow-size",
        help: "Size of the buffer that is used when the first is full: a power of two, 4K to 1024M.",
        reloads: false,
        set: |config, text| parse_ring_size(text).map(|bytes| config.overflow_bytes = bytes),
        show: |config| in_units(config.overflow_bytes.into(), SIZES).into(),
    },
    Key {
        name: METHOD,
        flag: "--method",
        help: "Method that detects shared bottlenecks: concordance, or with the package mpwatch-study one of the published methods ese, ese-literal, rfc8382, dcw, dwc.",
        reloads: false,
        set: |config, text| {
            let names: Vec<&str> = DetectionMethod::ALL.iter().map(|method| method.as_str()).collect();
            let method =
                DetectionMethod::from_word(text).ok_or_else(|| format!("use one of {}", names.join(", ")));
            method.map(|method| config.method = method)
        },
        show: |config| config.method.as_str().into(),
    },
    Key {
        name: "control.congestion",
        flag: "",
        help: "Register the congestion control mptcpd while the daemon runs; sockets must select it, see docs/control.md.",
        reloads: false,
        set: |config, text| boolean(text).map(|value| config.congestion = value),
        show: |config| config.congestion.into(),
    },
    Key {
        name: ELIMINATE,
        flag: "",
        help: "Remove extra subflows, which share a bottleneck with a better one: off, dry-run (only report them) or on; see docs/control.md.",
        reloads: false,
        set: |config, text| {
            let mode = EliminationMode::from_word(text);
            let mode = mode.ok_or_else(|| format!("use one of {}", EliminationMode::WORDS.join(", ")));
            mode.map(|mode| config.eliminate = mode)
        },
        show: |config| config.eliminate.as_str().into(),
    },
    Key {
        name: "control.eliminate_action",
        flag: "",
        help: "What happens to an extra subflow: close, or backup (only with the userspace path manager).",
        reloads: false,
        set: |config, text| {
            let action = EliminationAction::from_word(text);
            let action = action.ok_or_else(|| format!("use one of {}", EliminationAction::WORDS.join(", ")));
            action.map(|action| config.eliminate_action = action)
        },
        show: |config| config.eliminate_action.as_str().into(),
    },
    Key {
        name: "control.eliminate_stable",
        flag: "",
        help: "How long a verdict must have been stable before a subflow is removed: 100ms to 600s.",
        reloads: false,
        set: |config, text| parse_step(text).map(|time| config.eliminate_stable = time),
        show: |config| in_time_units(config.eliminate_stable).into(),
    },
    Key {
        name: "control.eliminate_filter",
        flag: "",
        help: "Remove only subflows of connections that match this filter expression, as of `--filter`; empty for all.",
        reloads: false,
        set: |config, text| {
            let filter = text.parse().map_err(|error: FilterError| error.to_string());
            filter.map(|filter| config.eliminate_filter = filter)
        },
        show: |config| config.eliminate_filter.to_string().into(),
    },
    Key {
        name: "control.eliminate_max_per_minute",
        flag: "",
        help: "Maximum number of subflows that are removed per minute.",
        reloads: false,
        set: |config, text| {
            let number = text.parse().ok().filter(|number| *number > 0);
            let number = number.ok_or_else(|| "use a whole number above 0".to_owned());
            number.map(|number| config.eliminate_max_per_minute = number)
        },
        show: |config| config.eliminate_max_per_minute.into(),
    },
    Key {
        name: "log.level",
        flag: "--log-level",
        help: "Log level: error, warn, info or debug.",
        reloads: false,
        set: |config, text| level(text).map(|level| config.log_level = level),
        show: |config| config.log_level.to_string().into(),
    },
    Key {
        name: "log.format",
        flag: "--log-format",
        help: "Log format: text, or json for one object per line.",
        reloads: false,
        set: |config, text| {
            config.log_json = match text {
                "text" => false,
                "json" => true,
                _ => return Err("use text or json".to_owned()),
            };
            Ok(())
        },
        show: |config| if config.log_json { "json" } else { "text" }.into(),
    },
];

fn boolean(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| "use true or false".to_owned())
}

fn ledger_mode(text: &str) -> Result<LedgerMode, String> {
    LedgerMode::from_word(text).ok_or_else(|| format!("use one of {}", LedgerMode::WORDS.join(", ")))
}

/// Labels separated by commas. Empty: none.
fn labels(text: &str) -> Result<BTreeMap<String, String>, String> {
    let words = text.split(',').filter(|_| !text.is_empty());
    let labels = words.map(str::parse).collect::<Result<Vec<Label>, _>>();
    labels.and_then(by_name).map_err(|error| error.to_string())
}

/// Zero needs no unit.
fn duration(text: &str) -> Result<Duration, String> {
    let duration = if text == "0" { Some(Duration::ZERO) } else { parse_duration(text) };
    duration.ok_or_else(|| "use a number with s, m, h or d, for example 36h, or 0".to_owned())
}

/// Zero needs no unit.
fn size(text: &str) -> Result<u64, String> {
    let size = if text == "0" { Some(0) } else { parse_size(text) };
    size.filter(|size| *size == 0 || *size >= MIN_STORE_SIZE)
        .ok_or_else(|| "use a whole number with K, M or G, at least 1M, or 0".to_owned())
}

fn level(text: &str) -> Result<LevelFilter, String> {
    let level = if ["error", "warn", "info", "debug"].contains(&text) { text.parse().ok() } else { None };
    level.ok_or_else(|| "use error, warn, info or debug".to_owned())
}
