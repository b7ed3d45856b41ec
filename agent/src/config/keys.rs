// SPDX-License-Identifier: MIT OR Apache-2.0
//! The configuration keys: a row each, from which the file's keys, the environment, the schema and `config show` follow.

use super::export_keys::export_keys;
use super::key::{self, Key};

/// Whether shared bottlenecks are detected, and how.
pub(super) const DETECTION: &str = "trace.bottlenecks";
pub(super) const METHOD: &str = "trace.method";
/// Whether extra subflows are removed.
pub(super) const ELIMINATE: &str = "control.eliminate";

/// All keys, in the order in which they are shown.
pub(super) fn keys() -> impl Iterator<Item = &'static Key> + Clone {
    KEYS.iter().chain(export_keys())
}

/// What applies a change of a key: SIGHUP, or a restart.
const RELOAD: bool = true;
const RESTART: bool = false;

/// Rows of name, option of the command line, field of the configuration with its form, what applies a change, and help.
macro_rules! rows {
    ($($name:expr, $flag:literal, $field:ident as $form:ident, $applied:ident, $help:literal;)+) => {
        &[$(Key {
            name: $name,
            flag: $flag,
            help: $help,
            reloads: $applied,
            set: |config, text| (key::$form.parse)(text).map(|value| config.$field = value),
            show: |config| (key::$form.show)(&config.$field),
        }),+]
    };
}

static KEYS: &[Key] = rows! {
    "interval", "--interval", interval as INTERVAL, RESTART,
        "Time between two snapshots: 100ms to 60s.";
    "labels", "--label", labels as LABELS, RESTART,
        "Labels of the runs in the database and in JSON: NAME=VALUE, separated by commas, for example site=berlin,rack=7.";
    "socket", "--socket", socket as PATH, RESTART,
        "Unix socket that serves `top`, `ls` and `show`.";
    "socket_group", "", socket_group as TEXT, RESTART,
        "Group whose members may read from the socket: a name or a number.";
    "web.listen", "--listen", listen as ADDRESS, RESTART,
        "Address and port of the web server, which serves /metrics.";
    "web.config", "--web.config.file", web_config as OPTIONAL_PATH, RESTART,
        "Web-config file of Prometheus exporters, for TLS and basic auth of the web server; empty for neither. It is read again when it changes.";
    "metrics.top_flows", "--metrics.top-flows", top_flows as TOP_FLOWS, RELOAD,
        "Number of the largest connections for which per-connection series are exported, 0 to 500.";
    "store.path", "--db", store_path as OPTIONAL_PATH, RESTART,
        "Database of every connection, for `mpwatch report`; empty for none.";
    "store.keep", "", store_keep as AGE, RELOAD,
        "How long closed connections are kept in the database, for example 12h or 30d; 0 for ever.";
    "store.max_size", "", store_max_size as SIZE, RELOAD,
        "Maximum size of the database, for example 512M or 4G; beyond it the oldest connections are deleted. 0 for no limit.";
    "store.sample_every", "", store_sample_every as SAMPLE_INTERVAL, RELOAD,
        "Longest time between two stored samples of a connection: 1s to 1h.";
    "store.sample_step", "--samples", store_sample_step as OPTIONAL_STEP, RELOAD,
        "Time between two stored samples of every connection, 100ms to 600s and not less than `interval`; empty: store.sample_every and the age of a connection decide.";
    "trace.tcp", "--tcp", tcp as FLAG, RESTART,
        "Also trace plain TCP connections, as a baseline for comparison.";
    "trace.ledger", "--ledger", ledger as LEDGER, RESTART,
        "Account for CPU time and energy all the time (exact), in short windows (sampled), or not at all (off).";
    "trace.budget", "--budget", budget as BUDGET, RESTART,
        "Highest share of the machine's CPU time that mpwatch may take, above 0% and up to 100%; beyond it mpwatch traces less, see docs/performance.md.";
    DETECTION, "--no-bottlenecks", bottlenecks as FLAG, RESTART,
        "Detect shared bottlenecks.";
    "trace.ring_size", "--ring-size", ring_bytes as RING_SIZE, RESTART,
        "Size of the kernel's buffer for closed flows: a power of two, 4K to 1024M.";
    "trace.overflow_size", "--overflow-size", overflow_bytes as RING_SIZE, RESTART,
        "Size of the buffer that is used when the first is full: a power of two, 4K to 1024M.";
    METHOD, "--method", method as DETECTION_METHOD, RESTART,
        "Method that detects shared bottlenecks: concordance, or with the package mpwatch-study one of the published methods ese, ese-literal, rfc8382, dcw, dwc.";
    "control.congestion", "", congestion as FLAG, RESTART,
        "Register the congestion control mptcpd while the daemon runs; sockets must select it, see docs/control.md.";
    ELIMINATE, "", eliminate as ELIMINATION, RESTART,
        "Remove extra subflows, which share a bottleneck with a better one: off, dry-run (only report them) or on; see docs/control.md.";
    "control.eliminate_action", "", eliminate_action as ACTION, RESTART,
        "What happens to an extra subflow: close, or backup (only with the userspace path manager).";
    "control.eliminate_stable", "", eliminate_stable as STEP, RESTART,
        "How long a verdict must have been stable before a subflow is removed: 100ms to 600s.";
    "control.eliminate_filter", "", eliminate_filter as FILTER, RESTART,
        "Remove only subflows of connections that match this filter expression (syntax of `--filter`); empty for all.";
    "control.eliminate_max_per_minute", "", eliminate_max_per_minute as POSITIVE, RESTART,
        "Maximum number of subflows that are removed per minute.";
    "log.level", "--log-level", log_level as LOG_LEVEL, RESTART,
        "Log level: error, warn, info or debug.";
    "log.format", "--log-format", log_json as LOG_FORMAT, RESTART,
        "Log format: text, or json for one object per line.";
};
