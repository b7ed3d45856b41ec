// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch export clickhouse`: no failure of the server loses a connection, repetition is harmless, and the schema works on the current
//! engine of ClickHouse in chDB (`MPWATCH_PYTHON`).
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use mpwatch_fixtures as fixture;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::id::Token;
use mpwatch_model::kernel::endpoint::Name;
use mpwatch_model::kernel::lifecycle::Role;
use mpwatch_model::unit::Bytes;
use mpwatch_store::{Limits, Store};
use mpwatch_tests::clickhouse::{engine, rows, schema, statements};
use mpwatch_tests::scripted_server::{Answer, Request, server};
use mpwatch_tests::{CommandOutput, mpwatch};
use tempfile::TempDir;

const HOUR_NS: i64 = 3_600_000_000_000;

/// Writes connections of a host into a database.
fn database(folder: &Path, host: &str, connections: Vec<Connection>) -> PathBuf {
    let path = folder.join(format!("{host}.db"));
    let store = Store::open(&path, &Limits::none()).unwrap();
    let mut snapshot = fixture::snapshot(connections);
    let of_host = &mut snapshot.host;
    (of_host.name, of_host.boot_id) = (host.to_owned(), format!("boot of {host}"));
    store.deliver(&Arc::new(snapshot));
    store.close();
    path
}

fn export(db: &Path, port: u16, more: &[&str]) -> CommandOutput {
    let url = format!("http://127.0.0.1:{port}");
    let arguments = ["export", "clickhouse", "--db", db.to_str().unwrap(), "--url", &url];
    mpwatch(&[&arguments, more].concat())
}

#[track_caller]
fn good(outcome: &CommandOutput) -> &str {
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), ""), "{outcome:?}");
    &outcome.stderr
}

const VERSION: Answer = Answer::Status(200, "1\n");
const OK: Answer = Answer::Status(200, "");

/// The version of a row. The row with the greatest version is valid.
fn version(row: &BTreeMap<String, String>) -> u64 {
    row["version"].parse().unwrap()
}

/// The newest version of each row, by token, which ReplacingMergeTree keeps.
fn kept(requests: &[Request]) -> BTreeMap<String, u64> {
    let mut kept = BTreeMap::new();
    for row in requests.iter().flat_map(|request| rows(&request.body)) {
        let known = kept.entry(row["token"].clone()).or_default();
        *known = version(&row).max(*known);
    }
    kept
}

#[test]
fn no_failure_of_the_server_loses_a_connection() {
    let folder = TempDir::new().unwrap();
    let db = database(folder.path(), "a", (1..=7).map(fixture::closed).collect());
    let failures = [
        Answer::Status(500, "Code: 241. DB::Exception: memory limit\u{1b}[2J"),
        Answer::Stall,
        Answer::Half,
        Answer::Close,
        Answer::Status(200, "Code: 60. DB::Exception: too late for a status"),
        Answer::Page,
    ];
    let answers = [&failures[..2], &[VERSION], &failures, &[OK], &failures[2..], &[OK, OK]].concat();
    let (port, requests) = server(answers);
    let outcome = export(&db, port, &["--batch", "3", "--timeout", "500ms"]);
    let printed = good(&outcome);
    assert!(
        printed.contains("sent 7 connections in 3 requests") && printed.contains("12 repeated"),
        "{printed}"
    );
    assert!(
        printed.contains("500: Code: 241") && printed.contains("within 500ms") && !printed.contains('\u{1b}'),
        "{printed}"
    );
    let requests: Vec<Request> = requests.try_iter().collect();
    let rows: usize = requests.iter().map(|request| rows(&request.body).len()).sum();
    assert_eq!(rows, 3 * 7 + 3 * 5 + 1, "a batch is repeated until it is confirmed");
    assert_eq!(kept(&requests).len(), 7);
}

