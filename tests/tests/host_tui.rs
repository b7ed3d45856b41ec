// SPDX-License-Identifier: MIT OR Apache-2.0
//! The live view in a real terminal (tmux) with the demo's real traffic. The tests press keys as a user does, and check that the
//! terminal is restored however the program ends.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::fs;
use std::path::PathBuf;
use std::process::Output;
use std::time::Duration;

use mpwatch_lab::poll_until;
use mpwatch_tests::tmux::Tmux;
use mpwatch_tests::{may_run_as_root, program};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

const TIMEOUT: Duration = Duration::from_mins(1);

/// A terminal in which a shell runs the program and saves the terminal settings before and after.
struct Session {
    tmux: Tmux,
    folder: TempDir,
}

impl Session {
    /// Runs the program with arguments, and with variables in the syntax of `env`.
    fn start(arguments: &str, variables: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let script = format!(
            "cd {folder}\nstty -a > before\nsh -c 'echo $$ > pid; exec env LC_ALL=C.UTF-8 {variables} {program} {arguments} 2> errors'\n\
             echo $? > code\nstty -a > after\nexec sleep 600\n",
            folder = folder.path().display(),
            program = program().display(),
        );
        let path = folder.path().join("script");
        fs::write(&path, script).unwrap();
        let tmux = Tmux::start((120, 40), &["sh", &path.display().to_string()]);
        Self { tmux, folder }
    }

    fn press(&self, keys: &[&str]) {
        self.tmux.press(keys);
    }

    /// Runs a tmux command.
    fn tmux(&self, arguments: &[&str]) -> Output {
        self.tmux.run(arguments)
    }

    /// Waits until the screen is as expected, and returns its text.
    #[track_caller]
    fn wait_for(&self, what: &str, is_expected: impl Fn(&str) -> bool) -> String {
        let mut last = String::new();
        let found = poll_until(what, TIMEOUT, || {
            last = self.tmux.screen();
            is_expected(&last).then(|| last.clone())
        });
        let ended =
            || format!("exit code `{}`, errors `{}`", self.read("code").trim(), self.read("errors").trim());
        found.unwrap_or_else(|error| panic!("{error}; {}; the screen:\n{last}", ended()))
    }

    #[track_caller]
    fn wait_for_words(&self, words: &str) -> String {
        self.wait_for(words, |screen| screen.contains(words))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.read("pid").trim().parse().unwrap())
    }

    /// Waits for the end of the program and returns its exit code. Asserts that the terminal is restored.
    #[track_caller]
    fn wait_for_exit(&self) -> String {
        let after = poll_until("the program to end", TIMEOUT, || {
            Some(self.read("after")).filter(|after| after.ends_with('\n'))
        });
        assert_eq!(after.unwrap(), self.read("before"), "{}", self.read("errors"));
        let screen = self.wait_for("the previous screen", |screen| !screen.contains("Connections]"));
        let cursor =
            self.tmux(&["display-message", "-p", "#{cursor_flag} #{alternate_on} #{mouse_any_flag}"]);
        assert_eq!(String::from_utf8_lossy(&cursor.stdout).trim(), "1 0 0", "{screen}");
        self.read("code").trim().to_owned()
    }
}

/// The lines between the tabs and the last line. They do not change on a frozen screen.
fn table(screen: &str) -> Vec<String> {
    let lines: Vec<String> = screen.lines().map(str::to_owned).collect();
    lines[2..lines.len() - 1].to_vec()
}

#[test]
fn a_user_can_sort_filter_freeze_and_navigate() {
    if !may_run_as_root() {
        return;
    }
    let session = Session::start("demo two-paths --seconds 600", "MPWATCH_SCREEN_CONFIG=");
    session.wait_for("both subflows", |screen| screen.contains("├─ 1") && screen.contains("╰─ 2"));
    session.wait_for_words("DEMO");

    session.press(&["s"]);
    session.wait_for_words("Sort by");
    session.press(&["Down", "Enter"]);
    session.wait_for_words("CONNECTION▼");

    session.press(&["/"]);
    session.tmux.type_text("peer:192.0.2.77");
    session.wait_for_words("None of 2 connections matches");
    session.press(&["C-u"]);
    session.tmux.type_text("colour:red");
    session.wait_for_words("✗");
    session.press(&["C-u"]);
    session.tmux.type_text("role:client");
    session.wait_for_words("1 connection ");
    session.press(&["Enter"]);
    session.wait_for_words("filter: role:client");

    session.press(&["Enter"]);
    session.wait_for("the detail", |screen| screen.contains("Timeline") && screen.contains("─ RTT "));
    session.press(&["Escape"]);
    session.wait_for("the table again", |screen| !screen.contains("Timeline"));

    session.press(&["Space"]);
    // The badge counts new snapshots. The rest of the screen does not change.
    let first = session.wait_for_words("PAUSED, 1 back");
    let later = session.wait_for_words("PAUSED, 3 back");
    assert_eq!(table(&first), table(&later));
    session.press(&["Space"]);
    session.wait_for("the end of the pause", |screen| !screen.contains("PAUSED"));
    for (key, words) in
        [("2", "[2 Paths]"), ("3", "[3 Energy]"), ("4", "[4 Peers]"), ("5", "Missing from mpwatch's records")]
    {
        session.press(&[key]);
        session.wait_for_words(words);
    }
    session.press(&["1", "?"]);
    session.wait_for_words("Help (scroll");
    session.press(&["Escape"]);
    session.press(&["q"]);
    assert_eq!(session.wait_for_exit(), "0", "{}", session.read("errors"));
    // The demo prints its report at the end.
    session.wait_for_words("timeline");
}

