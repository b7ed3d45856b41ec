// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file of a user's experiment (docs/study.md): two machines, the traffic between them, factors and quantities. Only reads the
//! file; no other I/O.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use mpwatch::shared::{Failure, suggest};
use mpwatch_lab::traffic::{Amount, PORT, Sender, TrafficSpec, Transport, Workload};
use serde::Deserialize;
use toml::{Table, Value};

use super::between::{Between, Endpoint};
use crate::data::detail::{Series, Shape};
use crate::data::quantity::Quantity;
use crate::data::{Description, DetailPlot, Factor, Plot};
use crate::experiment::{Cell, Experiment, Work};

/// Quantities that only the lab can measure, because they need the lab's queues or switches, or loads that a file cannot describe.
const LAB_ONLY: [Quantity; 8] = [
    Quantity::Utilization,
    Quantity::CoreUse,
    Quantity::Found,
    Quantity::FalselyClosed,
    Quantity::DecisionTime,
    Quantity::Removed,
    Quantity::ShortCompletion,
    Quantity::DeadlinesMissed,
];
/// Maximum number of cells of an experiment. A file with more cells is probably a mistake.
const MAX_CELLS: usize = 1_000;

/// An experiment that a user's file describes.
#[derive(Debug)]
pub(crate) struct CustomExperiment {
    pub(crate) experiment: Experiment,
    pub(crate) client: Endpoint,
    pub(crate) server: Endpoint,
    /// Number of runs of each cell. `None`: the default number.
    pub(crate) repeat: Option<u32>,
    /// The text of the file.
    pub(crate) text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExperimentFile {
    name: String,
    title: String,
    #[serde(default)]
    question: String,
    repeat: Option<u32>,
    quantities: Vec<String>,
    #[serde(default)]
    baseline: Table,
    client: Endpoint,
    server: Endpoint,
    #[serde(default)]
    traffic: Table,
    #[serde(default)]
    factors: Table,
    #[serde(default, rename = "plot")]
    plots: Vec<FilePlot>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FilePlot {
    quantity: String,
    over: String,
    #[serde(default)]
    log: bool,
}

/// The table `traffic` of the file. The factors of a cell replace its values.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "lowercase")]
struct TrafficTable {
    #[serde(default)]
    transport: FileTransport,
    #[serde(default)]
    direction: TransferDirection,
    bytes: Option<u64>,
    seconds: Option<u64>,
    #[serde(default = "one_connection")]
    connections: u32,
    concurrency: Option<u32>,
    congestion: Option<String>,
    #[serde(default = "one_minute")]
    timeout: u64,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FileTransport {
    #[default]
    Mptcp,
    Tcp,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum TransferDirection {
    #[default]
    Upload,
    Download,
}

fn one_connection() -> u32 {
    1
}

fn one_minute() -> u64 {
    60
}

impl CustomExperiment {
    /// Reads a file. `taken`: names that the experiment must not have.
    pub(crate) fn read(path: &Path, taken: &[&str]) -> Result<Self, Failure> {
        let name = path.display();
        let text = fs::read_to_string(path).map_err(|error| {
            Failure::usage(format!(
                "cannot read the experiment {name}: {error}; docs/study.md has an example"
            ))
        })?;
        Self::parse(&text, taken).map_err(|error| Failure::usage(format!("{name}{error}")))
    }

    /// Parses the text of a file. An error begins with the line number, if it is known, and a colon.
    fn parse(text: &str, taken: &[&str]) -> Result<Self, String> {
        let file: ExperimentFile = toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| 1 + text[..span.start.min(text.len())].matches('\n').count());
            let line = line.map(|line| format!(", line {line}")).unwrap_or_default();
            format!("{line}: {}", error.message().replace('\n', " "))
        })?;
        Self::from_file(file, text, taken).map_err(|error| format!(": {error}"))
    }

    fn from_file(file: ExperimentFile, text: &str, taken: &[&str]) -> Result<Self, String> {
        check_name(&file.name, taken)?;
        if file.repeat == Some(0) {
            return Err("repeat is 0; use 1 or more".to_owned());
        }
        let address = address_of(&file.client, &file.server)?;
        let quantities: Vec<Quantity> =
            file.quantities.iter().map(|name| quantity(name)).collect::<Result<_, _>>()?;
        if quantities.is_empty() {
            return Err("quantities is empty; list what to measure, such as \"completion_s\"".to_owned());
        }
        let combinations = combinations(&file.factors)?;
        let baseline = baseline(&file.baseline, &file.factors)?;
        let plots = file
            .plots
            .iter()
            .map(|plot| plot_from(plot, &quantities, &file.factors))
            .collect::<Result<_, _>>()?;
        let cell = |factors: &Vec<(&String, &Value)>| -> Result<Cell, String> {
            let traffic = traffic(&file.traffic, factors, address)?;
            let between = Between { client: file.client.clone(), server: file.server.clone(), traffic };
            let factors = factors.iter().map(|(name, value)| Factor::new(name, &shown(value))).collect();
            Ok(Cell::from_factors(factors, Work::Between(Box::new(between))))
        };
        let cells = combinations.iter().map(cell).collect::<Result<_, _>>()?;
        let description = Description {
            method: method(&file, address),
            name: file.name,
            title: file.title,
            paper: "own".to_owned(),
            question: file.question,
            quantities,
            baseline,
            plots,
            detail_plots: vec![DetailPlot {
                shape: Shape::Distribution(Series::CompletionTimes),
                cells: Vec::new(),
            }],
            published: Vec::new(),
        };
        let experiment = Experiment::custom(description, cells);
        Ok(Self {
            experiment,
            client: file.client,
            server: file.server,
            repeat: file.repeat,
            text: text.to_owned(),
        })
    }
}

fn check_name(name: &str, taken: &[&str]) -> Result<(), String> {
    let is_plain = !name.is_empty()
        && name.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-');
    if !is_plain {
        return Err(format!("name is `{name}`; use lower-case letters, digits and `-`"));
    }
    if taken.contains(&name) {
        return Err(format!("name is `{name}`, which `mpwatch study list` has already; choose another name"));
    }
    Ok(())
}

/// The address and port to which the client connects.
fn address_of(client: &Endpoint, server: &Endpoint) -> Result<SocketAddr, String> {
    if client.address.is_some() || client.port.is_some() {
        return Err(
            "[client] has an address or a port; only [server] has them: the client connects to it".to_owned()
        );
    }
    let address =
        server.address.ok_or("[server] has no address; set the address that the client connects to")?;
    Ok(SocketAddr::new(address, server.port.unwrap_or(PORT)))
}

fn quantity(name: &str) -> Result<Quantity, String> {
    let measurable = || Quantity::ALL.iter().filter(|quantity| !LAB_ONLY.contains(quantity));
    match Quantity::by_name(name) {
        Some(quantity) if LAB_ONLY.contains(&quantity) => {
            Err(format!("quantity `{name}` can be measured only in the lab; remove it"))
        }
        Some(quantity) => Ok(quantity),
        None => {
            let names: Vec<&str> = measurable().map(|quantity| quantity.name()).collect();
            let hint = suggest(name, &names).unwrap_or_else(|| format!("known: {}", names.join(", ")));
            Err(format!("there is no quantity `{name}`; {hint}"))
        }
    }
}

/// The values of a factor.
fn values<'a>(name: &str, value: &'a Value) -> Result<&'a [Value], String> {
    match value {
        Value::Array(values)
            if !values.is_empty() && values.iter().all(|value| !value.is_array() && !value.is_table()) =>
        {
            Ok(values)
        }
        _ => Err(format!("factor `{name}` is not a list of values; write for example {name} = [1, 2]")),
    }
}

