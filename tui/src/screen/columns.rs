// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a column is, for both kinds of rows: flows, and sums over flows. Which ones there are stands in [`super::flows`] and
//! [`super::sums`]; numbers of flows are rows of the metric table.

use mpwatch_model::energy::EnergySource;

use super::app::{App, Tab};
use super::flows::FLOW_COLUMNS;
use super::sums::SUM_COLUMNS;
use crate::layout::Wish;

/// A value to sort by. What is not known comes last in either direction.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Order {
    Unknown,
    Number(f64),
    Word(String),
}

impl Order {
    pub(crate) fn number(value: Option<f64>) -> Self {
        value.map_or(Self::Unknown, Self::Number)
    }

    /// A number as a step of about a quarter of itself, so that what is nearly the same does not change places all the time.
    pub(crate) fn about(self) -> Self {
        match self {
            Self::Number(value) if value > 0.0 => Self::Number((value.log2() * 3.0).round()),
            other => other,
        }
    }
}

/// For each value its place in the order, the lowest first; equal values have the same. Whole numbers are quick to sort by.
pub(crate) fn ranks(orders: &[Order], reverse: bool) -> Vec<u64> {
    let mut words: Vec<&str> = orders
        .iter()
        .filter_map(|order| if let Order::Word(word) = order { Some(&**word) } else { None })
        .collect();
    words.sort_unstable();
    words.dedup();
    let turned = |rank: u64| if reverse { !rank } else { rank };
    let rank = |order: &Order| match order {
        Order::Unknown => u64::MAX,
        // From the largest down: the bits of a positive number grow with it, those of a negative one against it.
        Order::Number(value) => {
            let bits = value.to_bits();
            let rising = if value.is_sign_negative() { !bits } else { bits | 1 << 63 };
            turned(!rising).min(u64::MAX - 1)
        }
        Order::Word(word) => {
            let place = words.partition_point(|other| *other < &**word);
            (if reverse { words.len() - place } else { place }) as u64
        }
    };
    orders.iter().map(rank).collect()
}

/// What a column shows: `T` makes the text of a row at a width, `O` its value to sort by.
pub(crate) struct Column<T: ?Sized, O: ?Sized> {
    /// Its name: in the configuration, and of what is sorted by.
    pub(crate) key: &'static str,
    pub(crate) title: &'static str,
    /// One phrase for the lists.
    pub(crate) help: &'static str,
    /// The least that is of use, and all that it can use.
    pub(crate) least: usize,
    pub(crate) full: usize,
    /// Stands at the right of its column.
    pub(crate) number: bool,
    pub(crate) text: Box<T>,
    pub(crate) order: Box<O>,
}

/// A column of a view: its name, its rank (lower ones stay longer), whether it comes only when everything else is shown in full.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice {
    pub(crate) key: &'static str,
    pub(crate) rank: u8,
    pub(crate) extra: bool,
}

pub(crate) const fn first(key: &'static str, rank: u8) -> Choice {
    Choice { key, rank, extra: false }
}

pub(crate) const fn extra(key: &'static str, rank: u8) -> Choice {
    Choice { key, rank, extra: true }
}

/// The columns of a view after what was chosen by hand.
pub(crate) fn chosen(usual: &[Choice], by_hand: &[(&'static str, bool)]) -> Vec<Choice> {
    let hidden = |choice: &&Choice| !by_hand.contains(&(choice.key, false));
    let mut choices: Vec<Choice> = usual.iter().filter(hidden).copied().collect();
    for (key, shown) in by_hand {
        match choices.iter_mut().find(|choice| choice.key == *key) {
            // What is asked for comes before what only has room left.
            Some(choice) if *shown => choice.extra = false,
            None if *shown => choices.push(first(key, 40)),
            _ => {}
        }
    }
    choices
}

/// Its wishes in a place of a view.
pub(crate) fn wish<T: ?Sized, O: ?Sized>(column: &Column<T, O>, choice: Choice, natural: usize) -> Wish {
    let least = column.least.max(column.title.chars().count());
    let full = natural.clamp(least, column.full.max(least));
    // Of a name the beginning tells something; of a number, nothing.
    let least = if column.number || column.key == "bounds" { full } else { least };
    Wish { least, full, rank: choice.rank, extra: choice.extra }
}

/// A column of either kind as lists show it.
pub(crate) struct Described {
    pub(crate) key: &'static str,
    pub(crate) title: &'static str,
    pub(crate) help: &'static str,
}

/// The columns that a view could have.
pub(crate) fn of_tab(tab: Tab) -> Vec<Described> {
    fn described<T: ?Sized, O: ?Sized>(columns: &[Column<T, O>]) -> Vec<Described> {
        columns.iter().map(|c| Described { key: c.key, title: c.title, help: c.help }).collect()
    }
    match tab {
        Tab::Connections | Tab::Energy => described(&FLOW_COLUMNS),
        Tab::Paths | Tab::Peers => described(&SUM_COLUMNS),
        Tab::Health => Vec::new(),
    }
}

/// A column's name, if there is one.
pub(crate) fn key(name: &str) -> Option<&'static str> {
    let flows = FLOW_COLUMNS.iter().map(|column| column.key);
    flows.chain(SUM_COLUMNS.iter().map(|column| column.key)).find(|key| *key == name)
}

/// Those of these names that there are.
pub(crate) fn known(names: &[(String, bool)]) -> Vec<(&'static str, bool)> {
    names.iter().filter_map(|(name, shown)| Some((key(name)?, *shown))).collect()
}

/// The names of all columns, for the configuration.
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = FLOW_COLUMNS.iter().map(|column| column.key).collect();
    names.extend(SUM_COLUMNS.iter().map(|column| column.key));
    names.sort_unstable();
    names.dedup();
    names
}

