// SPDX-License-Identifier: MIT OR Apache-2.0
//! The values of a configuration and their defaults.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use mpwatch_exporters::options::{Compression, TargetOptions};
use mpwatch_model::filter::Filter;
use mpwatch_model::flow::bottleneck::DetectionMethod;
use mpwatch_model::flow::elimination::{EliminationAction, EliminationMode, EliminationPolicy};
use mpwatch_model::kernel::cpu::LedgerMode;
use tracing::level_filters::LevelFilter;

use crate::system::paths;

/// All values. `keys` describes each.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a key of the file")]
#[allow(clippy::struct_field_names, reason = "`web_config` is Prometheus' name of that file")]
pub(crate) struct Config {
    pub(crate) interval: Duration,
    pub(crate) socket: PathBuf,
    /// Name or number.
    pub(crate) socket_group: String,
    pub(crate) listen: SocketAddr,
    pub(crate) web_config: Option<PathBuf>,
    pub(crate) top_flows: u32,
    /// `None`: no database.
    pub(crate) store_path: Option<PathBuf>,
    /// `None`: for ever.
    pub(crate) store_keep: Option<Duration>,
    /// Bytes. `None`: no limit.
    pub(crate) store_max_size: Option<u64>,
    pub(crate) store_sample_every: Duration,
    /// `None`: `store_sample_every` and the age of a connection decide.
    pub(crate) store_sample_step: Option<Duration>,
    /// By name.
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) tcp: bool,
    pub(crate) ledger: LedgerMode,
    /// Share of the machine's CPU time.
    pub(crate) budget: f64,
    pub(crate) bottlenecks: bool,
    /// Sizes of the two ring buffers for final records, bytes.
    pub(crate) ring_bytes: u32,
    pub(crate) overflow_bytes: u32,
    pub(crate) method: DetectionMethod,
    /// Whether `mptcpd` is registered.
    pub(crate) congestion: bool,
    pub(crate) eliminate: EliminationMode,
    pub(crate) eliminate_action: EliminationAction,
    pub(crate) eliminate_stable: Duration,
    pub(crate) eliminate_filter: Filter,
    pub(crate) eliminate_max_per_minute: u32,
    pub(crate) log_level: LevelFilter,
    pub(crate) log_json: bool,
    pub(crate) clickhouse: TargetOptions,
    pub(crate) otlp: TargetOptions,
    pub(crate) otlp_spans: TargetOptions,
}

impl Config {
    /// Where the daemon sends connections, by the names of the tables in the file.
    pub(crate) fn exports(&self) -> [(&'static str, &TargetOptions); 3] {
        [("clickhouse", &self.clickhouse), ("otlp", &self.otlp), ("otlp_spans", &self.otlp_spans)]
    }
}

impl Default for Config {
    fn default() -> Self {
        let policy = EliminationPolicy::default();
        let traced = mpwatch_ebpf::tracer::TracerSettings::default();
        Self {
            interval: Duration::from_secs(1),
            socket: PathBuf::from(paths::SOCKET),
            socket_group: "mpwatch".to_owned(),
            listen: SocketAddr::from(([127, 0, 0, 1], 9917)),
            web_config: None,
            top_flows: 0,
            store_path: Some(PathBuf::from(paths::DATABASE)),
            store_keep: Some(Duration::from_hours(7 * 24)),
            store_max_size: Some(1 << 30),
            store_sample_every: Duration::from_secs(10),
            store_sample_step: None,
            labels: BTreeMap::new(),
            tcp: false,
            ledger: traced.ledger,
            budget: 0.01,
            bottlenecks: true,
            ring_bytes: traced.ring_bytes,
            overflow_bytes: traced.overflow_bytes,
            method: DetectionMethod::default(),
            congestion: false,
            eliminate: EliminationMode::Off,
            eliminate_action: EliminationAction::default(),
            eliminate_stable: Duration::from_nanos(policy.stable.0),
            eliminate_filter: Filter::default(),
            eliminate_max_per_minute: policy.max_per_minute,
            log_level: LevelFilter::INFO,
            log_json: false,
            clickhouse: TargetOptions { compression: Some(Compression::Zstd), ..TargetOptions::default() },
            otlp: TargetOptions { compression: Some(Compression::Gzip), ..TargetOptions::default() },
            otlp_spans: TargetOptions { compression: Some(Compression::Gzip), ..TargetOptions::default() },
        }
    }
}
