// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values of subflows over time with axes: a line for each subflow in its colour.

use mpwatch_model::flow::connection::Connection;
use mpwatch_model::id::SubflowId;
use mpwatch_model::kernel::endpoint::printable;
use mpwatch_model::metric::{Unit, display, watts};
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

/// Lines of an aggregate; more could not be distinguished.
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

/// The rate at the left, the RTT at the right; in the energy view the power.
fn both(app: &App, frame: &mut Frame<'_>, area: Rect, subjects: &[ChartLine], all: usize) {
    if area.height < 4 || subjects.is_empty() {
        return;
    }
    let half = area.width / 2;
    let left = Rect { width: half.saturating_sub(1), ..area };
    let right = Rect { x: area.x + half, width: area.width - half, ..area };
    let left_out = all - subjects.len();
    let has_power = app.tab == Tab::Energy && app.detail.is_none() && app.knows_energy();
    let other = if has_power { Series::Watts } else { Series::Rtt };
    let time = time(app, subjects, [Series::Rate, other]);
    for (area, series) in [(left, Series::Rate), (right, other)] {
        let title = titles(name_of(series), subjects, left_out);
        let inside = rule(app, frame, area, Text::first_that_fits(title, usize::from(area.width) - 4));
        chart(app, frame, inside, (series, time), subjects);
    }
}

/// The time of the latest value, seconds since 1970, and the length of the time axis before it. Both charts have the same.
fn time(app: &App, subjects: &[ChartLine], series: [Series; 2]) -> (f64, f64) {
    let lines = series.into_iter().flat_map(|series| subjects.iter().map(move |subject| (subject, series)));
    let samples = lines.flat_map(|(subject, series)| runs_of(app, subject, series)).flatten();
    let times: Vec<f64> = samples.map(|(at, _)| at).collect();
    let end = times.iter().copied().fold(f64::MIN, f64::max);
    (end, ticks::window(end - times.iter().copied().fold(end, f64::min)))
}

fn name_of(series: Series) -> &'static str {
    match series {
        Series::Rate => "Rate",
        Series::Rtt => "RTT",
        Series::Watts => "Power",
    }
}

/// The name of a chart with its legend, from the longest form to the shortest.
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

/// Runs of known values of a line, each as pairs: seconds since 1970, value.
fn runs_of(app: &App, subject: &ChartLine, series: Series) -> Vec<Vec<(f64, f64)>> {
    let Some(track) = app.history.subflow(subject.subflow) else { return Vec::new() };
    let (values, spans) = (track.values(series, app.tick()), track.spans(app.tick()));
    let samples: Vec<(f64, f64)> =
        values.iter().zip(spans).map(|(value, (_, end))| (end, f64::from(*value))).collect();
    let known = samples.split(|(_, value)| value.is_nan()).filter(|run| !run.is_empty());
    known.map(<[(f64, f64)]>::to_vec).collect()
}

fn chart(
    app: &App,
    frame: &mut Frame<'_>,
    area: Rect,
    (series, (end, window)): (Series, (f64, f64)),
    subjects: &[ChartLine],
) {
    let mut lines: Vec<(usize, Vec<(f64, f64)>)> = Vec::new();
    for (index, subject) in subjects.iter().enumerate() {
        lines.extend(runs_of(app, subject, series).into_iter().map(|run| (index, run)));
    }
    let samples = || lines.iter().flat_map(|(_, run)| run);
    let max = samples().map(|(_, value)| *value).fold(0.0, f64::max);
    if max <= 0.0 {
        put(app, frame, area, Text::new("  no values yet", Ink::Faint));
        return;
    }
    lines.iter_mut().flat_map(|(_, run)| run).for_each(|(at, _)| *at -= end);
    let theme = app.settings.theme;
    let datasets = lines.iter().map(|(index, run)| {
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

/// Without colours, and in ASCII, lines differ by their marker.
fn marker(app: &App, index: usize) -> Marker {
    match (app.settings.theme, app.settings.ascii, index % 3) {
        (_, true, 0) | (Theme::Mono, _, 1) => Marker::Dot,
        (Theme::Mono, _, 2) | (_, true, 1) => Marker::Block,
        (_, true, _) => Marker::Bar,
        _ => Marker::Braille,
    }
}

/// A value at an axis, without the zeros after its decimal point.
fn written(app: &App, series: Series, value: f64) -> String {
    if value <= 0.0 {
        return "0".to_owned();
    }
    let text = match series {
        Series::Rate => app.settings.units.rate(Some(value)),
        Series::Rtt => display(Unit::Seconds, Some(value)),
        Series::Watts => watts(value),
    };
    match text.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text,
    }
}
