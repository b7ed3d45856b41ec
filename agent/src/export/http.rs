// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests over HTTP/1.1, one connection each, with a deadline for the whole of it. Blocks the caller.

use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::HeaderValue;
#[cfg(feature = "clickhouse")]
use hyper::header::InvalidHeaderValue;
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};

/// More of an answer is of no use: it is a confirmation, or an error message.
const MAX_ANSWER: usize = 64 << 10;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    #[error("cannot connect to {0}: {1}")]
    Connect(String, std::io::Error),
    #[error("{0} gave no complete answer: {1}")]
    Exchange(String, String),
    #[error("{0} gave no answer within {1:?}")]
    Timeout(String, Duration),
}

/// An address that was checked.
#[derive(Clone, Debug)]
pub(crate) struct Url {
    uri: Uri,
    path: String,
}

impl Url {
    /// Reads an address. The error says what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let url: Uri = text.parse().map_err(|error| format!("`{text}` is no address: {error}"))?;
        let authority = url.authority().map(hyper::http::uri::Authority::as_str).unwrap_or_default();
        if authority.contains('@') {
            return Err("the address contains a user name; use --user and --password-file, which no list of processes shows".to_owned());
        }
        match url.scheme_str() {
            Some("http") if !authority.is_empty() => Ok(Self { path: url.path().to_owned(), uri: url }),
            Some("https") => Err(format!(
                "`{text}` needs TLS, which this export does not have; send to a local proxy that encrypts, such as stunnel"
            )),
            _ => Err(format!("`{text}` is no address such as http://clickhouse:8123")),
        }
    }

    /// With this path, if it has none.
    #[cfg(feature = "otlp")]
    pub(crate) fn with_default_path(mut self, path: &str) -> Self {
        if self.path == "/" {
            path.clone_into(&mut self.path);
        }
        self
    }

    /// Host and port as they were given.
    pub(crate) fn authority(&self) -> &str {
        self.uri.authority().map(hyper::http::uri::Authority::as_str).unwrap_or_default()
    }

    fn socket(&self) -> String {
        let host = self.uri.host().unwrap_or_default();
        format!("{host}:{}", self.uri.port_u16().unwrap_or(80))
    }

    /// Its path, with a query after it.
    fn path(&self, query: &str) -> String {
        let path = &self.path;
        if query.is_empty() { path.clone() } else { format!("{path}?{query}") }
    }
}

impl std::fmt::Display for Url {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "http://{}{}", self.authority(), self.path)
    }
}

/// A value that is in no debug output.
#[cfg(feature = "clickhouse")]
pub(crate) fn secret(text: &str) -> Result<HeaderValue, InvalidHeaderValue> {
    let mut value = HeaderValue::from_str(text)?;
    value.set_sensitive(true);
    Ok(value)
}

/// Text as a part of a query.
#[cfg(feature = "clickhouse")]
pub(crate) fn percent_encoded(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// A request by POST.
pub(crate) struct Post {
    /// What follows the path; may be empty.
    pub(crate) query: String,
    pub(crate) body: Bytes,
    /// The body is compressed.
    pub(crate) gzip: bool,
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
        self.status >= 500 || self.status == 408 || self.status == 429
    }
}

/// Sends requests to one address.
pub(crate) struct Client {
    runtime: Runtime,
    url: Url,
    headers: Vec<(&'static str, HeaderValue)>,
    timeout: Duration,
}

impl Client {
    /// A client whose requests have these headers and end after a timeout.
    pub(crate) fn new(
        url: Url,
        headers: Vec<(&'static str, HeaderValue)>,
        timeout: Duration,
    ) -> std::io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Self { runtime, url, headers, timeout })
    }

    /// Sends a request.
    pub(crate) fn post(&self, post: &Post) -> Result<Answer, HttpError> {
        let exchange = async {
            tokio::time::timeout(self.timeout, self.exchange(post))
                .await
                .unwrap_or_else(|_| Err(HttpError::Timeout(self.url.to_string(), self.timeout)))
        };
        self.runtime.block_on(exchange)
    }

    async fn exchange(&self, post: &Post) -> Result<Answer, HttpError> {
        let failed = |error: String| HttpError::Exchange(self.url.to_string(), error);
        let stream = TcpStream::connect(self.url.socket())
            .await
            .map_err(|error| HttpError::Connect(self.url.to_string(), error))?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| failed(error.to_string()))?;
        let mut request = Request::post(self.url.path(&post.query))
            .header("host", self.url.authority())
            .header("user-agent", concat!("mpwatch/", env!("CARGO_PKG_VERSION")));
        if post.gzip {
            request = request.header("content-encoding", "gzip");
        }
        for (name, value) in &self.headers {
            request = request.header(*name, value.clone());
        }
        let request =
            request.body(Full::new(post.body.clone())).map_err(|error| failed(error.to_string()))?;
        let driver = tokio::spawn(connection);
        let answer = sender.send_request(request).await.map_err(|error| failed(chain(&error)))?;
        let status = answer.status().as_u16();
        let body = Limited::new(answer.into_body(), MAX_ANSWER).collect().await;
        driver.abort();
        let body = body.map_err(|error| failed(error.to_string()))?.to_bytes();
        Ok(Answer { status, body })
    }
}

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_cannot_be_used_are_refused_with_a_reason() {
        for (text, word) in [
            ("clickhouse:8123", "http://clickhouse:8123"),
            ("https://clickhouse", "TLS"),
            ("http://me:secret@clickhouse", "--password-file"),
            ("", "no address"),
            ("http://a b", "no address"),
        ] {
            let error = Url::parse(text).unwrap_err();
            assert!(error.contains(word) && !error.contains("secret"), "{text}: {error}");
        }
        let url = Url::parse("http://[::1]:8123/x").unwrap();
        assert_eq!((url.socket().as_str(), url.path("a=b").as_str()), ("[::1]:8123", "/x?a=b"));
        assert_eq!(Url::parse("http://host").unwrap().socket(), "host:80");
        #[cfg(feature = "clickhouse")]
        assert_eq!(percent_encoded("INSERT a.`b`"), "INSERT%20a.%60b%60");
    }

    #[cfg(feature = "clickhouse")]
    #[test]
    fn a_secret_is_not_in_debug_output() {
        assert!(!format!("{:?}", secret("hunter2").unwrap()).contains("hunter2"));
        assert!(secret("line\nbreak").is_err());
    }
}
