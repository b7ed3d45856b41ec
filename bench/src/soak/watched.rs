// SPDX-License-Identifier: MIT OR Apache-2.0
//! The processes that a soak samples: `mpwatch daemon` with a store, and `mpwatch record`.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::churn::Counts;
use super::outcome::Outcome;
use super::sample::{self, Losses, Sample};
use mpwatch_testkit::program;

/// Maximum duration of a scrape, and maximum time in which a process must end.
const TIMEOUT: Duration = Duration::from_mins(2);
const END_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// A running process. It is killed when it is dropped.
pub(crate) struct Watched {
    name: &'static str,
    child: Child,
    /// Address at which the process serves metrics. `None`: the process serves no metrics.
    address: Option<String>,
    /// The files that the process writes.
    files: Vec<PathBuf>,
    metrics: String,
}

impl Watched {
    /// Starts a daemon with its files in a folder. Returns when the daemon traces.
    pub(crate) fn daemon(folder: &Path, store_size: Option<u32>) -> Outcome<Self> {
        let (config, database) = (folder.join("mpwatch.toml"), folder.join("flows.db"));
        let size = store_size.map(|size| format!("[store]\nmax_size = \"{size}M\"\n"));
        fs::write(&config, size.unwrap_or_default())?;
        let mut command = Command::new(program());
        command.args(["daemon", "--listen", "127.0.0.1:0", "--log-format", "json", "--config"]).arg(config);
        command.arg("--socket").arg(folder.join("mpwatch.sock")).arg("--db").arg(&database);
        let files = vec![database.with_extension("db-wal"), database];
        let mut watched = Self::start("daemon", command, files)?;
        let address = watched.first_line(|line| {
            let entry: Value = serde_json::from_str(line).ok()?;
            Some(entry["listen"].as_str()?.to_owned())
        })?;
        watched.address = Some(address);
        Ok(watched)
    }

    /// Starts `mpwatch record` with its file in a folder. Returns when the process traces.
    pub(super) fn recording(folder: &Path) -> Outcome<Self> {
        let file = folder.join("run.mpw");
        let mut command = Command::new(program());
        command.arg("record").arg(&file).args(["--format", "json"]);
        let mut watched = Self::start("record", command, vec![file])?;
        watched.first_line(|line| line.contains("recording").then(|| line.to_owned()))?;
        Ok(watched)
    }

    /// Starts a command in its own process group, so that Ctrl-C reaches only the bench, which then ends the process.
    fn start(name: &'static str, mut command: Command, files: Vec<PathBuf>) -> Outcome<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
        let child = command.spawn().map_err(|error| format!("cannot start mpwatch {name}: {error}"))?;
        Ok(Self { name, child, address: None, files, metrics: String::new() })
    }

    /// Reads lines of the log until `find` returns a value, and returns this value. Copies later lines to standard error: a full pipe would
    /// block the process.
    fn first_line(&mut self, find: impl Fn(&str) -> Option<String>) -> Outcome<String> {
        let stderr: ChildStderr = self.child.stderr.take().ok_or("the log is not piped")?;
        let mut lines = BufReader::new(stderr).lines();
        let mut log = String::new();
        while let Some(line) = lines.next().transpose()? {
            if let Some(found) = find(&line) {
                let name = self.name;
                thread::spawn(move || {
                    lines.map_while(Result::ok).for_each(|line| eprintln!("{name}: {line}"));
                });
                return Ok(found);
            }
            log += &line;
        }
        Err(format!("mpwatch {} ended at its start: {log}", self.name).into())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The text of a daemon's metrics.
    pub(crate) fn metrics(&self) -> Outcome<String> {
        scrape(self.address.as_ref().ok_or("it serves no metrics")?)
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Takes a sample of the process. Fails if the process has ended.
    pub(super) fn sample(&mut self, at: Duration, churn: Counts) -> Outcome<Sample> {
        if let Some(status) = self.child.try_wait()? {
            return Err(format!("mpwatch {} has ended: {status}", self.name).into());
        }
        let losses = self.address.as_ref().map(|address| scrape(address)).transpose()?.map(|text| {
            self.metrics = text;
            Losses::from_metrics(&self.metrics)
        });
        let written = self.files.iter().filter_map(|file| fs::metadata(file).ok()).map(|file| file.len());
        let written_kb = written.sum::<u64>() / 1024;
        Ok(Sample { written_kb, losses, ..sample::read(self.child.id(), at, churn)? })
    }

    /// Ends the process, and returns a text with its losses and peak memory.
    pub(crate) fn finish(mut self) -> Outcome<String> {
        let (pid, began) = (self.child.id(), Instant::now());
        kill(Pid::from_raw(pid.cast_signed()), Signal::SIGINT)?;
        let mut peak = 0;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if began.elapsed() > TIMEOUT {
                return Err(format!("mpwatch {} does not end", self.name).into());
            }
            peak = sample::peak_kb(pid).unwrap_or_default().max(peak);
            thread::sleep(END_CHECK_INTERVAL);
        };
        let lost = if self.address.is_some() {
            format!("; lost: {}", sample::list_losses(&self.metrics))
        } else {
            String::new()
        };
        let (name, seconds) = (self.name, began.elapsed().as_secs_f64());
        Ok(format!(
            "{name}: ended with {status} after {seconds:.1} s; at most {} MiB in RAM{lost}",
            peak / 1024
        ))
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // Has an effect only after an error: `finish` has waited for the end of the process.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads the metrics of the daemon at `address`. Returns the HTTP answer.
fn scrape(address: &str) -> Outcome<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