/// The columns shown in a view at present.
pub(crate) fn shown(app: &App, tab: Tab) -> Vec<Choice> {
    let usual = match tab {
        Tab::Connections => super::flows::CONNECTIONS,
        Tab::Energy => super::flows::ENERGY,
        Tab::Paths => super::sums::PATHS,
        Tab::Peers => super::sums::PEERS,
        Tab::Health => &[],
    };
    let all = chosen(usual, &app.tables[tab.index()].columns);
    if knows_energy(app) {
        return all;
    }
    // Columns of dashes would take the place of others; who asks for one by hand gets it.
    let by_hand = |key| app.tables[tab.index()].columns.contains(&(key, true));
    all.into_iter().filter(|choice| !OF_ENERGY.contains(&choice.key) || by_hand(choice.key)).collect()
}

/// By what the view that is shown is sorted where nothing else is asked for.
pub(crate) fn usual_sort(app: &App) -> &'static str {
    match app.tab {
        Tab::Energy if knows_energy(app) => "watts",
        Tab::Energy => "cpu_seconds_total",
        Tab::Connections | Tab::Paths | Tab::Peers | Tab::Health => "rates",
    }
}

/// Whether any joule can be told, measured or not.
fn knows_energy(app: &App) -> bool {
    let energy = app.snapshot().and_then(|snapshot| snapshot.energy.as_ref());
    energy.is_some_and(|energy| energy.source != EnergySource::Absent)
}

/// Columns that say nothing where no joule is known.
const OF_ENERGY: [&str; 9] = [
    "watts",
    "active_joules_total",
    "full_joules_total",
    "joules_per_gigabyte",
    "bounds",
    "wasted",
    "source",
    "joules",
    "j_per_gb",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_comes_last_both_ways() {
        let sorted = |orders: &[Order], reverse| {
            let ranks = ranks(orders, reverse);
            let mut places: Vec<usize> = (0..orders.len()).collect();
            places.sort_by_key(|place| ranks[*place]);
            places
        };
        let numbers = [1.0, -1.0, 0.0, 5e9, 5e-9, -7.0].map(Order::Number);
        let orders = [&[Order::Unknown][..], &numbers].concat();
        assert_eq!(sorted(&orders, false), [4, 1, 5, 3, 2, 6, 0]);
        assert_eq!(sorted(&orders, true), [6, 2, 3, 5, 1, 4, 0]);
        let words = [Order::Word("b".to_owned()), Order::Unknown, Order::Word("a".to_owned())];
        assert_eq!(sorted(&words, false), [2, 0, 1]);
        assert_eq!(sorted(&words, true), [0, 2, 1]);
        let same = ranks(&[Order::Word("a".to_owned()), Order::Word("a".to_owned())], false);
        assert_eq!(same[0], same[1]);
    }

    #[test]
    fn nearly_the_same_is_the_same() {
        assert_eq!(Order::Number(100.0).about(), Order::Number(105.0).about());
        assert_ne!(Order::Number(100.0).about(), Order::Number(150.0).about());
        assert_eq!(Order::Number(0.0).about(), Order::Number(0.0));
    }

    #[test]
    fn every_column_of_a_view_exists_and_names_are_unique() {
        let flows: Vec<_> = FLOW_COLUMNS.iter().map(|column| column.key).collect();
        let sums: Vec<_> = SUM_COLUMNS.iter().map(|column| column.key).collect();
        let titles = |tab| of_tab(tab).iter().map(|column| column.title).collect::<Vec<_>>();
        // A click on a title finds its column by it.
        for keys in [&flows, &sums, &titles(Tab::Connections), &titles(Tab::Paths)] {
            let mut unique = keys.clone();
            unique.sort_unstable();
            unique.dedup();
            assert_eq!(unique.len(), keys.len());
        }
        let views = [(super::super::flows::CONNECTIONS, &flows), (super::super::flows::ENERGY, &flows)];
        for (view, columns) in views.into_iter().chain([
            (super::super::flows::DETAIL, &flows),
            (super::super::sums::PATHS, &sums),
            (super::super::sums::PEERS, &sums),
        ]) {
            for choice in view {
                assert!(columns.contains(&choice.key), "{}", choice.key);
            }
        }
    }

    #[test]
    fn columns_chosen_by_hand_come_and_go() {
        let usual = [first("rate", 1), extra("cgroup", 9)];
        let keys = |by_hand: &[(&'static str, bool)]| {
            chosen(&usual, by_hand).iter().map(|choice| choice.key).collect::<Vec<_>>()
        };
        assert_eq!(keys(&[("rate", false)]), ["cgroup"]);
        assert_eq!(keys(&[("age", true)]), ["rate", "cgroup", "age"]);
        assert!(!chosen(&usual, &[("cgroup", true)])[1].extra);
    }
}
