// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recordings: the event stream as JSON lines, compressed with zstd. The first line says what it is and which version;
//! what comes after is [`KernelEvent`]s. Readable with `zstdcat FILE | jq`, and to the last tick after a crash.

use std::fs::{File, TryLockError};
use std::io::{self, BufRead, BufReader, BufWriter, Read as _, Seek as _, Write};
use std::path::{Path, PathBuf};

use mpwatch_model::event::{KernelEvent, Start};
use serde::{Deserialize, Serialize};

use crate::source::{EventSource, Sink};

/// Version of the format. A reader refuses what is newer.
const VERSION: u32 = 1;
/// How a compressed file begins (RFC 8878 section 3.1.1).
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// A line longer than this is no event of ours.
const LONGEST_LINE: u64 = 1 << 20;

/// Why a recording could not be read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordingError {
    /// The file could not be opened or read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file could not be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Two recorders.
    #[error("{path} is being written by another mpwatch; stop that one, or name another file")]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// There is a file that recording would destroy.
    #[error("{path} is there, and is no recording: it is left as it is; name another file")]
    Taken {
        /// The file.
        path: PathBuf,
    },
    /// Some other file.
    #[error("{path} is not a recording of mpwatch ({why}); make one with `mpwatch record FILE`")]
    NotOurs {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// From a later version.
    #[error("{path} has recording format {got}, this mpwatch reads up to {VERSION}; use a newer mpwatch")]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        got: u32,
    },
}

/// First line of a recording.
#[derive(Serialize, Deserialize)]
struct Header {
    mpwatch_recording: u32,
}

/// Writes events to a file.
pub(crate) struct Recorder {
    path: PathBuf,
    /// The outer buffer takes in what the serializer writes, a few bytes at a time: for the encoder each write is a call of its own.
    output: BufWriter<zstd::Encoder<'static, BufWriter<File>>>,
    /// What went wrong first. Nothing is written after that: the file ends with a whole tick, or in the middle of one.
    failure: Option<io::Error>,
}

impl Recorder {
    /// Creates the file and writes its header and the start of the stream.
    pub(crate) fn create(path: &Path, start: &Start) -> Result<Self, RecordingError> {
        let failed = |source| RecordingError::Write { path: path.to_owned(), source };
        let encoder = zstd::Encoder::new(BufWriter::new(make(path)?), 3).map_err(failed)?;
        let mut recorder = Self { path: path.to_owned(), output: BufWriter::new(encoder), failure: None };
        recorder.line(&Header { mpwatch_recording: VERSION }).map_err(failed)?;
        recorder.write(&KernelEvent::Start(start.clone()));
        Ok(recorder)
    }

    /// Appends an event. After a tick everything is on its way to the disk, so that a crash loses one interval at the most.
    pub(crate) fn write(&mut self, event: &KernelEvent) {
        if self.failure.is_some() {
            return;
        }
        let is_tick = matches!(event, KernelEvent::Tick(_));
        let written = self.line(event).and_then(|()| if is_tick { self.output.flush() } else { Ok(()) });
        self.failure = written.err();
    }

    /// Whether the file takes no more, say because the disk is full. [`Self::finish`] tells why.
    pub(crate) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Ends the file properly.
    pub(crate) fn finish(self) -> Result<(), RecordingError> {
        let path = self.path;
        let ended = if let Some(failure) = self.failure {
            // Dropped, a buffer would try once more to write what it holds.
            let (encoder, _lost) = self.output.into_parts();
            drop(encoder);
            Err(failure)
        } else {
            let encoder = self.output.into_inner().map_err(io::IntoInnerError::into_error);
            encoder.and_then(zstd::Encoder::finish).and_then(|mut file| file.flush())
        };
        ended.map_err(|source| RecordingError::Write { path, source })
    }

    fn line(&mut self, value: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.output, value)?;
        self.output.write_all(b"\n")
    }
}

/// An empty file in the place of an older recording, but of nothing else, and held by nobody else.
fn make(path: &Path) -> Result<File, RecordingError> {
    let failed = |source| RecordingError::Write { path: path.to_owned(), source };
    // A pipe or a device holds nothing that could be lost.
    if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return File::create(path).map_err(failed);
    }
    let mut options = File::options();
    let mut file = options.read(true).write(true).create(true).truncate(false).open(path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(RecordingError::InUse { path: path.to_owned() }),
        Err(TryLockError::Error(source)) => return Err(failed(source)),
    }
    let mut first = [0; ZSTD.len()];
    match file.read(&mut first).map_err(failed)? {
        0 => {}
        _ if first == ZSTD => {}
        _ => return Err(RecordingError::Taken { path: path.to_owned() }),
    }
    file.set_len(0).map_err(failed)?;
    file.rewind().map_err(failed)?;
    Ok(file)
}

