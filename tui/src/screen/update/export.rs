// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an export holds: the selected connection, or those that a selected sum is made of.

use mpwatch_model::snapshot::{Report, Run};

use super::super::app::{App, ExportFormat, Request};
use super::super::rows::RowKey;

impl App {
    pub(super) fn export(&mut self, format: ExportFormat) -> Option<Request> {
        let snapshot = self.snapshot()?;
        let connections: Vec<_> = match (&self.detail, &self.table().selected) {
            (None, Some(RowKey::Sum(key))) => {
                let of_sum = self.filtered().map(|(_, one)| one).filter(|one| key.holds(*one));
                of_sum.map(|one| one.connection.clone()).collect()
            }
            _ => self.selected().cloned().into_iter().collect(),
        };
        if connections.is_empty() {
            self.say("nothing is selected");
            return None;
        }
        let run = Run { host: snapshot.host.clone(), from: snapshot.at, to: snapshot.at, cut_short: None };
        let report = Report {
            schema: snapshot.schema,
            run,
            connections,
            counters: snapshot.counters,
            cpus: snapshot.cpus.clone(),
            energy: snapshot.energy.clone(),
            losses: snapshot.losses,
        };
        let report = if self.mask.is_on() { self.mask.report(report) } else { report };
        Some(Request::Export(Box::new(report), format))
    }
}
