// SPDX-License-Identifier: MIT OR Apache-2.0
//! The columns of each table, and their priority on narrow screens.

#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice {
    pub(crate) key: &'static str,
    /// Columns with a lower rank get their width first.
    pub(crate) rank: u8,
    /// Whether the column gets width only after all columns that are not extra.
    pub(crate) is_extra: bool,
}

/// Declares the columns of a table in the order in which they are shown, each with its rank; extra columns after `+`.
macro_rules! view {
    ($(#[$doc:meta])* $name:ident: $($key:ident $rank:literal)+ + $($extra:ident $extra_rank:literal)*) => {
        $(#[$doc])*
        pub(crate) const $name: &[Choice] = &[
            $(Choice { key: stringify!($key), rank: $rank, is_extra: false },)+
            $(Choice { key: stringify!($extra), rank: $extra_rank, is_extra: true },)*
        ];
    };
}

view! {
    CONNECTIONS: flow 0 bottleneck 3 share 4 rate 1 rates 2 srtt_seconds 5 retransmitted_segments_total 7 watts 6
    + sent_bytes_total 8 received_bytes_total 9 rtt_p99_seconds 10 active_joules_total 11 joules_per_gigabyte 12
      congestion_window_segments 13 cpu_seconds_total 14 state 15 netns 16 joined_after_seconds 17 limit 18
}

view! {
    ENERGY: flow 0 watts 1 active_joules_total 2 bounds 4 joules_per_gigabyte 3 wasted 5 source 7 cpu_seconds_total 6 rate 8
    + full_joules_total 9 rates 10
}

view! {
    /// The subflows of one connection.
    DETAIL: flow 0 bottleneck 3 share 4 rate 1 srtt_seconds 2 rtt_min_seconds 9 rtt_p99_seconds 8
      retransmitted_segments_total 5 congestion_window_segments 10 sent_bytes_total 11 received_bytes_total 12
      active_joules_total 6 joules_per_gigabyte 7
    + limit 13 joined_after_seconds 14 handshake_seconds 15 timeouts_total 16 cpu_seconds_total 17
}

view! {
    AGGREGATES_BY_PATH: name 0 group 2 rate 1 rates 3 rtt 4 failed 5 loss 6 open 7 rtt_lowest 9 sent 8 received 10 watts 11
    + joules 12 j_per_gb 13 connections 14
}

view! {
    AGGREGATES_BY_PEER: name 0 connections 2 open 5 rate 1 rates 3 sent 6 received 7 rtt 8 loss 9 watts 4 joules 10
    + failed 11 j_per_gb 12
}

view! {
    /// `mpwatch top --batch`.
    BATCH: flow 0 bottleneck 9 share 8 send_bits_per_second 1 receive_bits_per_second 2 sent_bytes_total 3
      received_bytes_total 4 srtt_seconds 5 rtt_p99_seconds 7 retransmitted_segments_total 6
      congestion_window_segments 10 active_joules_total 11
    + cpu_seconds_total 12 joules_per_gigabyte 13 state 14 netns 15 rtt_p50_seconds 16 rtt_min_seconds 17
      joined_after_seconds 18 handshake_seconds 19 timeouts_total 20 fallback 21
}

view! {
    /// `mpwatch ls`. Scripts read these columns by position: do not change their order.
    LIST: id 0 protocol 1 state 2 role 3 netns 4 process 5 local 6 remote 7 subflows 8 send_bits_per_second 9
      receive_bits_per_second 10 sent_bytes_total 11 received_bytes_total 12 retransmitted_bytes_total 13 age_seconds 14
      cpu_seconds_total 15 active_joules_total 16 joules_per_gigabyte 17 observed 18
    +
}

#[cfg(test)]
pub(super) const ALL: &[&[Choice]] =
    &[CONNECTIONS, ENERGY, DETAIL, AGGREGATES_BY_PATH, AGGREGATES_BY_PEER, BATCH, LIST];

/// Whether a column is empty if no energy is known.
pub(crate) fn is_of_energy(key: &str) -> bool {
    key.contains("joules") || ["watts", "bounds", "wasted", "source", "j_per_gb"].contains(&key)
}

/// The rank of columns that the user adds.
const LAST: u8 = u8::MAX;

/// The columns of a view, after columns were added and removed as the user chose.
pub(crate) fn chosen(usual: &[Choice], by_user: &[(&'static str, bool)]) -> Vec<Choice> {
    let mut choices: Vec<Choice> =
        usual.iter().filter(|choice| !by_user.contains(&(choice.key, false))).copied().collect();
    for (key, shown) in by_user {
        match choices.iter_mut().find(|choice| choice.key == *key) {
            Some(choice) if *shown => choice.is_extra = false,
            None if *shown => choices.push(Choice { key, rank: LAST, is_extra: false }),
            _ => {}
        }
    }
    choices
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_shows_and_hides_columns() {
        view! { USUAL: rate 1 + cgroup 9 }
        let keys = |by_user: &[(&'static str, bool)]| {
            chosen(USUAL, by_user).iter().map(|choice| choice.key).collect::<Vec<_>>()
        };
        assert_eq!(keys(&[("rate", false)]), ["cgroup"]);
        assert_eq!(keys(&[("age", true)]), ["rate", "cgroup", "age"]);
        assert!(!chosen(USUAL, &[("cgroup", true)])[1].is_extra);
    }
}
