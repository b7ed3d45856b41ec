// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ids of traces and spans: hashes of the connection's identity, so that a record that is resent has the same ids.

use mpwatch_model::flow::end::{End, EndColumns};
use ring::digest::{SHA256, digest};

/// Id of the trace of a connection. Both ends compute the same id, unless a token is unknown.
pub(super) fn trace(end: &End, columns: &EndColumns) -> Vec<u8> {
    match end.pair(columns) {
        Some(pair) => hash(&format!("mptcp pair {pair:016x}"), 16),
        None => hash(&identity(end, columns), 16),
    }
}

pub(super) fn connection_span(end: &End, columns: &EndColumns) -> Vec<u8> {
    hash(&identity(end, columns), 8)
}

pub(super) fn subflow_span(end: &End, columns: &EndColumns, subflow: &str) -> Vec<u8> {
    hash(&format!("{}\n{subflow}", identity(end, columns)), 8)
}

fn identity(end: &End, columns: &EndColumns) -> String {
    let text = |name: &str| end.text(columns, name).unwrap_or_default();
    format!("{}\n{}", text("boot_id"), text("id"))
}

/// The first bytes of a hash of a text.
fn hash(text: &str, bytes: usize) -> Vec<u8> {
    digest(&SHA256, text.as_bytes()).as_ref().iter().copied().take(bytes).collect()
}
