// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rate and RTT over time, a line for each subflow in its colour.

use mpwatch_model::connection::Connection;
use mpwatch_model::metric::{Unit, display};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::symbols::Marker;
use ratatui::widgets::{Axis, Chart, Dataset, GraphType};

use super::frame::{put, rule};
use crate::history::{SAMPLES, Series, Span};
use crate::state::app::App;
use crate::text::Text;
use crate::theme::{Ink, Theme};

/// Draws the rate at the left and the RTT at the right.
pub(super) fn draw(app: &App, frame: &mut Frame<'_>, area: Rect, connection: &Connection) {
    if area.height < 4 {
        return;
    }
    let half = area.width / 2;
    let left = Rect { width: half.saturating_sub(1), ..area };
    let right = Rect { x: area.x + half, width: area.width - half, ..area };
    let lines = |series| lines(app, connection, series);
    let rate = |value| app.settings.units.rate(value);
    chart(app, frame, left, ("Rate", &rate, lines(Series::Rate)));
    let seconds = |value| display(Unit::Seconds, Some(value));
    chart(app, frame, right, ("RTT", &seconds, lines(Series::Rtt)));
}

/// What a chart shows.
struct Lines {
    /// The points of each subflow: position in time, value.
    points: Vec<Vec<(f64, f64)>>,
    /// From the first point to the last. `None`: there are none.
    span: Option<Span>,
}

fn lines(app: &App, connection: &Connection, series: Series) -> Lines {
    let mut span: Option<Span> = None;
    let mut points_of = |subflow: &mpwatch_model::subflow::Subflow| {
        let Some(track) = app.history.subflow(subflow.id) else { return Vec::new() };
        let (values, spans) = (track.values(series, app.tick()), track.spans(app.tick()));
        let first = SAMPLES - values.len().min(SAMPLES);
        let known = values.iter().zip(spans).zip(first..).filter(|((value, _), _)| !value.is_nan());
        let point = |((value, (begin, end)), at): ((&f32, Span), usize)| {
            let (from, to) = span.unwrap_or((begin, end));
            span = Some((from.min(begin), to.max(end)));
            (at as f64, f64::from(*value))
        };
        known.map(point).collect()
    };
    let points = connection.subflows.iter().map(&mut points_of).collect();
    Lines { points, span }
}

fn chart(
    app: &App,
    frame: &mut Frame<'_>,
    area: Rect,
    (name, write, lines): (&str, &dyn Fn(f64) -> String, Lines),
) {
    let Lines { points: lines, span } = lines;
    let max = lines.iter().flatten().map(|(_, value)| *value).fold(0.0, f64::max);
    let first = lines.iter().filter_map(|points| points.first()).map(|(at, _)| *at);
    let first = first.fold(SAMPLES as f64, f64::min);
    let duration = span
        .map(|(from, to)| format!(", over {}", display(Unit::Seconds, Some(to - from))))
        .unwrap_or_default();
    let title = |by: &str, duration: &str| {
        let head = Text::new(format!("{name} "), Ink::Strong).and(by, Ink::Faint);
        let numbered =
            (0..lines.len()).fold(head, |text, index| text.and(format!("{} ", index + 1), Ink::Path(index)));
        numbered.and(format!("up to {}{duration}", write(max)), Ink::Faint)
    };
    let titles = [title("by subflow ", &duration), title("by subflow ", ""), title("", "")];
    let room = usize::from(area.width).saturating_sub(4);
    let inside = rule(app, frame, area, Text::first_that_fits(titles, room));
    if max <= 0.0 {
        put(app, frame, inside, Text::new("  no values yet", Ink::Faint));
        return;
    }
    let theme = app.settings.theme;
    let datasets = lines.iter().enumerate().map(|(index, points)| {
        // Without colours, lines differ by their marker.
        let marker = match (theme, index % 3) {
            (Theme::Mono, 1) => Marker::Dot,
            (Theme::Mono, 2) => Marker::Block,
            _ => Marker::Braille,
        };
        let line = Dataset::default().data(points).marker(marker).graph_type(GraphType::Line);
        line.style(theme.style(Ink::Path(index)))
    });
    let last = SAMPLES as f64 - 1.0;
    let chart = Chart::new(datasets.collect())
        .x_axis(Axis::default().bounds([first.min(last - 9.0), last]))
        .y_axis(Axis::default().bounds([0.0, max * 1.05]));
    frame.render_widget(chart, inside);
}
