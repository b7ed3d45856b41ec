// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs `mpwatch daemon` during the traffic of a test, with its files in a temporary folder.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mpwatch_lab::poll_until;
use mpwatch_tests::{CommandOutput, mpwatch, program};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

/// Timeout of every wait.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// The folder with a daemon's files. It outlives the daemon, so that a test can start another one.
pub(crate) struct DaemonDir {
    folder: TempDir,
    /// Messages of the daemons to systemd (sd_notify).
    notifications: Arc<Mutex<Vec<String>>>,
}

impl DaemonDir {
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let systemd = UnixDatagram::bind(folder.path().join("notify")).unwrap();
        let notifications = Arc::new(Mutex::new(Vec::new()));
        let received = Arc::clone(&notifications);
        std::thread::spawn(move || {
            let mut buffer = [0; 256];
            while let Ok(length) = systemd.recv(&mut buffer) {
                received.lock().unwrap().push(String::from_utf8_lossy(&buffer[..length]).into_owned());
            }
        });
        let daemon_dir = Self { folder, notifications };
        daemon_dir.configure("");
        daemon_dir
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("mpwatch.sock")
    }

    /// The database of the daemons, unless a test specifies another.
    pub(crate) fn database(&self) -> PathBuf {
        self.folder.path().join("flows.db")
    }

    /// Writes the configuration file.
    pub(crate) fn configure(&self, text: &str) {
        fs::write(self.folder.path().join("mpwatch.toml"), text).unwrap();
    }

    /// Number of times that daemons have sent a notification.
    fn notification_count(&self, notification: &str) -> usize {
        self.notifications.lock().unwrap().iter().filter(|sent| *sent == notification).count()
    }

    /// Waits until daemons have sent a notification more than `before` times.
    #[track_caller]
    pub(crate) fn wait_for_notification(&self, notification: &str, before: usize) {
        poll_until(notification, TIMEOUT, || (self.notification_count(notification) > before).then_some(()))
            .unwrap();
    }

    /// Runs a command of mpwatch that attaches to the daemon.
    #[allow(dead_code, reason = "only some targets use it")]
    pub(crate) fn run_attached(&self, arguments: &[&str]) -> CommandOutput {
        let socket = self.socket();
        mpwatch(&[arguments, &["--socket", socket.to_str().unwrap()]].concat())
    }

    /// Lets all users write into the folder, for a daemon that does not run as root.
    #[allow(dead_code, reason = "only some targets use it")]
    pub(crate) fn allow_everyone(&self) {
        for path in [self.folder.path(), &self.folder.path().join("notify")] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
        }
    }

    /// Starts a daemon and returns when it traces.
    #[allow(dead_code, reason = "only some targets use it")]
    pub(crate) fn start(&self, arguments: &[&str]) -> Daemon {
        self.start_as(&[], arguments)
    }

    /// The same as [`DaemonDir::start`], through a command that changes the user.
    pub(crate) fn start_as(&self, wrapper: &[&str], arguments: &[&str]) -> Daemon {
        let ready = self.notification_count("READY=1");
        let mut program = program();
        if !wrapper.is_empty() {
            // Another user may have no access to the build folder.
            let copy = self.folder.path().join("mpwatch");
            fs::copy(&program, &copy).unwrap();
            program = copy;
        }
        let mut command = wrapper.first().map_or_else(|| Command::new(&program), Command::new);
        if !wrapper.is_empty() {
            command.args(&wrapper[1..]).arg(&program);
        }
        let mut child = command
            .args(["daemon", "--listen", "127.0.0.1:0", "--interval", "100ms", "--log-format", "json"])
            .arg("--config")
            .arg(self.folder.path().join("mpwatch.toml"))
            .arg("--socket")
            .arg(self.socket())
            .args(arguments)
            .env("MPWATCH_STORE_PATH", self.database())
            .env("NOTIFY_SOCKET", self.folder.path().join("notify"))
            .env("WATCHDOG_USEC", "400000")
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program can be started");
        let log = Arc::new(Mutex::new(Vec::<Value>::new()));
        let (lines, entries) = (BufReader::new(child.stderr.take().unwrap()).lines(), Arc::clone(&log));
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let entry = serde_json::from_str(&line).unwrap_or(Value::String(line));
                entries.lock().unwrap().push(entry);
            }
        });
        let mut daemon = Daemon { child, address: String::new(), log };
        self.wait_for_notification("READY=1", ready);
        daemon.address = daemon.wait_for_log("tracing")["listen"].as_str().unwrap().into();
        daemon
    }
}

/// A running daemon. Dropping it kills it.
pub(crate) struct Daemon {
    child: Child,
    address: String,
    log: Arc<Mutex<Vec<Value>>>,
}

impl Daemon {
    /// Address of the daemon's web server.
    #[allow(dead_code, reason = "only some targets use it")]
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Status line and body of a page.
    pub(crate) fn get(&self, path: &str) -> (String, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        let (head, body) = response.split_once("\r\n\r\n").expect("a response has headers");
        (head.lines().next().unwrap().to_owned(), body.to_owned())
    }

    /// The value of a series, given by its name with labels. `None`: the daemon does not export the series.
    pub(crate) fn metric(&self, series: &str) -> Option<f64> {
        let (_, text) = self.get("/metrics");
        let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.map(|value| value.parse().unwrap())
    }

    /// Waits until the value of a series is as expected, and returns it.
    #[allow(dead_code, reason = "only some targets use it")]
    #[track_caller]
    pub(crate) fn wait_for_metric(&self, series: &str, is_expected: impl Fn(f64) -> bool) -> f64 {
        let found = poll_until(series, TIMEOUT, || self.metric(series).filter(|value| is_expected(*value)));
        found.unwrap_or_else(|error| {
            panic!("{error}; its value is {:?}; {}", self.metric(series), self.log_text())
        })
    }

    /// Waits for a log entry with this message, and returns the latest one.
    #[track_caller]
    pub(crate) fn wait_for_log(&self, message: &str) -> Value {
        let find = || {
            let log = self.log.lock().unwrap();
            log.iter().rfind(|entry| entry["message"] == message).cloned()
        };
        poll_until(message, TIMEOUT, find).unwrap_or_else(|error| panic!("{error}: {}", self.log_text()))
    }

    #[allow(dead_code, reason = "only some targets use it")]
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Resident memory of the daemon, kB.
    #[allow(dead_code, reason = "only some targets use it")]
    pub(crate) fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// All log entries of the daemon.
    pub(crate) fn log_text(&self) -> String {
        format!("{:?}", self.log.lock().unwrap())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    /// `/proc/PID/status`.
    #[allow(dead_code, reason = "only some targets use it")]
    pub(crate) fn status(&self) -> String {
        fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap()
    }

    /// Waits until the daemon exits.
    pub(crate) fn wait_for_exit(&mut self) -> ExitStatus {
        poll_until("the daemon to end", TIMEOUT, || self.child.try_wait().unwrap()).unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
