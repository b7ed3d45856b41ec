// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests over HTTP/1.1 or HTTPS, one connection each, with a deadline for the whole request. Blocks the caller.

use std::io::{Error, ErrorKind};
use std::time::Duration;

use tokio_rustls::rustls;
use ureq::http::{HeaderMap, Uri};
use ureq::tls::TlsConfig;
use ureq::{Agent, Error as Failure};

use super::headers::{self, Scheme};
use super::tls;
use crate::options::{Compression, TargetOptions};

/// Longer answers are errors: an answer is a confirmation, or an error message.
const MAX_ANSWER: u64 = 64 << 10;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// A file cannot be read, or has no secret or certificate.
    #[error("cannot use the credentials: {0}")]
    Credentials(String),
    /// Address and reason.
    #[error("cannot connect to {0}: {1}")]
    Connect(String, String),
    /// Address and reason.
    #[error("{0} gave no complete answer: {1}")]
    Exchange(String, String),
    /// Address and deadline.
    #[error("{0} gave no answer within {1:?}")]
    Timeout(String, Duration),
}

/// A request by POST.
pub(super) struct Post {
    /// The part of the address after the path, with its `?`; may be empty.
    pub(super) query: String,
    pub(super) body: Vec<u8>,
    /// Type of the body.
    pub(super) content_type: &'static str,
    /// Compression of the body.
    pub(super) compression: Option<Compression>,
}

/// An answer that was read to its end.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

impl Answer {
    /// The body as text.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).trim().to_owned()
    }

    /// Whether the same request may succeed later.
    pub(super) fn is_temporary(&self) -> bool {
        self.status < 300 || self.status >= 500 || self.status == 408 || self.status == 429
    }
}

/// Sends requests to one address.
pub(super) struct Client {
    url: Uri,
    options: TargetOptions,
    scheme: Scheme,
}

impl Client {
    /// Fails if the files of the options cannot be used.
    pub(super) fn new(url: Uri, options: TargetOptions, scheme: Scheme) -> Result<Self, HttpError> {
        let client = Self { url, options, scheme };
        headers::authentication(&client.options, scheme).map_err(HttpError::Credentials)?;
        client.tls()?;
        Ok(client)
    }

    fn tls(&self) -> Result<TlsConfig, HttpError> {
        let is_secure = self.url.scheme_str() == Some("https");
        let config = if is_secure { tls::config(&self.options) } else { Ok(TlsConfig::default()) };
        config.map_err(HttpError::Credentials)
    }

    /// Sends a request. Certificates and secrets are read again.
    pub(super) fn post(&self, post: &Post) -> Result<Answer, HttpError> {
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
            // ClickHouse refuses a request without it, also if the body is empty.
            .header("content-length", post.body.len());
        if let Some(compression) = post.compression {
            request = request.header("content-encoding", compression.as_str());
        }
        let secrets = headers::authentication(&self.options, self.scheme);
        for (name, value) in secrets.map_err(HttpError::Credentials)? {
            request = request.header(name, value);
        }
        let (head, mut body) = request.send(&post.body[..]).map_err(|error| self.failed(error))?.into_parts();
        let body = body.with_config().limit(MAX_ANSWER).read_to_vec().map_err(|error| self.failed(error))?;
        Ok(Answer { status: head.status.as_u16(), headers: head.headers, body })
    }

    fn failed(&self, error: Failure) -> HttpError {
        let url = self.url.to_string();
        match error {
            Failure::Timeout(_) => HttpError::Timeout(url, self.options.timeout),
            Failure::Io(error) if is_before_request(&error) => HttpError::Connect(url, error.to_string()),
            Failure::Io(error) => HttpError::Exchange(url, error.to_string()),
            Failure::HostNotFound | Failure::ConnectionFailed | Failure::Tls(_) => {
                HttpError::Connect(url, error.to_string())
            }
            error => HttpError::Exchange(url, error.to_string()),
        }
    }
}

/// Whether the server cannot be reached, or has a certificate that is not trusted.
fn is_before_request(error: &Error) -> bool {
    use ErrorKind::{AddrNotAvailable, ConnectionRefused, HostUnreachable, NetworkUnreachable};
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    matches!(cause, Some(rustls::Error::InvalidCertificate(_)))
        || [AddrNotAvailable, ConnectionRefused, HostUnreachable, NetworkUnreachable].contains(&error.kind())
}
