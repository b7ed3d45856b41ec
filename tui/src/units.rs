// SPDX-License-Identifier: MIT OR Apache-2.0
//! Formats rates and energy in the units that the user chose, and other values in the units of the metric table.

use mpwatch_model::metric::{self, Unit};

/// The units that the user chose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Units {
    /// Whether rates are in B/s instead of bit/s.
    pub bytes: bool,
    /// Whether energy is in watt-hours instead of joules.
    pub watt_hours: bool,
}

impl Units {
    /// Formats a rate. `None`: unknown.
    pub(crate) fn rate(self, bits_per_second: Option<f64>) -> String {
        match bits_per_second {
            Some(bits) if self.bytes => format!("{}/s", metric::display(Unit::Bytes, Some(bits / 8.0))),
            rate => metric::display(Unit::BitsPerSecond, rate),
        }
    }

    pub(crate) fn compact(self, unit: Unit, value: Option<f64>) -> String {
        match (unit, value) {
            (Unit::BitsPerSecond, Some(bits)) if self.bytes => metric::compact(Unit::Bytes, Some(bits / 8.0)),
            (Unit::Joules, Some(joules)) if self.watt_hours => watt_hours(joules).replace(' ', ""),
            _ => metric::compact(unit, value),
        }
    }

    pub(crate) fn energy(self, joules: f64) -> String {
        if self.watt_hours { watt_hours(joules) } else { metric::display(Unit::Joules, Some(joules)) }
    }
}

fn watt_hours(joules: f64) -> String {
    metric::prefixed(joules / 3600.0, "Wh")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_energy_use_the_chosen_units() {
        let usual = Units::default();
        let other = Units { bytes: true, watt_hours: true };
        assert_eq!(
            (usual.rate(Some(8e6)), other.rate(Some(8e6))),
            ("8.00 Mbit/s".to_owned(), "1.00 MB/s".to_owned())
        );
        assert_eq!((usual.energy(36.0), other.energy(36.0)), ("36.0 J".to_owned(), "10.0 mWh".to_owned()));
        assert_eq!(other.compact(Unit::BitsPerSecond, Some(8e6)), "1.00MB");
        assert_eq!(other.compact(Unit::Joules, Some(7.2e6)), "2.00kWh");
        assert_eq!((other.compact(Unit::Joules, None), other.rate(None)), ("-".to_owned(), "-".to_owned()));
    }
}
