// SPDX-License-Identifier: MIT OR Apache-2.0
//! Units as types: microseconds cannot be added to bytes. JSON names carry the unit (`srtt_us`), Rust names do not.

use std::ops::Add;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! unit {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// The difference from an earlier or smaller value. Zero if `earlier` is larger.
            #[must_use]
            pub fn since(self, earlier: Self) -> Self {
                Self(self.0.saturating_sub(earlier.0))
            }
        }

        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0.saturating_add(other.0))
            }
        }

        impl std::ops::AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                *self = *self + other;
            }
        }

        impl std::iter::Sum for $name {
            fn sum<I: Iterator<Item = Self>>(values: I) -> Self {
                values.fold(Self(0), |total, value| total + value)
            }
        }
    };
}

unit!(
    /// Nanoseconds. As a time stamp: on the kernel's boot clock (`CLOCK_BOOTTIME`).
    Nanos
);
unit!(
    /// Microseconds, the unit in which TCP keeps round-trip times.
    Micros
);
unit!(
    /// Bytes. Payload unless a name says `wire`.
    Bytes
);
unit!(
    /// Bits per second.
    BitsPerSecond
);
unit!(
    /// Microjoules, the unit in which the kernel shows RAPL counters.
    Microjoules
);

/// Saturates after 584 years.
impl From<Duration> for Nanos {
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Nanos {
    /// Whole microseconds.
    pub fn micros(self) -> Micros {
        Micros(self.0 / 1_000)
    }

    /// Seconds as a floating-point number.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Micros {
    /// Seconds as a floating-point number.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl Microjoules {
    /// Joules as a floating-point number.
    pub fn joules(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl Bytes {
    /// The mean rate of these bytes over `elapsed`. Zero if `elapsed` is zero.
    pub fn per(self, elapsed: Nanos) -> BitsPerSecond {
        if elapsed.0 == 0 {
            return BitsPerSecond(0);
        }
        let bits = u128::from(self.0) * 8 * 1_000_000_000 / u128::from(elapsed.0);
        BitsPerSecond(u64::try_from(bits).unwrap_or(u64::MAX))
    }
}

/// The sum. `None`: a value is unknown, or there are no values.
pub fn sum_if_all_known<T: Add<Output = T>>(values: impl IntoIterator<Item = Option<T>>) -> Option<T> {
    values.into_iter().reduce(|sum, value| Some(sum? + value?)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_bits_over_seconds() {
        assert_eq!(Bytes(1_250_000).per(Nanos(1_000_000_000)), BitsPerSecond(10_000_000));
        assert_eq!(Bytes(1).per(Nanos(0)), BitsPerSecond(0));
        assert_eq!(Bytes(u64::MAX).per(Nanos(1)), BitsPerSecond(u64::MAX));
    }

    #[test]
    fn a_difference_never_underflows() {
        assert_eq!(Bytes(3).since(Bytes(5)), Bytes(0));
    }
}
