// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces are recordings that are reduced to the samples of one cell's sender, so that the traces of a grid fit on a disk.
//! `mpwatch replay` can read a trace.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use mpwatch_model::kernel::event::KernelEvent;
use serde_json::{Value, json};

use mpwatch_lab::bottleneck::cell::Cell;

/// Fields of the first event that identify the machine; they are emptied.
const HOST_FIELDS: [&str; 2] = ["name", "boot_id"];
/// Compression level: the highest level of zstd that does not need the option `--ultra`.
const COMPRESSION: i32 = 19;

/// The file of a cell's trace in a folder.
pub fn trace_of(folder: &Path, cell: &Cell) -> PathBuf {
    folder.join(format!("{cell}.mpw"))
}

/// The file of a cell's labels in a folder. This file is written last, so the recording of a cell with labels is complete.
pub fn labels_of(folder: &Path, cell: &Cell) -> PathBuf {
    folder.join(format!("{cell}.json"))
}

/// The events of a recording, in order.
pub fn read(recording: &Path) -> io::Result<Vec<KernelEvent>> {
    // The first line is the header.
    lines(recording)?.skip(1).map(|line| Ok(serde_json::from_str(&line?)?)).collect()
}

fn lines(recording: &Path) -> io::Result<impl Iterator<Item = io::Result<String>>> {
    Ok(BufReader::new(zstd::Decoder::new(File::open(recording)?)?).lines())
}

/// Copies the subflow records and samples of one namespace, given by its inode, from a recording to a trace.
pub fn reduce(recording: &Path, inode: u64, trace: &Path) -> io::Result<()> {
    let mut head = Vec::new();
    let mut records: BTreeMap<String, Value> = BTreeMap::new();
    let mut samples = Vec::new();
    let mut last_tick = Value::Null;
    for line in lines(recording)? {
        let line = line?;
        if line.starts_with("{\"samples\"") {
            samples.push(line);
            continue;
        }
        let mut event: Value = serde_json::from_str(&line)?;
        if let Some(record) = event.get("subflow") {
            if record["netns_inode"] == inode {
                records.insert(record["id"].to_string(), event);
            }
        } else if let Some(tick) = event.get_mut("tick") {
            (tick["cpus"], tick["energy"]) = (json!([]), Value::Null);
            last_tick = event;
        } else if event.get("mpwatch_recording").is_some() || event.get("start").is_some() {
            anonymize(&mut event);
            head.push(event);
        }
    }
    let mut output = zstd::Encoder::new(BufWriter::new(File::create(trace)?), COMPRESSION)?;
    for event in head.iter().chain(records.values()) {
        writeln!(output, "{event}")?;
    }
    // `{"samples":{"id":"17dac5.0",...`: the third string is the id.
    let is_wanted =
        |line: &&String| line.split('"').nth(5).is_some_and(|id| records.contains_key(&format!("\"{id}\"")));
    for line in samples.iter().filter(is_wanted) {
        writeln!(output, "{line}")?;
    }
    writeln!(output, "{last_tick}")?;
    output.finish()?.flush()
}

fn anonymize(start: &mut Value) {
    let Some(host) = start.pointer_mut("/start/host") else { return };
    for field in HOST_FIELDS {
        if let Some(text) = host.get_mut(field).filter(|value| value.is_string()) {
            *text = json!("");
        }
    }
}
