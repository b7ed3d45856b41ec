// SPDX-License-Identifier: MIT OR Apache-2.0
//! Distributes the width of a table among its columns.

/// The widths that a column can use, in characters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    pub(crate) min: usize,
    pub(crate) max: usize,
    /// Columns with a lower rank get their width first.
    pub(crate) rank: u8,
    /// Extra columns get width only after all columns that are not extra.
    pub(crate) is_extra: bool,
}

/// Number of spaces between two columns.
pub(crate) const GAP: usize = 1;

/// The width of each column; zero: the column does not fit. All widths and gaps together are at most `room`.
pub(crate) fn fit(demands: &[Demand], room: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..demands.len()).collect();
    order.sort_by_key(|&column| (demands[column].is_extra, demands[column].rank));
    let mut widths = vec![0; demands.len()];
    let mut used = 0;
    let (essential, extra): (Vec<usize>, Vec<usize>) =
        order.iter().partition(|&&column| !demands[column].is_extra);
    for &column in &essential {
        take(&mut widths[column], &mut used, demands[column].min, room);
    }
    for &column in &essential {
        if widths[column] > 0 {
            let more = demands[column].max.saturating_sub(widths[column]).min(room - used);
            widths[column] += more;
            used += more;
        }
    }
    for &column in &extra {
        take(&mut widths[column], &mut used, demands[column].max, room);
    }
    widths
}

fn take(width: &mut usize, used: &mut usize, wanted: usize, room: usize) {
    let gap = if *used > 0 { GAP } else { 0 };
    if *used + gap + wanted <= room {
        *width = wanted;
        *used += gap + wanted;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEMANDS: [Demand; 3] = [
        Demand { min: 4, max: 10, rank: 1, is_extra: false },
        Demand { min: 3, max: 5, rank: 2, is_extra: false },
        Demand { min: 2, max: 6, rank: 3, is_extra: true },
    ];

    #[test]
    fn columns_come_by_rank_and_extra_columns_last() {
        assert_eq!(fit(&DEMANDS, 3), [0, 3, 0]);
        assert_eq!(fit(&DEMANDS, 7), [7, 0, 0]);
        assert_eq!(fit(&DEMANDS, 9), [5, 3, 0]);
        assert_eq!(fit(&DEMANDS, 16), [10, 5, 0]);
        assert_eq!(fit(&DEMANDS, 23), [10, 5, 6]);
    }

    #[test]
    fn columns_never_exceed_the_room() {
        for room in 0..40 {
            let widths: Vec<usize> = fit(&DEMANDS, room).into_iter().filter(|width| *width > 0).collect();
            let gaps = GAP * widths.len().saturating_sub(1);
            assert!(widths.iter().sum::<usize>() + gaps <= room);
        }
    }
}
