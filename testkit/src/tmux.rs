// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a command in a real terminal: a separate tmux server without user configuration.

use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

/// A terminal. Dropping it ends the terminal and the command.
#[derive(Debug)]
pub struct Tmux {
    name: String,
}

impl Tmux {
    /// Starts a command in a terminal of `columns` x `rows`.
    pub fn start((columns, rows): (u16, u16), command: &[&str]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let tmux = Self { name: format!("mpwatch-test-{}-{number}", std::process::id()) };
        let (columns, rows) = (columns.to_string(), rows.to_string());
        let start = ["new-session", "-d", "-x", &columns, "-y", &rows];
        let started = tmux.run(&[&start, command].concat());
        assert!(started.status.success(), "{started:?}");
        tmux
    }

    /// Runs a tmux command.
    pub fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("tmux");
        command.args(["-L", &self.name, "-f", "/dev/null"]).args(arguments);
        command.output().expect("tmux can be started: ./dev setup installs it for the tests")
    }

    /// Presses keys, by their tmux names.
    pub fn press(&self, keys: &[&str]) {
        assert!(self.run(&[&["send-keys"], keys].concat()).status.success());
    }

    /// Types text.
    pub fn type_text(&self, text: &str) {
        assert!(self.run(&["send-keys", "-l", text]).status.success());
    }

    /// The text on the screen.
    pub fn screen(&self) -> String {
        String::from_utf8_lossy(&self.run(&["capture-pane", "-p"]).stdout).into_owned()
    }

    /// The text on the screen with escape sequences for its colours.
    pub fn coloured(&self) -> String {
        String::from_utf8_lossy(&self.run(&["capture-pane", "-p", "-e"]).stdout).into_owned()
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        // The command gets SIGHUP and cleans up.
        self.run(&["kill-server"]);
    }
}
