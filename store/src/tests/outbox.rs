// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each change of a connection is read for each target until the target has confirmed it, also across restarts and while a writer runs.

use mpwatch_model::flow::end::{End, cell};
use mpwatch_model::table::{Cell, Row};

use super::*;
use crate::feed::outbox::{Outbox, StoredEnd, end_columns};

fn value(end: &End, name: &str) -> Option<Cell> {
    end.cell(&end_columns(), name).cloned()
}

/// The tokens of connections, in their order.
fn tokens(ends: &[StoredEnd]) -> Vec<u32> {
    let token = |end: &StoredEnd| match value(&end.end, "token") {
        Some(Cell::Text(text)) => u32::from_str_radix(&text, 16).unwrap(),
        other => panic!("{other:?}"),
    };
    ends.iter().map(token).collect()
}

fn closed(tokens: std::ops::RangeInclusive<u32>) -> Vec<Connection> {
    tokens.map(fixture::closed).collect()
}

fn write(file: &std::path::Path, second: i64, connections: Vec<Connection>) {
    let store = Store::open(file, &Limits::none()).unwrap();
    store.deliver(&tick(second, connections));
    store.close();
}

#[test]
fn connections_that_were_not_confirmed_are_read_again() {
    let (_folder, file) = folder();
    write(&file, 0, closed(1..=5));
    let mut first = Outbox::open(&file, "a").unwrap();
    assert_eq!(tokens(&first.next(None, 2, false).unwrap()), [1, 2]);
    first.confirm().unwrap();
    assert_eq!(tokens(&first.next(None, 2, false).unwrap()), [3, 4]);
    drop(first);
    let mut again = Outbox::open(&file, "a").unwrap();
    assert_eq!(again.backlog().unwrap().connections, 3);
    assert_eq!(tokens(&again.next(None, 9, false).unwrap()), [3, 4, 5]);
    again.confirm().unwrap();
    assert!(again.next(None, 9, false).unwrap().is_empty());
    assert_eq!(tokens(&Outbox::open(&file, "b").unwrap().next(None, 9, false).unwrap()), [1, 2, 3, 4, 5]);
    again.rewind();
    assert_eq!(again.next(None, 9, false).unwrap().len(), 5);
}

#[test]
fn a_row_that_changes_after_confirmation_is_read_again_with_a_greater_version() {
    let (_folder, file) = folder();
    let store = Store::open(&file, &Limits::none()).unwrap();
    let mut open = fixture::connection(1, 2);
    open.age_s = 20.0;
    store.deliver(&tick(0, vec![open.clone(), fixture::closed(2)]));
    let mut outbox = Outbox::open(&file, "a").unwrap();
    let before = committed(&mut outbox, 2);
    outbox.confirm().unwrap();
    let mut end = fixture::closed(1);
    end.id = open.id;
    store.deliver(&tick(1, vec![end]));
    let after = committed(&mut outbox, 1);
    assert_eq!(tokens(&after), [1]);
    assert!(value(&after[0].end, "closed_at_ns").is_some());
    let earlier = before.iter().find(|end| tokens(&[(*end).clone()]) == [1]).unwrap();
    assert!(after[0].version > earlier.version && value(&earlier.end, "closed_at_ns").is_none());
    assert_eq!(after[0].end.subflows.len(), 2);
    store.close();
}

/// Waits until the writer has committed this many changes.
#[track_caller]
fn committed(outbox: &mut Outbox, count: u64) -> Vec<StoredEnd> {
    outbox.count_backlog().unwrap();
    wait_until(|| outbox.backlog().unwrap().connections >= count);
    outbox.next(None, 100, false).unwrap()
}

#[test]
fn rows_of_a_later_run_come_after_those_of_an_earlier_one() {
    let (_folder, file) = folder();
    write(&file, 0, closed(1..=2));
    let mut outbox = Outbox::open(&file, "a").unwrap();
    outbox.next(None, 9, false).unwrap();
    outbox.confirm().unwrap();
    write(&file, 100, closed(3..=4));
    assert_eq!(tokens(&outbox.next(None, 9, false).unwrap()), [3, 4]);
}

