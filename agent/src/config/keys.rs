// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of the configuration keys. The defaults, the keys of the file, the environment variables, the schema and `config show` are
//! derived from it.

use std::collections::BTreeMap;
use std::iter;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use mpwatch_ebpf::tracer::TracerSettings;
use mpwatch_exporters::options::{self, Compression, TargetOption, TargetOptions};
use mpwatch_model::filter::Filter;
use mpwatch_model::flow::bottleneck::DetectionMethod;
use mpwatch_model::flow::elimination::{EliminationAction, EliminationMode, EliminationPolicy};
use mpwatch_model::kernel::cpu::LedgerMode;
use toml::Value;
use tracing::level_filters::LevelFilter;

use super::form;
use crate::system::paths;

/// The key that enables the detection of shared bottlenecks, and the key that selects its method.
pub(super) const DETECTION: &str = "trace.bottlenecks";
pub(super) const METHOD: &str = "trace.method";
/// Key that enables the removal of extra subflows.
pub(super) const ELIMINATE: &str = "control.eliminate";
/// The tables of export targets in the file.
const TARGETS: [&str; 3] = ["clickhouse", "otlp", "otlp_spans"];

type SetValue = Box<dyn Fn(&mut Config, &str) -> Result<(), String> + Send + Sync>;

pub(super) struct Key {
    /// Name in the file. A dot separates table and key.
    pub(super) name: String,
    /// Option of the command line. Empty: there is none.
    pub(super) flag: &'static str,
    pub(super) help: &'static str,
    /// Whether SIGHUP applies a change of the value. If not, only a restart does.
    pub(super) reloads: bool,
    /// Parses and sets the value. The error says which values are valid.
    pub(super) set: SetValue,
    /// The value as in the file.
    pub(super) show: Box<dyn Fn(&Config) -> Value + Send + Sync>,
}

impl Key {
    /// Type in the file, in the words of JSON Schema.
    pub(super) fn kind(&self) -> &'static str {
        (self.show)(&Config::default()).type_str()
    }

    pub(super) fn environment(&self) -> String {
        format!("MPWATCH_{}", self.name.replace('.', "_").to_uppercase())
    }
}

/// All keys, in the order in which they are shown.
pub(super) fn keys() -> impl Iterator<Item = &'static Key> + Clone {
    KEYS.iter()
}

/// Values of `Key::reloads`: SIGHUP applies a change, or only a restart does.
const RELOAD: bool = true;
const RESTART: bool = false;

/// Builds the table. A row has the name, command-line option, field with its type, default and form, how a change is applied, and help.
macro_rules! keys {
    ($($name:expr, $flag:literal, $field:ident: $type:ty = $default:expr, $form:ident, $applied:ident, $help:literal;)+) => {
        /// The values of all keys.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(clippy::struct_excessive_bools, reason = "each is a key of the file")]
        #[allow(clippy::struct_field_names, reason = "`web_config` is Prometheus' name of that file")]
        pub(crate) struct Config {
            $(pub(crate) $field: $type,)+
            /// The export targets, in the order of [`TARGETS`].
            targets: [TargetOptions; 3],
        }

        impl Default for Config {
            fn default() -> Self {
                let target = |method| TargetOptions { compression: Some(method), ..TargetOptions::default() };
                let targets = [Compression::Zstd, Compression::Gzip, Compression::Gzip].map(target);
                Self { $($field: $default,)+ targets }
            }
        }

        static KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| {
            let keys = [$(Key {
                name: $name.to_owned(),
                flag: $flag,
                help: $help,
                reloads: $applied,
                set: Box::new(|config, text| (form::$form.parse)(text).map(|value| config.$field = value)),
                show: Box::new(|config| (form::$form.show)(&config.$field)),
            }),+];
            keys.into_iter().chain(export_keys()).collect()
        });
    };
}

