// SPDX-License-Identifier: MIT OR Apache-2.0
//! libFuzzer with one of the targets, which the environment variable `MPWATCH_FUZZ_TARGET` names. `./dev fuzz` runs it.
#![no_main]

use std::sync::LazyLock;

use mpwatch_fuzz::{TARGETS, Target};

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let wanted = std::env::var("MPWATCH_FUZZ_TARGET").unwrap_or_default();
    let found = TARGETS.iter().find(|(name, _)| *name == wanted);
    found.unwrap_or_else(|| panic!("MPWATCH_FUZZ_TARGET must name a target, not {wanted:?}")).1
});

libfuzzer_sys::fuzz_target!(|input: &[u8]| TARGET(input));
