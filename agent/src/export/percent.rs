// SPDX-License-Identifier: MIT OR Apache-2.0
//! Percent-encoding (RFC 3986, 2.1), in queries and in names of folders, where Hive and its readers have it.

/// A text in which only unreserved characters (RFC 3986, 2.3) are as they were.
pub(super) fn percent_encoded(text: &str) -> String {
    let is_unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes()
        .map(|byte| if is_unreserved(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_but_unreserved_characters_are_encoded() {
        assert_eq!(percent_encoded("INSERT a.`b`"), "INSERT%20a.%60b%60");
        assert_eq!(percent_encoded("a-b_c.d~/\u{fc}"), "a-b_c.d~%2F%C3%BC");
    }
}