keys! {
    "interval", "--interval", interval: Duration = Duration::from_secs(1), INTERVAL, RESTART,
        "Time between two snapshots: 100ms to 60s. Above 2s, short outages may be missed, and their lengths are less exact.";
    "labels", "--label", labels: BTreeMap<String, String> = BTreeMap::new(), LABELS, RESTART,
        "Labels of the runs in the database and in JSON: NAME=VALUE, separated by commas, for example site=berlin,rack=7.";
    "socket", "--socket", socket: PathBuf = PathBuf::from(paths::SOCKET), PATH, RESTART,
        "Unix socket that serves `top`, `ls` and `show`.";
    "socket_group", "", socket_group: String = "mpwatch".to_owned(), TEXT, RESTART,
        "Group whose members may read from the socket: a name or a number.";
    "web.listen", "--listen", listen: SocketAddr = SocketAddr::from(([127, 0, 0, 1], 9917)), ADDRESS, RESTART,
        "Address and port of the web server, which serves /metrics.";
    "web.config", "--web.config.file", web_config: Option<PathBuf> = None, OPTIONAL_PATH, RESTART,
        "Web-config file (Prometheus format) with TLS and basic auth of the web server; empty: neither. The file is reloaded when it changes.";
    "web.hosts", "", web_hosts: String = String::new(), TEXT, RESTART,
        "Additional names that the Host header of a request may have, separated by commas; for example the name of a reverse proxy.";
    "metrics.top_flows", "--metrics.top-flows", top_flows: u32 = 0, TOP_FLOWS, RELOAD,
        "Number of the largest connections for which per-connection series are exported, 0 to 500.";
    "store.path", "--db", store_path: Option<PathBuf> = Some(PathBuf::from(paths::DATABASE)), OPTIONAL_PATH, RESTART,
        "Database that stores every connection, for `mpwatch report`; empty: no database.";
    "store.keep", "", store_keep: Option<Duration> = Some(Duration::from_hours(7 * 24)), AGE, RELOAD,
        "Time for which the database keeps closed connections, for example 12h or 30d; 0: for ever.";
    "store.max_size", "", store_max_size: Option<u64> = Some(1 << 30), SIZE, RELOAD,
        "Maximum size of the database, for example 512M or 4G; to stay below it, the oldest connections are deleted. 0: no limit.";
    "store.sample_every", "", store_sample_every: Duration = Duration::from_secs(10), LONG_INTERVAL, RELOAD,
        "Maximum time between two stored samples of a connection: 1s to 1h.";
    "store.sample_step", "--samples", store_sample_step: Option<Duration> = None, OPTIONAL_STEP, RELOAD,
        "Time between two stored samples of every connection, 100ms to 600s and not less than `interval`; empty: an eighth of the connection's age, at most store.sample_every.";
    "trace.tcp", "--tcp", tcp: bool = false, FLAG, RESTART,
        "Also trace plain TCP connections, as a baseline for comparison.";
    "trace.ledger", "--ledger", ledger: LedgerMode = TracerSettings::default().ledger, LEDGER, RESTART,
        "Measure CPU time and energy all the time (exact), in short windows (sampled), or not at all (off).";
    "trace.budget", "--budget", budget: f64 = 0.01, BUDGET, RESTART,
        "Maximum share of the machine's CPU time that mpwatch may use, above 0% and up to 100%; mpwatch traces less to stay below it, see docs/performance.md.";
    DETECTION, "--no-bottlenecks", bottlenecks: bool = true, FLAG, RESTART,
        "Detect shared bottlenecks.";
    "trace.ring_size", "--ring-size", ring_bytes: u32 = TracerSettings::default().ring_bytes, RING_SIZE, RESTART,
        "Size in bytes of the ring buffer for the final records of flows: a power of two, 4K to 1024M.";
    "trace.overflow_size", "--overflow-size", overflow_bytes: u32 = TracerSettings::default().overflow_bytes, RING_SIZE, RESTART,
        "Size in bytes of the overflow buffer, used when the buffer of trace.ring_size is full: a power of two, 4K to 1024M.";
    METHOD, "--method", method: DetectionMethod = DetectionMethod::default(), DETECTION_METHOD, RESTART,
        "Method that detects shared bottlenecks: concordance, or with the package mpwatch-study one of the published methods ese, ese-literal, rfc8382, dcw, dwc.";
    "control.congestion", "", congestion: bool = false, FLAG, RESTART,
        "Register the congestion control mptcpd while the daemon runs; sockets must select it, see docs/control.md.";
    ELIMINATE, "", eliminate: EliminationMode = EliminationMode::Off, ELIMINATION, RESTART,
        "Remove extra subflows, which share a bottleneck with a better subflow: off, dry-run (only report them) or on; see docs/control.md.";
    "control.eliminate_action", "", eliminate_action: EliminationAction = EliminationAction::default(), ACTION, RESTART,
        "How an extra subflow is removed: close, or backup (only with the userspace path manager).";
    "control.eliminate_stable", "", eliminate_stable: Duration = Duration::from_nanos(EliminationPolicy::default().stable.0), STEP, RESTART,
        "Time for which a verdict must be stable before a subflow is removed: 100ms to 600s.";
    "control.eliminate_filter", "", eliminate_filter: Filter = Filter::default(), FILTER, RESTART,
        "Remove only subflows of connections that match this filter expression (syntax of `--filter`); empty for all.";
    "control.eliminate_max_per_minute", "", eliminate_max_per_minute: u32 = EliminationPolicy::default().max_per_minute, POSITIVE, RESTART,
        "Maximum number of subflows that are removed per minute from a connection.";
    "control.eliminate_shared_caps", "", eliminate_shared_caps: bool = false, FLAG, RESTART,
        "Treat a rate cap that subflows share as a bottleneck; see docs/control.md.";
    "log.level", "--log-level", log_level: LevelFilter = LevelFilter::INFO, LOG_LEVEL, RESTART,
        "Log level: error, warn, info or debug.";
    "log.format", "--log-format", log_json: bool = false, LOG_FORMAT, RESTART,
        "Log format: text, or json for one object per line.";
}

