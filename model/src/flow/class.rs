// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flow classes by size, from `[UPD18]` and `[MPTCP-D]`.

use crate::unit::Bytes;
use crate::words::json_words;

/// Maximum payload of a query: `[UPD18]` uses 10 KB, and 128 KB in its network without other traffic.
const LARGEST_QUERY: Bytes = Bytes(128 << 10);
/// Maximum payload of a short flow: in `[MPTCP-D]`, a flow of more than 1 MB is long.
const LARGEST_SHORT: Bytes = Bytes(1_000_000);

json_words! {
    /// Size class of a flow, as used in the data-centre literature.
    pub enum FlowClass {
        /// Up to 128 KiB.
        Query = "query",
        /// Up to 1 MB.
        Short = "short",
        /// More than 1 MB.
        Long = "long",
    }
}

impl FlowClass {
    /// The sizes of this class in words.
    pub fn range(self) -> String {
        let short = LARGEST_SHORT.0 / 1_000_000;
        match self {
            Self::Query => format!("up to {} KiB", LARGEST_QUERY.0 >> 10),
            Self::Short => format!("up to {short} MB"),
            Self::Long => format!("more than {short} MB"),
        }
    }

    /// The sizes of all classes in words.
    pub fn legend() -> String {
        let classes = [Self::Query, Self::Short, Self::Long];
        let ranges = classes.map(|class| format!("{}: {}", class.as_str(), class.range()));
        format!("{}, by the payload of the busier direction", ranges.join(", "))
    }

    /// The class of a flow by the payload of its busier direction.
    pub fn from_payload(sent: Bytes, received: Bytes) -> Self {
        match sent.max(received) {
            size if size <= LARGEST_QUERY => Self::Query,
            size if size <= LARGEST_SHORT => Self::Short,
            _ => Self::Long,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busier_direction_decides() {
        assert_eq!(FlowClass::from_payload(Bytes(10_000), Bytes(0)), FlowClass::Query);
        assert_eq!(FlowClass::from_payload(Bytes(300), Bytes(500_000)), FlowClass::Short);
        assert_eq!(FlowClass::from_payload(Bytes(25_000_000), Bytes(0)), FlowClass::Long);
    }

    #[test]
    fn the_legend_has_the_limits() {
        let legend = "query: up to 128 KiB, short: up to 1 MB, long: more than 1 MB, by the payload of the busier direction";
        assert_eq!(FlowClass::legend(), legend);
    }
}
