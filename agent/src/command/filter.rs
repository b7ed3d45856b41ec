// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--netns` and `--filter` select the connections that a command shows.

use mpwatch_ebpf::namespace;
use mpwatch_engine::tracker::Selection;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::snapshot::{Report, Snapshot};

use crate::cli::FilterOptions;
use crate::error::Failure;
use crate::why::no_namespace;

impl FilterOptions {
    pub(super) fn selects(&self, connection: &Connection) -> bool {
        let is_in = |netns: &String| {
            connection.netns == *netns || format!("net:[{}]", connection.netns_inode) == *netns
        };
        self.netns.as_ref().is_none_or(is_in)
            && self.filter.as_ref().is_none_or(|filter| filter.matches(connection))
    }

    /// The selection of connections for the report of a run. `None`: all.
    pub(super) fn selection(&self) -> Option<Selection> {
        let options = self.narrows().then(|| self.clone())?;
        Some(Box::new(move |connection| options.selects(connection)))
    }

    /// Whether the options can hide a connection.
    pub(super) fn narrows(&self) -> bool {
        self.netns.is_some() || self.filter.is_some()
    }

    pub(super) fn apply(&self, mut snapshot: Snapshot) -> Snapshot {
        snapshot.connections.retain(|connection| self.selects(connection));
        snapshot
    }

    pub(super) fn apply_to_report(&self, mut report: Report) -> Report {
        let mut connections = std::mem::take(&mut report.connections);
        let all = connections.len();
        connections.retain(|connection| self.selects(connection));
        report.filtered_out += all - connections.len();
        report.is_of_namespace |= self.netns.is_some();
        report.with(connections)
    }

    /// Fails if no namespace of this machine has the name in `--netns`, or if mpwatch calls it by another name.
    pub(super) fn ensure_namespace(&self) -> Result<(), Failure> {
        let Some(wanted) = &self.netns else { return Ok(()) };
        let Some(found) = namespace::find(wanted) else { return Err(no_namespace(wanted)) };
        match found.name {
            Some(name) if name != *wanted && !wanted.starts_with("net:[") => Err(Failure::usage(format!(
                "mpwatch calls the network namespace `{wanted}` by another name; write `--netns {name}`"
            ))),
            _ => Ok(()),
        }
    }
}
