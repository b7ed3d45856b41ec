// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shared caps, counted: of which networks our own method said that subflows divide a rate without sharing a queue. Only those with a queue
//! for each flow under one rate have such a cap. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::cell::{App, Layout};
use super::tables::OURS;
use super::truth::Labels;
use super::verdict::Verdicts;
use crate::table::markdown;

/// Counts over connections with two subflows or more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Told {
    connections: u32,
    /// A cap was told of at some time.
    ever: u32,
    /// And at the end.
    at_the_end: u32,
    /// It had all subflows in it at the end.
    all_in: u32,
}

/// What was told, by the kind of network.
#[derive(Clone, Debug, Default)]
pub struct Table(BTreeMap<String, Told>);

impl Table {
    /// Takes in a cell.
    pub fn add(&mut self, labels: &Labels, verdicts: &Verdicts) {
        let cell = &labels.cell;
        let layout = match cell.layout {
            Layout::Shared => "one queue",
            Layout::Fair => &format!(
                "one rate, a queue for each (buffer {} ms, {})",
                cell.buffer_ms(),
                cell.congestion.name()
            ),
            Layout::Switching => "a route that changes",
            Layout::Disjoint | Layout::Partly | Layout::TwoRates => "several links",
        };
        let app = if cell.app == App::Limited { ", sends 70 %" } else { "" };
        let told = self.0.entry(format!("{layout}{app}")).or_default();
        let all: BTreeSet<u64> = verdicts.subflows.values().map(|one| one.connection).collect();
        for connection in all {
            let looks = verdicts.looks(OURS, connection);
            let Some(last) = looks.last().filter(|look| !look.pairs.is_empty()) else { continue };
            told.connections += 1;
            told.ever += u32::from(looks.iter().any(|look| !look.caps.is_empty()));
            told.at_the_end += u32::from(!last.caps.is_empty());
            told.all_in += u32::from(last.caps.iter().any(|cap| cap.len() == cell.subflows));
        }
    }

    /// As Markdown.
    pub fn markdown(&self) -> String {
        let header = ["network", "connections", "a cap told", "at the end", "with all subflows"];
        let row = |(network, told): (&String, &Told)| {
            let Told { connections, ever, at_the_end, all_in } = told;
            let numbers = [connections, ever, at_the_end, all_in].map(ToString::to_string);
            [&[network.clone()][..], &numbers].concat()
        };
        markdown(&header, &self.0.iter().map(row).collect::<Vec<_>>())
    }
}
