// SPDX-License-Identifier: MIT OR Apache-2.0
//! Charts of values over time, with a coloured line for each subflow.

use mpwatch_model::flow::connection::Connection;
use mpwatch_model::id::SubflowId;
use mpwatch_model::kernel::endpoint::printable;
use mpwatch_model::metric::{Unit, display, trimmed, watts};
use ratatui::Frame;
use ratatui::layout::{Alignment, Rect};
use ratatui::symbols::Marker;
use ratatui::text::Line;
use ratatui::widgets::{Axis, Chart, Dataset, GraphType};

use super::frame::{put, rule, styled};
use super::ticks::{self, above};
use crate::history::Series;
use crate::state::app::{App, Rows};
use crate::state::view::Tab;
use crate::text::Text;
use crate::theme::{Ink, Theme};

/// Maximum number of lines in the chart of an aggregate. More lines could not be distinguished.
const MAX_LINES: usize = 7;

/// A line of a chart: its subflow, and its name in the legend.
struct ChartLine {
    subflow: SubflowId,
    name: String,
}

/// Draws the charts of the selected row.
pub(super) fn draw_selection(app: &App, frame: &mut Frame<'_>, area: Rect) {
    if let Some(connection) = app.selected() {
        return draw(app, frame, area, connection);
    }
    let Rows::Aggregates(all) = &app.rows else { return };
    let mut members: Vec<_> = all
        .members(app.table().index)
        .iter()
        .filter_map(|member| Some((member, member.digest(app.context())?)))
        .collect();
    members.sort_by_key(|(_, subflow)| std::cmp::Reverse(subflow.rate()));
    let number = members.len();
    let subjects = members.into_iter().take(MAX_LINES).filter_map(|(member, subflow)| {
        let connection = app.context().connection(member.connection)?;
        let name = format!("{}:{}", connection.id.short(), member.subflow + 1);
        Some(ChartLine { subflow: subflow.id, name })
    });
    both(app, frame, area, &subjects.collect::<Vec<_>>(), number);
}

/// Draws the charts of a connection.
pub(super) fn draw(app: &App, frame: &mut Frame<'_>, area: Rect, connection: &Connection) {
    let subjects = connection.subflows.iter().zip(1..).map(|(subflow, number)| {
        let interface = subflow.interface.map(|name| printable(&name.text()).into_owned());
        ChartLine { subflow: subflow.id, name: format!("{number} {}", interface.unwrap_or_default()) }
    });
    both(app, frame, area, &subjects.collect::<Vec<_>>(), connection.subflows.len());
}

/// Each run: the index of a line, and consecutive known values of this line as pairs of time and value.
type Runs = Vec<(usize, Vec<(f64, f64)>)>;

/// Draws charts of the rate and, at the right, of the RTT (energy view: power), with one time axis. `all`: number of lines before the limit.
fn both(app: &App, frame: &mut Frame<'_>, area: Rect, subjects: &[ChartLine], all: usize) {
    if area.height < 4 || subjects.is_empty() {
        return;
    }
    let half = area.width / 2;
    let left = Rect { width: half.saturating_sub(1), ..area };
    let right = Rect { x: area.x + half, width: area.width - half, ..area };
    let left_out = all - subjects.len();
    let has_power = app.tab == Tab::Energy && app.detail.is_none() && app.knows_energy();
    let other = if has_power { ("Power", Series::Watts) } else { ("RTT", Series::Rtt) };
    let mut charts = [(left, ("Rate", Series::Rate)), (right, other)]
        .map(|(area, (name, series))| (area, name, series, runs(app, subjects, series)));
    let times = charts.iter().flat_map(|(.., runs)| runs).flat_map(|(_, run)| run).map(|(at, _)| *at);
    let end = times.clone().fold(f64::MIN, f64::max);
    let window = ticks::window(end - times.fold(end, f64::min));
    for (area, name, series, runs) in &mut charts {
        let title = titles(name, subjects, left_out);
        let inside = rule(app, frame, *area, Text::first_that_fits(title, usize::from(area.width) - 4));
        runs.iter_mut().flat_map(|(_, run)| run).for_each(|(at, _)| *at -= end);
        chart(app, frame, inside, (*series, window), runs);
    }
}

