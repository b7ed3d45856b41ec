// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests over HTTP/1.1 or HTTPS, one connection each, with a deadline for the whole of it. Blocks the caller.

use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::rustls::pki_types::ServerName;

use super::headers::{self, Scheme};
use super::tls;
use super::url::Url;
use crate::compression::Compression;
use crate::credentials::Credentials;

/// More of an answer is of no use: it is a confirmation, or an error message.
const MAX_ANSWER: usize = 64 << 10;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    #[error("cannot use the credentials: {0}")]
    Credentials(String),
    #[error("cannot connect to {0}: {1}")]
    Connect(String, std::io::Error),
    #[error("{0} gave no complete answer: {1}")]
    Exchange(String, String),
    #[error("{0} gave no answer within {1:?}")]
    Timeout(String, Duration),
}

/// A request by POST.
pub(crate) struct Post {
    /// What follows the path; may be empty.
    pub(crate) query: String,
    pub(crate) body: Bytes,
    /// Type of the body.
    pub(crate) content_type: &'static str,
    /// How the body is compressed. `None`: it is not.
    pub(crate) compression: Option<Compression>,
}

/// An answer that was read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Bytes,
}

impl Answer {
    /// The body as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).trim().to_owned()
    }

    /// Whether the same request may succeed later.
    pub(crate) fn is_temporary(&self) -> bool {
        self.status < 300 || self.status >= 500 || self.status == 408 || self.status == 429
    }
}

/// Sends requests to one address.
pub(crate) struct Client {
    runtime: Runtime,
    url: Url,
    credentials: Credentials,
    scheme: Scheme,
    timeout: Duration,
}

impl Client {
    /// A client whose requests end after a timeout. Fails if its credentials cannot be read.
    pub(super) fn new(
        url: Url,
        credentials: Credentials,
        scheme: Scheme,
        timeout: Duration,
    ) -> anyhow::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        headers::of(&credentials, scheme).map_err(HttpError::Credentials)?;
        if url.is_secure {
            tls::connector(&credentials).map_err(HttpError::Credentials)?;
        }
        Ok(Self { runtime, url, credentials, scheme, timeout })
    }

    /// Sends a request.
    pub(crate) fn post(&self, post: &Post) -> Result<Answer, HttpError> {
        let exchange = async {
            tokio::time::timeout(self.timeout, self.connect_and_send(post))
                .await
                .unwrap_or_else(|_| Err(HttpError::Timeout(self.url.to_string(), self.timeout)))
        };
        self.runtime.block_on(exchange)
    }

    async fn connect_and_send(&self, post: &Post) -> Result<Answer, HttpError> {
        let request = self.request(post)?;
        let failed = |error| HttpError::Connect(self.url.to_string(), error);
        let stream = TcpStream::connect(self.url.socket()).await.map_err(failed)?;
        if !self.url.is_secure {
            return self.send(stream, request).await;
        }
        let connector = tls::connector(&self.credentials).map_err(HttpError::Credentials)?;
        let name = ServerName::try_from(self.url.host().to_owned());
        let name = name.map_err(|error| failed(std::io::Error::other(error)))?;
        self.send(connector.connect(name, stream).await.map_err(failed)?, request).await
    }

    fn request(&self, post: &Post) -> Result<Request<Full<Bytes>>, HttpError> {
        let mut request = Request::post(self.url.path(&post.query))
            .header("host", self.url.authority())
            .header("content-type", post.content_type)
            // ClickHouse refuses a request without it, and hyper leaves it out if the body is empty.
            .header("content-length", post.body.len())
            .header("user-agent", concat!("mpwatch/", env!("CARGO_PKG_VERSION")));
        if let Some(compression) = post.compression {
            request = request.header("content-encoding", compression.as_str());
        }
        for (name, value) in headers::of(&self.credentials, self.scheme).map_err(HttpError::Credentials)? {
            request = request.header(name, value);
        }
        request.body(Full::new(post.body.clone())).map_err(|error| self.failed(error.to_string()))
    }

    async fn send(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        request: Request<Full<Bytes>>,
    ) -> Result<Answer, HttpError> {
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| self.failed(error.to_string()))?;
        let exchange = async {
            let answer = sender.send_request(request).await.map_err(|error| self.failed(chain(&error)))?;
            let status = answer.status().as_u16();
            let body = Limited::new(answer.into_body(), MAX_ANSWER).collect().await;
            let body = body.map_err(|error| self.failed(error.to_string()))?.to_bytes();
            Ok(Answer { status, body })
        };
        // Not a task of its own: the runtime would keep it, and the connection with it, until the next request.
        let (mut connection, mut exchange) = (pin!(connection), pin!(exchange));
        let mut is_closed = false;
        poll_fn(|context| {
            is_closed = is_closed || connection.as_mut().poll(context).is_ready();
            exchange.as_mut().poll(context)
        })
        .await
    }

    fn failed(&self, error: String) -> HttpError {
        HttpError::Exchange(self.url.to_string(), error)
    }
}

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