#[test]
fn unconfirmed_connections_are_sent_by_the_next_run() {
    let folder = TempDir::new().unwrap();
    let db = database(folder.path(), "a", (1..=5).map(fixture::closed).collect());
    // One server for all runs, because its address identifies the target.
    let rejected = Answer::Status(400, "Code: 47. DB::Exception: Unknown column");
    // The tables were upgraded before this host.
    let newer = Answer::Status(200, "99\n");
    let (port, requests) = server(vec![VERSION, OK, rejected, newer, OK, OK, VERSION, VERSION, OK]);
    let outcome = export(&db, port, &["--batch", "2"]);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    for word in ["400", "Unknown column", "stay in the database"] {
        assert!(outcome.stderr.contains(word), "{word}: {}", outcome.stderr);
    }
    assert!(good(&export(&db, port, &["--batch", "2"])).contains("sent 3 connections"));
    assert!(good(&export(&db, port, &[])).contains("sent 0 connections"));
    assert!(good(&export(&db, port, &["--resend"])).contains("sent 5 connections"));
    let requests: Vec<Request> = requests.try_iter().collect();
    let kept = kept(&requests);
    assert_eq!(kept.len(), 5);
    let rows = requests.iter().flat_map(|request| rows(&request.body));
    let versions: Vec<u64> = rows.map(|row| version(&row)).collect();
    assert!(versions.is_sorted(), "a later state never has a smaller version: {versions:?}");
}

#[test]
fn a_server_that_stays_away_is_an_error_after_the_time_that_was_given() {
    let folder = TempDir::new().unwrap();
    let db = database(folder.path(), "a", vec![fixture::closed(1)]);
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let outcome = export(&db, unused, &["--retry-max-time", "300ms"]);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    for word in [
        "cannot connect to http://127.0.0.1",
        "trying again",
        "gave up after 300ms",
        "run this command again",
    ] {
        assert!(outcome.stderr.contains(word), "{word}: {}", outcome.stderr);
    }
}

#[test]
fn tables_that_are_missing_or_of_an_older_version_get_nothing() {
    let folder = TempDir::new().unwrap();
    let db = database(folder.path(), "a", vec![fixture::closed(1)]);
    for (answer, words) in [
        (Answer::Status(404, "UNKNOWN_TABLE"), ["--schema", "UNKNOWN_TABLE"]),
        (Answer::Status(200, "0\n"), ["schema 0", "--schema"]),
        (Answer::Status(200, "<html>"), ["<html>", "address"]),
    ] {
        let (port, requests) = server(vec![answer]);
        let outcome = export(&db, port, &[]);
        assert_eq!(outcome.code, Some(1), "{outcome:?}");
        for word in words {
            assert!(outcome.stderr.contains(word), "{word}: {}", outcome.stderr);
        }
        assert!(requests.try_iter().all(|request| request.body.is_empty()));
    }
}

#[test]
fn the_password_is_sent_and_never_shown() {
    let folder = TempDir::new().unwrap();
    let db = database(folder.path(), "a", vec![fixture::closed(1)]);
    let file = folder.path().join("password");
    fs::write(&file, "hunter2 \n").unwrap();
    let (port, requests) = server(vec![Answer::Status(403, "Authentication failed")]);
    let more = ["--user", "mpwatch", "--password-file", file.to_str().unwrap()];
    let outcome = export(&db, port, &more);
    assert_eq!(outcome.code, Some(1), "after a wrong password the export does not retry");
    assert!(
        outcome.stderr.contains("Authentication failed") && !outcome.stderr.contains("hunter2"),
        "{outcome:?}"
    );
    let head = requests.recv().unwrap().head;
    assert!(
        head.contains("x-clickhouse-user: mpwatch\r\n") && head.contains("x-clickhouse-key: hunter2"),
        "{head}"
    );
    fs::write(&file, "bell\u{7}").unwrap();
    let outcome = export(&db, port, &more);
    assert!(outcome.stderr.contains("first line of") && !outcome.stderr.contains("bell"), "{outcome:?}");
    for (arguments, word) in [
        (&["--url", "http://me:hunter2@host"][..], "--password-file"),
        (&["--url", "https://host", "--cert-file", "/x"], "--key-file"),
        (&["--url", "https://host", "--user", "me", "--token-file", "/x"], "--token-file"),
        (&["--url", "host:8123"], "http://"),
        (&["--url", "http://host", "--schema"], "--schema"),
        (&[], "--url"),
        (&["--cluster", "c"], "--schema"),
        (&["--url", "http://host", "--keep", "90d"], "--keep"),
        (&["--url", "http://host:99999"], "no valid port"),
    ] {
        let outcome = mpwatch(&[&["export", "clickhouse"], arguments].concat());
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
        assert!(outcome.stderr.contains(word), "{word}: {}", outcome.stderr);
    }
}

