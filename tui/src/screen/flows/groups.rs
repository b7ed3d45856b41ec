// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which subflows share a bottleneck, as a cell of a flow's row: the groups have letters, and brackets that hold them together.

use mpwatch_model::bottleneck::Verdict;
use mpwatch_model::connection::Connection;
use mpwatch_model::id::SubflowId;
use mpwatch_model::subflow::Subflow;

use super::super::finding;
use super::super::text::Text;
use super::super::theme::Ink;
use super::FlowView;

/// The groups behind one bottleneck, each with its letter.
pub(crate) fn groups(connection: &Connection) -> impl Iterator<Item = (usize, &Vec<SubflowId>)> {
    let all = connection.bottlenecks.iter().flat_map(|found| &found.groups);
    all.filter(|group| group.len() > 1).enumerate()
}

/// A letter for a group.
pub(crate) fn letter(group: usize) -> char {
    char::from(b'A' + u8::try_from(group % 26).unwrap_or(0))
}

pub(super) fn bottleneck(view: &FlowView<'_>, width: usize) -> Text {
    match view.subflow {
        Some((_, subflow)) => Text::first_that_fits(of_subflow(view.connection, subflow), width),
        None => Text::first_that_fits(of_connection(view.connection), width),
    }
}

fn of_connection(connection: &Connection) -> Vec<Text> {
    let Some(found) = &connection.bottlenecks else { return vec![Text::default()] };
    let places: Vec<String> = groups(connection)
        .map(|(_, group)| {
            let places =
                group.iter().filter_map(|id| connection.subflow_number(*id)).map(|place| place.to_string());
            places.collect::<Vec<_>>().join("+")
        })
        .collect();
    let is_all = |verdict| found.pairs.iter().all(|pair| pair.verdict == verdict);
    let words = |text: &str, ink| vec![Text::new(text, ink)];
    if !places.is_empty() {
        let all = places.join(" ");
        return vec![
            Text::new(format!("{all} SHARE ONE"), Ink::Warning),
            Text::new(format!("{all} SHARED"), Ink::Warning),
            Text::new("SHARED", Ink::Warning),
        ];
    }
    if connection.is_open() && !finding::has_two_alive(connection) {
        return vec![Text::default()];
    }
    if found.pairs.is_empty() || is_all(Verdict::Unknown) {
        words("not known", Ink::Faint)
    } else if is_all(Verdict::NoBottleneck) {
        words("none", Ink::Faint)
    } else {
        words("separate", Ink::Good)
    }
}

fn of_subflow(connection: &Connection, subflow: &Subflow) -> Vec<Text> {
    for (number, group) in groups(connection) {
        let Some(position) = group.iter().position(|id| *id == subflow.id) else { continue };
        let bracket = match position {
            0 => '╭',
            last if last + 1 == group.len() => '╰',
            _ => '│',
        };
        let letter = letter(number);
        let form = |text: String| Text::new(text, Ink::Group(number));
        return vec![
            form(format!("{bracket} {letter} same queue")),
            form(format!("{bracket} {letter} shared")),
            form(format!("{bracket} {letter}")),
        ];
    }
    vec![Text::default()]
}
