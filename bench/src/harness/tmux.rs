// SPDX-License-Identifier: MIT OR Apache-2.0
//! A real terminal for the live view: a separate tmux server without the user's configuration.

use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

/// A terminal. Dropping it ends it and the program in it.
#[derive(Debug)]
pub struct Tmux {
    name: String,
}

impl Tmux {
    /// Starts a command in a terminal of this size: columns, rows.
    pub fn start((columns, rows): (u16, u16), command: &[&str]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let tmux = Self { name: format!("mpwatch-test-{}-{number}", std::process::id()) };
        let (columns, rows) = (columns.to_string(), rows.to_string());
        let start = ["new-session", "-d", "-x", &columns, "-y", &rows];
        let started = tmux.ask(&[&start, command].concat());
        assert!(started.status.success(), "{started:?}");
        tmux
    }

    /// Runs a command of tmux.
    pub fn ask(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("tmux");
        command.args(["-L", &self.name, "-f", "/dev/null"]).args(arguments);
        command.output().expect("tmux can be started: ./dev setup installs it for the tests")
    }

    /// Presses keys, by tmux's names for them.
    pub fn press(&self, keys: &[&str]) {
        assert!(self.ask(&[&["send-keys"], keys].concat()).status.success());
    }

    /// Types letters.
    pub fn type_text(&self, text: &str) {
        assert!(self.ask(&["send-keys", "-l", text]).status.success());
    }

    /// The text on the screen.
    pub fn screen(&self) -> String {
        String::from_utf8_lossy(&self.ask(&["capture-pane", "-p"]).stdout).into_owned()
    }

    /// The text on the screen with its colours, as escape sequences.
    pub fn coloured(&self) -> String {
        String::from_utf8_lossy(&self.ask(&["capture-pane", "-p", "-e"]).stdout).into_owned()
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        // The program receives SIGHUP and cleans up.
        self.ask(&["kill-server"]);
    }
}
