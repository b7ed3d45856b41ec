// SPDX-License-Identifier: MIT OR Apache-2.0
//! The networks of data centres as graphs of 16 hosts each, and the shortest paths in these graphs. No I/O.

use serde::{Deserialize, Serialize};

/// Number of hosts of every kind of network.
pub const HOSTS: usize = 16;

/// The kind of a data centre's network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FabricKind {
    /// A fat tree of 4-port switches: 4 pods of 2 edge and 2 aggregation switches, 4 core switches.
    FatTree,
    /// VL2: 4 top-of-rack, 4 aggregation and 2 intermediate switches. Links between switches have twice the rate of a host's link.
    Vl2,
    /// BCube(4, 1): each host has a link to one of 4 switches on each of two levels, and hosts forward packets.
    BCube,
}

/// A link between two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) ends: [usize; 2],
    /// The rate, as a multiple of the rate of a host's link.
    pub(super) rate: u32,
}

/// A network. Nodes are numbered: hosts first, then switches. Links are numbered by their index.
#[derive(Clone, Debug)]
pub(super) struct Graph {
    pub(super) nodes: usize,
    pub(super) links: Vec<Link>,
    /// The switches that forward packets between distant hosts.
    pub(super) core: std::ops::Range<usize>,
}

impl Graph {
    pub(super) fn new(kind: FabricKind) -> Self {
        let link = |rate| move |(a, b)| Link { ends: [a, b], rate };
        match kind {
            FabricKind::FatTree => {
                let (edge, aggregation, core) = (HOSTS, HOSTS + 8, HOSTS + 16);
                let hosts = (0..HOSTS).map(|host| (host, edge + host / 2));
                let pods = (0..8).flat_map(|nth| (0..2).map(move |up| (nth, nth / 2 * 2 + up)));
                let pods = pods.map(|(below, above)| (edge + below, aggregation + above));
                let tops = (0..8).flat_map(|nth| (0..2).map(move |up| (nth, nth % 2 * 2 + up)));
                let tops = tops.map(|(below, above)| (aggregation + below, core + above));
                let links = hosts.chain(pods).chain(tops).map(link(1)).collect();
                Self { nodes: core + 4, links, core: core..core + 4 }
            }
            FabricKind::Vl2 => {
                let (rack, aggregation, top) = (HOSTS, HOSTS + 4, HOSTS + 8);
                let hosts = (0..HOSTS).map(|host| (host, rack + host / 4));
                let racks = (0..4).flat_map(|nth| (0..2).map(move |up| (nth, nth / 2 * 2 + up)));
                let racks = racks.map(|(below, above)| (rack + below, aggregation + above));
                let tops = (0..4).flat_map(|nth| (0..2).map(move |up| (aggregation + nth, top + up)));
                let links = hosts.map(link(1)).chain(racks.chain(tops).map(link(2))).collect();
                Self { nodes: top + 2, links, core: top..top + 2 }
            }
            FabricKind::BCube => {
                let of = |host: usize| [(host, HOSTS + host / 4), (host, HOSTS + 4 + host % 4)];
                let links = (0..HOSTS).flat_map(of).map(link(1)).collect();
                Self { nodes: HOSTS + 8, links, core: HOSTS..HOSTS + 8 }
            }
        }
    }

    /// The links of a node, each with the node at the other end.
    pub(super) fn neighbours(&self, node: usize) -> impl Iterator<Item = (usize, usize)> {
        let other = move |(nth, link): (usize, &Link)| {
            let [a, b] = link.ends;
            (a == node || b == node).then_some((nth, if a == node { b } else { a }))
        };
        self.links.iter().enumerate().filter_map(other)
    }

    /// For each node, the links with which its shortest paths to `destination` begin.
    pub(super) fn next_links(&self, destination: usize) -> Vec<Vec<usize>> {
        let mut distance = vec![usize::MAX; self.nodes];
        distance[destination] = 0;
        let mut queue = std::collections::VecDeque::from([destination]);
        while let Some(node) = queue.pop_front() {
            for (_, other) in self.neighbours(node) {
                if distance[other] == usize::MAX {
                    distance[other] = distance[node] + 1;
                    queue.push_back(other);
                }
            }
        }
        let nearer = |node: usize| {
            let is_nearer =
                |(link, other): (usize, usize)| (distance[other] < distance[node]).then_some(link);
            self.neighbours(node).filter_map(is_nearer).collect()
        };
        (0..self.nodes).map(nearer).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of shortest paths between two nodes.
    fn paths(graph: &Graph, from: usize, to: usize) -> usize {
        if from == to {
            return 1;
        }
        let next = graph.next_links(to)[from].clone();
        next.iter()
            .map(|link| graph.links[*link].ends.iter().sum::<usize>() - from)
            .map(|node| paths(graph, node, to))
            .sum()
    }

    #[test]
    fn hosts_have_as_many_shortest_paths_as_in_the_literature() {
        let tree = Graph::new(FabricKind::FatTree);
        assert_eq!((tree.nodes, tree.links.len()), (36, 48));
        assert_eq!([1, 2, 4].map(|to| paths(&tree, 0, to)), [1, 2, 4], "same switch, same pod, another pod");
        let vl2 = Graph::new(FabricKind::Vl2);
        assert_eq!((vl2.nodes, vl2.links.len()), (26, 32));
        assert_eq!(paths(&vl2, 0, 8), 8, "2 aggregation, 2 intermediate, 2 aggregation switches");
        let cube = Graph::new(FabricKind::BCube);
        assert_eq!((cube.nodes, cube.links.len()), (24, 32));
        assert_eq!([1, 4, 5].map(|to| paths(&cube, 0, to)), [1, 1, 2]);
    }

    #[test]
    fn every_switch_has_four_ports_and_in_vl2_up_to_six() {
        for (kind, ports) in
            [(FabricKind::FatTree, [4, 4]), (FabricKind::BCube, [4, 4]), (FabricKind::Vl2, [4, 6])]
        {
            let graph = Graph::new(kind);
            for switch in HOSTS..graph.nodes {
                let count = graph.neighbours(switch).count();
                assert!((ports[0]..=ports[1]).contains(&count), "{kind:?} {switch}: {count}");
            }
        }
    }
}
