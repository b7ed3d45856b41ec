// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ids of flows. They are derived only from kernel values, so they do not change in the life of a flow, even if the agent is restarted.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The cookie of a network namespace. It is unique for the life of the kernel and never reused (kernel 5.12 and later).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct NetnsCookie(pub u64);

/// The cookie of a socket. The kernel assigns it once and never reuses it within one boot. Zero: not assigned yet.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct SocketCookie(pub u64);

/// The token of a connection in MP_JOIN: the first 32 bits of the SHA-256 of a key (RFC 8684 section 2.2). Zero: no token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u32);

impl Token {
    /// The token. `None`: zero, which is not a token.
    pub fn known(self) -> Option<Self> {
        (self.0 != 0).then_some(self)
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

/// A connection: `netns-token-birth`, each in hexadecimal. `birth` is the socket cookie of the MPTCP socket; it distinguishes two
/// connections that got the same token one after the other. For plain TCP it is the cookie of the TCP socket; bits 48 to 63 count
/// the earlier connections of that socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId {
    /// Namespace of the socket.
    pub netns: NetnsCookie,
    /// Local token; zero for plain TCP.
    pub token: Token,
    /// Cookie of the MPTCP socket; zero until it has one. If the token is unknown as well, the cookie of the first subflow instead.
    pub birth: SocketCookie,
}

impl ConnectionId {
    /// The short form: the token; for plain TCP the cookie. Filters and `show` accept it instead of the whole id.
    pub fn short(&self) -> String {
        self.token.known().map_or_else(|| format!("{:x}", self.birth.0), |token| token.to_string())
    }
}

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{}-{:x}", self.netns.0, self.token, self.birth.0)
    }
}

/// A subflow: `cookie.generation`. The kernel may reuse the socket of a removed first subflow; each use has its own generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubflowId {
    /// Cookie of the TCP socket.
    pub cookie: SocketCookie,
    /// How often the socket was connected again since its first record.
    pub generation: u32,
}

impl fmt::Display for SubflowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}.{}", self.cookie.0, self.generation)
    }
}

/// Serializes an id as the text of `Display`, given its pattern, a description, and a parser.
macro_rules! id_as_string {
    ($($name:ident: $pattern:literal, $expected:literal, |$text:ident| $parse:expr;)*) => {$(
        impl FromStr for $name {
            type Err = NotAnId;

            fn from_str($text: &str) -> Result<Self, NotAnId> {
                let parse = || $parse;
                parse().ok_or_else(|| NotAnId { text: $text.to_owned(), expected: $expected })
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "pattern": $pattern })
            }
        }
    )*};
}
id_as_string! {
    Token: "^[0-9a-f]{8}$", "a token of eight hexadecimal digits", |text| u32::from_str_radix(text, 16).ok().map(Self);
    ConnectionId: "^[0-9a-f]+-[0-9a-f]{8}-[0-9a-f]+$", "a connection id, netns-token-birth in hexadecimal", |text| {
        let mut parts = text.split('-').map(|part| u64::from_str_radix(part, 16).ok());
        let (netns, token, birth) = (parts.next()??, parts.next()??, parts.next()??);
        let token = Token(u32::try_from(token).ok()?);
        parts.next().is_none().then_some(Self { netns: NetnsCookie(netns), token, birth: SocketCookie(birth) })
    };
    SubflowId: "^[0-9a-f]+\\.[0-9]+$", "a subflow id; an id has the form 1a2b.0: cookie in hexadecimal, generation", |text| {
        let (cookie, generation) = text.split_once('.')?;
        let cookie = SocketCookie(u64::from_str_radix(cookie, 16).ok()?);
        Some(Self { cookie, generation: generation.parse().ok()? })
    };
}

/// The error for a text that is not a valid id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct NotAnId {
    text: String,
    expected: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_read_as_their_parts() {
        let id = ConnectionId { netns: NetnsCookie(0x1001), token: Token(0xabc), birth: SocketCookie(0x2f) };
        assert_eq!(id.to_string(), "1001-00000abc-2f");
        assert_eq!(SubflowId { cookie: SocketCookie(0x30), generation: 1 }.to_string(), "30.1");
    }
    #[test]
    fn a_subflow_id_is_read_back_from_its_text() {
        let id = SubflowId { cookie: SocketCookie(u64::MAX), generation: 7 };
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(serde_json::to_string(&id).unwrap(), "\"ffffffffffffffff.7\"");
        assert_eq!(serde_json::from_str::<SubflowId>("\"ffffffffffffffff.7\"").unwrap(), id);
        assert!("30".parse::<SubflowId>().unwrap_err().to_string().contains("`30` is not a subflow id"));
    }
}
