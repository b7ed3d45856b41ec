// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fat-tree`: paths chosen per flow or per packet.

use std::time::Duration;

use mpwatch_lab::traffic::{Transport, Workload};

use crate::data::PublishedValue::Absolute;
use crate::data::quantity::Quantity::{
    CompletionTime, CoreUse, CpuTime, Excess, Goodput, Retransmitted, Throughput,
};
use crate::data::{Description, Plot, Published, factors};
use crate::experiment::{
    Cell, Experiment, Load, Network, Purpose, Scale, Scenario, TRANSPORTS, transport_name,
};
use crate::fabric::{FabricKind, FabricSpec, Forwarding, HOSTS};

/// Rate of every link, Mbit/s.
const RATE: f64 = 20.0;
/// Size of a flow of each class, bytes.
const CLASSES: [(&str, u64); 3] = [("query", 10_000), ("short", 500_000), ("long", 25_000_000)];

pub(super) fn experiment() -> Experiment {
    let description = Description {
        name: "fat-tree".into(),
        title: "a fat tree of 4-port switches: paths per flow or per packet".into(),
        paper: "UPD18".into(),
        question: "Do more paths shorten flows, and what traffic do they add?".into(),
        method: "One upload between two pods of a fat tree (16 hosts, 20 switches, 48 links of 20 Mbit/s \
                 with a queue of 20 ms). Forwarding: ecmp chooses among shortest paths by a hash of \
                 addresses and ports, spray chooses randomly for each packet (nftables). MPTCP has four \
                 subflows. In the noisy network, 14 other hosts upload by TCP, each to a fixed partner. \
                 The quantity core switches used counts the traffic of all flows. The paper ran 128 kB \
                 queries in the silent network, and used Mininet."
            .into(),
        quantities: vec![CompletionTime, Goodput, Throughput, Excess, Retransmitted, CoreUse, CpuTime],
        baseline: factors(&[("transport", "tcp"), ("forwarding", "ecmp")]),
        plots: Plot::over("class", &[CompletionTime, Excess]),
        published: vec![
            Published::new(
                &[("network", "silent"), ("class", "query"), ("transport", "tcp"), ("forwarding", "ecmp")],
                Excess,
                Absolute(0.09),
                "Table IV, the lowest",
            ),
            Published::new(
                &[("network", "noisy"), ("class", "long"), ("transport", "mptcp"), ("forwarding", "ecmp")],
                Excess,
                Absolute(0.58),
                "Table IV, the highest",
            ),
        ],
        ..Description::default()
    };
    Experiment::scaled(description, cells)
}

fn cells(scale: Scale) -> Vec<Cell> {
    let networks = scale.pick(&["silent", "noisy"][..], &["noisy"][..]);
    let classes = scale.pick(&CLASSES[..], &CLASSES[1..2]);
    let mut cells = Vec::new();
    for network in networks {
        for class in classes {
            for transport in TRANSPORTS {
                for forwarding in [Forwarding::PerFlow, Forwarding::PerPacket] {
                    cells.push(cell(network, *class, transport, forwarding));
                }
            }
        }
    }
    cells
}

fn cell(network: &str, (class, bytes): (&str, u64), transport: Transport, forwarding: Forwarding) -> Cell {
    let is_noisy = network == "noisy";
    let subflows = if transport == Transport::Mptcp { 4 } else { 1 };
    let forever =
        Load::new(Purpose::Background, Transport::Tcp, Workload::upload_for(Duration::from_mins(2)));
    // The host at the same place in the next pod; the first pod follows the last.
    let partner = |host: usize| (host + HOSTS / 4) % HOSTS;
    let others = (1..HOSTS - 1).filter(|host| is_noisy && partner(*host) != HOSTS - 1);
    let mut traffic = vec![Load::upload(transport, bytes)];
    traffic.extend(others.map(|host| forever.between(host, partner(host))));
    let fabric = FabricSpec {
        kind: FabricKind::FatTree,
        mbit: RATE,
        queue: Duration::from_millis(20),
        subflows,
        forwarding,
    };
    let scenario = Scenario {
        network: Network::Fabric(fabric),
        traffic,
        timeout: Duration::from_mins(2),
        ..Scenario::default()
    };
    let forwarding = if forwarding == Forwarding::PerFlow { "ecmp" } else { "spray" };
    let transport = transport_name(transport);
    Cell::new(
        &[("network", &network), ("class", &class), ("transport", &transport), ("forwarding", &forwarding)],
        scenario,
    )
}
