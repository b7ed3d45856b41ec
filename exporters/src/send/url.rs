// SPDX-License-Identifier: MIT OR Apache-2.0
//! Addresses of targets.

use ureq::http::Uri;
use ureq::http::uri::Authority;

/// Reads an address: scheme, host and path. The error says what is wrong with it.
pub(super) fn parse(text: &str) -> Result<Uri, String> {
    let uri: Uri = text.parse().map_err(|error| format!("`{text}` is not an address: {error}"))?;
    let authority = uri.authority().map(Authority::as_str).unwrap_or_default();
    if uri.host().is_some_and(|host| host.len() < authority.len()) && uri.port_u16().is_none() {
        return Err(format!("`{text}` has no valid port; ports are 1 to 65535"));
    }
    if uri.query().is_some() || text.contains('#') {
        return Err(format!("`{text}` has more than a path; give settings as options, such as --database"));
    }
    Ok(uri)
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
            let error = parse(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
        assert_eq!(parse("http://[::1]:8123/x").unwrap().to_string(), "http://[::1]:8123/x");
        assert_eq!(parse("http://host").unwrap().to_string(), "http://host/");
    }
}
