// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the error of the calendar clock. The module is in this crate because it needs `unsafe`.

use std::mem::MaybeUninit;

use mpwatch_model::unit::Nanos;

/// Upper bound of the error of the calendar clock, as the program that synchronizes it (such as chrony) reports it to the kernel. It grows until
/// the next synchronization. `None`: the clock is not synchronized, or the kernel refuses to report it.
pub fn error() -> Option<Nanos> {
    let mut clock = MaybeUninit::<libc::timex>::zeroed();
    // SAFETY: an all-zero `timex` is valid, and its `modes` of 0 change nothing; the kernel fills the structure.
    let (state, clock) = unsafe { (libc::adjtimex(clock.as_mut_ptr()), clock.assume_init()) };
    bound(state, clock.status, clock.maxerror)
}

/// `state`: the result of adjtimex(2). `max_error`: in microseconds.
fn bound(state: i32, status: i32, max_error: i64) -> Option<Nanos> {
    let is_synchronized = (0..libc::TIME_ERROR).contains(&state) && status & libc::STA_UNSYNC == 0;
    let micros = u64::try_from(max_error).ok().filter(|_| is_synchronized)?;
    Some(Nanos(micros.saturating_mul(1_000)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_not_synchronized_has_no_bound() {
        assert_eq!(bound(libc::TIME_OK, libc::STA_PLL, 1_500), Some(Nanos(1_500_000)));
        assert_eq!(bound(libc::TIME_INS, 0, 0), Some(Nanos(0)));
        assert_eq!(bound(libc::TIME_ERROR, 0, 1_500), None);
        assert_eq!(bound(libc::TIME_OK, libc::STA_UNSYNC, 16_000_000), None);
        assert_eq!(bound(-1, 0, 0), None, "refused");
    }

    #[test]
    fn the_kernel_reports_what_its_tools_report() {
        let mut clock = MaybeUninit::<libc::timex>::zeroed();
        // SAFETY: as above.
        let (state, clock) = unsafe { (libc::adjtimex(clock.as_mut_ptr()), clock.assume_init()) };
        let is_synchronized = state >= 0 && state != libc::TIME_ERROR && clock.status & libc::STA_UNSYNC == 0;
        assert_eq!(error().is_some(), is_synchronized, "state {state}, status {:#x}", clock.status);
    }
}
