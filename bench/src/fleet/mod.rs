// SPDX-License-Identifier: MIT OR Apache-2.0
//! A simulated fleet with both ends of connections between many hosts. Clocks are wrong, some hosts report nothing, some send everything
//! twice. The program mpwatch exports each host's database to the engine of ClickHouse. Usage: `./dev bench fleet [--hosts N]...
//! [--connections N]`.

mod hosts;
mod pairs;
mod sink;
mod target;

use mpwatch_exporters::clickhouse::schema;

use crate::clickhouse::Engine;
use crate::machine;
use crate::table::{figure, markdown};

use hosts::{Fleet, Host};
use target::{Exported, export};

/// Default numbers of hosts, and default number of ends of connections at each host.
const SIZES: [u32; 3] = [10, 100, 1_000];
const DEFAULT_CONNECTIONS: u32 = 100;
/// Number of ends of connections at the host whose cost is measured.
const COST_CONNECTIONS: u32 = 20_000;

/// The parsed command line.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    sizes: Vec<u32>,
    connections: u32,
}

impl Request {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut request = Self { sizes: Vec::new(), connections: DEFAULT_CONNECTIONS };
        while let Some(argument) = arguments.next() {
            let mut number = |least: u32| {
                let number = arguments.next().and_then(|text| text.parse().ok()).filter(|n| *n >= least);
                number.ok_or(format!("{argument} needs a number from {least} on"))
            };
            match argument.as_str() {
                "--hosts" => request.sizes.push(number(2)?),
                "--connections" => request.connections = number(2)?,
                _ => return Err(format!("`fleet` has no option `{argument}`")),
            }
        }
        if request.sizes.is_empty() {
            request.sizes = SIZES.to_vec();
        }
        Ok(request)
    }
}

pub(crate) fn run(
    arguments: impl Iterator<Item = String>,
    mut print: impl FnMut(&str),
) -> Result<(), String> {
    let request = Request::parse(arguments)?;
    print(&format!("{}\nLoad average before: {}.\n", machine::description(), machine::load_average()));
    let rows: Result<Vec<_>, _> =
        request.sizes.iter().map(|hosts| measure(*hosts, request.connections)).collect();
    let header = [
        "hosts",
        "rows sent",
        "ends",
        "pairs with both ends",
        "rows per second",
        "wire, bytes per row",
        "disk, bytes per end",
        "disk, bytes per pair",
        "engine, CPU us per row",
        "host, CPU us per row",
        "pairs, ms",
        "JOIN, ms",
    ];
    print(&format!("\n## Fleet\n\n{}", markdown(&header, &rows?)));
    print(&format!("\n## Cost of a host\n\n{}", cost()));
    print(&format!("\nLoad average after: {}.\n", machine::load_average()));
    Ok(())
}

/// Exports a whole fleet. Returns a row of the table.
fn measure(hosts: u32, connections: u32) -> Result<Vec<String>, String> {
    let engine = Engine::start()?;
    let url = format!("http://127.0.0.1:{}", engine.port());
    let fleet = Fleet { hosts, connections };
    let engine_before = crate::process::cpu_time(engine.pid());
    let mut sum = Exported::default();
    for host in fleet.reporting() {
        let database = host.database();
        let exports: &[&[&str]] = if host.sends_twice() { &[&[], &["--resend"]] } else { &[&[]] };
        for more in exports {
            sum += export("clickhouse", &database.path(), &url, more);
        }
        if host.number % 100 == 99 {
            eprintln!("bench: {} of {hosts} hosts", host.number + 1);
        }
    }
    let engine_cpu = crate::process::cpu_time(engine.pid()).saturating_sub(engine_before);
    let found = pairs::query(&engine);
    assert_eq!(found.both_ends, fleet.whole_connections(), "both ends of each connection are one row");
    let rows = sum.rows as f64;
    Ok(vec![
        hosts.to_string(),
        sum.rows.to_string(),
        found.ends.to_string(),
        format!("{} of {}", found.both_ends, found.pairs),
        format!("{:.0}", rows / sum.seconds),
        format!("{:.0}", sum.bytes as f64 / rows),
        format!("{:.0}", found.end_bytes as f64 / found.ends as f64),
        format!("{:.0}", found.pair_bytes as f64 / found.pairs as f64),
        format!("{:.0}", engine_cpu.as_secs_f64() * 1e6 / rows),
        format!("{:.0}", sum.cpu_seconds * 1e6 / rows),
        figure(found.pairs_ms),
        figure(found.join_ms),
    ])
}

/// A table of the cost of the export per connection on a host, without the start of the process.
fn cost() -> String {
    let host = Host { fleet: Fleet { hosts: 2, connections: COST_CONNECTIONS }, number: 0 };
    let database = host.database();
    let url = format!("http://127.0.0.1:{}", sink::start(schema::VERSION));
    let rows = [
        ("clickhouse", "ClickHouse", &[][..]),
        ("otlp", "OTLP, events", &[]),
        ("otlp", "OTLP, spans", &["--spans"]),
    ];
    let rows = rows.map(|(kind, name, more)| {
        let all = export(kind, &database.path(), &url, more);
        let start = export(kind, &database.path(), &url, more);
        assert_eq!(
            (all.rows, start.rows),
            (u64::from(COST_CONNECTIONS), 0),
            "confirmed rows are not repeated"
        );
        let rows = all.rows as f64;
        let cpu_us = (all.cpu_seconds - start.cpu_seconds) * 1e6 / rows;
        let bytes = all.bytes as f64 / rows;
        vec![
            name.to_owned(),
            figure(cpu_us),
            format!("{} %", figure(cpu_us / 10.0)),
            format!("{bytes:.0}"),
            format!("{} kB/s", figure(bytes)),
        ]
    });
    let header = [
        "target",
        "CPU us per connection",
        "of a CPU at 1 000/s (target 1 %)",
        "bytes each",
        "at 1 000/s (target 250 kB/s)",
    ];
    markdown(&header, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_checked() {
        let parse = |line: &str| Request::parse(line.split_whitespace().map(str::to_owned));
        assert_eq!(parse("").unwrap().sizes, SIZES);
        let request = parse("--hosts 10 --hosts 20 --connections 50").unwrap();
        assert_eq!(request, Request { sizes: vec![10, 20], connections: 50 });
        for wrong in ["10", "--hosts", "--hosts 1", "--hosts x", "--connections 0"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
