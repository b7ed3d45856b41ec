// SPDX-License-Identifier: MIT OR Apache-2.0
//! A line of text that the user types.

use ratatui::crossterm::event::{Event, KeyEvent};
use tui_input::Input;
use tui_input::backend::crossterm::EventHandler as _;

/// Text with a cursor.
#[derive(Clone, Debug, Default)]
pub(crate) struct Edit(Input);

impl Edit {
    pub(crate) fn new(text: &str) -> Self {
        Self(text.into())
    }

    pub(crate) fn text(&self) -> String {
        self.0.value().to_owned()
    }

    /// The text before the cursor.
    pub(crate) fn before(&self) -> String {
        self.0.value().chars().take(self.0.cursor()).collect()
    }

    /// Handles a key; returns whether it was one of an input line.
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
}
