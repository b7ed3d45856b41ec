// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sends requests over HTTP/1.1 or HTTPS, one connection each, with a deadline for the whole request. Sending blocks the caller.

use std::io::{self, Error, ErrorKind, Write as _};
use std::time::Duration;

use flate2::write::GzEncoder;
use mpwatch_model::kernel::endpoint::printable_lines;
use tokio_rustls::rustls;
use ureq::http::HeaderMap;
use ureq::tls::TlsConfig;
use ureq::{Agent, Error as Failure};

use super::headers::{self, Scheme};
use super::tls;
use crate::options::{Compression, TargetOptions};

/// Maximum size of an answer, which is a confirmation or an error message.
const MAX_ANSWER: u64 = 64 << 10;
/// Compression levels: a compromise between CPU time and size, see docs/measurements/export.md.
const GZIP: flate2::Compression = flate2::Compression::new(5);
const ZSTD: i32 = 1;

/// Why a batch was not confirmed.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// A file cannot be read, or has no secret or certificate.
    #[error("cannot use the credentials: {0}")]
    Credentials(String),
    /// The server cannot be reached, or its certificate is not trusted: address and reason.
    #[error("cannot connect to {0}: {1}")]
    Connect(String, String),
    /// The server gave no complete answer: address and reason.
    #[error("{0} gave no complete answer: {1}")]
    Exchange(String, String),
    /// The server gave no answer in time: address and deadline.
    #[error("{0} gave no answer within {1:?}")]
    Timeout(String, Duration),
    /// The answer is an error.
    #[error("the server answered {status}: {text}")]
    Answer {
        /// HTTP status.
        status: u16,
        /// The beginning of the message.
        text: String,
        /// Whether the same request may succeed later.
        is_temporary: bool,
    },
    /// The server cannot store batches of this version.
    #[error("{0}")]
    Refused(String),
    /// A batch cannot be compressed.
    #[error("cannot encode connections: {0:#}")]
    Encoding(io::Error),
}

impl SendError {
    /// Whether the same request may succeed later without any action of a user.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Connect(..) | Self::Exchange(..) | Self::Timeout(..) => true,
            Self::Answer { is_temporary, .. } => *is_temporary,
            Self::Credentials(_) | Self::Refused(_) | Self::Encoding(_) => false,
        }
    }
}

/// A POST request.
pub(super) struct Post {
    /// The query of the address with its `?`, or empty.
    pub(super) query: String,
    pub(super) body: Vec<u8>,
    pub(super) content_type: &'static str,
    /// Compression of the body. `None`: the body is not compressed.
    pub(super) compression: Option<Compression>,
}

impl Post {
    /// Compresses the body.
    pub(super) fn compressed(self, method: Compression) -> io::Result<Self> {
        let body = match method {
            Compression::Zstd => zstd::encode_all(&self.body[..], ZSTD)?,
            Compression::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), GZIP);
                encoder.write_all(&self.body)?;
                encoder.finish()?
            }
        };
        Ok(Self { body, compression: Some(method), ..self })
    }
}

/// A complete answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) fn text(&self) -> String {
        printable_lines(String::from_utf8_lossy(&self.body).trim())
    }

    /// Whether the same request may succeed later.
    pub(super) fn is_temporary(&self) -> bool {
        self.status < 300 || self.status >= 500 || self.status == 408 || self.status == 429
    }
}

/// Sends requests to one address.
pub(super) struct Client {
    pub(super) url: String,
    pub(super) options: TargetOptions,
    scheme: Scheme,
}

impl Client {
    /// `path` completes an address without a path. Fails if the files of the options cannot be used.
    pub(super) fn new(options: &TargetOptions, path: &str, scheme: Scheme) -> Result<Self, SendError> {
        let mut url = options.url.clone().unwrap_or_default();
        if url.splitn(4, '/').nth(3).is_none_or(str::is_empty) {
            url = format!("{}{path}", url.trim_end_matches('/'));
        }
        let client = Self { url, options: options.clone(), scheme };
        headers::authentication(&client.options, scheme).map_err(SendError::Credentials)?;
        client.tls()?;
        Ok(client)
    }

    fn tls(&self) -> Result<TlsConfig, SendError> {
        let is_secure = self.url.starts_with("https:");
        let config = if is_secure { tls::config(&self.options) } else { Ok(TlsConfig::default()) };
        config.map_err(SendError::Credentials)
    }

    /// Sends a request. Reads the files with certificates and secrets again.
    pub(super) fn post(&self, post: &Post) -> Result<Answer, SendError> {
        let agent: Agent = Agent::config_builder()
            .timeout_global(Some(self.options.timeout))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .user_agent(concat!("mpwatch/", env!("CARGO_PKG_VERSION")))
            .tls_config(self.tls()?)
            .build()
            .into();
        let mut request = agent
            .post(format!("{}{}", self.url, post.query))
            .header("content-type", post.content_type)
            // ClickHouse refuses a request without this header, even if the body is empty.
            .header("content-length", post.body.len());
        if let Some(compression) = post.compression {
            request = request.header("content-encoding", compression.as_str());
        }
        let secrets = headers::authentication(&self.options, self.scheme);
        for (name, value) in secrets.map_err(SendError::Credentials)? {
            request = request.header(name, value);
        }
        let (head, mut body) = request.send(&post.body[..]).map_err(|error| self.failed(error))?.into_parts();
        let body = body.with_config().limit(MAX_ANSWER).read_to_vec().map_err(|error| self.failed(error))?;
        Ok(Answer { status: head.status.as_u16(), headers: head.headers, body })
    }

    fn failed(&self, error: Failure) -> SendError {
        let url = self.url.clone();
        match error {
            Failure::Timeout(_) => SendError::Timeout(url, self.options.timeout),
            Failure::Io(error) if is_before_request(&error) => SendError::Connect(url, error.to_string()),
            Failure::Io(error) => SendError::Exchange(url, error.to_string()),
            Failure::HostNotFound | Failure::ConnectionFailed | Failure::Tls(_) => {
                SendError::Connect(url, error.to_string())
            }
            error => SendError::Exchange(url, error.to_string()),
        }
    }
}

/// Whether an error precedes the request: the server cannot be reached, or its certificate is not trusted.
fn is_before_request(error: &Error) -> bool {
    use ErrorKind::{AddrNotAvailable, ConnectionRefused, HostUnreachable, NetworkUnreachable};
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    matches!(cause, Some(rustls::Error::InvalidCertificate(_)))
        || [AddrNotAvailable, ConnectionRefused, HostUnreachable, NetworkUnreachable].contains(&error.kind())
}
