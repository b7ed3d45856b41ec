// SPDX-License-Identifier: MIT OR Apache-2.0
//! The live view on a real terminal (tmux), over the demo's real traffic: it is used as a person uses it, and the terminal is as before
//! however it ends.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use mpwatch_lab::poll_until;
use mpwatch_tests::{may_run_as_root, program};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_mins(1);

/// A terminal of its own server in which a shell runs the program, and writes down what the terminal was like before and after.
struct Tmux {
    name: String,
    folder: TempDir,
}

impl Tmux {
    /// Runs the program with these arguments, and variables as `env` takes them.
    fn run(arguments: &str, variables: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = tempfile::tempdir().unwrap();
        let script = format!(
            "cd {folder}\nstty -a > before\nsh -c 'echo $$ > pid; exec env {variables} {program} {arguments} 2> errors'\n\
             echo $? > code\nstty -a > after\nexec sleep 600\n",
            folder = folder.path().display(),
            program = program().display(),
        );
        let path = folder.path().join("script");
        fs::write(&path, script).unwrap();
        let tmux = Self { name: format!("mpwatch-test-{}-{number}", std::process::id()), folder };
        let start =
            tmux.ask(&["new-session", "-d", "-x", "120", "-y", "40", "sh", &path.display().to_string()]);
        assert!(start.status.success(), "{start:?}");
        tmux
    }

    fn ask(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("tmux");
        command.args(["-L", &self.name, "-f", "/dev/null"]).args(arguments);
        command.output().expect("tmux can be started: ./dev setup installs it for the tests")
    }

    fn press(&self, keys: &[&str]) {
        assert!(self.ask(&[&["send-keys"], keys].concat()).status.success());
    }

    fn type_text(&self, text: &str) {
        assert!(self.ask(&["send-keys", "-l", text]).status.success());
    }

    fn screen(&self) -> String {
        String::from_utf8_lossy(&self.ask(&["capture-pane", "-p"]).stdout).into_owned()
    }

