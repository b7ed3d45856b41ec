// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a request to its answer. Pure but for what the pages say.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{
    ACCEPT_ENCODING, ALLOW, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, VARY, WWW_AUTHENTICATE,
};
use hyper::{Method, Request, Response, StatusCode};
use tokio::sync::OwnedSemaphorePermit;

use super::Pages;

/// The text format that `promtool check metrics` and every Prometheus read.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";
const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";
/// Where the latest snapshot is.
pub(super) const FLOWS: &str = "/api/v1/flows";
const HTML: &str = "text/html; charset=utf-8";
/// Smaller than this, compression gains nothing.
const WORTH_PACKING: usize = 1024;

const LANDING: &str = concat!(
    "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>mpwatch</title></head><body><h1>mpwatch ",
    env!("CARGO_PKG_VERSION"),
    "</h1><p>Observes Multipath TCP on this machine.</p><ul><li><a href=\"/metrics\">/metrics</a> for Prometheus</li>",
    "<li><a href=\"/api/v1/flows\">/api/v1/flows</a>: every connection now, as JSON</li>",
    "<li><a href=\"/healthz\">/healthz</a>: the process lives</li>",
    "<li><a href=\"/readyz\">/readyz</a>: it traces, and its latest snapshot is current</li></ul></body></html>\n"
);

pub(super) type Answer = Response<Full<Bytes>>;

/// To who did not say who they are, or said it wrong.
pub(super) fn unauthorized() -> Answer {
    let mut refusal = plain(StatusCode::UNAUTHORIZED, TEXT, "a name and a password are needed\n".to_owned());
    refusal.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"mpwatch\""));
    refusal
}

/// To who asks for a large answer while others are on their way.
pub(super) fn busy() -> Answer {
    plain(StatusCode::SERVICE_UNAVAILABLE, TEXT, "others are reading this; ask again\n".to_owned())
}

/// A snapshot, which keeps its room until it is read.
pub(super) fn flows(outcome: Result<String, String>, room: OwnedSemaphorePermit) -> Answer {
    match outcome {
        Ok(text) => plain(StatusCode::OK, JSON, Bytes::from_owner(Roomy { text, _room: room })),
        Err(why) => plain(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{why}\n")),
    }
}

struct Roomy {
    text: String,
    _room: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Roomy {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

/// Whether it asks for a page, and does not want to change one.
pub(super) fn is_reading<B>(request: &Request<B>) -> bool {
    matches!(*request.method(), Method::GET | Method::HEAD)
}

pub(super) fn answer<B>(request: &Request<B>, pages: &dyn Pages) -> Answer {
    if !is_reading(request) {
        let mut refusal =
            plain(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET and HEAD are answered\n".to_owned());
        refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refusal;
    }
    match request.uri().path() {
        "/metrics" => match pages.metrics() {
            Ok(text) => packed(request, text),
            Err(why) => plain(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{why}\n")),
        },
        "/healthz" => plain(StatusCode::OK, TEXT, "ok\n".to_owned()),
        "/readyz" => match pages.readiness() {
            Ok(()) => plain(StatusCode::OK, TEXT, "ok\n".to_owned()),
            Err(why) => plain(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{why}\n")),
        },
        "/" => plain(StatusCode::OK, HTML, LANDING.to_owned()),
        _ => plain(
            StatusCode::NOT_FOUND,
            TEXT,
            "there is only /, /metrics, /api/v1/flows, /healthz and /readyz\n".to_owned(),
        ),
    }
}

fn plain(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// The metrics, compressed for who takes it.
fn packed<B>(request: &Request<B>, text: String) -> Answer {
    let small = takes_gzip(request).then(|| gzip(&text)).flatten();
    let is_packed = small.is_some();
    let mut response = plain(StatusCode::OK, METRICS, small.unwrap_or_else(|| text.into_bytes()));
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    if is_packed {
        response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

fn takes_gzip<B>(request: &Request<B>) -> bool {
    let accepted = request.headers().get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|one| {
        let (coding, quality) = one.split_once(';').unwrap_or((one, ""));
        let refused = quality.trim().strip_prefix("q=").and_then(|q| q.parse::<f32>().ok()) == Some(0.0);
        coding.trim().eq_ignore_ascii_case("gzip") && !refused
    })
}

/// `None`: not worth it.
fn gzip(text: &str) -> Option<Vec<u8>> {
    if text.len() < WORTH_PACKING {
        return None;
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).ok()?;
    encoder.finish().ok()
}
