// SPDX-License-Identifier: MIT OR Apache-2.0
//! Addresses of targets.

use std::fmt;

use ureq::http::Uri;
use ureq::http::uri::Authority;

/// An address that was checked: scheme, host and path.
#[derive(Clone, Debug)]
pub(super) struct Url(Uri);

impl Url {
    /// Reads an address. The error says what is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let uri: Uri = text.parse().map_err(|error| format!("`{text}` is not an address: {error}"))?;
        let authority = uri.authority().map(Authority::as_str).unwrap_or_default();
        if uri.host().is_some_and(|host| host.len() < authority.len()) && uri.port_u16().is_none() {
            return Err(format!("`{text}` has no valid port; ports are 1 to 65535"));
        }
        if uri.query().is_some() || text.contains('#') {
            return Err(format!(
                "`{text}` has more than a path; give settings as options, such as --database"
            ));
        }
        Ok(Self(uri))
    }

    /// With this path, if it has none.
    #[cfg(feature = "otlp")]
    pub(super) fn with_default_path(self, path: &str) -> Result<Self, String> {
        if self.0.path() == "/" {
            Self::parse(&format!("{}{path}", self.to_string().trim_end_matches('/')))
        } else {
            Ok(self)
        }
    }

    pub(super) fn is_secure(&self) -> bool {
        self.0.scheme_str() == Some("https")
    }

    /// The address with a query, which may be empty.
    pub(super) fn with_query(&self, query: &str) -> String {
        if query.is_empty() { self.to_string() } else { format!("{self}?{query}") }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_cannot_be_used_are_refused_with_a_reason() {
        for (text, word) in [
            ("http://a b", "not an address"),
            ("http://host:99999", "no valid port"),
            ("http://[::1]:x/", "no valid port"),
            ("http://host:/", "no valid port"),
            ("http://host/?database=x", "--database"),
            ("http://host/#x", "more than a path"),
        ] {
            let error = Url::parse(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
        let url = Url::parse("http://[::1]:8123/x").unwrap();
        assert_eq!(url.with_query("a=b"), "http://[::1]:8123/x?a=b");
        assert_eq!(Url::parse("http://host").unwrap().to_string(), "http://host/");
    }
}
