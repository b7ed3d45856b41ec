// SPDX-License-Identifier: MIT OR Apache-2.0
//! Client of the daemon's Unix socket, for the commands that show snapshots. The daemon sends a greeting, the latest snapshot, earlier
//! snapshots (marked as such) for the history of the live view, then each new snapshot, one JSON value per line; clients send nothing.

use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use mpwatch_model::snapshot::{SCHEMA, Snapshot};
use serde::{Deserialize, Serialize};

use crate::cli::ViewOptions;
use crate::quantity::MAX_INTERVAL;
use crate::system::paths;

/// Version of the protocol. A client accepts no other version.
const VERSION: u32 = 1;
/// Maximum wait for the socket between two checks of the stop flag.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum length of the greeting in bytes.
const MAX_GREETING: usize = 64 << 10;
/// Maximum length of a snapshot in bytes. A connection with two subflows has about 5 kB, so that 200 000 of them fit.
const MAX_SNAPSHOT: usize = 1 << 30;
/// The beginning of a line with an [`Earlier`] snapshot.
const EARLIER: &str = "{\"earlier\":";
/// A daemon is silent if it sends no complete line for this long plus three of its intervals.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The first line of the daemon: the versions of the protocol and of mpwatch.
#[derive(Serialize, Deserialize)]
pub(crate) struct Greeting {
    proto: u32,
    version: String,
}

impl Default for Greeting {
    fn default() -> Self {
        Self { proto: VERSION, version: env!("CARGO_PKG_VERSION").to_owned() }
    }
}

/// A line with a snapshot that was taken before the client attached, so it is not the current state. `None`: the end of these lines.
#[derive(Serialize, Deserialize)]
pub(crate) struct Earlier<T> {
    pub(crate) earlier: Option<T>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum AttachError {
    #[error(
        "not permitted to read from the daemon at {path}; join its group (usermod -aG mpwatch USER); root needs CAP_DAC_OVERRIDE"
    )]
    Permission { path: PathBuf },
    #[error("no daemon answers at {path}: {source}; `mpwatch daemon --socket {path}` starts one")]
    NoDaemon { path: PathBuf, source: io::Error },
    #[error("{path} uses another protocol ({reason}); use the mpwatch of the daemon's version")]
    Protocol { path: PathBuf, reason: String },
    #[error(
        "{path} sends a line of more than {limit} bytes, which no {what} of mpwatch has; check that a daemon of mpwatch serves this socket"
    )]
    TooLong { path: PathBuf, what: &'static str, limit: usize },
    #[error("the daemon at {path} serves its maximum of clients, or is stopping; try again")]
    Full { path: PathBuf },
    #[error("{options}: only the daemon at {path} decides how it traces; omit these options, or --socket")]
    TracingOptions { path: PathBuf, options: String },
    #[error("the daemon at {path} does not answer; it may be stopped or overloaded")]
    Silent { path: PathBuf },
    #[error("the daemon at {path} has stopped")]
    Gone { path: PathBuf },
}

pub(crate) struct Daemon {
    pub(crate) path: PathBuf,
    lines: BufReader<UnixStream>,
    stop: Arc<AtomicBool>,
    /// Time between two snapshots of the daemon. Zero before the first one.
    interval: Duration,
}

