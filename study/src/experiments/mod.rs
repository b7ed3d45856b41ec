// SPDX-License-Identifier: MIT OR Apache-2.0
//! All experiments. Each is one file: its description, with the paper's values, and its cells.

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

use super::experiment::{Declared, Experiment};

/// All experiments, in the order of `mpwatch study list`.
pub(crate) fn all() -> Vec<Experiment> {
    DECLARED.iter().map(Experiment::from).collect()
}

static DECLARED: &[Declared] = &[
    energy::EXPERIMENT,
    sharing::EXPERIMENT,
    detection::EXPERIMENT,
    mptcpd::EXPERIMENT,
    second_path::EXPERIMENT,
    sizes::EXPERIMENT,
    failover::EXPERIMENT,
    congestion::EXPERIMENT,
    throttled::EXPERIMENT,
    applications::EXPERIMENT,
    fat_tree::EXPERIMENT,
    topologies::EXPERIMENT,
    overlap::EXPERIMENT,
];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use crate::data::{Factor, key};

    use super::super::experiment::{Network, Role, Scale, Work};
    use super::*;

    #[test]
    fn names_and_cells_are_unique_and_every_plot_has_its_factor() {
        let mut names = HashSet::new();
        for experiment in DECLARED {
            let description = experiment.description;
            assert!(names.insert(description.name));
            for scale in [Scale::Full, Scale::Quick] {
                let cells = (experiment.cells)(scale);
                let keys: HashSet<String> = cells.iter().map(|cell| key(&cell.factors)).collect();
                assert_eq!(keys.len(), cells.len(), "{}", description.name);
                for plot in description.plots {
                    let has_factor =
                        |name: &str| cells.iter().all(|cell| cell.factors.iter().any(|f| f.name == name));
                    assert!(has_factor(plot.over), "{}: {}", description.name, plot.over);
                    assert!(description.quantities.contains(&plot.quantity), "{}", description.name);
                }
                for (shape, factors) in description.detail_plots {
                    let wanted: Vec<Factor> =
                        factors.iter().map(|(name, value)| Factor::new(name, value)).collect();
                    let has_all = |cell: &super::super::experiment::Cell| {
                        wanted.iter().all(|factor| cell.factors.contains(factor))
                    };
                    assert!(cells.iter().any(has_all), "{}: {shape:?}", description.name);
                }
                for cell in &cells {
                    let Work::Lab(scenario) = &cell.work else { panic!("in the lab") };
                    let is_measured = scenario.traffic.iter().any(|load| load.role == Role::Measured);
                    assert!(is_measured || scenario.application.is_some(), "{}", description.name);
                    if let Network::Paths(network) = &scenario.network {
                        network.check().unwrap();
                    }
                }
            }
        }
    }

    #[test]
    fn every_published_value_belongs_to_a_cell_and_a_quantity_of_its_experiment() {
        for Declared { description, cells } in DECLARED {
            let cells = cells(Scale::Full);
            for published in description.published {
                let matches = |cell: &&super::super::experiment::Cell| {
                    published.cell.iter().all(|(name, value)| {
                        cell.factors.iter().any(|factor| factor.name == *name && factor.value == *value)
                    })
                };
                assert!(cells.iter().any(|cell| matches(&cell)), "{}: {published:?}", description.name);
                assert!(
                    description.quantities.contains(&published.quantity),
                    "{}: {published:?}",
                    description.name
                );
            }
        }
    }
}