/// A recording being read.
pub(crate) struct Replay<R = BufReader<zstd::Decoder<'static, BufReader<File>>>> {
    lines: R,
    start: Start,
    line: Vec<u8>,
    /// Why nothing more could be read although the recording did not end.
    cut_short: Option<String>,
}

impl Replay {
    /// Opens a recording and reads its beginning.
    pub(crate) fn open(path: &Path) -> Result<Self, RecordingError> {
        let failed = |source| RecordingError::Read { path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        let lines = BufReader::new(zstd::Decoder::new(file).map_err(failed)?);
        Self::read_start(path, lines)
    }
}

impl<R: BufRead> Replay<R> {
    /// Reads the beginning of an uncompressed stream of lines.
    pub(crate) fn read_start(path: &Path, lines: R) -> Result<Self, RecordingError> {
        let not_ours = |why: String| RecordingError::NotOurs { path: path.to_owned(), why };
        let mut replay = Self { lines, start: empty_start(), line: Vec::new(), cut_short: None };
        let first = replay.next_line().map_err(|error| not_ours(error.to_string()))?;
        let header = first.then(|| serde_json::from_slice::<Header>(&replay.line));
        let version = match header {
            Some(Ok(header)) => header.mpwatch_recording,
            Some(Err(error)) => return Err(not_ours(format!("its first line is no header: {error}"))),
            None => return Err(not_ours("it is empty".to_owned())),
        };
        if version > VERSION {
            return Err(RecordingError::Newer { path: path.to_owned(), got: version });
        }
        match replay.next_event() {
            Some(KernelEvent::Start(start)) => replay.start = start,
            _ => return Err(not_ours("it does not say where and when it began".to_owned())),
        }
        Ok(replay)
    }

    /// The next event, or none: it is over, or [`EventSource::cut_short`] says why the rest cannot be read. What came before holds.
    fn next_event(&mut self) -> Option<KernelEvent> {
        if self.cut_short.is_some() {
            return None;
        }
        let why = match self.next_line() {
            Ok(false) => return None,
            Ok(true) => match serde_json::from_slice(&self.line) {
                Ok(event) => return Some(event),
                Err(error) => format!("the file is damaged, a line is no event ({error})"),
            },
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                "the file ends abruptly, as after a crash of its recorder".to_owned()
            }
            Err(error) => format!("the file is damaged or cannot be read ({error})"),
        };
        self.cut_short = Some(why);
        None
    }

    /// Reads a line into `self.line`; `false`: the end. A line without its end is a torn one.
    fn next_line(&mut self) -> io::Result<bool> {
        self.line.clear();
        let mut limited = io::Read::take(&mut self.lines, LONGEST_LINE);
        let read = limited.read_until(b'\n', &mut self.line)?;
        if read == 0 {
            return Ok(false);
        }
        if self.line.last() == Some(&b'\n') {
            return Ok(true);
        }
        let why = if read as u64 == LONGEST_LINE {
            io::ErrorKind::InvalidData
        } else {
            io::ErrorKind::UnexpectedEof
        };
        Err(io::Error::new(why, "a line does not end"))
    }
}

impl<R: BufRead> EventSource for Replay<R> {
    fn start(&self) -> &Start {
        &self.start
    }

    fn next_tick(&mut self, sink: &mut Sink<'_>) -> anyhow::Result<bool> {
        while let Some(event) = self.next_event() {
            sink(&event)?;
            if matches!(event, KernelEvent::Tick(_)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn cut_short(&self) -> Option<&str> {
        self.cut_short.as_deref()
    }
}

fn empty_start() -> Start {
    Start {
        host: mpwatch_model::host::Host::default(),
        boot_epoch_ns: 0,
        at: mpwatch_model::unit::Nanos(0),
        traces: mpwatch_model::event::Traces::default(),
        backoff: false,
        machine: None,
    }
}

#[cfg(test)]
mod tests;
