// SPDX-License-Identifier: MIT OR Apache-2.0
//! Responses and their headers.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::Full;
use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, VARY,
};
use tokio::sync::OwnedSemaphorePermit;

/// The text format that `promtool check metrics` and every version of Prometheus can read.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";
const JSON: &str = "application/json";
pub(super) const TEXT: &str = "text/plain; charset=utf-8";
pub(super) const HTML: &str = "text/html; charset=utf-8";
/// Shorter texts are not compressed.
const MIN_GZIP_BYTES: usize = 1024;

pub(super) type Response = hyper::Response<Full<Bytes>>;

pub(super) fn new(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    with_header(response, CONTENT_TYPE, content_type)
}

pub(super) fn with_header(mut response: Response, name: HeaderName, value: &'static str) -> Response {
    response.headers_mut().insert(name, HeaderValue::from_static(value));
    response
}

pub(super) fn unavailable(reason: &str) -> Response {
    new(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{reason}\n"))
}

pub(super) fn status(outcome: Result<(), String>) -> Response {
    outcome.map_or_else(|reason| unavailable(&reason), |()| new(StatusCode::OK, TEXT, "ok\n"))
}

/// A snapshot. The response holds the permit until it is sent.
pub(super) fn flows(outcome: Result<String, String>, permit: OwnedSemaphorePermit) -> Response {
    let body = |text| Bytes::from_owner(Snapshot { text, _permit: permit });
    outcome.map_or_else(|reason| unavailable(&reason), |text| new(StatusCode::OK, JSON, body(text)))
}

struct Snapshot {
    text: String,
    _permit: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Snapshot {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

/// The text of the metrics.
#[derive(Clone)]
pub(super) struct Metrics {
    plain: Bytes,
    /// `None`: the text is too short.
    gzip: Option<Bytes>,
}

impl Metrics {
    pub(super) fn new(text: String) -> Self {
        Self { gzip: gzip(&text).map(Bytes::from), plain: text.into() }
    }
}

/// The metrics, compressed if the client accepts it.
pub(super) fn metrics(request: &HeaderMap, outcome: Result<Metrics, String>) -> Response {
    let Metrics { plain, gzip } = match outcome {
        Ok(metrics) => metrics,
        Err(reason) => return unavailable(&reason),
    };
    let compressed = gzip.filter(|_| accepts_gzip(request));
    let encoding = compressed.is_some().then_some((CONTENT_ENCODING, "gzip"));
    let response = new(StatusCode::OK, METRICS, compressed.unwrap_or(plain));
    let headers = [(VARY, "Accept-Encoding")].into_iter().chain(encoding);
    headers.fold(response, |response, (name, value)| with_header(response, name, value))
}

fn accepts_gzip(request: &HeaderMap) -> bool {
    let accepted = request.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|entry| {
        let (coding, quality) = entry.split_once(';').unwrap_or((entry, ""));
        let refused = quality.trim().strip_prefix("q=").and_then(|q| q.parse::<f32>().ok()) == Some(0.0);
        coding.trim().eq_ignore_ascii_case("gzip") && !refused
    })
}

/// Compresses a text. `None`: it is too short.
fn gzip(text: &str) -> Option<Vec<u8>> {
    if text.len() < MIN_GZIP_BYTES {
        return None;
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).ok()?;
    encoder.finish().ok()
}
