// SPDX-License-Identifier: MIT OR Apache-2.0
//! The daemon as a source of snapshots, for the commands that show them. Nothing is sent to it.

use std::io::{self, BufRead as _, BufReader};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mpwatch_model::snapshot::{SCHEMA, Snapshot};
use serde::Deserialize;

use crate::cli::Scope;
use crate::config::SOCKET;

/// How soon a stop is noticed.
const PATIENCE: Duration = Duration::from_millis(100);

/// What a daemon may be late, beside three of its intervals.
const SLACK: Duration = Duration::from_secs(10);

/// Why there is nothing to attach to, where there should be.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AttachError {
    /// The socket is for the group.
    #[error(
        "not permitted to read from the daemon at {path}; become a member of its group (usermod -aG mpwatch USER) or run this as root: it takes CAP_DAC_OVERRIDE"
    )]
    Permission { path: PathBuf },
    /// There is none where one was named.
    #[error("no daemon answers at {path}: {source}; `mpwatch daemon --socket {path}` starts one")]
    NoDaemon { path: PathBuf, source: io::Error },
    /// What was said is no protocol of this version.
    #[error("{path} speaks another protocol ({why}); use the mpwatch of the daemon's version")]
    Foreign { path: PathBuf, why: String },
    /// It took the connection and closed it.
    #[error("the daemon at {path} has no place for another reader at the moment, or is ending; try again")]
    Full { path: PathBuf },
    /// The command line says how to trace, and where somebody else traces.
    #[error(
        "{options} says how to trace, but the daemon at {path} traces as it is configured; leave out that, or --socket"
    )]
    HowToTrace { path: PathBuf, options: String },
    /// It lives, but says nothing.
    #[error("the daemon at {path} does not answer; it may be stopped, or busy beyond its means")]
    Silent { path: PathBuf },
    /// It ended.
    #[error("the daemon at {path} has ended")]
    Gone { path: PathBuf },
}

#[derive(Deserialize)]
struct Greeting {
    proto: u32,
    version: String,
}

/// A daemon that is attached to.
pub(crate) struct Daemon {
    path: PathBuf,
    lines: BufReader<UnixStream>,
    stop: Arc<AtomicBool>,
    /// Time between its snapshots, as far as they tell.
    interval: Duration,
}

impl Daemon {
    /// Attaches where there is a daemon and it can answer. `None`: trace. What says how to trace makes a command trace by itself.
    /// With a socket named as well, that is a contradiction. `interval`: whether the time between two snapshots was asked for.
    pub(crate) fn find(
        scope: &Scope,
        interval: bool,
        stop: &Arc<AtomicBool>,
    ) -> Result<Option<Self>, AttachError> {
        let named = scope.socket.clone().or_else(|| std::env::var_os("MPWATCH_SOCKET").map(PathBuf::from));
        let options = how_to_trace(scope, interval);
        match &named {
            None if !options.is_empty() => return Ok(None),
            Some(path) if !options.is_empty() => {
                return Err(AttachError::HowToTrace { path: path.clone(), options: options.join(", ") });
            }
            _ => {}
        }
        let path = named.clone().unwrap_or_else(|| PathBuf::from(SOCKET));
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::PermissionDenied => Err(AttachError::Permission { path: path.clone() }),
            _ if named.is_none() => Ok(None),
            _ => Err(AttachError::NoDaemon { path: path.clone(), source }),
        };
        match UnixStream::connect(&path) {
            Ok(stream) => Self::greet(&path, stream, Arc::clone(stop)).map(Some),
            Err(error) => failed(error),
        }
    }

    fn greet(path: &Path, stream: UnixStream, stop: Arc<AtomicBool>) -> Result<Self, AttachError> {
        let foreign = |why: String| AttachError::Foreign { path: path.to_owned(), why };
        stream.set_read_timeout(Some(PATIENCE)).map_err(|error| foreign(error.to_string()))?;
        let mut daemon =
            Self { path: path.to_owned(), lines: BufReader::new(stream), stop, interval: Duration::ZERO };
        let line = match daemon.line() {
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                return Err(AttachError::Silent { path: path.to_owned() });
            }
            line => line.map_err(|error| foreign(error.to_string()))?,
        };
        let line = line.ok_or_else(|| AttachError::Full { path: path.to_owned() })?;
        let greeting: Greeting = serde_json::from_str(&line).map_err(|error| foreign(error.to_string()))?;
        if greeting.proto != crate::daemon::PROTOCOL {
            return Err(foreign(format!(
                "version {} of it, by mpwatch {}",
                greeting.proto, greeting.version
            )));
        }
        Ok(daemon)
    }

    /// The socket.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The next snapshot. `None`: stopped.
    pub(crate) fn next(&mut self) -> Result<Option<Snapshot>, AttachError> {
        let line = match self.line() {
            Ok(Some(line)) => line,
            Ok(None) if self.stop.load(Ordering::Relaxed) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                return Err(AttachError::Silent { path: self.path.clone() });
            }
            Ok(None) | Err(_) => return Err(AttachError::Gone { path: self.path.clone() }),
        };
        let foreign = |why: String| AttachError::Foreign { path: self.path.clone(), why };
        let snapshot: Snapshot = serde_json::from_str(&line).map_err(|error| foreign(error.to_string()))?;
        if snapshot.schema != SCHEMA {
            return Err(foreign(format!("schema {}", snapshot.schema)));
        }
        self.interval = Duration::try_from_secs_f64(snapshot.interval_s).unwrap_or_default();
        Ok(Some(snapshot))
    }

    /// A whole line. `None`: stopped, or the other end has closed. Where none comes for too long, that is an error.
    fn line(&mut self) -> io::Result<Option<String>> {
        let mut line = Vec::new();
        let end = Instant::now() + SLACK + 3 * self.interval;
        while !self.stop.load(Ordering::Relaxed) {
            match self.lines.read_until(b'\n', &mut line) {
                Ok(_) if line.ends_with(b"\n") => {
                    return String::from_utf8(line).map(Some).map_err(io::Error::other);
                }
                Ok(_) => return Ok(None),
                // What was read stays in the line.
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    if Instant::now() >= end {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

/// Options of a command line that mean something only to who traces.
fn how_to_trace(scope: &Scope, interval: bool) -> Vec<&'static str> {
    let given = [
        ("--tcp", scope.tcp),
        ("--no-ledger", scope.no_ledger),
        ("--no-bottlenecks", scope.no_bottlenecks),
        ("--method", scope.method.is_some()),
        ("--sysfs-root", scope.sysfs_root.is_some()),
        ("--ring-size", scope.ring_size.is_some()),
        ("--overflow-size", scope.overflow_size.is_some()),
        ("--interval", interval),
    ];
    given.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name).collect()
}
