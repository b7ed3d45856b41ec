// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decides from environment variables which characters the terminal can show.

use crate::error::Failure;

/// Whether the terminal shows ASCII only: the locale is not UTF-8, or `TERM` is missing or `dumb`.
pub(crate) fn is_ascii() -> bool {
    is_ascii_in(|name| std::env::var(name).ok())
}

/// `read` reads an environment variable. As in setlocale(3), the first variable that is not empty decides; without one, the locale is `C`.
fn is_ascii_in(read: impl Fn(&str) -> Option<String>) -> bool {
    let read = |name| read(name).filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(read).unwrap_or_default();
    let locale = locale.to_ascii_lowercase();
    let is_utf8 = locale.contains("utf-8") || locale.contains("utf8");
    !is_utf8 || read("TERM").is_none_or(|term| term == "dumb")
}

/// Whether the terminal cannot move its cursor, like the terminal in an editor.
pub(crate) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// Fails on a terminal that cannot move its cursor. `instead`: the command to run there.
pub(crate) fn ensure_cursor(instead: &str) -> Result<(), Failure> {
    if is_dumb() {
        return Err(Failure::usage(format!(
            "this terminal (TERM=dumb) cannot show the live view: use {instead}"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_locale_and_the_terminal_decide() {
        let is_ascii = |variables: &[(&str, &str)]| {
            is_ascii_in(|name| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            })
        };
        let term = ("TERM", "xterm-256color");
        assert!(!is_ascii(&[term, ("LANG", "de_DE.UTF-8")]) && !is_ascii(&[term, ("LC_CTYPE", "C.utf8")]));
        assert!(!is_ascii(&[term, ("LC_ALL", ""), ("LANG", "en_US.UTF-8")]));
        assert!(is_ascii(&[term, ("LC_ALL", "C"), ("LANG", "en_US.UTF-8")]) && is_ascii(&[term]));
        assert!(is_ascii(&[("LANG", "C.UTF-8")]) && is_ascii(&[("TERM", "dumb"), ("LANG", "C.UTF-8")]));
    }
}
