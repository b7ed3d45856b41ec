// SPDX-License-Identifier: MIT OR Apache-2.0
//! The experiments of papers. Each file declares one experiment: its description with the paper's values, and its cells.

mod applications;
mod congestion;
mod detection;
mod energy;
mod failover;
mod fat_tree;
mod mptcpd;
mod overlap;
mod second_path;
mod sharing;
mod sizes;
mod throttled;
mod topologies;

use crate::experiment::Experiment;

/// All experiments, in the order of `mpwatch study list`.
pub(crate) fn all() -> Vec<Experiment> {
    vec![
        energy::experiment(),
        sharing::experiment(),
        detection::experiment(),
        mptcpd::experiment(),
        second_path::experiment(),
        sizes::experiment(),
        failover::experiment(),
        congestion::experiment(),
        throttled::experiment(),
        applications::experiment(),
        fat_tree::experiment(),
        topologies::experiment(),
        overlap::experiment(),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use crate::data::{Factor, key};
    use crate::experiment::{Cell, Network, Purpose, Scale, Work};

    use super::*;

    fn has_all(cells: &[Cell], wanted: &[Factor]) -> bool {
        cells.iter().any(|cell| wanted.iter().all(|factor| cell.factors.contains(factor)))
    }

    #[test]
    fn names_and_cells_are_unique_and_every_plot_has_its_factor() {
        let mut names = HashSet::new();
        for experiment in all() {
            let description = &experiment.description;
            let name = &description.name;
            assert!(names.insert(name.clone()));
            for scale in [Scale::Full, Scale::Quick] {
                let cells = experiment.cells(scale);
                let keys: HashSet<String> = cells.iter().map(|cell| key(&cell.factors)).collect();
                assert_eq!(keys.len(), cells.len(), "{name}");
                for plot in &description.plots {
                    let has_factor = |cell: &Cell| cell.factors.iter().any(|factor| factor.name == plot.over);
                    assert!(cells.iter().all(has_factor), "{name}: {}", plot.over);
                    assert!(description.quantities.contains(&plot.quantity), "{name}");
                }
                for plot in &description.detail_plots {
                    assert!(has_all(&cells, &plot.cells), "{name}: {:?}", plot.shape);
                }
                for cell in &cells {
                    let Work::Lab(scenario) = &cell.work else { panic!("in the lab") };
                    let is_measured = scenario.traffic.iter().any(|load| load.purpose == Purpose::Measured);
                    assert!(is_measured || scenario.application.is_some(), "{name}");
                    if let Network::Paths(network) = &scenario.network {
                        network.check().unwrap();
                    }
                }
            }
        }
    }

    #[test]
    fn every_published_value_belongs_to_a_cell_and_a_quantity_of_its_experiment() {
        for experiment in all() {
            let cells = experiment.cells(Scale::Full);
            let description = &experiment.description;
            for published in &description.published {
                assert!(has_all(&cells, &published.cell), "{}: {published:?}", description.name);
                assert!(
                    description.quantities.contains(&published.quantity),
                    "{}: {published:?}",
                    description.name
                );
            }
        }
    }
}