impl Config {
    /// The export targets, with the names of their tables in the file.
    pub(crate) fn exports(&self) -> impl Iterator<Item = (&'static str, &TargetOptions)> {
        TARGETS.into_iter().zip(&self.targets)
    }
}

/// The keys of exports: first the key for all targets, then a table of keys for each target.
fn export_keys() -> impl Iterator<Item = Key> {
    use options::{
        BATCH, CA_FILE, CERT_FILE, CLICKHOUSE_URL, COMPRESSION, DATABASE, EVERY, KEY_FILE, OTLP_URL,
        PASSWORD_FILE, SAMPLE, TIMEOUT, TOKEN_FILE, USER,
    };
    let shared =
        [USER, PASSWORD_FILE, TOKEN_FILE, CA_FILE, CERT_FILE, KEY_FILE, BATCH, COMPRESSION, EVERY, TIMEOUT];
    let tables = TARGETS.into_iter().enumerate().flat_map(move |(index, table)| {
        let is_clickhouse = table == "clickhouse";
        let url = if is_clickhouse { CLICKHOUSE_URL } else { OTLP_URL };
        let options = iter::once(url).chain(shared).chain(is_clickhouse.then_some(DATABASE));
        options.map(move |option| export_key(&format!("{table}.{}", option.name), option, index..index + 1))
    });
    iter::once(export_key("sample", SAMPLE, 0..TARGETS.len())).chain(tables)
}

/// A key that sets the same option of all `targets`, a range of indices in [`TARGETS`].
fn export_key(name: &str, option: TargetOption, targets: Range<usize>) -> Key {
    let first = targets.start;
    Key {
        name: format!("export.{name}"),
        flag: "",
        help: option.help,
        reloads: RESTART,
        set: Box::new(move |config, text| {
            // The path of a file must be absolute, as for other keys.
            if option.value_name == "FILE" {
                (form::OPTIONAL_PATH.parse)(text)?;
            }
            config.targets[targets.clone()].iter_mut().try_for_each(|target| (option.set)(target, text))
        }),
        show: Box::new(move |config| {
            let text = (option.show)(&config.targets[first]);
            let number = text.parse().ok().filter(|_| option.value_name == "N");
            number.map_or_else(|| text.into(), Value::Integer)
        }),
    }
}
