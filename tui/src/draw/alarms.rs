// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines below the tabs that report a lost daemon, a demo, and missing or simulated data, most important first.

use mpwatch_model::host::energy::EnergySource;
use mpwatch_model::kernel::endpoint::printable;
use mpwatch_model::snapshot::Snapshot;
use unicode_width::UnicodeWidthStr as _;

use crate::state::app::App;
use crate::state::key::Action;
use crate::state::message::Link;
use crate::text::{Text, clip};
use crate::theme::Ink;

pub(crate) fn lines(app: &App) -> Vec<Text> {
    let mut lines = Vec::new();
    if let Link::Gone(why) = &app.link {
        lines.push(Text::new(format!("DAEMON GONE, showing old data, reconnecting: {why}"), Ink::Alarm));
    }
    lines.extend(app.settings.banner.iter().map(|banner| match app.link {
        Link::Ended => {
            let key = app.settings.keys.key(Action::Quit);
            let text =
                format!("THE DEMO IS OVER: explore the screen, or press {key} to quit and see its report");
            Text::new(text, Ink::Warning)
        }
        _ => Text::new(banner.clone(), Ink::Accent),
    }));
    let Some(snapshot) = app.snapshot() else { return lines };
    // A line that is cut still shows the key that opens the complete list.
    let more = format!(" ({}: more)", app.settings.keys.key(Action::Health));
    let room = usize::from(app.size.0).saturating_sub(more.width());
    lines.extend(alarms(snapshot).into_iter().map(|(text, ink, has_more)| {
        Text::new(if has_more { format!("{}{more}", clip(&text, room)) } else { text }, ink)
    }));
    lines
}

/// A line for each kind of data that is missing or simulated. The flag states whether the health view shows more about this data.
pub(crate) fn alarms(snapshot: &Snapshot) -> Vec<(String, Ink, bool)> {
    let mut lines = Vec::new();
    if snapshot.losses.any() {
        lines.push((format!("INCOMPLETE: {}", snapshot.losses.phrases().join("; ")), Ink::Alarm, true));
    }
    if snapshot.energy.as_ref().is_some_and(|energy| energy.source == EnergySource::Simulated) {
        lines.push(("SIMULATED ENERGY: no counter of this machine was read".to_owned(), Ink::Alarm, false));
    }
    for (title, is_reduction) in [("not available on this kernel", false), ("reduced by trace.budget", true)]
    {
        let hooks = snapshot.host.missing.iter().filter(|hook| hook.is_reduction() == is_reduction);
        let costs: Vec<_> = hooks.map(|hook| printable(&hook.costs)).collect();
        if !costs.is_empty() {
            lines.push((format!("{title}: {}", costs.join("; ")), Ink::Warning, true));
        }
    }
    lines
}
