// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces: recordings cut down to the samples of one cell's sender, so that a grid of them fits on a disk and a few into a repository.
//! Still recordings: `mpwatch replay` reads them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use serde_json::{Value, json};

/// Fields of the first event that say on which machine it was.
const HOST: [&str; 2] = ["name", "boot_id"];

/// Copies from a recording what belongs to senders in the namespace of this inode.
pub fn cut(recording: &Path, inode: u64, trace: &Path) -> io::Result<()> {
    let mut head = Vec::new();
    let mut records: BTreeMap<String, Value> = BTreeMap::new();
    let mut samples = Vec::new();
    let mut last_tick = Value::Null;
    for line in BufReader::new(zstd::Decoder::new(File::open(recording)?)?).lines() {
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
            if let Some(host) = event.pointer_mut("/start/host") {
                for field in HOST {
                    if let Some(text) = host.get_mut(field).filter(|value| value.is_string()) {
                        *text = json!("");
                    }
                }
            }
            head.push(event);
        }
    }
    let mut output = zstd::Encoder::new(BufWriter::new(File::create(trace)?), 19)?;
    for event in head.iter().chain(records.values()) {
        writeln!(output, "{event}")?;
    }
    let is_ours = |line: &&String| records.keys().any(|id| line.contains(id.as_str()));
    for line in samples.iter().filter(is_ours) {
        writeln!(output, "{line}")?;
    }
    writeln!(output, "{last_tick}")?;
    output.finish()?.flush()
}