#[test]
fn the_screen_of_a_finished_demo_stays_usable() {
    if !may_run_as_root() {
        return;
    }
    let session = Session::start("demo failover --seconds 3", "MPWATCH_SCREEN_CONFIG=");
    let screen = session.wait_for_words("THE DEMO IS OVER");
    assert!(screen.contains("failed at") && screen.contains(" outage from"), "{screen}");
    session.press(&["Enter"]);
    session.wait_for_words("Timeline");
    session.press(&["q"]);
    assert_eq!(session.wait_for_exit(), "0", "{}", session.read("errors"));
    session.wait_for_words("timeline");
}

#[test]
fn every_terminal_size_works() {
    if !may_run_as_root() {
        return;
    }
    let session = Session::start("demo shared --seconds 600", "MPWATCH_SCREEN_CONFIG=");
    session.wait_for_words("╰─ 3");
    let mut seed = 1_u32;
    for _ in 0..200 {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (columns, rows) = (1 + (seed >> 8) % 220, 1 + (seed >> 20) % 70);
        session.tmux(&["resize-window", "-x", &columns.to_string(), "-y", &rows.to_string()]);
        if seed.is_multiple_of(5) {
            session
                .press(&[["1", "2", "3", "4", "5", "Enter", "?", "Escape", "s"][(seed >> 4) as usize % 9]]);
        }
    }
    session.tmux(&["resize-window", "-x", "40", "-y", "8"]);
    session.wait_for_words("mpwatch needs 60x10.");
    session.tmux(&["resize-window", "-x", "120", "-y", "40"]);
    session.press(&["Escape", "Escape", "1"]);
    session.wait_for_words("[1 Connections]");
    session.press(&["C-c"]);
    assert_eq!(session.wait_for_exit(), "0", "{}", session.read("errors"));
}

#[test]
fn a_signal_restores_the_terminal() {
    if !may_run_as_root() {
        return;
    }
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let session = Session::start("top", "MPWATCH_SCREEN_CONFIG=");
        session.wait_for_words("[1 Connections]");
        kill(session.pid(), signal).unwrap();
        assert_eq!(session.wait_for_exit(), "0", "{}", session.read("errors"));
    }
}

#[test]
fn the_program_ends_with_its_terminal() {
    if !may_run_as_root() {
        return;
    }
    let session = Session::start("top", "MPWATCH_SCREEN_CONFIG=");
    session.wait_for_words("[1 Connections]");
    let pid = session.pid();
    session.tmux(&["kill-server"]);
    poll_until("the program to end", TIMEOUT, || kill(pid, None).err()).unwrap();
}

#[test]
fn a_panic_restores_the_terminal_and_prints_its_message() {
    if !may_run_as_root() {
        return;
    }
    let session = Session::start("top", "MPWATCH_SCREEN_CONFIG= MPWATCH_TEST_PANIC=1");
    session.wait_for_words("[1 Connections]");
    session.press(&["C-l"]);
    assert_eq!(session.wait_for_exit(), "101");
    assert!(session.read("errors").contains("MPWATCH_TEST_PANIC is set"));
}

#[test]
fn without_privileges_and_without_a_daemon_it_gives_advice() {
    if !may_run_as_root() {
        return;
    }
    // Root without capabilities: unlike other users it can access the build folder.
    let session = Session::start("", "MPWATCH_SCREEN_CONFIG= setpriv --bounding-set -all --inh-caps -all");
    let screen = session.wait_for_words("Waiting for a daemon");
    assert!(screen.contains("sudo mpwatch"), "{screen}");
    session.press(&["q"]);
    assert_eq!(session.wait_for_exit(), "4", "{}", session.read("errors"));
}
