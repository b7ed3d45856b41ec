// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pages: their content, who may read them, and how many large answers are written at a time.

use std::fs;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hyper::header::{ALLOW, AUTHORIZATION, HOST, HeaderValue, WWW_AUTHENTICATE};
use hyper::http::uri::Authority;
use hyper::{Method, Request, StatusCode};
use tokio::sync::Semaphore;

use super::response::{self, HTML, Metrics, Response, TEXT, with_header};
use super::web_config::{Access, Rules, WebConfigError};

/// Maximum number of snapshots that are being written or sent at a time.
pub(super) const MAX_CONCURRENT_SNAPSHOTS: usize = 2;
/// Requests for the metrics within this time get the same text, so that clients with many requests do not delay the others.
const METRICS_LIFETIME: Duration = Duration::from_millis(100);

const LANDING: &str = concat!(
    "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>mpwatch</title></head><body><h1>mpwatch ",
    env!("CARGO_PKG_VERSION"),
    "</h1><p>Observes Multipath TCP on this machine.</p><ul><li><a href=\"/metrics\">/metrics</a>: for Prometheus</li>",
    "<li><a href=\"/api/v1/flows\">/api/v1/flows</a>: all current connections as JSON, with authentication</li>",
    "<li><a href=\"/healthz\">/healthz</a>: the process is running</li>",
    "<li><a href=\"/readyz\">/readyz</a>: tracing works, and the latest snapshot is recent</li></ul></body></html>\n"
);

const FLOWS_FORBIDDEN: &str =
    "flows are served only if the web-config file (web.config) has users, or requires client certificates\n";

const FOREIGN_HOST: &str = "the Host header names another machine: use an IP address, localhost or the host name of this machine; for other \
     names, set web.hosts, or set web.config to a web-config file with users or TLS\n";

/// The content that is served. All methods except `flows` are called on the server's thread and must not block. Errors are sent to the client.
pub trait Pages: Send + Sync + 'static {
    /// The text of `/metrics`.
    fn metrics(&self) -> Result<String, String>;
    /// The latest snapshot as one line of JSON, for `/api/v1/flows`. Called on a separate thread, so it may block.
    fn flows(&self) -> Result<String, String>;
    /// Whether the latest snapshot is recent. Error: why not.
    fn readiness(&self) -> Result<(), String>;
    /// Called after the web-config file, or a certificate that it names, has changed. On an error the previous rules stay in force.
    fn web_config_reloaded(&self, outcome: Result<(), WebConfigError>);
}

pub(super) struct Site {
    access: Access,
    pages: Arc<dyn Pages>,
    snapshots: Arc<Semaphore>,
    metrics: Mutex<Option<(Instant, Metrics)>>,
    is_local: bool,
}

impl Site {
    /// `is_local`: whether the server listens on a loopback address.
    pub(super) fn new(access: Access, pages: Arc<dyn Pages>, is_local: bool) -> Self {
        let snapshots = Arc::new(Semaphore::new(MAX_CONCURRENT_SNAPSHOTS));
        Self { access, pages, snapshots, metrics: Mutex::default(), is_local }
    }

    /// The rules in force. Reloads the web-config file if it has changed.
    pub(super) fn rules(&self) -> Arc<Rules> {
        let (rules, reloaded) = self.access.current();
        if let Some(outcome) = reloaded {
            self.pages.web_config_reloaded(outcome);
        }
        rules
    }

    pub(super) async fn respond<B>(&self, request: &Request<B>) -> Response {
        let rules = self.rules();
        if let Some(users) = &rules.users {
            let header = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
            if !users.allow(header).await {
                let refusal =
                    response::new(StatusCode::UNAUTHORIZED, TEXT, "user name and password required\n");
                return with_header(refusal, WWW_AUTHENTICATE, "Basic realm=\"mpwatch\"");
            }
        }
        let is_open = rules.users.is_none() && rules.tls.is_none();
        let is_known = |host| names_this_machine(host, &self.access.hosts);
        if is_open && self.is_local && !request.headers().get_all(HOST).iter().all(is_known) {
            return response::new(StatusCode::MISDIRECTED_REQUEST, TEXT, FOREIGN_HOST);
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let refusal =
                response::new(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET and HEAD are supported\n");
            return with_header(refusal, ALLOW, "GET, HEAD");
        }
        match request.uri().path() {
            "/metrics" => response::metrics(request.headers(), self.metrics()),
            "/api/v1/flows" if rules.is_authenticated => self.flows().await,
            "/api/v1/flows" => response::new(StatusCode::FORBIDDEN, TEXT, FLOWS_FORBIDDEN),
            // Prometheus and its exporters use the second names.
            "/healthz" | "/-/healthy" => response::status(Ok(())),
            "/readyz" | "/-/ready" => response::status(self.pages.readiness()),
            "/" => response::new(StatusCode::OK, HTML, LANDING),
            _ => response::new(
                StatusCode::NOT_FOUND,
                TEXT,
                "not found; the pages are /, /metrics, /api/v1/flows, /healthz and /readyz\n",
            ),
        }
    }

    fn metrics(&self) -> Result<Metrics, String> {
        let mut latest = self.metrics.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, metrics) = match latest.take_if(|(at, _)| at.elapsed() < METRICS_LIFETIME) {
            Some(recent) => latest.insert(recent),
            None => latest.insert((Instant::now(), Metrics::new(self.pages.metrics()?))),
        };
        Ok(metrics.clone())
    }

    /// Serves a snapshot. Their number at a time is limited, because a large snapshot takes time to write, and memory until it is read.
    async fn flows(&self) -> Response {
        let busy = || response::unavailable("too many requests for snapshots at a time; try again");
        let Ok(permit) = Arc::clone(&self.snapshots).try_acquire_owned() else { return busy() };
        let pages = Arc::clone(&self.pages);
        // An error means that the task panicked; the panic has printed its message.
        let outcome = tokio::task::spawn_blocking(move || pages.flows()).await;
        outcome.map_or_else(|_| busy(), |outcome| response::flows(outcome, permit))
    }
}

/// Whether a Host header names this machine. A browser sends the host name of the page that it shows. Without this check, a page whose
/// host name resolves to a loopback address (DNS rebinding) could read the answer.
/// `others`: further names, separated by commas.
fn names_this_machine(host: &HeaderValue, others: &str) -> bool {
    let Ok(host) = Authority::try_from(host.as_bytes()) else { return false };
    let name = host.host().trim_matches(['[', ']']);
    let own = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let mut known = ["localhost", own.trim_end()].into_iter().chain(others.split(',').map(str::trim));
    name.parse::<IpAddr>().is_ok() || known.any(|known| !known.is_empty() && name.eq_ignore_ascii_case(known))
}
