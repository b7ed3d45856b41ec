// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recordings: a header and [`KernelEvent`]s as JSON lines, in zstd. `zstdcat FILE | jq` prints them; after a crash, up to the last tick.

use std::fs::{File, TryLockError};
use std::io::{self, BufRead, BufReader, BufWriter, Read as _, Seek as _, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use mpwatch_model::kernel::event::{KernelEvent, Start};
use serde::{Deserialize, Serialize};

use crate::live::source::{EventSink, EventSource};

/// Version of the format. A file with a newer version is rejected.
const VERSION: u32 = 1;
/// Maximum length of a line in bytes; no event is longer.
const MAX_LINE: u64 = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordingError {
    #[error("cannot read {path}: {source}")]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write {path}: {source}")]
    Write { path: PathBuf, source: io::Error },
    #[error("another mpwatch is writing {path}; stop it, or choose another file")]
    InUse { path: PathBuf },
    #[error("{path} exists and is not a recording, so it is not overwritten; choose another file")]
    NotOverwritten { path: PathBuf },
    #[error("{path} is a recording already; choose another file, or --force to replace it")]
    Exists { path: PathBuf },
    #[error("{path} is not a recording of mpwatch ({reason}); make one with `mpwatch record FILE`")]
    NotARecording { path: PathBuf, reason: String },
    #[error("{path} has recording format {found}, this mpwatch reads up to {VERSION}; use a newer mpwatch")]
    Newer { path: PathBuf, found: u32 },
}

/// First line of a recording.
#[derive(Serialize, Deserialize)]
struct Header {
    mpwatch_recording: u32,
}

pub(crate) struct Recorder {
    path: PathBuf,
    /// Buffers the writes of the serializer, which have a few bytes each, so that the encoder is called less often.
    output: BufWriter<zstd::Encoder<'static, BufWriter<File>>>,
    /// The first failure. Nothing is written after it.
    failure: Option<io::Error>,
}

impl Recorder {
    /// Creates the file, or empties one that [`check`] accepts, and writes its header and the start of the stream.
    pub(crate) fn create(path: &Path, overwrite: bool, start: &Start) -> Result<Self, RecordingError> {
        let failed = |source| RecordingError::Write { path: path.to_owned(), source };
        let encoder = zstd::Encoder::new(BufWriter::new(create_file(path, overwrite)?), 3).map_err(failed)?;
        let mut recorder = Self { path: path.to_owned(), output: BufWriter::new(encoder), failure: None };
        recorder.line(&Header { mpwatch_recording: VERSION }).map_err(failed)?;
        recorder.write(&KernelEvent::Start(start.clone()));
        Ok(recorder)
    }

    /// Appends an event. Every tick is flushed, so a crash loses one interval at most. `false`: writing has failed, for example because the
    /// disk is full; [`Self::finish`] returns the reason.
    pub(crate) fn write(&mut self, event: &KernelEvent) -> bool {
        if self.failure.is_none() {
            let is_tick = matches!(event, KernelEvent::Tick(_));
            let written = self.line(event).and_then(|()| if is_tick { self.output.flush() } else { Ok(()) });
            self.failure = written.err();
        }
        self.failure.is_none()
    }

    pub(crate) fn finish(self) -> Result<(), RecordingError> {
        let path = self.path;
        let ended = if let Some(failure) = self.failure {
            // Dropping the buffer would try to write its content again.
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

/// Refuses to replace a file that is not a recording, and without `overwrite` also a recording.
pub(crate) fn check(path: &Path, overwrite: bool) -> Result<(), RecordingError> {
    // Opening a pipe would wait for its writer.
    let is_file = std::fs::metadata(path).is_ok_and(|found| found.is_file());
    match is_file.then(|| File::open(path)) {
        Some(Ok(file)) => check_content(path, &file, overwrite),
        // Creating the file will report the error.
        _ => Ok(()),
    }
}

fn check_content(path: &Path, file: &File, overwrite: bool) -> Result<(), RecordingError> {
    if !file.metadata().is_ok_and(|found| found.len() > 0) {
        return Ok(());
    }
    let path = path.to_owned();
    match is_recording(file) {
        false => Err(RecordingError::NotOverwritten { path }),
        true if !overwrite => Err(RecordingError::Exists { path }),
        true => Ok(()),
    }
}

/// Creates a file that only its owner may read, because it is as private as a database, or empties an existing file. Locks the file.
fn create_file(path: &Path, overwrite: bool) -> Result<File, RecordingError> {
    let failed = |source| RecordingError::Write { path: path.to_owned(), source };
    // A pipe or a device has no content to lose.
    if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return File::create(path).map_err(failed);
    }
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let mut file = options.open(path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(RecordingError::InUse { path: path.to_owned() }),
        Err(TryLockError::Error(source)) => return Err(failed(source)),
    }
    check_content(path, &file, overwrite)?;
    file.set_len(0).map_err(failed)?;
    file.rewind().map_err(failed)?;
    Ok(file)
}

/// Whether the first line is the header of a recording, of any version. Moves the file's position.
pub(crate) fn is_recording(file: &File) -> bool {
    let Ok(decoder) = zstd::Decoder::new(file) else { return false };
    let mut line = Vec::new();
    let read = BufReader::new(decoder.take(MAX_LINE)).read_until(b'\n', &mut line);
    read.is_ok() && serde_json::from_slice::<Header>(&line).is_ok()
}

pub(crate) struct Replay<R = BufReader<zstd::Decoder<'static, BufReader<File>>>> {
    lines: R,
    start: Start,
    line: Vec<u8>,
    /// Why reading stopped before the end of the recording. `None`: it did not.
    cut_short: Option<String>,
}

impl Replay {
    /// Opens a recording and reads its header and start.
    pub(crate) fn open(path: &Path) -> Result<Self, RecordingError> {
        let failed = |source| RecordingError::Read { path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        let lines = BufReader::new(zstd::Decoder::new(file).map_err(failed)?);
        Self::read_start(path, lines)
    }
}

impl<R: BufRead> Replay<R> {
    /// Reads the header and start of an uncompressed stream of lines.
    pub(crate) fn read_start(path: &Path, lines: R) -> Result<Self, RecordingError> {
        let refused = |reason: String| RecordingError::NotARecording { path: path.to_owned(), reason };
        let mut replay = Self { lines, start: Start::default(), line: Vec::new(), cut_short: None };
        let first = replay.next_line().map_err(|error| refused(error.to_string()))?;
        let header = first.then(|| serde_json::from_slice::<Header>(&replay.line));
        let version = match header {
            Some(Ok(header)) => header.mpwatch_recording,
            Some(Err(error)) => return Err(refused(format!("its first line is not a header: {error}"))),
            None => return Err(refused("it is empty".to_owned())),
        };
        if version > VERSION {
            return Err(RecordingError::Newer { path: path.to_owned(), found: version });
        }
        match replay.next_event() {
            Some(KernelEvent::Start(start)) => replay.start = start,
            _ => return Err(refused("its second line is not the start event".to_owned())),
        }
        Ok(replay)
    }

    /// The next event. `None`: the recording has ended, or the rest cannot be read; [`EventSource::cut_short`] returns the reason.
    fn next_event(&mut self) -> Option<KernelEvent> {
        if self.cut_short.is_some() {
            return None;
        }
        let reason = match self.next_line() {
            Ok(false) => return None,
            Ok(true) => match serde_json::from_slice(&self.line) {
                Ok(event) => return Some(event),
                Err(error) => format!("the file is damaged: a line is not an event ({error})"),
            },
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                "the file ends abruptly, as after a crash of the recorder".to_owned()
            }
            Err(error) => format!("the file is damaged or cannot be read ({error})"),
        };
        self.cut_short = Some(reason);
        None
    }

    /// Reads a line into `self.line`. `false`: the end. A line without a newline is an error.
    fn next_line(&mut self) -> io::Result<bool> {
        self.line.clear();
        let mut limited = io::Read::take(&mut self.lines, MAX_LINE);
        let read = limited.read_until(b'\n', &mut self.line)?;
        if read == 0 {
            return Ok(false);
        }
        if self.line.last() == Some(&b'\n') {
            return Ok(true);
        }
        let kind =
            if read as u64 == MAX_LINE { io::ErrorKind::InvalidData } else { io::ErrorKind::UnexpectedEof };
        Err(io::Error::new(kind, "a line has no end"))
    }
}

impl<R: BufRead> EventSource for Replay<R> {
    fn start(&self) -> &Start {
        &self.start
    }

    fn next_tick(&mut self, sink: &mut EventSink<'_>) -> anyhow::Result<bool> {
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

#[cfg(test)]
mod tests;