/// Every combination of the factors' values. The last factor varies fastest.
fn combinations(factors: &Table) -> Result<Vec<Vec<(&String, &Value)>>, String> {
    let mut all = vec![Vec::new()];
    for (name, value) in factors {
        let values = values(name, value)?;
        if all.len() * values.len() > MAX_CELLS {
            return Err(format!("the factors have more than {MAX_CELLS} combinations; remove some values"));
        }
        let with = |cell: &Vec<_>| {
            values.iter().map(|value| [&cell[..], &[(name, value)]].concat()).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(with).collect();
    }
    Ok(all)
}

fn baseline(baseline: &Table, factors: &Table) -> Result<Vec<Factor>, String> {
    let of = |(name, value): (&String, &Value)| {
        let has = factors.get(name).and_then(Value::as_array).is_some_and(|values| values.contains(value));
        let wrong = || {
            format!(
                "baseline has {name} = {value}, which is not a value of a factor; use a value of [factors]"
            )
        };
        has.then(|| Factor::new(name, &shown(value))).ok_or_else(wrong)
    };
    baseline.iter().map(of).collect()
}

fn plot_from(plot: &FilePlot, quantities: &[Quantity], factors: &Table) -> Result<Plot, String> {
    let FilePlot { quantity: name, over, log } = plot;
    let quantity = quantity(name)?;
    if !quantities.contains(&quantity) {
        return Err(format!("a plot shows `{name}`, which is not measured; add it to quantities"));
    }
    if !factors.contains_key(over) {
        return Err(format!("a plot has the axis `{over}`, which is not a factor; add it to [factors]"));
    }
    Ok(Plot { quantity, over: over.clone(), log: *log })
}

/// The traffic of a cell.
fn traffic(table: &Table, factors: &[(&String, &Value)], server: SocketAddr) -> Result<TrafficSpec, String> {
    let mut table = table.clone();
    table.extend(factors.iter().map(|(name, value)| ((*name).clone(), (*value).clone())));
    let wrong =
        |error: toml::de::Error| format!("[traffic] or [factors]: {}", error.message().replace('\n', " "));
    let traffic: TrafficTable = table.try_into().map_err(wrong)?;
    let amount = match (traffic.bytes, traffic.seconds) {
        (Some(bytes), None) => Amount::Bytes(bytes),
        (None, Some(seconds)) => Amount::For(Duration::from_secs(seconds)),
        _ => return Err(
            "[traffic] must have either bytes or seconds: how much each connection sends, or for how long"
                .to_owned(),
        ),
    };
    if traffic.connections == 0 || traffic.concurrency == Some(0) {
        return Err("[traffic] has no connections; use 1 or more".to_owned());
    }
    if traffic.seconds.is_some_and(|seconds| seconds >= traffic.timeout) {
        return Err(format!(
            "[traffic] sends for longer than its timeout of {} s; raise timeout",
            traffic.timeout
        ));
    }
    let sender = match traffic.direction {
        TransferDirection::Upload => Sender::Client,
        TransferDirection::Download => Sender::Server,
    };
    let mut spec = TrafficSpec::new(server.ip(), Workload::Bulk { amount, sender });
    spec.server = server;
    spec.transport = match traffic.transport {
        FileTransport::Mptcp => Transport::Mptcp,
        FileTransport::Tcp => Transport::Tcp,
    };
    (spec.connections, spec.concurrency) =
        (traffic.connections, traffic.concurrency.unwrap_or(traffic.connections));
    (spec.congestion, spec.timeout) = (traffic.congestion, Duration::from_secs(traffic.timeout));
    spec.read_socket_info = false;
    Ok(spec)
}

/// A sentence that describes the setup.
fn method(file: &ExperimentFile, server: SocketAddr) -> String {
    let here = |command: &[String]| {
        if command.is_empty() {
            "on this machine".to_owned()
        } else {
            format!("reached by `{}`", command.join(" "))
        }
    };
    format!(
        "An experiment of the user between two machines, without changes to them: the client is {}, the server {}; the client connects to {server}.",
        here(&file.client.command),
        here(&file.server.command)
    )
}

/// A TOML value as the value of a factor.
fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests;
