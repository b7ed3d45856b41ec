// SPDX-License-Identifier: MIT OR Apache-2.0
//! A real ClickHouse server accepts the data of `mpwatch export clickhouse`: HTTP interface, authentication, gzip, errors, and duplicate
//! rows. Debian's version 18 lacks features of our tables, so it gets a simpler table of ends. `export_clickhouse.rs` tests the whole
//! schema with the current engine.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use mpwatch_exporters::clickhouse::schema::VERSION;
use mpwatch_fixtures as fixture;
use mpwatch_lab::poll_until;
use mpwatch_store::{Limits, Store};
use mpwatch_tests::clickhouse::schema;
use mpwatch_tests::{mpwatch, skip};
use tempfile::TempDir;

const SCHEMA_VERSION: &str = "CREATE TABLE mpwatch.schema_version (version UInt32) ENGINE = Log";

/// Our table of ends without features that this version lacks: nullable `LowCardinality`, codecs of columns, and partitions by day.
fn ends() -> String {
    let schema = schema(&[]);
    let (_, columns) = schema.split_once("CREATE TABLE IF NOT EXISTS mpwatch.ends (").unwrap();
    let columns = columns.split_once("\n) ENGINE").unwrap().0;
    let columns = columns
        .replace("LowCardinality(Nullable(String))", "Nullable(String)")
        .replace(" CODEC(ZSTD(1))", "");
    format!(
        "CREATE TABLE mpwatch.ends ({columns}) ENGINE = ReplacingMergeTree(version) ORDER BY (boot_id, id)"
    )
}

struct Server {
    process: Child,
    port: u16,
    folder: TempDir,
}

impl Server {
    /// `None`: the server is not installed.
    fn start() -> Option<Self> {
        if Command::new("clickhouse-server").arg("--version").output().is_err() {
            skip("clickhouse-server is missing; it is in Debian's package of the same name");
            return None;
        }
        let folder = TempDir::new().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let of = |name: &str| folder.path().join(name).display().to_string();
        let config = format!(
            "<yandex><logger><level>error</level><log>{}</log><errorlog>{}</errorlog></logger>
             <http_port>{port}</http_port><listen_host>127.0.0.1</listen_host><path>{}/</path><tmp_path>{}/</tmp_path>
             <users_config>users.xml</users_config><default_profile>default</default_profile><default_database>default</default_database>
             <mark_cache_size>5368709</mark_cache_size></yandex>",
            of("log"),
            of("errors"),
            of("data"),
            of("tmp")
        );
        let user = |name: &str, password: &str| {
            format!(
                "<{name}><password>{password}</password><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota></{name}>"
            )
        };
        let users = format!(
            "<yandex><profiles><default/></profiles><quotas><default/></quotas><users>{}{}</users></yandex>",
            user("default", ""),
            user("mpwatch", "hunter2")
        );
        fs::write(folder.path().join("config.xml"), config).unwrap();
        fs::write(folder.path().join("users.xml"), users).unwrap();
        let process = spawn(folder.path());
        let server = Self { process, port, folder };
        server.wait();
        Some(server)
    }

    fn wait(&self) {
        poll_until("the server to listen", Duration::from_mins(1), || self.try_query("SELECT 1")).unwrap();
    }

    fn restart(&mut self) {
        self.kill();
        self.process = spawn(self.folder.path());
        self.wait();
    }

    fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    fn try_query(&self, sql: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        let head = format!("POST / HTTP/1.0\r\ncontent-length: {}\r\n\r\n", sql.len());
        stream.write_all(format!("{head}{sql}").as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        assert!(head.contains(" 200 "), "{sql}: {answer}");
        Some(body.to_owned())
    }

    fn query(&self, sql: &str) -> String {
        self.try_query(sql).expect("the server answers")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(folder: &Path) -> Child {
    let mut server = Command::new("clickhouse-server");
    let server = server.current_dir(folder).arg("--config-file=config.xml");
    server.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn a_server_takes_every_row_once_with_the_right_password_and_after_sigkill() {
    let Some(mut server) = Server::start() else { return };
    for statement in ["CREATE DATABASE mpwatch", SCHEMA_VERSION, &ends()] {
        server.query(statement);
    }
    server.query(&format!("INSERT INTO mpwatch.schema_version VALUES ({VERSION})"));
    let folder = TempDir::new().unwrap();
    let (db, secret) = (folder.path().join("flows.db"), folder.path().join("secret"));
    let connections: Vec<_> = (1..=60).map(fixture::closed).collect();
    let bytes: u64 =
        connections.iter().filter_map(|connection| connection.bytes_sent).map(|bytes| bytes.0).sum();
    let store = Store::open(&db, &Limits::none()).unwrap();
    store.deliver(&Arc::new(fixture::snapshot(connections)));
    store.close();
    let url = format!("http://127.0.0.1:{}", server.port);
    let fixed = ["export", "clickhouse", "--batch", "7", "--user", "mpwatch", "--url", &url];
    let files = ["--db", db.to_str().unwrap(), "--password-file", secret.to_str().unwrap()];
    let with = |more: &[&str]| mpwatch(&[&fixed[..], &files, more].concat());
    let export = |more: &[&str]| with(&[&["--compression", "gzip"], more].concat());
    fs::write(&secret, "wrong").unwrap();
    // Version 18 answers a wrong password with 500, which could be temporary.
    let refused = export(&["--retry-max-time", "100ms"]);
    assert!(refused.code == Some(1) && refused.stderr.contains("Wrong password"), "{refused:?}");
    assert!(!refused.stderr.contains("wrong\n"), "{refused:?}");
    fs::write(&secret, "hunter2\n").unwrap();
    let too_new = with(&["--retry-max-time", "100ms"]);
    assert!(too_new.code == Some(1) && too_new.stderr.contains("set `compression` to gzip"), "{too_new:?}");
    // The server is killed, and restarts while the export retries.
    server.kill();
    let exported = thread::scope(|scope| {
        let exporting = scope.spawn(|| export(&[]));
        server.restart();
        exporting.join().unwrap()
    });
    assert_eq!(exported.code, Some(0), "{exported:?}");
    assert!(exported.stderr.contains("sent 60 connections in 9 requests"), "{exported:?}");
    server.restart();
    assert_eq!(export(&["--resend"]).code, Some(0));
    let sums = "SELECT count(), sum(bytes_sent), countIf(pair IS NULL), min(length(subflow.id)), any(comm) FROM mpwatch.ends FINAL";
    assert_eq!(server.query(sums), format!("60\t{bytes}\t0\t2\tiperf3\n"));
}