fn in_checkout(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

/// After a change of the tables, read the difference here. CONTRIBUTING.md describes when to increase their version.
#[test]
fn the_schema_in_the_repository_is_current() {
    let file = in_checkout("dashboards/clickhouse/schema.sql");
    let printed = schema(&[]);
    if std::env::var_os("MPWATCH_BLESS").is_some() {
        fs::write(&file, &printed).unwrap();
    }
    let advice = "MPWATCH_BLESS=1 cargo test --workspace --test programs export_clickhouse regenerates it";
    assert!(fs::read_to_string(&file).unwrap_or_default() == printed, "{}: {advice}", file.display());
}

/// The server's end of a connection: the tokens are swapped.
fn other_end(client: &Connection) -> Connection {
    let mut server = client.clone();
    server.role = Some(Role::Server);
    std::mem::swap(&mut server.token, &mut server.remote_token);
    server.id.token = server.token.unwrap();
    server
}

#[test]
fn both_ends_of_a_connection_are_one_row_however_often_they_are_sent() {
    let Some(engine) = engine() else { return };
    let folder = TempDir::new().unwrap();
    let mut clients: Vec<Connection> = (1..=20).map(fixture::closed).collect();
    // The clocks of the two hosts differ by 2 s, and for the first connection by a day in addition.
    clients[0].shift(HOUR_NS);
    let mut servers: Vec<Connection> = clients.iter().map(other_end).collect();
    for end in &mut servers {
        end.shift(2_000_000_000);
    }
    servers[0].shift(24 * HOUR_NS);
    // The energy of one end is unknown, one end is missing, and one connection has no token.
    servers[1].subflows.iter_mut().for_each(|subflow| subflow.energy = None);
    servers.pop();
    let mut plain = fixture::fallen_back(99);
    (plain.token, plain.remote_token, plain.id.token) = (None, None, Token::default());
    clients.push(plain);
    let a = database(folder.path(), "a", clients.clone());
    let b = database(folder.path(), "b", servers.clone());
    for more in [&["--batch", "7"][..], &["--resend"]] {
        assert!(good(&export(&a, engine.port(), more)).contains("sent 21 connections"));
        assert!(good(&export(&b, engine.port(), more)).contains("sent 19 connections"));
    }
    engine.apply(&schema(&[]));
    assert_eq!(engine.query("SELECT count() FROM mpwatch.ends FINAL"), "40\n");
    assert_eq!(
        engine.query("SELECT ends, count() FROM mpwatch.pairs GROUP BY ends ORDER BY ends"),
        "1\t1\n3\t19\n"
    );
    let both = "SELECT count() FROM mpwatch.pairs WHERE ends = 3 AND client_host = 'a' AND server_host = 'b'
        AND client_token = server_remote_token AND client_bytes_sent = server_bytes_sent";
    assert_eq!(engine.query(both), "19\n");
    let clocks = "SELECT groupUniqArray(client_clock_error_ns), groupUniqArray(server_clock_error_ns) FROM mpwatch.pairs";
    assert_eq!(engine.query(clocks), "[1500000]\t[1500000]\n");
    let sent: u64 = clients.iter().take(20).map(|client| client.bytes_sent.unwrap_or(Bytes(0)).0).sum();
    assert_eq!(engine.query("SELECT sum(client_bytes_sent) FROM mpwatch.pairs"), format!("{sent}\n"));
    let unknown = "SELECT countIf(client_active_uj IS NULL), countIf(server_active_uj IS NULL), countIf(server_id IS NULL) FROM mpwatch.pairs";
    assert_eq!(engine.query(unknown), "0\t2\t1\n", "the energy of one end, and the end that is missing");
    let pair = engine.query("SELECT pair FROM mpwatch.pairs WHERE client_token = '00000001'");
    assert_eq!(pair.trim(), (1_u64 << 32 | 1 << 16).to_string(), "least token << 32 | greatest token");
    let nested = "SELECT length(subflow.id), arrayReduce('sum', subflow.bytes_sent) FROM mpwatch.ends FINAL WHERE token = '00000002'";
    let bytes: u64 = clients[1].subflows.iter().map(|subflow| subflow.bytes_sent.0).sum();
    assert_eq!(engine.query(nested), format!("2\t{bytes}\n"));
    assert_eq!(engine.query("SELECT count() FROM mpwatch.ends FINAL WHERE pair IS NULL"), "1\n");
    let document = fs::read_to_string(in_checkout("docs/fleet.md")).unwrap();
    let example = document.split("```sql\n").nth(1).unwrap().split("```").next().unwrap();
    let rows = engine.query(example);
    assert!(rows.lines().count() == 1 && rows.starts_with("a\tb\t2\t18\t"), "{rows}");
}

fn name(text: &str) -> Name {
    let mut bytes = [0; 16];
    bytes[..text.len()].copy_from_slice(text.as_bytes());
    Name::from_kernel(bytes)
}

#[test]
fn text_arrives_as_it_is_and_connections_of_many_days_in_several_requests() {
    let Some(engine) = engine() else { return };
    let folder = TempDir::new().unwrap();
    // An empty name, and a name like an unknown value, are valid names.
    let texts = ["", "\\N", "NULL", "a\tb\nc\rd", "it's \\ \u{fffd} \u{e9}"];
    let mut connections: Vec<Connection> = (1..=150).map(fixture::closed).collect();
    for (connection, days) in connections.iter_mut().zip(0..) {
        connection.shift(days * -24 * HOUR_NS);
    }
    for (connection, text) in connections.iter_mut().zip(texts) {
        connection.process.as_mut().unwrap().comm = name(text);
        connection.subflows[1].interface = Some(name(text));
    }
    let db = database(folder.path(), "a", connections);
    // ClickHouse refuses an insertion into more than 100 parts.
    assert!(good(&export(&db, engine.port(), &[])).contains("sent 150 connections in 2 requests"));
    for (text, token) in texts.into_iter().zip(1..) {
        let hex = text.bytes().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().concat();
        let found = engine.query(&format!(
            "SELECT hex(comm), hex(subflow.interface[2]), isNull(comm) FROM mpwatch.ends FINAL WHERE token = '{token:08x}'"
        ));
        assert_eq!(found, format!("{hex}\t{hex}\t0\n"), "{text:?}");
    }
    assert_eq!(engine.query("SELECT count() FROM mpwatch.pair_states"), "150\n");
}

/// Moves a connection so that it began half an hour before this hour.
fn in_the_previous_hour(mut connection: Connection) -> Connection {
    let hour = Timestamp::now().as_second() / 3_600 * 3_600;
    let begin = Timestamp::from_second(hour - 1_800).unwrap();
    let by = begin.as_nanosecond() - connection.opened_at.unwrap().as_nanosecond();
    connection.shift(by.try_into().unwrap());
    connection
}

#[test]
fn sites_follow_from_networks_and_sums_by_hour_from_late_ends() {
    let Some(engine) = engine() else { return };
    let folder = TempDir::new().unwrap();
    let clients: Vec<Connection> = (1..=4).map(fixture::closed).map(in_the_previous_hour).collect();
    let servers = clients.iter().map(|client| {
        let mut server = other_end(client);
        std::mem::swap(&mut server.local, &mut server.remote);
        server
    });
    let b = database(folder.path(), "b", servers.collect());
    // A connection of half a year ago is too old for the sums.
    let a = database(folder.path(), "a", [&clients[..], &[fixture::closed(9)]].concat());
    engine.query("INSERT INTO mpwatch.sites VALUES ('10.0.0.0/8', 'other'), ('10.0.1.1/32', 'berlin'), ('10.0.1.2/32', 'paris')");
    engine.query("SYSTEM RELOAD DICTIONARY mpwatch.site_of");
    let sums = || {
        engine.query("SYSTEM REFRESH VIEW mpwatch.site_hour_feed");
        engine.query("SYSTEM WAIT VIEW mpwatch.site_hour_feed");
        engine.query(
            "SELECT client_site, server_site, subflows, connections, bytes, isNull(energy_uj) FROM mpwatch.site_hours",
        )
    };
    good(&export(&a, engine.port(), &[]));
    let bytes: u64 = clients.iter().map(|client| client.payload().0).sum();
    assert_eq!(sums(), format!("berlin\t\t2\t4\t{bytes}\t1\n"));
    for more in [&[][..], &["--resend"]] {
        good(&export(&b, engine.port(), more));
        assert_eq!(sums(), format!("berlin\tparis\t2\t4\t{bytes}\t0\n"), "the site became known");
    }
    let energy = engine.query("SELECT energy_uj, energy_bytes FROM mpwatch.site_hours");
    let expected =
        "SELECT toFloat64(sum(client_active_uj + server_active_uj)), toFloat64(sum(client_observed_bytes))
        FROM mpwatch.pairs WHERE ends = 3";
    assert_eq!(energy, engine.query(expected));

    // Rows older than a day are deleted.
    let counts = "SELECT (SELECT count() FROM mpwatch.ends), (SELECT count() FROM mpwatch.pairs)";
    for table in ["ends", "pair_states"] {
        engine.query(&format!("OPTIMIZE TABLE mpwatch.{table} FINAL"));
    }
    assert_eq!(engine.query(counts), "9\t5\n");
    engine.apply(&schema(&["--keep", "1d"]));
    for table in ["ends", "pair_states"] {
        engine.query(&format!("OPTIMIZE TABLE mpwatch.{table} FINAL"));
    }
    assert_eq!(engine.query(counts), "8\t4\n");
}

#[test]
fn the_schema_of_a_cluster_is_valid_sql() {
    let Some(engine) = engine() else { return };
    let sql = schema(&["--cluster", "two", "--database", "of a team"]);
    let statements = statements(&sql);
    assert!(statements.len() >= 9, "{}", statements.len());
    for statement in statements.iter().filter(|statement| !statement.contains("INSERT")) {
        let code: Vec<&str> = statement.lines().filter(|line| !line.starts_with("--")).collect();
        engine.query(&format!("EXPLAIN AST {}", code.join("\n")));
    }
}

#[test]
fn a_check_reports_what_differs_and_prints_what_creates_missing_tables() {
    let Some(engine) = engine() else { return };
    let folder = TempDir::new().unwrap();
    let url = format!("http://127.0.0.1:{}", engine.port());
    let check = || mpwatch(&["export", "clickhouse", "--check", "--url", &url]);
    assert_eq!(check().code, Some(0), "{:?}", check());
    let a = database(folder.path(), "a", (1..=3).map(fixture::closed).collect());
    good(&export(&a, engine.port(), &[]));
    let pairs = "SELECT count(), sum(client_bytes_sent) FROM mpwatch.pairs";
    let before = engine.query(pairs);
    assert!(before.starts_with("3\t"), "{before}");
    engine.apply("DROP TABLE mpwatch.pair_feed;\nDROP TABLE mpwatch.pair_states SYNC;\nALTER TABLE mpwatch.ends DROP COLUMN comm");
    let outcome = check();
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    for word in ["ends.comm", "table pair_states is missing", "Drop a table"] {
        assert!(outcome.stderr.contains(word), "{word}: {outcome:?}");
    }
    engine.apply("DROP TABLE mpwatch.ends SYNC");
    engine.apply(&outcome.stdout);
    assert_eq!(check().code, Some(0), "{:?}", check());
    good(&export(&a, engine.port(), &["--resend"]));
    assert_eq!(engine.query("SELECT count(comm) FROM mpwatch.ends FINAL"), "3\n");
    assert_eq!(engine.query(pairs), before);
}
