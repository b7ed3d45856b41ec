// SPDX-License-Identifier: MIT OR Apache-2.0
//! A line of text that the user types.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Text with a cursor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Edit {
    letters: Vec<char>,
    cursor: usize,
}

impl Edit {
    pub(crate) fn new(text: &str) -> Self {
        let letters: Vec<char> = text.chars().collect();
        Self { cursor: letters.len(), letters }
    }

    pub(crate) fn text(&self) -> String {
        self.letters.iter().collect()
    }

    /// The text before the cursor.
    pub(crate) fn before(&self) -> String {
        self.letters[..self.cursor].iter().collect()
    }

    /// Handles a key; returns whether it was one of an input line.
    pub(crate) fn press(&mut self, key: KeyEvent) -> bool {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('a') if control => self.cursor = 0,
            KeyCode::Char('e') if control => self.cursor = self.letters.len(),
            KeyCode::Char('u') if control => {
                self.letters.drain(..self.cursor);
                self.cursor = 0;
            }
            KeyCode::Char('w') if control => self.erase_word(),
            KeyCode::Char(letter) if !control && !letter.is_control() => {
                self.letters.insert(self.cursor, letter);
                self.cursor += 1;
            }
            KeyCode::Backspace if self.cursor > 0 => {
                self.cursor -= 1;
                self.letters.remove(self.cursor);
            }
            KeyCode::Delete if self.cursor < self.letters.len() => {
                self.letters.remove(self.cursor);
            }
            KeyCode::Left => self.cursor = self.cursor.saturating_sub(1),
            KeyCode::Right => self.cursor = (self.cursor + 1).min(self.letters.len()),
            KeyCode::Home => self.cursor = 0,
            KeyCode::End => self.cursor = self.letters.len(),
            _ => return false,
        }
        true
    }

    fn erase_word(&mut self) {
        let mut start = self.cursor;
        while start > 0 && self.letters[start - 1] == ' ' {
            start -= 1;
        }
        while start > 0 && self.letters[start - 1] != ' ' {
            start -= 1;
        }
        self.letters.drain(start..self.cursor);
        self.cursor = start;
    }
}

#[cfg(test)]
mod tests {
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
