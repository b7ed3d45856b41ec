// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch daemon` beside a test's traffic, with everything it needs in a folder of its own.

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
use mpwatch_tests::{Outcome, mpwatch, program};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

/// Longest wait for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The folder of a daemon; it outlives the daemon, so that another one can come.
pub(crate) struct Place {
    folder: TempDir,
    /// What daemons have told systemd.
    told: Arc<Mutex<Vec<String>>>,
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let systemd = UnixDatagram::bind(folder.path().join("notify")).unwrap();
        let told = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&told);
        std::thread::spawn(move || {
            let mut buffer = [0; 256];
            while let Ok(length) = systemd.recv(&mut buffer) {
                kept.lock().unwrap().push(String::from_utf8_lossy(&buffer[..length]).into_owned());
            }
        });
        let place = Self { folder, told };
        place.configure("");
        place
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("mpwatch.sock")
    }

    /// Where daemons keep connections, unless a test says otherwise.
    pub(crate) fn database(&self) -> PathBuf {
        self.folder.path().join("flows.db")
    }

    pub(crate) fn configure(&self, text: &str) {
        fs::write(self.folder.path().join("mpwatch.toml"), text).unwrap();
    }

    /// How often daemons have told systemd this.
    fn told(&self, what: &str) -> usize {
        self.told.lock().unwrap().iter().filter(|told| *told == what).count()
    }

    /// Waits until systemd has been told this more often than that.
    #[track_caller]
    pub(crate) fn until_told(&self, what: &str, before: usize) {
        poll_until(what, PATIENCE, || (self.told(what) > before).then_some(())).unwrap();
    }

    /// Runs another command of mpwatch, attached to the daemon.
    pub(crate) fn attached(&self, arguments: &[&str]) -> Outcome {
        let socket = self.socket();
        mpwatch(&[arguments, &["--socket", socket.to_str().unwrap()]].concat())
    }

    /// From now on everyone may write into the folder, also a daemon that is not root.
    #[allow(dead_code, reason = "not every target that has this module needs it")]
    pub(crate) fn give_away(&self) {
        for path in [self.folder.path(), &self.folder.path().join("notify")] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
        }
    }

    /// Starts a daemon and returns once it traces.
    pub(crate) fn start(&self, arguments: &[&str]) -> Daemon {
        self.start_by(&[], arguments)
    }

    /// Likewise, by a program that changes who it is.
    pub(crate) fn start_by(&self, by: &[&str], arguments: &[&str]) -> Daemon {
        let ready = self.told("READY=1");
        let mut program = program();
        if !by.is_empty() {
            // Another user may not be able to go where it was built.
            let copy = self.folder.path().join("mpwatch");
            fs::copy(&program, &copy).unwrap();
            program = copy;
        }
        let mut command = by.first().map_or_else(|| Command::new(&program), Command::new);
        if !by.is_empty() {
            command.args(&by[1..]).arg(&program);
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
        let (lines, kept) = (BufReader::new(child.stderr.take().unwrap()).lines(), Arc::clone(&log));
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let entry = serde_json::from_str(&line).unwrap_or(Value::String(line));
                kept.lock().unwrap().push(entry);
            }
        });
        let mut daemon = Daemon { child, address: String::new(), log };
        self.until_told("READY=1", ready);
        daemon.address = daemon.logged("tracing")["listen"].as_str().unwrap().into();
        daemon
    }
}

/// A daemon that runs; killed when it is dropped.
pub(crate) struct Daemon {
    child: Child,
    address: String,
    log: Arc<Mutex<Vec<Value>>>,
}

impl Daemon {
    /// Where its web server listens.
    #[allow(dead_code, reason = "not every target that has this module looks elsewhere")]
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Status and body of a page.
    pub(crate) fn get(&self, path: &str) -> (String, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").expect("an answer has a head");
        (head.lines().next().unwrap().to_owned(), body.to_owned())
    }

    /// The value of a series, by its name with labels.
    pub(crate) fn metric(&self, series: &str) -> Option<f64> {
        let (_, text) = self.get("/metrics");
        let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.map(|value| value.parse().unwrap())
    }

    /// Waits until a series has a value that will do.
    #[track_caller]
    pub(crate) fn until(&self, series: &str, will_do: impl Fn(f64) -> bool) -> f64 {
        let found = poll_until(series, PATIENCE, || self.metric(series).filter(|value| will_do(*value)));
        found.unwrap_or_else(|error| panic!("{error}; it is {:?}", self.metric(series)))
    }

    /// Waits for a line of the log with this message.
    #[track_caller]
    pub(crate) fn logged(&self, message: &str) -> Value {
        let find = || {
            let log = self.log.lock().unwrap();
            log.iter().rfind(|entry| entry["message"] == message).cloned()
        };
        poll_until(message, PATIENCE, find).unwrap_or_else(|error| panic!("{error}: {}", self.said()))
    }

    #[allow(dead_code, reason = "not every test looks at it")]
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Memory that it uses now, kB.
    #[allow(dead_code, reason = "not every test looks at it")]
    pub(crate) fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Everything that it has logged.
    pub(crate) fn said(&self) -> String {
        format!("{:?}", self.log.lock().unwrap())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    /// What the kernel tells of its process.
    #[allow(dead_code, reason = "not every target that has this module needs it")]
    pub(crate) fn status(&self) -> String {
        fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap()
    }

    /// Waits for its end.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        poll_until("the daemon to end", PATIENCE, || self.child.try_wait().unwrap()).unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
