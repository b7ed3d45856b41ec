// SPDX-License-Identifier: MIT OR Apache-2.0
//! Environment variables of mpwatch. As in files, a misspelt name is an error: users would expect an ignored variable to have an effect.

use super::keys::{Key, keys};
use super::nearest::suggest;
use crate::error::Failure;

const PREFIX: &str = "MPWATCH_";
/// Variables that do not set a configuration key, with their help texts.
const OTHERS: [(&str, &str); 2] = [
    ("MPWATCH_SCREEN_CONFIG", "File with the settings of the live view; empty for none."),
    ("MPWATCH_LIBBPF_LOG", "If set, print the messages of libbpf."),
];
/// Variables of the tests and of `./dev`, which start mpwatch with their own environment.
const TEST_VARIABLES: [&str; 6] = [
    "MPWATCH_BIN",
    "MPWATCH_BLESS",
    "MPWATCH_DEB",
    "MPWATCH_LAB_TEST_CHILD",
    "MPWATCH_REQUIRE_ALL",
    "MPWATCH_PYTHON",
];
/// Prefixes of further variables of the tests.
const TEST_PREFIXES: [&str; 3] = ["MPWATCH_TEST_", "MPWATCH_BENCH_", "MPWATCH_FUZZ_"];

/// All variables for users, with their help texts.
pub(crate) fn variables() -> Vec<(String, &'static str)> {
    let keys = keys().map(|key| (key.environment(), key.help));
    OTHERS.into_iter().map(|(name, help)| (name.to_owned(), help)).chain(keys).collect()
}

/// Refuses an environment with an unknown `MPWATCH_*` variable.
pub(crate) fn check(names: impl Iterator<Item = String>) -> Result<(), Failure> {
    let mut unknown: Vec<String> = names.filter(|name| !is_known(name)).collect();
    // The order of the environment is arbitrary.
    unknown.sort();
    let Some(name) = unknown.first() else { return Ok(()) };
    // Names are compared without the prefix: with it, all of them would be similar.
    let known = variables();
    let known: Vec<&str> = known.iter().filter_map(|(name, _)| name.strip_prefix(PREFIX)).collect();
    let hint = suggest(name.trim_start_matches(PREFIX), &known);
    let hint = hint.map(|hint| hint.replacen('`', &format!("`{PREFIX}"), 1));
    let hint = hint.unwrap_or_else(|| "mpwatch(1) lists all variables.".to_owned());
    Err(Failure::usage(format!(
        "the environment sets {name}, which mpwatch does not know; {hint} Correct the name or unset it"
    )))
}

fn is_known(name: &str) -> bool {
    !name.starts_with(PREFIX)
        || OTHERS.iter().any(|(known, _)| *known == name)
        || keys().map(Key::environment).any(|known| known == name)
        || TEST_VARIABLES.contains(&name)
        || TEST_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(names: &[&str]) -> Result<(), String> {
        check(names.iter().map(|name| (*name).to_owned())).map_err(|error| error.to_string())
    }

    #[test]
    fn an_unknown_variable_is_an_error_with_the_nearest_name() {
        let error = checked(&["PATH", "MPWATCH_INTERVALL"]).unwrap_err();
        assert!(error.contains("MPWATCH_INTERVALL") && error.contains("`MPWATCH_INTERVAL`?"), "{error}");
        let error = checked(&["MPWATCH_ZZZ"]).unwrap_err();
        assert!(error.contains("mpwatch(1)"), "{error}");
    }

    #[test]
    fn every_key_has_a_variable_that_is_known() {
        let all: Vec<String> = variables().into_iter().map(|(name, _)| name).collect();
        assert!(check(all.into_iter()).is_ok());
        assert!(checked(&["HOME", "MPWATCH_STORE_KEEP", "MPWATCH_TEST_SCALE", "XMPWATCH_A"]).is_ok());
    }
}
