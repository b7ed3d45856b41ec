// SPDX-License-Identifier: MIT OR Apache-2.0
//! Percent-encoding (RFC 3986, 2.1), in queries and in the names of folders, where Hive and its readers expect it.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// All but the unreserved characters (RFC 3986, 2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

pub(crate) fn percent_encoded(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}
