// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arbitrary text in the place of a filter expression; what parses is applied to a connection.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mpwatch_model::filter::Filter;
use mpwatch_model::fixture;

fuzz_target!(|expression: &str| {
    if let Ok(filter) = Filter::parse(expression) {
        for connection in [fixture::connection(1, 2), fixture::closed(2), fixture::fallen_back(3)] {
            filter.matches(&connection);
        }
    }
});
