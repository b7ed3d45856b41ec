// SPDX-License-Identifier: MIT OR Apache-2.0
//! A line of text that the user types.

use mpwatch_model::filter;
use ratatui::crossterm::event::{Event, KeyEvent};
use tui_input::Input;
use tui_input::backend::crossterm::EventHandler as _;

#[derive(Clone, Debug, Default)]
pub(crate) struct Edit(Input);

impl Edit {
    pub(crate) fn new(text: &str) -> Self {
        Self(text.into())
    }

    pub(crate) fn text(&self) -> String {
        self.0.value().to_owned()
    }

    pub(crate) fn before(&self) -> String {
        self.0.value().chars().take(self.0.cursor()).collect()
    }

    /// Terms of a filter that begin with the word before the cursor.
    pub(crate) fn suggestions(&self) -> Vec<String> {
        let before = self.before();
        let word = before.rsplit(' ').next().unwrap_or_default();
        let word = word.strip_prefix('!').unwrap_or(word);
        if word.is_empty() { Vec::new() } else { filter::completions(word) }
    }

    /// Appends the common prefix of all suggestions to the word before the cursor. Returns whether the text has changed.
    pub(crate) fn complete(&mut self) -> bool {
        let suggestions = self.suggestions();
        let Some(first) = suggestions.first() else { return false };
        let is_common =
            |length: &usize| suggestions.iter().all(|text| text.get(..*length) == first.get(..*length));
        let common = (0..=first.len()).rev().find(is_common).and_then(|length| first.get(..length));
        let before = self.before();
        let word = before.rsplit([' ', '!']).next().unwrap_or_default();
        let missing = common.and_then(|common| common.strip_prefix(word)).unwrap_or_default().to_owned();
        let after: String = self.0.value().chars().skip(self.0.cursor()).collect();
        let cursor = self.0.cursor() + missing.chars().count();
        self.0 = Input::new(format!("{before}{missing}{after}")).with_cursor(cursor);
        !missing.is_empty()
    }

    /// Handles a key. Returns whether the key has a meaning in an input line.
    pub(crate) fn press(&mut self, key: KeyEvent) -> bool {
        self.0.handle_event(&Event::Key(key)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use ratatui::crossterm::event::{KeyCode, KeyModifiers};

    use super::*;

    #[test]
    fn keys_edit_the_line() {
        let mut edit = Edit::new("rate>1");
        let press = |edit: &mut Edit, code| edit.press(KeyEvent::new(code, KeyModifiers::NONE));
        assert!(press(&mut edit, KeyCode::Char('M')));
        press(&mut edit, KeyCode::Home);
        press(&mut edit, KeyCode::Delete);
        press(&mut edit, KeyCode::Char('R'));
        assert_eq!((edit.text(), edit.before()), ("Rate>1M".to_owned(), "R".to_owned()));
        press(&mut edit, KeyCode::Backspace);
        assert_eq!(edit.text(), "ate>1M");
        assert!(!press(&mut edit, KeyCode::Enter));
        let mut edit = Edit::new("one two ");
        edit.press(KeyEvent::new(KeyCode::Char('w'), KeyModifiers::CONTROL));
        assert_eq!(edit.text(), "one ");
        edit.press(KeyEvent::new(KeyCode::Char('u'), KeyModifiers::CONTROL));
        assert_eq!(edit.text(), "");
    }

    #[test]
    fn a_word_is_completed_by_the_common_prefix_of_its_suggestions() {
        let complete = |text: &str| {
            let mut edit = Edit::new(text);
            let changed = edit.complete();
            (edit.text(), changed)
        };
        assert_eq!(complete("rate>1M pe"), ("rate>1M peer:".to_owned(), true));
        assert_eq!(complete("!sha"), ("!shared".to_owned(), true));
        assert_eq!(complete("p"), ("p".to_owned(), false));
        assert_eq!(Edit::new("p").suggestions(), ["peer:", "port:", "proc:", "pod:"]);
        assert_eq!(complete("role:c"), ("role:client".to_owned(), true));
        assert_eq!(complete("peer:"), ("peer:".to_owned(), false));
        assert_eq!(complete("xyz "), ("xyz ".to_owned(), false));
        let mut edit = Edit::new("pr rate>1M");
        edit.press(KeyEvent::new(KeyCode::Home, KeyModifiers::NONE));
        for _ in 0..2 {
            edit.press(KeyEvent::new(KeyCode::Right, KeyModifiers::NONE));
        }
        assert!(edit.complete());
        assert_eq!((edit.text(), edit.before()), ("proc: rate>1M".to_owned(), "proc:".to_owned()));
    }
}
