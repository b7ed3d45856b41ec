// SPDX-License-Identifier: MIT OR Apache-2.0
//! Addresses of targets.

use hyper::Uri;
use hyper::http::uri::Authority;

/// An address that was checked.
#[derive(Clone, Debug)]
pub(crate) struct Url {
    uri: Uri,
    path: String,
    pub(super) is_secure: bool,
}

impl Url {
    /// Reads an address. The error says what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let url: Uri = text.parse().map_err(|error| format!("`{text}` is no address: {error}"))?;
        let authority = url.authority().map(Authority::as_str).unwrap_or_default();
        if authority.contains('@') {
            return Err("the address contains a user name; use --user and --password-file, which no list of processes shows".to_owned());
        }
        let is_secure = match url.scheme_str() {
            Some("http") if !authority.is_empty() => false,
            Some("https") if !authority.is_empty() => true,
            _ => return Err(format!("`{text}` is no address such as http://host:8123 or https://host:8443")),
        };
        if url.host().is_some_and(|host| host.len() < authority.len()) && url.port_u16().is_none() {
            return Err(format!("`{text}` has no valid port; ports are 1 to 65535"));
        }
        if url.query().is_some() || text.contains('#') {
            return Err(format!(
                "`{text}` has more than a path; give settings as options, such as --database"
            ));
        }
        Ok(Self { path: url.path().to_owned(), uri: url, is_secure })
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
    pub(super) fn authority(&self) -> &str {
        self.uri.authority().map(Authority::as_str).unwrap_or_default()
    }

    /// The host as certificates have it: IPv6 addresses without brackets.
    pub(super) fn host(&self) -> &str {
        self.uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']')
    }

    /// Host and port to connect to.
    pub(super) fn socket(&self) -> (&str, u16) {
        let usual = if self.is_secure { 443 } else { 80 };
        (self.host(), self.uri.port_u16().unwrap_or(usual))
    }

    /// Its path, with a query after it.
    pub(super) fn path(&self, query: &str) -> String {
        let path = &self.path;
        if query.is_empty() { path.clone() } else { format!("{path}?{query}") }
    }
}

impl std::fmt::Display for Url {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = if self.is_secure { "https" } else { "http" };
        write!(to, "{scheme}://{}{}", self.authority(), self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_cannot_be_used_are_refused_with_a_reason() {
        for (text, word) in [
            ("clickhouse:8123", "http://host:8123"),
            ("https://", "no address"),
            ("http://me:secret@clickhouse", "--password-file"),
            ("", "no address"),
            ("http://a b", "no address"),
            ("http://host:99999", "no valid port"),
            ("http://[::1]:x/", "no valid port"),
            ("http://host:/", "no valid port"),
            ("http://host/?database=x", "--database"),
            ("http://host/#x", "more than a path"),
        ] {
            let error = Url::parse(text).unwrap_err();
            assert!(error.contains(word) && !error.contains("secret"), "{text}: {error}");
        }
        let url = Url::parse("http://[::1]:8123/x").unwrap();
        assert_eq!((url.socket(), url.path("a=b").as_str()), (("::1", 8123), "/x?a=b"));
        assert_eq!(Url::parse("http://host").unwrap().socket(), ("host", 80));
        assert_eq!(Url::parse("https://host").unwrap().socket(), ("host", 443));
    }
}