    /// Waits until the screen is as it should be.
    #[track_caller]
    fn wait_for(&self, what: &str, is_there: impl Fn(&str) -> bool) -> String {
        let mut last = String::new();
        let found = poll_until(what, PATIENCE, || {
            last = self.screen();
            is_there(&last).then(|| last.clone())
        });
        found.unwrap_or_else(|error| panic!("{error}; the screen:\n{last}"))
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

    /// Waits for the program's end; its exit code. The terminal must be as it was.
    #[track_caller]
    fn ended(&self) -> String {
        let after = poll_until("the program to end", PATIENCE, || {
            Some(self.read("after")).filter(|after| after.ends_with('\n'))
        });
        assert_eq!(after.unwrap(), self.read("before"), "{}", self.read("errors"));
        let screen = self.wait_for("the screen from before", |screen| !screen.contains("Connections]"));
        let cursor = self.ask(&["display-message", "-p", "#{cursor_flag} #{alternate_on} #{mouse_any_flag}"]);
        assert_eq!(String::from_utf8_lossy(&cursor.stdout).trim(), "1 0 0", "{screen}");
        self.read("code").trim().to_owned()
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        // The program goes with its terminal (SIGHUP), and cleans up after itself.
        self.ask(&["kill-server"]);
    }
}

/// The lines below the tabs, but for the last: what a frozen screen does not change.
fn table(screen: &str) -> Vec<String> {
    let lines: Vec<String> = screen.lines().map(str::to_owned).collect();
    lines[2..lines.len() - 1].to_vec()
}

#[test]
fn a_person_finds_their_way_through_the_demo() {
    if !may_run_as_root() {
        return;
    }
    let tmux = Tmux::run("demo two-paths --seconds 600", "MPWATCH_SCREEN_CONFIG=");
    tmux.wait_for("both subflows", |screen| screen.contains("├─ 1") && screen.contains("╰─ 2"));
    tmux.wait_for_words("DEMO");

    tmux.press(&["s"]);
    tmux.wait_for_words("sort by");
    tmux.press(&["Down", "Enter"]);
    tmux.wait_for_words("FLOW▼");

    tmux.press(&["/"]);
    tmux.type_text("peer:192.0.2.77");
    tmux.wait_for_words("None of 2 connections matches");
    tmux.press(&["C-u"]);
    tmux.type_text("colour:red");
    tmux.wait_for_words("✗");
    tmux.press(&["C-u"]);
    tmux.type_text("role:client");
    tmux.wait_for_words("1 connection ");
    tmux.press(&["Enter"]);
    tmux.wait_for_words("filter: role:client");

    tmux.press(&["Enter"]);
    tmux.wait_for("the detail", |screen| {
        screen.contains("what happened") && screen.contains("RTT by subflow")
    });
    tmux.press(&["Escape"]);
    tmux.wait_for("the table again", |screen| !screen.contains("what happened"));

    tmux.press(&["Space"]);
    // The badge counts the snapshots that have come since: data goes on, and nothing else moves.
    let first = tmux.wait_for_words("FROZEN, 1 back");
    let later = tmux.wait_for_words("FROZEN, 3 back");
    assert_eq!(table(&first), table(&later));
    tmux.press(&["Space"]);
    tmux.wait_for("it to go on", |screen| !screen.contains("FROZEN"));
    for (key, words) in [("2", "[2 Paths]"), ("3", "[3 Energy]"), ("4", "[4 Peers]"), ("5", "What was lost")]
    {
        tmux.press(&[key]);
        tmux.wait_for_words(words);
    }
    tmux.press(&["1", "?"]);
    tmux.wait_for_words("help");
    tmux.press(&["Escape"]);
    tmux.press(&["q"]);
    assert_eq!(tmux.ended(), "0", "{}", tmux.read("errors"));
    // What the demo prints at its end is there.
    tmux.wait_for_words("timeline");
}

#[test]
fn no_size_of_the_terminal_breaks_it() {
    if !may_run_as_root() {
        return;
    }
    let tmux = Tmux::run("demo shared --seconds 600", "MPWATCH_SCREEN_CONFIG=");
    tmux.wait_for_words("╰─ 3");
    let mut seed = 1_u32;
    for _ in 0..200 {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (columns, rows) = (1 + (seed >> 8) % 220, 1 + (seed >> 20) % 70);
        tmux.ask(&["resize-window", "-x", &columns.to_string(), "-y", &rows.to_string()]);
        if seed.is_multiple_of(5) {
            tmux.press(&[["1", "2", "3", "4", "5", "Enter", "?", "Escape", "s"][(seed >> 4) as usize % 9]]);
        }
    }
    tmux.ask(&["resize-window", "-x", "40", "-y", "8"]);
    tmux.wait_for_words("mpwatch needs 60x10.");
    tmux.ask(&["resize-window", "-x", "120", "-y", "40"]);
    tmux.press(&["Escape", "Escape", "1"]);
    tmux.wait_for_words("[1 Connections]");
    tmux.press(&["C-c"]);
    assert_eq!(tmux.ended(), "0", "{}", tmux.read("errors"));
}

#[test]
fn a_signal_gives_the_terminal_back() {
    if !may_run_as_root() {
        return;
    }
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let tmux = Tmux::run("top", "MPWATCH_SCREEN_CONFIG=");
        tmux.wait_for_words("[1 Connections]");
        kill(tmux.pid(), signal).unwrap();
        assert_eq!(tmux.ended(), "0", "{}", tmux.read("errors"));
    }
}

#[test]
fn it_ends_with_its_terminal() {
    if !may_run_as_root() {
        return;
    }
    let tmux = Tmux::run("top", "MPWATCH_SCREEN_CONFIG=");
    tmux.wait_for_words("[1 Connections]");
    let pid = tmux.pid();
    tmux.ask(&["kill-server"]);
    poll_until("the program to end", PATIENCE, || kill(pid, None).err()).unwrap();
}

#[test]
fn a_panic_gives_the_terminal_back_and_can_be_read() {
    if !may_run_as_root() {
        return;
    }
    let tmux = Tmux::run("top", "MPWATCH_SCREEN_CONFIG= MPWATCH_TEST_PANIC=1");
    tmux.wait_for_words("[1 Connections]");
    tmux.press(&["C-l"]);
    assert_eq!(tmux.ended(), "101");
    assert!(tmux.read("errors").contains("MPWATCH_TEST_PANIC is set"));
}

#[test]
fn without_rights_and_without_a_daemon_it_says_what_to_do() {
    if !may_run_as_root() {
        return;
    }
    // Root without any of root's rights, so that it can still reach where the program was built.
    let tmux = Tmux::run("", "MPWATCH_SCREEN_CONFIG= setpriv --bounding-set -all --inh-caps -all");
    let screen = tmux.wait_for_words("Waiting for a daemon");
    assert!(screen.contains("sudo mpwatch"), "{screen}");
    tmux.press(&["q"]);
    assert_eq!(tmux.ended(), "4", "{}", tmux.read("errors"));
}
