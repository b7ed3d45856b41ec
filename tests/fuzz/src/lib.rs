// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fuzz targets: functions of arbitrary bytes that must not panic. README.md describes their inputs.

mod decode;
mod http;
mod trees;

use mpwatch_fixtures as fixture;
use mpwatch_model::filter::Filter;

/// A function of arbitrary bytes.
pub type Target = fn(&[u8]);

/// All targets by name. The corpus of a target has the same name.
pub const TARGETS: [(&str, Target); 11] = [
    ("decode", decode::record),
    ("replay", |input| mpwatch::fuzz::replay(input)),
    ("replay_compressed", |input| mpwatch::fuzz::replay_compressed(input)),
    ("filter", |input| filter(&text(input))),
    ("config", |input| mpwatch::fuzz::config(&text(input))),
    ("web_config", |input| drop(mpwatch_exporters::http::fuzz::web_config(&text(input)))),
    ("http", http::requests),
    ("socket", socket),
    ("powercap", |input| trees::powercap(&text(input))),
    ("btf", trees::btf),
    ("kubernetes", |input| mpwatch::fuzz::kubernetes(&text(input))),
];

/// Replaces invalid UTF-8 by replacement characters, as the program does when it reads text.
fn text(input: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(input)
}

/// A filter expression. A valid expression is applied to connections, and its text must parse to the same filter.
fn filter(expression: &str) {
    if let Ok(filter) = Filter::parse(expression) {
        assert_eq!(Filter::parse(&filter.to_string()).as_ref(), Ok(&filter));
        for connection in [fixture::connection(1, 2), fixture::closed(2), fixture::fallen_back(3)] {
            filter.matches(&connection);
        }
    }
}

/// Bytes that a client of the daemon's socket receives.
fn socket(input: &[u8]) {
    if let Err(error) = mpwatch::fuzz::socket(input) {
        panic!("there is no pair of sockets: {error}");
    }
}

#[cfg(test)]
mod tests;
