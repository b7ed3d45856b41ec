// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which columns a width has room for, and how wide each gets. Knows nothing of what they show.

/// The wishes of a column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    /// The least that is of use.
    pub(crate) least: usize,
    /// What would show all.
    pub(crate) full: usize,
    /// Lower ones come first.
    pub(crate) rank: u8,
    /// Only when everything essential is shown in full.
    pub(crate) extra: bool,
}

/// Blanks between two columns.
pub(crate) const GAP: usize = 1;

/// The width of each column; zero: left out. The sum with its gaps is at most `room`.
pub(crate) fn fit(wishes: &[Wish], room: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..wishes.len()).collect();
    order.sort_by_key(|&column| (wishes[column].extra, wishes[column].rank));
    let mut widths = vec![0; wishes.len()];
    let mut used = 0;
    let (essential, extra): (Vec<usize>, Vec<usize>) =
        order.iter().partition(|&&column| !wishes[column].extra);
    for &column in &essential {
        take(&mut widths[column], &mut used, wishes[column].least, room);
    }
    for &column in &essential {
        if widths[column] > 0 {
            let more = wishes[column].full.saturating_sub(widths[column]).min(room - used);
            widths[column] += more;
            used += more;
        }
    }
    for &column in &extra {
        take(&mut widths[column], &mut used, wishes[column].full, room);
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

/// The width of all columns with their gaps.
pub(crate) fn total(widths: &[usize]) -> usize {
    let shown = widths.iter().filter(|&&width| width > 0).count();
    widths.iter().sum::<usize>() + GAP * shown.saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WISHES: [Wish; 3] = [
        Wish { least: 4, full: 10, rank: 1, extra: false },
        Wish { least: 3, full: 5, rank: 2, extra: false },
        Wish { least: 2, full: 6, rank: 3, extra: true },
    ];

    #[test]
    fn the_first_rank_comes_first_and_extras_come_last() {
        assert_eq!(fit(&WISHES, 3), [0, 3, 0]);
        assert_eq!(fit(&WISHES, 7), [7, 0, 0]);
        assert_eq!(fit(&WISHES, 9), [5, 3, 0]);
        assert_eq!(fit(&WISHES, 16), [10, 5, 0]);
        assert_eq!(fit(&WISHES, 23), [10, 5, 6]);
        assert_eq!(total(&[10, 0, 6]), 17);
    }

    #[test]
    fn no_room_is_exceeded() {
        for room in 0..40 {
            assert!(total(&fit(&WISHES, room)) <= room);
        }
    }
}
