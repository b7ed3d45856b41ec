// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the engine of ClickHouse with the tables of mpwatch and serves it over HTTP. Uses the Python package chDB (`MPWATCH_PYTHON`).

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use mpwatch_testkit::mpwatch;

/// A running engine. It ends when it is dropped.
pub struct Engine {
    process: Child,
    port: u16,
    python: PathBuf,
    folder: TempDir,
}

impl Engine {
    /// Starts the engine and creates the tables. The error states what is missing and how to install it.
    pub fn start() -> Result<Self, &'static str> {
        let python = PathBuf::from(std::env::var_os("MPWATCH_PYTHON").unwrap_or_default());
        let imports = Command::new(&python).args(["-c", "import chdb"]).output();
        if !imports.is_ok_and(|output| output.status.success()) {
            return Err("MPWATCH_PYTHON does not name a Python with chdb; `./dev test slow` installs it");
        }
        let folder = TempDir::new().unwrap();
        let (process, port) = serve(&python, folder.path(), 0);
        let engine = Self { process, port, python, folder };
        engine.apply(&schema(&[]));
        Ok(engine)
    }

    /// The port of the engine on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process id of the engine.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Ends the engine with SIGKILL.
    pub fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Kills the engine and starts it again with the same data and port.
    pub fn restart(&mut self) {
        self.kill();
        (self.process, self.port) = serve(&self.python, self.folder.path(), self.port);
    }

    /// Executes a sequence of statements. Panics if a statement fails.
    #[track_caller]
    pub fn apply(&self, sql: &str) {
        for statement in statements(sql) {
            self.query(&statement);
        }
    }

    /// Executes a statement and returns the answer. Panics if the statement fails.
    #[track_caller]
    pub fn query(&self, sql: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let head = format!("POST / HTTP/1.1\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", sql.len());
        stream.write_all(format!("{head}{sql}").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{sql}: {answer}");
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.kill();
    }
}

fn serve(python: &Path, folder: &Path, port: u16) -> (Child, u16) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/clickhouse-server.py");
    let mut server = Command::new(python);
    let server = server.arg(script).arg(folder.join("data")).arg(port.to_string()).stdout(Stdio::piped());
    let mut process = server.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (process, line.trim().parse().unwrap())
}

/// The output of `mpwatch export clickhouse --schema`.
#[track_caller]
pub fn schema(more: &[&str]) -> String {
    let outcome = mpwatch(&[&["export", "clickhouse", "--schema"], more].concat());
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome:?}");
    outcome.stdout
}

/// Splits SQL text into statements.
pub fn statements(sql: &str) -> Vec<String> {
    sql.split(";\n")
        .map(str::trim)
        .filter(|text| text.lines().any(|line| !line.starts_with("--")))
        .map(str::to_owned)
        .collect()
}
