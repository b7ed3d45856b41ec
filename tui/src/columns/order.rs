// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values to sort by.

/// A value to sort by. Unknown values come last in both directions.
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

    /// Rounds a number to three steps per factor of two, so that rows with similar values keep their order between snapshots.
    pub(crate) fn in_steps(self) -> Self {
        match self {
            Self::Number(value) if value > 0.0 => Self::Number(((value.log2() * 3.0).round() / 3.0).exp2()),
            other => other,
        }
    }
}

/// The rank of each value: the lowest rank comes first, equal values have equal ranks. Ranks sort faster than `Order`.
pub(crate) fn ranks(orders: &[Order], reverse: bool) -> Vec<u64> {
    let mut words: Vec<&str> = orders
        .iter()
        .filter_map(|order| if let Order::Word(word) = order { Some(&**word) } else { None })
        .collect();
    words.sort_unstable();
    words.dedup();
    let directed = |rank: u64| if reverse { !rank } else { rank };
    let rank = |order: &Order| match order {
        Order::Unknown => u64::MAX,
        // Larger numbers come first. Read as integers, positive floats keep their order, and negative floats have the reverse order.
        Order::Number(value) => {
            let bits = value.to_bits();
            let ascending = if value.is_sign_negative() { !bits } else { bits | 1 << 63 };
            directed(!ascending).min(u64::MAX - 1)
        }
        Order::Word(word) => {
            let index = words.partition_point(|other| *other < &**word);
            (if reverse { words.len() - index } else { index }) as u64
        }
    };
    orders.iter().map(rank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_values_come_last_in_both_directions() {
        let sorted = |orders: &[Order], reverse| {
            let ranks = ranks(orders, reverse);
            let mut indices: Vec<usize> = (0..orders.len()).collect();
            indices.sort_by_key(|index| ranks[*index]);
            indices
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
    fn similar_numbers_are_in_one_step() {
        assert_eq!(Order::Number(100.0).in_steps(), Order::Number(105.0).in_steps());
        assert_ne!(Order::Number(100.0).in_steps(), Order::Number(150.0).in_steps());
        let watts = [0.0, 0.000_3, 0.203, 0.7, 1.0, 4.0].map(|watts| Order::Number(watts).in_steps());
        assert!(ranks(&watts, false).is_sorted_by(|a, b| a > b), "{watts:?}: steps below one are above zero");
    }
}
