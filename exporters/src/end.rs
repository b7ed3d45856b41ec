// SPDX-License-Identifier: MIT OR Apache-2.0
//! One end of a connection, and the columns that ends have.

use mpwatch_model::table::{Column, Row};

/// The columns of ends, as the database's views have them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndColumns {
    /// Of the connection.
    pub connection: Vec<Column>,
    /// Of each subflow.
    pub subflow: Vec<Column>,
    /// Of the verdict on each pair of subflows.
    pub bottleneck: Vec<Column>,
}

/// A connection as one host saw it. Each row has the cells of the columns of the same name in [`EndColumns`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct End {
    /// The connection.
    pub connection: Row,
    /// Its subflows, in the order in which they were seen.
    pub subflows: Vec<Row>,
    /// The verdicts on pairs of its subflows. Empty: not evaluated, or fewer than two subflows.
    pub bottlenecks: Vec<Row>,
}

/// The number that both ends of a connection have in common: the lesser of their tokens in the upper 32 bits, the greater one in the lower.
/// `None`: a token is unknown, as of plain TCP, or is no hexadecimal number of 32 bits.
pub fn pair(token: Option<&str>, remote_token: Option<&str>) -> Option<u64> {
    let number = |text: Option<&str>| u32::from_str_radix(text?, 16).ok();
    let (one, other) = (number(token)?, number(remote_token)?);
    Some(u64::from(one.min(other)) << 32 | u64::from(one.max(other)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_compute_the_same_pair() {
        let expected = Some(0x0000_0001_ffff_fffe);
        assert_eq!(pair(Some("00000001"), Some("fffffffe")), expected);
        assert_eq!(pair(Some("fffffffe"), Some("00000001")), expected);
        for unknown in
            [(None, Some("1")), (Some("1"), None), (Some("x"), Some("1")), (Some("100000000"), Some("1"))]
        {
            assert_eq!(pair(unknown.0, unknown.1), None, "{unknown:?}");
        }
    }
}
