// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recordings on damaged files, full disks and in the place of other files.

use mpwatch_model::event::Tick;
use mpwatch_model::unit::Nanos;

use super::*;

fn tick(at: u64) -> KernelEvent {
    KernelEvent::Tick(Tick { at: Nanos(at), ..Tick::default() })
}

/// A recording of some ticks, uncompressed.
fn lines(ticks: u64) -> Vec<Vec<u8>> {
    let header = serde_json::to_vec(&Header { mpwatch_recording: VERSION }).unwrap();
    let events = [KernelEvent::Start(empty_start())].into_iter().chain((1..=ticks).map(tick));
    [header].into_iter().chain(events.map(|event| serde_json::to_vec(&event).unwrap())).collect()
}

/// Times of the ticks that can be read, and why reading stopped early.
fn read<R: BufRead>(mut replay: Replay<R>) -> (Vec<u64>, Option<String>) {
    let mut ticks = Vec::new();
    let mut sink = |event: &KernelEvent| {
        if let KernelEvent::Tick(tick) = event {
            ticks.push(tick.at.0);
        }
        Ok(())
    };
    while replay.next_tick(&mut sink).unwrap() {}
    (ticks, replay.cut_short().map(str::to_owned))
}

#[test]
fn events_before_a_damaged_line_are_read() {
    let mut lines = lines(5);
    lines[4][0] = b'x';
    let (ticks, reason) = read(Replay::read_start(Path::new("a"), lines.join(&b'\n').as_slice()).unwrap());
    assert_eq!(ticks, [1, 2]);
    assert!(reason.unwrap().contains("damaged"));
}

#[test]
fn events_before_a_damaged_byte_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mpw");
    let mut recorder = Recorder::create(&path, &empty_start()).unwrap();
    (1..=500).for_each(|at| recorder.write(&tick(at)));
    recorder.finish().unwrap();
    let whole = read(Replay::open(&path).unwrap());
    assert_eq!(whole, ((1..=500).collect(), None));
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 4].fill(0xff);
    std::fs::write(&path, bytes).unwrap();
    let (ticks, reason) = read(Replay::open(&path).unwrap());
    assert!(!ticks.is_empty() && ticks.len() < 500, "{} ticks", ticks.len());
    assert_eq!(ticks, (1..=ticks.len() as u64).collect::<Vec<_>>());
    assert!(reason.is_some());
}

#[test]
fn a_recording_that_is_being_written_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mpw");
    let mut first = Recorder::create(&path, &empty_start()).unwrap();
    first.write(&tick(1));
    assert!(matches!(Recorder::create(&path, &empty_start()), Err(RecordingError::InUse { .. })));
    first.write(&tick(2));
    first.finish().unwrap();
    assert_eq!(read(Replay::open(&path).unwrap()), (vec![1, 2], None));
}

#[test]
fn a_full_disk_is_reported_at_the_end() {
    let mut recorder = Recorder::create(Path::new("/dev/full"), &empty_start()).unwrap();
    (1..=3).for_each(|at| recorder.write(&tick(at)));
    assert!(recorder.has_failed());
    let error = recorder.finish().unwrap_err();
    assert!(error.to_string().contains("No space left"), "{error}");
}

#[test]
fn only_recordings_are_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.mpw");
    Recorder::create(&path, &empty_start()).unwrap().finish().unwrap();
    Recorder::create(&path, &empty_start()).unwrap().finish().unwrap();
    assert!(Replay::open(&path).is_ok());
    std::fs::write(&path, "my notes").unwrap();
    assert!(matches!(Recorder::create(&path, &empty_start()), Err(RecordingError::NotOverwritten { .. })));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "my notes");
}
