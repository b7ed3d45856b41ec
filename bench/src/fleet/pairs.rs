// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queries the rows of a fleet from the engine, and measures the time of queries that join both ends.

use std::time::Instant;

use crate::clickhouse::Engine;

/// Number of times that each query runs; the fastest run counts.
const REPETITIONS: u32 = 3;

const FROM_PAIRS: &str = "SELECT count(), sum(client_bytes_sent), sum(client_active_uj + server_active_uj)
    FROM mpwatch.pairs WHERE ends = 3";
const BY_JOIN: &str = "SELECT count(), sum(c.bytes_sent), sum(c.active_uj + s.active_uj)
    FROM (SELECT * FROM mpwatch.ends FINAL WHERE role = 'client') AS c
    JOIN (SELECT * FROM mpwatch.ends FINAL WHERE role = 'server') AS s ON c.pair = s.pair";

pub(super) struct Found {
    pub(super) ends: u64,
    pub(super) pairs: u64,
    pub(super) both_ends: u64,
    /// Size of the table `ends` on disk after merging, bytes.
    pub(super) end_bytes: u64,
    pub(super) pair_bytes: u64,
    pub(super) pairs_ms: f64,
    pub(super) join_ms: f64,
}

pub(super) fn query(engine: &Engine) -> Found {
    for table in ["ends", "pair_states"] {
        engine.query(&format!("OPTIMIZE TABLE mpwatch.{table} FINAL"));
    }
    let number = |sql: &str| engine.query(sql).trim().parse::<u64>().expect("a number");
    let bytes = |table: &str| {
        number(&format!(
            "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = 'mpwatch' AND table = '{table}'"
        ))
    };
    let (from_pairs, by_join) = (engine.query(FROM_PAIRS), engine.query(BY_JOIN));
    assert_eq!(from_pairs, by_join, "`pairs` agrees with a join of `ends`");
    Found {
        ends: number("SELECT count() FROM mpwatch.ends FINAL"),
        pairs: number("SELECT count() FROM mpwatch.pairs"),
        both_ends: number("SELECT count() FROM mpwatch.pairs WHERE ends = 3"),
        end_bytes: bytes("ends"),
        pair_bytes: bytes("pair_states"),
        pairs_ms: best_ms(engine, FROM_PAIRS),
        join_ms: best_ms(engine, BY_JOIN),
    }
}

fn best_ms(engine: &Engine, sql: &str) -> f64 {
    let once = |_| {
        let began = Instant::now();
        engine.query(sql);
        began.elapsed().as_secs_f64() * 1e3
    };
    (0..REPETITIONS).map(once).fold(f64::INFINITY, f64::min)
}
