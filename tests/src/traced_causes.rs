// SPDX-License-Identifier: MIT OR Apache-2.0
//! The causes that a running mpwatch finds for the connections that it traces.

use std::collections::HashMap;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Receiver;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mpwatch_testkit::lines;
use serde_json::Value;

use crate::{emulation, list, program, text};

const TIMEOUT: Duration = Duration::from_mins(1);

/// A running `mpwatch top --batch`.
pub struct TracedCauses {
    child: Child,
    lines: Mutex<Receiver<String>>,
    /// The latest cause of each connection, by its namespace and its ends. `None`: none was found so far.
    found: Mutex<HashMap<[String; 3], Option<String>>>,
}

impl TracedCauses {
    /// Starts mpwatch, and waits until it traces.
    pub fn start() -> Self {
        let options =
            ["top", "--batch", "--json", "--interval", "500ms", "--ledger", "off", "--no-bottlenecks"];
        let mut child = Command::new(program())
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program can be started");
        let lines = lines(child.stdout.take().unwrap());
        lines.recv_timeout(emulation::timeout(TIMEOUT)).expect("the first snapshot");
        Self { child, lines: Mutex::new(lines), found: Mutex::default() }
    }

    /// The cause of a connection of a namespace over this server port. `None`: it was not found so far.
    pub fn cause_of(&self, netns: &str, port: u16) -> Option<String> {
        let port = format!(":{port}");
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        for line in self.lines.lock().unwrap_or_else(PoisonError::into_inner).try_iter() {
            let snapshot: Value = serde_json::from_str(&line).expect("a line is a snapshot");
            for connection in list(&snapshot, "connections") {
                let key = ["netns", "local", "remote"]
                    .map(|name| connection[name].as_str().unwrap_or_default().to_owned());
                let cause =
                    connection["cause"].as_object().map(|_| text(&connection["cause"], "id").to_owned());
                found.insert(key, cause);
            }
        }
        let mut here = found
            .iter()
            .filter(|(key, _)| key[0] == netns && key[1..].iter().any(|end| end.ends_with(&port)));
        here.find_map(|(_, cause)| cause.clone())
    }
}

impl Drop for TracedCauses {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
