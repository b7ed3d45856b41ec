// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recordings that are damaged, on a full disk, or written over another file.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use mpwatch_model::kernel::event::Tick;
use mpwatch_model::unit::Nanos;

use super::*;

fn tick(at: u64) -> KernelEvent {
    KernelEvent::Tick(Tick { at: Nanos(at), ..Tick::default() })
}

/// A recording of some ticks, uncompressed.
fn lines(ticks: u64) -> Vec<Vec<u8>> {
    let header = serde_json::to_vec(&Header { mpwatch_recording: VERSION }).unwrap();
    let events = [KernelEvent::Start(Start::default())].into_iter().chain((1..=ticks).map(tick));
    [header].into_iter().chain(events.map(|event| serde_json::to_vec(&event).unwrap())).collect()
}

/// A recorder that does not replace a recording.
fn create(path: &Path) -> Result<Recorder, RecordingError> {
    Recorder::create(path, false, &Start::default())
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
    let mut recorder = create(&path).unwrap();
    assert!((1..=500).all(|at| recorder.write(&tick(at))));
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
    let mut first = create(&path).unwrap();
    first.write(&tick(1));
    assert!(matches!(create(&path), Err(RecordingError::InUse { .. })));
    first.write(&tick(2));
    first.finish().unwrap();
    assert_eq!(read(Replay::open(&path).unwrap()), (vec![1, 2], None));
}

#[test]
fn a_full_disk_is_reported_at_the_end() {
    let mut recorder = create(Path::new("/dev/full")).unwrap();
    (1..=2).for_each(|at| _ = recorder.write(&tick(at)));
    assert!(!recorder.write(&tick(3)));
    let error = recorder.finish().unwrap_err();
    assert!(error.to_string().contains("No space left"), "{error}");
}

#[test]
fn only_its_owner_may_read_a_new_recording() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.mpw");
    let mode = || path.metadata().unwrap().permissions().mode() & 0o777;
    create(&path).unwrap().finish().unwrap();
    assert_eq!(mode(), 0o600);
    std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    Recorder::create(&path, true, &Start::default()).unwrap().finish().unwrap();
    assert_eq!(mode(), 0o640, "permissions of a file that exists do not change");
}

#[test]
fn a_recording_is_replaced_only_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.mpw");
    let mut first = create(&path).unwrap();
    first.write(&tick(1));
    first.finish().unwrap();
    let kept = std::fs::read(&path).unwrap();
    let refused = create(&path).err().unwrap();
    assert!(matches!(&refused, RecordingError::Exists { .. }) && refused.to_string().contains("--force"));
    assert!(check(&path, false).is_err() && check(&path, true).is_ok());
    assert_eq!(std::fs::read(&path).unwrap(), kept);
    Recorder::create(&path, true, &Start::default()).unwrap().finish().unwrap();
    assert_eq!(read(Replay::open(&path).unwrap()), (vec![], None));
}

#[test]
fn a_file_that_is_not_a_recording_is_never_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("precious");
    let compressed = |content: &[u8]| zstd::encode_all(content, 3).unwrap();
    let mut no_end = b"{\"mpwatch_recording\":".to_vec();
    no_end.resize(usize::try_from(2 * MAX_LINE).unwrap(), b' ');
    let files =
        [b"my notes".to_vec(), compressed(b"my notes\n"), compressed(b"{\"a\":1}\n"), compressed(&no_end)];
    for content in files {
        std::fs::write(&path, &content).unwrap();
        for overwrite in [false, true] {
            let refused = [
                check(&path, overwrite).err().unwrap(),
                Recorder::create(&path, overwrite, &Start::default()).err().unwrap(),
            ];
            assert!(
                refused.iter().all(|why| matches!(why, RecordingError::NotOverwritten { .. })),
                "{refused:?}"
            );
        }
        assert_eq!(std::fs::read(&path).unwrap(), content);
    }
    std::fs::write(&path, "").unwrap();
    assert!(create(&path).is_ok(), "an empty file has nothing to lose");
}