impl Daemon {
    /// Attaches if a daemon listens. `None`: no daemon listens, or options set how to trace, so the command itself must trace. Such options
    /// together with a named socket are an error. `interval`: whether an interval was given.
    pub(crate) fn find(
        options: &ViewOptions,
        interval: bool,
        stop: &Arc<AtomicBool>,
    ) -> Result<Option<Self>, AttachError> {
        let named = options.socket.clone().or_else(|| std::env::var_os("MPWATCH_SOCKET").map(PathBuf::from));
        let tracing = tracing_options(options, interval);
        if !tracing.is_empty() {
            let options = tracing.join(", ");
            return named.map_or(Ok(None), |path| Err(AttachError::TracingOptions { path, options }));
        }
        let path = named.clone().unwrap_or_else(|| PathBuf::from(paths::SOCKET));
        let stream = match UnixStream::connect(&path) {
            Ok(stream) => stream,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(AttachError::Permission { path });
            }
            Err(_) if named.is_none() => return Ok(None),
            Err(source) => return Err(AttachError::NoDaemon { path, source }),
        };
        Self::greet(stream, &path, stop).map(Some)
    }

    /// Reads the greeting on a new connection. `path` is for messages.
    pub(crate) fn greet(
        stream: UnixStream,
        path: &Path,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, AttachError> {
        let timeout = stream.set_read_timeout(Some(STOP_CHECK_INTERVAL));
        let (path, lines, stop) = (path.to_owned(), BufReader::new(stream), Arc::clone(stop));
        let mut daemon = Self { path, lines, stop, interval: Duration::ZERO };
        timeout.map_err(|error| daemon.protocol_error(&error))?;
        let line = daemon.line("greeting", MAX_GREETING)?;
        let line = line.ok_or_else(|| AttachError::Full { path: daemon.path.clone() })?;
        let Greeting { proto, version } =
            serde_json::from_str(&line).map_err(|error| daemon.protocol_error(&error))?;
        if proto == VERSION {
            return Ok(daemon);
        }
        Err(daemon.protocol_error(&format!("version {proto}, of mpwatch {version}")))
    }

    fn protocol_error(&self, reason: &impl ToString) -> AttachError {
        AttachError::Protocol { path: self.path.clone(), reason: reason.to_string() }
    }

    /// The earlier snapshots that were taken after `since`, in order, then the latest snapshot. Empty: the stop flag is set.
    pub(crate) fn history(&mut self, since: Timestamp) -> Result<Vec<Snapshot>, AttachError> {
        let (latest, mut all) = (self.next()?, Vec::new());
        while let Some(line) = self.line("snapshot", MAX_SNAPSHOT)? {
            let line = serde_json::from_str(&line).map_err(|error| self.protocol_error(&error))?;
            let Earlier::<Snapshot> { earlier: Some(snapshot) } = line else { break };
            all.extend(Some(snapshot).filter(|snapshot| snapshot.at > since));
        }
        all.extend(latest);
        Ok(all)
    }

    /// The next snapshot; ignores earlier ones. `None`: the stop flag is set.
    pub(crate) fn next(&mut self) -> Result<Option<Snapshot>, AttachError> {
        let mut line = self.line("snapshot", MAX_SNAPSHOT)?;
        while line.as_ref().is_some_and(|line| line.starts_with(EARLIER)) {
            line = self.line("snapshot", MAX_SNAPSHOT)?;
        }
        let Some(line) = line else { return Ok(None) };
        let snapshot: Snapshot = serde_json::from_str(&line).map_err(|error| self.protocol_error(&error))?;
        if snapshot.schema != SCHEMA {
            return Err(self.protocol_error(&format!("schema {}", snapshot.schema)));
        }
        // If the machine was suspended, the time between two snapshots is longer than the interval.
        self.interval = Duration::try_from_secs_f64(snapshot.interval_s.unwrap_or(0.0))
            .unwrap_or_default()
            .min(MAX_INTERVAL);
        Ok(Some(snapshot))
    }

    /// Reads a complete line of at most `limit` bytes. `None`: the stop flag is set, or the daemon disconnects before its greeting.
    fn line(&mut self, what: &'static str, limit: usize) -> Result<Option<String>, AttachError> {
        let mut line = Vec::new();
        let deadline = Instant::now() + TIMEOUT + 3 * self.interval;
        while !self.stop.load(Ordering::Relaxed) {
            let left = (limit - line.len()) as u64;
            match (&mut self.lines).take(left).read_until(b'\n', &mut line) {
                Ok(_) if line.ends_with(b"\n") => {
                    return String::from_utf8(line).map(Some).map_err(|error| self.protocol_error(&error));
                }
                Ok(_) if line.len() == limit => {
                    return Err(AttachError::TooLong { path: self.path.clone(), what, limit });
                }
                Ok(_) if limit == MAX_GREETING => return Ok(None),
                // `line` keeps what was read so far.
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    if Instant::now() >= deadline {
                        return Err(AttachError::Silent { path: self.path.clone() });
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => return Err(AttachError::Gone { path: self.path.clone() }),
            }
        }
        Ok(None)
    }
}

/// The given options that set how to trace. A daemon cannot apply them, so the command must trace by itself.
fn tracing_options(options: &ViewOptions, interval: bool) -> Vec<&'static str> {
    let trace = &options.trace;
    let given = [
        ("--tcp", trace.tcp),
        ("--ledger", trace.ledger.is_some()),
        ("--budget", trace.budget.is_some()),
        ("--no-bottlenecks", trace.no_bottlenecks),
        ("--method", trace.method.is_some()),
        ("--sysfs-root", trace.counters.sysfs_root.is_some()),
        ("--ring-size", trace.ring_size.is_some()),
        ("--overflow-size", trace.overflow_size.is_some()),
        ("--interval", interval),
    ];
    given.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_line_without_an_end_is_refused_before_it_fills_the_memory() {
        let (mut server, client) = UnixStream::pair().unwrap();
        let writer = std::thread::spawn(move || {
            let sent = [b'x'; 4096];
            // Fails when the client has given up.
            (0..1_024).take_while(|_| server.write_all(&sent).is_ok()).count() * sent.len()
        });
        let refused = Daemon::greet(client, Path::new("test"), &Arc::default()).err().unwrap();
        assert!(matches!(refused, AttachError::TooLong { what: "greeting", .. }), "{refused}");
        assert!(refused.to_string().contains("check that a daemon of mpwatch serves"), "{refused}");
        assert!(
            writer.join().unwrap() < 4 * MAX_GREETING + (1 << 20),
            "the rest stays in the kernel's buffers"
        );
    }

    #[test]
    fn a_daemon_with_an_impossible_interval_can_be_read_from() {
        let (mut server, client) = UnixStream::pair().unwrap();
        writeln!(server, "{}", serde_json::to_string(&Greeting::default()).unwrap()).unwrap();
        let mut snapshot = serde_json::to_value(mpwatch_fixtures::snapshot(Vec::new())).unwrap();
        // The first interval overflows an `Instant`, the second a `Duration`.
        let intervals = [1e19_f64, 1e300];
        for interval in intervals {
            snapshot["interval_s"] = interval.into();
            // A single write, because the socket's buffer does not hold many small ones.
            server.write_all(format!("{snapshot}\n").as_bytes()).unwrap();
        }
        drop(server);
        let mut daemon = Daemon::greet(client, Path::new("test"), &Arc::default()).unwrap();
        for interval in intervals {
            assert_eq!(
                daemon.next().unwrap().unwrap().interval_s.map(f64::to_bits),
                Some(interval.to_bits())
            );
        }
        assert!(matches!(daemon.next(), Err(AttachError::Gone { .. })));
    }
}
