// SPDX-License-Identifier: MIT OR Apache-2.0
//! The columns of the two kinds of rows. A number's title and form come from the metric table; what is written here is
//! only which columns there are, in which order, and which of them go first when the screen is narrow.

use mpwatch_model::connection::Connection;
use mpwatch_model::endpoint::printable;
use mpwatch_model::lifecycle::TcpState;
use mpwatch_model::metric::{self, CONNECTION, Metric, SUBFLOW, Unit};
use mpwatch_model::subflow::Subflow;

use crate::cell::{Cell, bar, endpoints, pad};
use crate::layout::Wish;
use crate::style::Ink;

/// One subflow with what its row needs of its connection.
pub(crate) struct Path<'a> {
    pub(crate) place: usize,
    pub(crate) connection: &'a Connection,
    pub(crate) subflow: &'a Subflow,
}

/// A column of rows that `F` reads.
pub(crate) struct Column<F: ?Sized> {
    pub(crate) title: &'static str,
    pub(crate) wish: Wish,
    /// Stands at the right of its column.
    pub(crate) number: bool,
    /// Gives way to the reason in the row of a closed subflow.
    pub(crate) yields: bool,
    pub(crate) cell: Box<F>,
}

pub(crate) type ConnectionColumn = Column<dyn Fn(&Connection) -> Cell>;
pub(crate) type PathColumn = Column<dyn Fn(&Path<'_>) -> Cell>;

fn connection_text(
    title: &'static str,
    rank: u8,
    (least, full): (usize, usize),
    cell: fn(&Connection) -> Cell,
) -> ConnectionColumn {
    let wish = Wish { least, full, rank, extra: false };
    Column { title, wish, number: false, yields: false, cell: Box::new(cell) }
}

fn path_text(
    title: &'static str,
    rank: u8,
    (least, full): (usize, usize),
    cell: fn(&Path<'_>) -> Cell,
) -> PathColumn {
    let wish = Wish { least, full, rank, extra: false };
    Column { title, wish, number: false, yields: false, cell: Box::new(cell) }
}

fn metric_wish<T>(metric: &Metric<T>, rank: u8, extra: bool) -> Wish {
    // Counts are short, values with a unit take six letters, seconds by the thousand more.
    let usual = if matches!(metric.unit, Unit::Count | Unit::Segments) { 4 } else { 6 };
    let least = metric.title.len().max(usual);
    Wish { least, full: least + 1, rank, extra }
}

fn connection_metric(name: &str, rank: u8, extra: bool) -> Option<ConnectionColumn> {
    let metric = metric::find(CONNECTION, name)?;
    let wish = metric_wish(metric, rank, extra);
    let cell = Box::new(|c: &Connection| Cell::new(metric.compact(c)));
    Some(Column { title: metric.title, wish, number: true, yields: false, cell })
}

fn path_metric(name: &str, rank: u8, extra: bool) -> Option<PathColumn> {
    let metric = metric::find(SUBFLOW, name)?;
    let wish = metric_wish(metric, rank, extra);
    let cell = Box::new(|path: &Path<'_>| Cell::new(metric.compact(path.subflow)));
    Some(Column { title: metric.title, wish, number: true, yields: true, cell })
}

/// The columns that both kinds of rows end with: the same metric of a connection and of a subflow. Where more is received
/// than sent, the received bytes are what a narrow screen keeps.
pub(crate) fn shared(wide: bool, receiver: bool) -> (Vec<ConnectionColumn>, Vec<PathColumn>) {
    let bytes: &[&str] = match (wide, receiver) {
        (true, _) => &["sent_bytes_total", "received_bytes_total"],
        (false, false) => &["sent_bytes_total"],
        (false, true) => &["received_bytes_total"],
    };
    let names = ["send_bits_per_second", "receive_bits_per_second"].iter().chain(bytes);
    let pairs = names.filter_map(|name| {
        let connection = connection_metric(&format!("mpwatch_connection_{name}"), 0, false)?;
        let path = path_metric(&format!("mpwatch_subflow_{name}"), 0, false)?;
        Some((connection, Column { yields: false, ..path }))
    });
    pairs.unzip()
}

/// What stands before those in a connection's row.
pub(crate) fn of_connection(wide: bool) -> Vec<ConnectionColumn> {
    let state_width = if wide { 11 } else { 6 };
    let mut columns = vec![
        connection_text("ID", 1, (8, 8), |c| Cell::new(c.id.short())),
        connection_text("PROCESS", 4, (7, 22), process),
        connection_text("LOCAL → REMOTE", 2, (16, 80), |c| endpoints(c.local, c.remote, c.role)),
        connection_text("PROTOCOL", 5, (8, 45), protocol),
        connection_text("STATE", 6, (state_width, state_width), |c| state(c.state)),
        connection_text("PATHS", 3, (5, 5), paths),
        Column {
            wish: Wish { least: 5, full: 15, rank: 8, extra: true },
            ..connection_text("NETNS", 8, (5, 15), netns)
        },
    ];
    let costs = [
        ("mpwatch_connection_active_joules_total", 7, false),
        ("mpwatch_connection_cpu_seconds_total", 9, true),
        ("mpwatch_connection_joules_per_gigabyte", 10, true),
    ];
    columns.extend(costs.iter().filter_map(|&(name, rank, extra)| connection_metric(name, rank, extra)));
    columns
}

/// What stands before those in a subflow's row.
pub(crate) fn of_path(wide: bool) -> Vec<PathColumn> {
    let mark_width = if wide { 7 } else { 1 };
    let mut columns = vec![
        path_text("  #", 1, (3, 3), |path| Cell::new(format!("{:>3}", path.place))),
        path_text("", 2, (mark_width, mark_width), mark),
        path_text("IF", 3, (4, 15), interface),
        path_text("LOCAL → REMOTE", 3, (17, 80), |path| {
            endpoints(Some(path.subflow.local), Some(path.subflow.remote), path.connection.role)
        }),
        Column { number: true, ..path_text("SHARE", 4, (10, 17), share) },
    ];
    let numbers = [
        ("mpwatch_subflow_srtt_seconds", 5, false),
        ("mpwatch_subflow_rtt_p50_seconds", 8, false),
        ("mpwatch_subflow_rtt_p99_seconds", 6, false),
        ("mpwatch_subflow_retransmitted_segments_total", 7, false),
        ("mpwatch_subflow_congestion_window_segments", 9, false),
        ("mpwatch_subflow_timeouts_total", 13, true),
        ("mpwatch_subflow_rtt_min_seconds", 12, true),
        ("mpwatch_subflow_handshake_seconds", 11, true),
        ("mpwatch_subflow_joined_after_seconds", 10, true),
        ("mpwatch_subflow_cpu_seconds_total", 14, true),
        ("mpwatch_subflow_active_joules_total", 15, true),
    ];
    columns.extend(numbers.iter().filter_map(|&(name, rank, extra)| path_metric(name, rank, extra)));
    columns
}

fn process(connection: &Connection) -> Cell {
    let Some(process) = connection.process else { return Cell::new("-") };
    let comm = process.comm.text();
    let comm = printable(&comm);
    Cell::either(vec![format!("{comm}/{}", process.pid), comm.into_owned()])
}

fn protocol(connection: &Connection) -> Cell {
    match connection.fallback {
        Some(fallback) => {
            let reason = format!("fallback: {}", fallback.reason.description());
            Cell::either(vec![reason, "fallback".to_owned()]).ink(Ink::Warning)
        }
        None => Cell::new(connection.protocol.as_str()),
    }
}

fn state(state: TcpState) -> Cell {
    match state {
        TcpState::Close => Cell::new("closed"),
        TcpState::Established => Cell::either(vec!["established".to_owned(), "estab".to_owned()]),
        other => Cell::new(other.as_str()),
    }
}

/// Open subflows, of all that there were.
fn paths(connection: &Connection) -> Cell {
    let all = connection.subflows.len();
    let open = connection.subflows.iter().filter(|s| s.closed.is_none()).count();
    Cell::new(if open == all { open.to_string() } else { format!("{open}/{all}") })
}

fn netns(connection: &Connection) -> Cell {
    Cell::new(printable(&connection.netns))
}

fn interface(path: &Path<'_>) -> Cell {
    let name =
        path.subflow.interface.map_or_else(|| "-".to_owned(), |name| printable(&name.text()).into_owned());
    Cell::new(name)
}

/// What is not as usual with a subflow, as a word and as a letter.
fn mark(path: &Path<'_>) -> Cell {
    let subflow = path.subflow;
    let (word, letter, ink) = match subflow.state {
        _ if subflow.closed.is_some() => ("closed", "x", Ink::Faint),
        _ if subflow.stale => ("stale", "!", Ink::Alarm),
        TcpState::SynSent | TcpState::SynRecv => ("opening", "+", Ink::Normal),
        TcpState::Established if subflow.backup => ("backup", "b", Ink::Faint),
        TcpState::Established => ("", "", Ink::Normal),
        _ => ("closing", "-", Ink::Faint),
    };
    Cell::either(vec![word.to_owned(), letter.to_owned()]).ink(ink)
}

fn share(path: &Path<'_>) -> Cell {
    let percent = metric::compact(Unit::Ratio, path.subflow.share_sent);
    let share = path.subflow.share_sent.unwrap_or(0.0);
    let with_bar = (3..=10)
        .rev()
        .map(|width| format!("{} {}", pad(&bar(share, width), width, false), pad(&percent, 6, true)));
    Cell::either(with_bar.chain([percent.clone()]).collect()).ink(Ink::Bar)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_that_a_column_names_is_in_the_table() {
        assert_eq!(of_path(true).len(), 5 + 11);
        let (connection, path) = shared(true, false);
        assert_eq!((connection.len(), path.len()), (4, 4));
    }
}
