// SPDX-License-Identifier: MIT OR Apache-2.0
//! Addresses of flows and the interfaces that carry them.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A short name from the kernel (interface, process): at most 15 bytes, stored inline so that reading 100 000 subflows does not allocate.
/// Each byte that is not UTF-8 becomes `?`, so that the text never exceeds 15 bytes and a replay has the same name.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(from = "String")]
pub struct Name([u8; 16]);

impl Name {
    /// Reads a NUL-terminated field of the kernel.
    pub fn from_kernel(bytes: [u8; 16]) -> Self {
        let length = bytes.iter().position(|&byte| byte == 0).unwrap_or(15).min(15);
        let mut name = [0; 16];
        name[..length].copy_from_slice(&bytes[..length]);
        let mut at = 0;
        for chunk in bytes[..length].utf8_chunks() {
            at += chunk.valid().len();
            name[at..][..chunk.invalid().len()].fill(b'?');
            at += chunk.invalid().len();
        }
        Self(name)
    }

    /// The name as text.
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.0[..self.0.iter().position(|&byte| byte == 0).unwrap_or(16)])
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text())
    }
}

impl Serialize for Name {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text())
    }
}

impl From<String> for Name {
    fn from(text: String) -> Self {
        let mut bytes = [0; 16];
        bytes.iter_mut().zip(text.bytes().take(15)).for_each(|(byte, letter)| *byte = letter);
        Self::from_kernel(bytes)
    }
}

impl JsonSchema for Name {
    fn schema_name() -> Cow<'static, str> {
        "Name".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string" })
    }
}

/// The interface through which a subflow sends, from the route cached in its socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Interface {
    /// Index in its namespace.
    pub index: u32,
    /// Name in its namespace.
    pub name: Name,
}

/// Whether a character can move or reorder the characters around it: control characters, line separators, and bidirectional controls
/// (Unicode's `Bidi_Control`), which can reorder the line that contains them.
fn is_unprintable(c: char) -> bool {
    let is_bidi =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || is_bidi || matches!(c, '\u{2028}' | '\u{2029}')
}

/// Makes a name chosen by others (process, namespace, control group) safe for a terminal: it must not move the cursor, and not forge or
/// reorder a line. JSON contains the original name.
pub fn printable(text: &str) -> Cow<'_, str> {
    if text.chars().any(is_unprintable) {
        Cow::Owned(text.chars().map(|c| if is_unprintable(c) { '\u{fffd}' } else { c }).collect())
    } else {
        Cow::Borrowed(text)
    }
}

/// The same for text of several lines, such as the answer of a server. Tabs are kept.
pub fn printable_lines(text: &str) -> String {
    let keep = |c: char| if is_unprintable(c) && !matches!(c, '\n' | '\t') { '\u{fffd}' } else { c };
    text.chars().map(keep).collect()
}

/// Like [`printable`], but an unprintable character becomes its code, such as `\u{1b}`, so that labels of different names stay different.
pub fn escaped(text: &str) -> String {
    let escape = |c: char| if is_unprintable(c) { c.escape_unicode().collect() } else { c.to_string() };
    text.chars().map(escape).collect()
}

/// Length of the IP header of this address family, in bytes, without options.
pub fn ip_header_bytes(address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(_) => 20,
        IpAddr::V6(_) => 40,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_ends_at_its_nul_or_at_fifteen_bytes() {
        assert_eq!(Name::from_kernel(*b"eth0\0garbage....").text(), "eth0");
        assert_eq!(Name::from_kernel([b'x'; 16]).text().len(), 15);
        let broken = Name::from_kernel(*b"\xff\xfe\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(broken.text(), "??");
    }

    #[test]
    fn a_name_that_is_not_utf8_is_read_back_as_it_was_written() {
        // The kernel cuts names at 15 bytes, possibly within a character, and a process may have any bytes in its name.
        for bytes in
            [*b"\xdc\xdc\xdc\xdc\xdc\xdc\xdc\xdc\xdc\xdc\xdc\xdc\xdc\xdc\xdc\0", *b"abcdefghijklm\xe4\xb8\0"]
        {
            let name = Name::from_kernel(bytes);
            let json = serde_json::to_string(&name).unwrap();
            assert_eq!(serde_json::from_str::<Name>(&json).unwrap(), name, "{json}");
        }
    }

    #[test]
    fn a_name_cannot_control_the_terminal() {
        assert_eq!(printable("nginx: worker"), "nginx: worker");
        assert_eq!(printable("a\x1b[2Jb\n\u{9b}c"), "a\u{fffd}[2Jb\u{fffd}\u{fffd}c");
        for bidi in "\u{61c}\u{200e}\u{200f}\u{202a}\u{202e}\u{2066}\u{2069}\u{2028}".chars() {
            assert_eq!(printable(&format!("ssh{bidi}d")), "ssh\u{fffd}d");
        }
        assert_eq!(escaped("a\x1bb\""), "a\\u{1b}b\"");
        assert_eq!(printable_lines("a\tb\n\x1b[2J"), "a\tb\n\u{fffd}[2J");
        assert_eq!(printable("שרת"), "שרת", "letters of all scripts are kept");
    }
}
