// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses arbitrary text as a filter expression and applies valid filters to connections.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mpwatch_model::filter::Filter;
use mpwatch_fixtures as fixture;

fuzz_target!(|expression: &str| {
    if let Ok(filter) = Filter::parse(expression) {
        for connection in [fixture::connection(1, 2), fixture::closed(2), fixture::fallen_back(3)] {
            filter.matches(&connection);
        }
    }
});