/// The title of a chart (its name and legend), from the longest form to the shortest.
fn titles(name: &str, subjects: &[ChartLine], left_out: usize) -> [Text; 3] {
    let title = |legend: fn(&str) -> &str| {
        let text =
            subjects.iter().enumerate().fold(Text::new(name, Ink::Strong), |text, (index, subject)| {
                text.and(format!("  {}", legend(&subject.name).trim_end()), Ink::Path(index))
            });
        if left_out == 0 { text } else { text.and(format!("  and {left_out} more"), Ink::Faint) }
    };
    [title(|name| name), title(|name| name.split(' ').next().unwrap_or(name)), Text::new(name, Ink::Strong)]
}

/// The runs of known values of all lines; times are seconds since 1970.
fn runs(app: &App, subjects: &[ChartLine], series: Series) -> Runs {
    let mut runs = Runs::new();
    for (index, subject) in subjects.iter().enumerate() {
        let track = app.history.subflows.get(subject.subflow);
        let values = track.map(|track| track.spans(series, app.tick())).unwrap_or_default();
        let samples: Vec<_> = values.into_iter().map(|((_, end), value)| (end, f64::from(value))).collect();
        let known = samples.split(|(_, value)| value.is_nan()).filter(|run| !run.is_empty());
        runs.extend(known.map(|run| (index, run.to_vec())));
    }
    runs
}

fn chart(app: &App, frame: &mut Frame<'_>, area: Rect, (series, window): (Series, f64), runs: &Runs) {
    let max = runs.iter().flat_map(|(_, run)| run).map(|(_, value)| *value).fold(0.0, f64::max);
    if max <= 0.0 {
        put(app, frame, area, Text::new("  no values yet", Ink::Faint));
        return;
    }
    let theme = app.settings.theme;
    let datasets = runs.iter().map(|(index, run)| {
        let line = Dataset::default().data(run).marker(marker(app, *index)).graph_type(GraphType::Line);
        line.style(theme.style(Ink::Path(*index)))
    });
    let label = |text: String| styled(Text::new(text, Ink::Faint), theme);
    let top =
        if series == Series::Rate && app.settings.units.bytes { above(max / 8.0) * 8.0 } else { above(max) };
    let values = [0.0, top / 2.0, top].map(|value| label(written(app, series, value)));
    let times = [window, window / 2.0, 0.0].map(|seconds| label(ticks::ago(seconds)));
    let axis = |labels: [Line<'static>; 3]| Axis::default().labels(labels).style(theme.style(Ink::Faint));
    let chart = Chart::new(datasets.collect())
        .x_axis(axis(times).bounds([-window, 0.0]))
        .y_axis(axis(values).bounds([0.0, top]).labels_alignment(Alignment::Right));
    frame.render_widget(chart, area);
}

/// Without colours, and in ASCII, lines differ only by their marker.
fn marker(app: &App, index: usize) -> Marker {
    match (app.settings.theme, app.settings.ascii, index % 3) {
        (_, true, 0) | (Theme::Mono, _, 1) => Marker::Dot,
        (Theme::Mono, _, 2) | (_, true, 1) => Marker::Block,
        (_, true, _) => Marker::Bar,
        _ => Marker::Braille,
    }
}

/// The label of a value at an axis, without trailing zeros after the decimal point.
fn written(app: &App, series: Series, value: f64) -> String {
    if value <= 0.0 {
        return "0".to_owned();
    }
    trimmed(&match series {
        Series::Rate => app.settings.units.rate(Some(value)),
        Series::Rtt => display(Unit::Seconds, Some(value)),
        Series::Watts => watts(value),
    })
}