#[test]
fn connections_of_at_most_a_hundred_days_are_read_at_once() {
    let (_folder, file) = folder();
    let mut connections = closed(1..=230);
    for (connection, days) in connections.iter_mut().zip(0..) {
        connection.shift(days / 2 * 86_400_000_000_000);
    }
    write(&file, 0, connections);
    let mut outbox = Outbox::open(&file, "a").unwrap();
    assert_eq!(tokens(&outbox.next(None, 300, false).unwrap()).len(), 200);
    assert_eq!(tokens(&outbox.next(None, 300, false).unwrap()).len(), 30);
    assert!(outbox.next(None, 300, false).unwrap().is_empty());
}

#[test]
fn since_omits_connections_that_closed_before() {
    let (_folder, file) = folder();
    let mut later = closed(2..=2);
    later[0].shift(3_600_000_000_000);
    write(&file, 0, [closed(1..=1), later.clone()].concat());
    let mut outbox = Outbox::open(&file, "a").unwrap();
    let since = later[0].opened_at;
    assert_eq!(tokens(&outbox.next(since, 9, false).unwrap()), [2]);
}

#[test]
fn a_file_is_opened_while_it_is_written_but_must_exist() {
    let (_folder, file) = folder();
    write(&file, 0, closed(1..=2));
    let _lock = crate::lock::Lock::acquire(&file).unwrap();
    assert_eq!(tokens(&Outbox::open(&file, "a").unwrap().next(None, 9, false).unwrap()), [1, 2]);
    let missing = Outbox::open(&file.with_extension("other"), "a").err().unwrap().to_string();
    assert!(missing.contains("no such file"), "{missing}");
}

#[test]
fn connections_that_retention_deletes_before_confirmation_are_counted_as_lost() {
    let (_folder, file) = folder();
    write(&file, 0, closed(1..=5));
    let backlog = |target: &str| {
        let outbox = Outbox::open(&file, target).unwrap();
        outbox.count_backlog().unwrap();
        outbox.backlog().unwrap()
    };
    let mut outbox = Outbox::open(&file, "a").unwrap();
    outbox.next(None, 2, false).unwrap();
    outbox.confirm().unwrap();
    assert_eq!((backlog("a").connections, backlog("b").connections), (3, 5));
    assert!(backlog("a").oldest.is_some());
    // A run that lasts more than an hour makes all five too old.
    let limits = Limits { age: Some(Duration::from_hours(1)), ..Limits::none() };
    let store = Store::open(&file, &limits).unwrap();
    store.deliver(&tick(86_400, Vec::new()));
    store.deliver(&tick(90_400, Vec::new()));
    store.close();
    let lost = |target: &str| (backlog(target).connections, backlog(target).oldest, backlog(target).lost);
    assert_eq!((lost("a"), lost("b"), lost("new")), ((0, None, 3), (0, None, 5), (0, None, 0)));
    assert!(outbox.is_current());
    std::fs::rename(&file, file.with_extension("other")).unwrap();
    assert!(!outbox.is_current());
}

#[test]
fn the_first_confirmation_creates_the_cursor_of_a_target() {
    let (_folder, file) = folder();
    write(&file, 0, closed(1..=2));
    let cursors = || {
        let database = Database::open(&file).unwrap();
        database.query_one("SELECT count(*) FROM export_cursor", [], |row| row.get::<_, i64>(0)).unwrap()
    };
    // A mistyped address must not leave a cursor.
    let mut outbox = Outbox::open(&file, "a").unwrap();
    outbox.next(None, 1, false).unwrap();
    assert_eq!(cursors(), 0);
    outbox.confirm().unwrap();
    assert_eq!((cursors(), outbox.backlog().unwrap().connections), (1, 1));
}

#[test]
fn the_timeline_is_read_on_request_only() {
    let (_folder, file) = folder();
    write(&file, 0, closed(1..=1));
    let events = |with_events| {
        let ends = Outbox::open(&file, "a").unwrap().next(None, 9, with_events).unwrap();
        ends.into_iter().flat_map(|stored| stored.end.events).collect::<Vec<_>>()
    };
    assert_eq!(events(false), Vec::<Row>::new());
    let columns = end_columns().event;
    let names: Vec<String> = events(true)
        .iter()
        .filter_map(|row| cell(&columns, row, "event")?.text())
        .map(str::to_owned)
        .collect();
    assert!(names.contains(&"opened".to_owned()), "{names:?}");
    assert!(names.contains(&"closed".to_owned()), "{names:?}");
}
