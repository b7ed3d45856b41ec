// SPDX-License-Identifier: MIT OR Apache-2.0
//! The headers that authenticate a request. Their values are secrets, which neither debug output nor errors contain.

use std::fs;
use std::path::Path;

#[cfg(feature = "otlp")]
use base64::{Engine as _, engine::general_purpose::STANDARD};
use ureq::http::header::{AUTHORIZATION, HeaderName, HeaderValue};

use crate::options::TargetOptions;

#[cfg(feature = "clickhouse")]
const USER: HeaderName = HeaderName::from_static("x-clickhouse-user");
#[cfg(feature = "clickhouse")]
const KEY: HeaderName = HeaderName::from_static("x-clickhouse-key");

/// The headers in which a server expects user name and password. All servers expect the same header for bearer tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    /// Basic auth (RFC 7617).
    #[cfg(feature = "otlp")]
    Basic,
    /// ClickHouse's own headers, which its proxies support too.
    #[cfg(feature = "clickhouse")]
    Clickhouse,
}

/// Reads the files and returns the headers.
pub(super) fn authentication(
    options: &TargetOptions,
    scheme: Scheme,
) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    if let Some(file) = &options.token_file {
        return Ok(vec![(AUTHORIZATION, from_file(file, &format!("Bearer {}", first_line(file)?))?)]);
    }
    let Some(user) = &options.user else { return Ok(Vec::new()) };
    let password = options.password_file.as_deref().map(first_line).transpose()?;
    match scheme {
        #[cfg(feature = "otlp")]
        Scheme::Basic => {
            let pair = STANDARD.encode(format!("{user}:{}", password.unwrap_or_default()));
            Ok(vec![(AUTHORIZATION, secret(&format!("Basic {pair}")).ok_or("the user name is too long")?)])
        }
        #[cfg(feature = "clickhouse")]
        Scheme::Clickhouse => {
            let user = secret(user).ok_or("the user's name has characters that HTTP does not allow")?;
            let mut headers = vec![(USER, user)];
            if let (Some(file), Some(password)) = (&options.password_file, password) {
                headers.push((KEY, from_file(file, &password)?));
            }
            Ok(headers)
        }
    }
}

fn first_line(file: &Path) -> Result<String, String> {
    let text =
        fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

fn from_file(file: &Path, text: &str) -> Result<HeaderValue, String> {
    secret(text).ok_or_else(|| {
        format!("the first line of {} has characters that HTTP does not allow", file.display())
    })
}

/// A value that debug output omits.
fn secret(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(folder: &Path, user: Option<&str>, text: &str) -> TargetOptions {
        let file = folder.join("secret");
        fs::write(&file, text).unwrap();
        match user {
            Some(user) => TargetOptions {
                user: Some(user.to_owned()),
                password_file: Some(file),
                ..TargetOptions::default()
            },
            None => TargetOptions { token_file: Some(file), ..TargetOptions::default() },
        }
    }

    #[cfg(all(feature = "otlp", feature = "clickhouse"))]
    #[test]
    fn secrets_come_from_the_first_line_of_files_and_are_in_no_debug_output() {
        let folder = tempfile::tempdir().unwrap();
        for (user, scheme, expected) in [
            (None, Scheme::Basic, "Bearer hunter2"),
            (None, Scheme::Clickhouse, "Bearer hunter2"),
            // From RFC 7617: base64 of `me:hunter2`.
            (Some("me"), Scheme::Basic, "Basic bWU6aHVudGVyMg=="),
            (Some("me"), Scheme::Clickhouse, "hunter2"),
        ] {
            let headers = authentication(&options(folder.path(), user, "hunter2\nmore"), scheme).unwrap();
            let (_, last) = headers.last().unwrap();
            assert_eq!(last.to_str().unwrap(), expected);
            let shown = format!("{headers:?}");
            assert!(!shown.contains("hunter2") && !shown.contains("bWU6"), "{shown}");
        }
        for user in [None, Some("me")] {
            let error =
                authentication(&options(folder.path(), user, "bell\u{7}"), Scheme::Clickhouse).unwrap_err();
            assert!(error.contains("first line of") && !error.contains("bell"), "{error}");
        }
        assert!(authentication(&TargetOptions::default(), Scheme::Basic).unwrap().is_empty());
    }
}
