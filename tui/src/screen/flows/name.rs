// SPDX-License-Identifier: MIT OR Apache-2.0
//! The first cell of a flow's row: who it is, and what is not as usual with it, as much of it as there is room for.

use mpwatch_model::endpoint::printable;
use mpwatch_model::lifecycle::{Protocol, Role, TcpState};
use mpwatch_model::outage;
use mpwatch_model::subflow::Subflow;

use super::super::app::Tab;
use super::super::finding;
use super::super::text::Text;
use super::super::theme::Ink;
use super::FlowView;

pub(super) fn flow(view: &FlowView<'_>, width: usize) -> Text {
    match view.subflow {
        Some((place, subflow)) => Text::first_that_fits(subflow_forms(view, place, subflow), width),
        None => Text::first_that_fits(connection_forms(view), width),
    }
}

fn connection_forms(view: &FlowView<'_>) -> Vec<Text> {
    let (c, mask) = (view.connection, &view.app.mask);
    let fold = match (view.app.tab, c.subflows.is_empty(), view.folded) {
        // Nothing unfolds there.
        (Tab::Energy, ..) => "",
        (_, true, _) => "  ",
        (_, _, true) => "▸ ",
        (_, _, false) => "▾ ",
    };
    let arrow = if c.role == Some(Role::Server) { "←" } else { "→" };
    let id = c.id.short();
    let name = c.process.map_or_else(|| "-".to_owned(), |p| mask.name("process", &p.comm.text()));
    let pid = c.process.filter(|_| !mask.is_on()).map(|p| format!("/{}", p.pid)).unwrap_or_default();
    let [local, remote] =
        [c.local, c.remote].map(|end| end.map_or_else(|| "-".to_owned(), |at| mask.address(at)));
    let remote_ip = c.remote.map_or_else(|| "-".to_owned(), |at| mask.ip(at.ip()));
    let (tag, ink) = match (c.is_open(), c.fallback.is_some(), c.protocol) {
        (false, ..) => (" closed", Ink::Faint),
        (_, true, _) => (" fallback", Ink::Warning),
        (.., Protocol::Tcp) => (" TCP", Ink::Faint),
        _ => ("", Ink::Normal),
    };
    let form = |text: String, ends: String| {
        let all = Text::plain(fold).and(text, Ink::Strong).and(ends, Ink::Normal).and(tag, ink);
        if c.is_open() { all } else { all.all(Ink::Faint) }
    };
    vec![
        form(format!("{id} {name}{pid}"), format!(" {local} {arrow} {remote}")),
        form(format!("{id} {name}"), format!(" {arrow} {remote}")),
        form(format!("{id} {name}"), format!(" {arrow} {remote_ip}")),
        form(name.clone(), format!(" {arrow} {remote_ip}")),
        form(format!("{id} {name}"), String::new()),
        form(name.clone(), String::new()),
    ]
}

fn subflow_forms(view: &FlowView<'_>, place: usize, subflow: &Subflow) -> Vec<Text> {
    let mask = &view.app.mask;
    let branch = if view.last { "╰─ " } else { "├─ " };
    let interface =
        subflow.interface.map_or_else(|| "-".to_owned(), |name| printable(&name.text()).into_owned());
    let number = format!("{} ", place + 1);
    let [local, remote] = [subflow.local, subflow.remote].map(|end| mask.ip(end.ip()));
    let arrow = if view.connection.role == Some(Role::Server) { "←" } else { "→" };
    let ends = format!(" {local} {arrow} {remote}");
    let faint = if subflow.closed.is_some() { Ink::Faint } else { Ink::Normal };
    let form = |interface: &str, (tag, ink): (String, Ink), ends: &str| {
        let tag = if tag.is_empty() || interface.is_empty() { tag } else { format!(" {tag}") };
        let head = Text::new(branch, Ink::Faint).and(number.clone(), Ink::Path(place));
        head.and(interface, faint).and(tag, ink).and(ends, faint)
    };
    let [full, short] = tags(view, subflow);
    // After what is wrong with it the other end alone would read as a part of that.
    let remote_only = if full.0.is_empty() { format!(" {arrow} {remote}") } else { String::new() };
    vec![
        form(&interface, full.clone(), &ends),
        form(&interface, full.clone(), &remote_only),
        form(&interface, full, ""),
        form(&interface, short.clone(), ""),
        form("", short, ""),
    ]
}

/// What is not as usual with a subflow, in two lengths.
fn tags(view: &FlowView<'_>, subflow: &Subflow) -> [(String, Ink); 2] {
    let both = |long: String, short: &str, ink| [(long, ink), (short.to_owned(), ink)];
    let died = outage::path_failure(view.connection, subflow).map(|death| death.at);
    let when = died.map(|at| finding::offset(view.connection, at));
    match (subflow.closed, subflow.state) {
        (Some(closed), _) if closed.reason.is_failure() && when.is_some() => {
            let when = when.unwrap_or_default();
            let long = format!("✗ DIED {when}: {}", closed.reason.short());
            [(long, Ink::Alarm), (format!("✗ DIED {when}"), Ink::Alarm)]
        }
        (Some(closed), _) => both(format!("closed: {}", closed.reason.short()), "closed", Ink::Faint),
        (None, _) if subflow.stale => {
            let when = when.map(|when| format!(" {when}")).unwrap_or_default();
            [(format!("✗ DIED{when}: no ACKs"), Ink::Alarm), (format!("✗ DIED{when}"), Ink::Alarm)]
        }
        (None, TcpState::SynSent | TcpState::SynRecv) => both("opening".to_owned(), "opening", Ink::Faint),
        (None, TcpState::Established) if subflow.backup => both("backup".to_owned(), "backup", Ink::Faint),
        (None, TcpState::Established) => both(String::new(), "", Ink::Normal),
        (None, _) => both("closing".to_owned(), "closing", Ink::Faint),
    }
}
