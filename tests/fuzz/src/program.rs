// SPDX-License-Identifier: MIT OR Apache-2.0
//! Entry points into the crate `mpwatch`: each reads arbitrary input as the program does, and asserts what holds for every input. The crate
//! compiles this file as its module `fuzz`, with the feature of that name only, because the parsers are not public.

use std::fs;
use std::io::{self, BufRead, BufReader, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Component, Path};
use std::sync::{Arc, Mutex, PoisonError};

use mpwatch_engine::energy::attribute::Split;
use mpwatch_engine::energy::calibration::Calibration;
use mpwatch_engine::energy::ledger::{Account, Ledger};
use mpwatch_engine::tracker::Closed;
use mpwatch_model::flow::series::CounterSeries;
use mpwatch_model::host::energy::window::EnergyWindow;
use mpwatch_model::snapshot::Snapshot;
use mpwatch_model::unit::Nanos;
use mpwatch_report::json::{self, Layout};
use mpwatch_report::{html, links, markdown, text};
use mpwatch_store::SheetKind;

use crate::client::Daemon;
use crate::command::sheet::sheet;
use crate::config::Layers;
use crate::energy::calibration::PowerFile;
use crate::energy::discovery::Hardware;
use crate::energy::sampler::Sampler;
use crate::live::recording::Replay;
use crate::live::session::{self, TrackerSettings};
use crate::names::kubernetes::{PodFolder, container_log, pod_folder, pod_group};
use crate::screen;
use crate::system::clock::ClockPair;

/// Time between two readings of the simulated clock.
const WINDOW: Nanos = Nanos(1_000_000_000);
/// Maximum number of files of an energy tree.
const MAX_FILES: usize = 64;

/// Replays the lines of a recording to the end, or to the first line that cannot be read, and writes every snapshot and the report in every
/// format.
pub fn replay(lines: impl BufRead) {
    let Ok(mut replay) = Replay::read_start(Path::new("fuzz"), lines) else { return };
    let report = session::run(&mut replay, TrackerSettings::new(Closed::Keep, None), None, |snapshot| {
        show(&snapshot);
        Ok(true)
    });
    let report = report.unwrap_or_else(|error| panic!("a replay ended with an error: {error}"));
    let series = CounterSeries::new();
    text::report(&report);
    markdown::report(&report);
    html::report(&report, &series);
    let written = json::text(&report, Layout::Pretty).is_ok()
        && sheet(&report, &series, SheetKind::Subflows).is_ok()
        && links::per_minute(&report, &series).is_ok();
    assert!(written, "a report cannot be written");
}

/// Replays a compressed recording, as it is stored.
pub fn replay_compressed(file: &[u8]) {
    if let Ok(decoder) = zstd::Decoder::with_buffer(file) {
        replay(BufReader::new(decoder));
    }
}

/// Formats a snapshot as `show`, `ls`, `top --batch` and `--json` do.
fn show(snapshot: &Snapshot) {
    for connection in &snapshot.connections {
        text::connection(connection);
    }
    mpwatch_tui::table(snapshot, 100);
    mpwatch_tui::list(snapshot);
    json::text(snapshot, Layout::Line)
        .unwrap_or_else(|error| panic!("a snapshot cannot be written: {error}"));
}

/// Reads a text as each of the program's own TOML files: the daemon's configuration, the settings of the live view, and the power curve.
/// `mpwatch config show` must print a valid configuration unchanged.
pub fn config(text: &str) {
    let path = Path::new("fuzz");
    let read = |text: &str| Layers { file: None, flags: Vec::new() }.load_text(path, text);
    if let Ok(loaded) = read(text) {
        let shown = loaded.show(true);
        match read(&shown) {
            Ok(again) => assert_eq!(again.show(false), loaded.show(false)),
            Err(error) => panic!("the shown configuration is not valid: {error}\n{shown}"),
        }
    }
    // The value is not used: the text only has to be parsed without a panic.
    let _ = screen::parse_settings(path, text);
    if let Ok(power) = PowerFile::parse(text) {
        let written = power.text().map_err(|error| error.to_string());
        let again = written.and_then(|text| PowerFile::parse(&text));
        again.unwrap_or_else(|error| panic!("a written power curve is not valid: {error}"));
    }
}

