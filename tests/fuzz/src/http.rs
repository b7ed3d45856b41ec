// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bytes from a client of the web server. hyper parses the bytes; this project does routing, credentials and content encoding. An input
//! that begins with the line `users` is sent to a server with basic auth, which must not answer without the password.

use std::path::Path;
use std::sync::Arc;

use mpwatch_exporters::http::{Access, Pages, WebConfigError, fuzz};

/// Password of the user `prometheus`: `right`, hashed with the minimum cost of bcrypt.
const WEB_CONFIG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/web.yml");
/// `prometheus:right` in base64.
const CREDENTIALS: &[u8] = b"cHJvbWV0aGV1czpyaWdodA==";

struct FixedPages;

impl Pages for FixedPages {
    fn metrics(&self) -> Result<String, String> {
        Ok("a_metric 1\n".repeat(200))
    }

    fn flows(&self) -> Result<String, String> {
        Ok("{}".to_owned())
    }

    fn readiness(&self) -> Result<(), String> {
        Err("no snapshot for 9 s".to_owned())
    }

    fn web_config_reloaded(&self, outcome: Result<(), WebConfigError>) {
        panic!("the file did not change: {outcome:?}");
    }
}

pub(crate) fn requests(input: &[u8]) {
    let (access, request) = match input.strip_prefix(b"users\n") {
        Some(request) => (restricted(), request),
        None => (Access::unrestricted(), input),
    };
    let is_restricted = input.len() > request.len();
    let answer = fuzz::exchange(request, access, Arc::new(FixedPages));
    let answer = answer.unwrap_or_else(|error| panic!("the server's runtime failed: {error}"));
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1."), "{}", String::from_utf8_lossy(&answer));
    let is_served = contains(&answer, b" 200 OK\r\n");
    assert!(!is_served || !is_restricted || contains(request, CREDENTIALS), "served without the password");
}

fn restricted() -> Access {
    Access::from_file(Path::new(WEB_CONFIG)).unwrap_or_else(|error| panic!("{error}"))
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}