/// Reads bytes as a client of the daemon's socket, up to the first line that is not a snapshot, and formats each snapshot.
pub fn socket(bytes: &[u8]) -> io::Result<()> {
    let (server, client) = UnixStream::pair()?;
    server.set_nonblocking(true)?;
    // An input that does not fit into the kernel's buffer is cut.
    let _ = (&server).write_all(bytes);
    server.shutdown(Shutdown::Both)?;
    let Ok(mut daemon) = Daemon::greet(client, Path::new("fuzz"), &Arc::default()) else { return Ok(()) };
    while let Ok(Some(snapshot)) = daemon.next() {
        show(&snapshot);
    }
    Ok(())
}

/// Reads the energy counters of a tree that stands in for `/sys`. Each line `PATH=TEXT` writes a file below `root`; a line without `=` ends
/// a window of one second, so the lines after it change the files. Energy must be divided without remainder.
pub fn energy(root: &Path, lines: &str) {
    let now = Arc::new(Mutex::new(ClockPair { monotonic: WINDOW, boot: WINDOW }));
    let clock = Arc::clone(&now);
    let read_clock = move || *clock.lock().unwrap_or_else(PoisonError::into_inner);
    let mut windows = lines.split('\n').collect::<Vec<_>>();
    windows.truncate(MAX_FILES);
    let mut windows = windows.split(|line| !line.contains('='));
    write_files(root, windows.next().unwrap_or_default());
    let hardware = Hardware { in_vm: false, cpus: 2, ..Hardware::detect(Some(root)) };
    let mut sampler = Sampler::new(hardware, Box::new(read_clock));
    let mut split = Split::new(2, Calibration::default());
    let (mut window, mut ledger) = (EnergyWindow::default(), Ledger::default());
    let mut tick = || {
        sampler.window(&mut window, &mut ledger, |ledger| ledger.add(0, Account::App, WINDOW.0 / 2));
        split.charge(&window, &ledger);
        assert!(split.snapshot().zones.iter().all(|zone| zone.zone_uj == zone.explained()));
        assert_eq!(split.broken(), 0);
        let mut now = now.lock().unwrap_or_else(PoisonError::into_inner);
        now.monotonic += WINDOW;
        now.boot += WINDOW;
    };
    tick();
    for files in windows {
        write_files(root, files);
        tick();
    }
}

/// Reads each line as the path of a control group, as the name of a log folder and as the name of a link to a log.
pub fn kubernetes(lines: &str) {
    for line in lines.lines() {
        if let Some(group) = pod_group(line) {
            assert!(line.replace('_', "-").contains(&group.uid), "{group:?}");
            assert!(group.container.is_none_or(|id| line.contains(&id)), "{line}");
        }
        if let Some(PodFolder { namespace, name, uid }) = pod_folder(line) {
            assert_eq!(format!("{namespace}_{name}_{uid}"), line);
        }
        if let Some((id, container)) = container_log(line) {
            assert!(line.ends_with(&format!("_{container}-{id}.log")), "{line}");
        }
    }
}

/// Writes files below a folder. Ignores paths that lead out of the folder and paths that the file system refuses.
fn write_files(root: &Path, lines: &[&str]) {
    for (path, text) in lines.iter().filter_map(|line| line.split_once('=')) {
        let path = Path::new(path);
        let is_inside = path.components().all(|part| matches!(part, Component::Normal(_)));
        if !is_inside || path.as_os_str().len() > 200 || path.components().count() > 8 {
            continue;
        }
        let file = root.join(path);
        if let Some(folder) = file.parent()
            && fs::create_dir_all(folder).is_ok()
        {
            let _ = fs::write(file, text);
        }
    }
}
