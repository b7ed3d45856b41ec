// SPDX-License-Identifier: MIT OR Apache-2.0
//! Formats values for users.

use super::unit::Unit;

/// A value as text: three significant digits and a unit; `-` if unknown.
pub fn display(unit: Unit, value: Option<f64>) -> String {
    let Some(value) = value else { return "-".to_owned() };
    match unit {
        Unit::Bytes => scaled(value, 1000.0, &["B", "kB", "MB", "GB", "TB", "PB"]),
        Unit::BitsPerSecond => scaled(value, 1000.0, &["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"]),
        Unit::Seconds if value < 1e-3 => format!("{:.0} us", value * 1e6),
        Unit::Seconds if value < 1.0 => format!("{} ms", significant(value * 1e3)),
        Unit::Seconds => format!("{} s", significant(value)),
        Unit::Ratio => format!("{:.1} %", value * 100.0),
        Unit::Joules => prefixed(value, "J"),
        Unit::Watts => prefixed(value, "W"),
        Unit::JoulesPerGigabyte => format!("{} J/GB", significant(value)),
        Unit::Segments | Unit::Count => format!("{value:.0}"),
    }
}

/// [`display`] for a narrow column: at most 7 characters up to 999 PB, without spaces. `b` means bit/s; J/GB is omitted, because titles show it.
pub fn compact(unit: Unit, value: Option<f64>) -> String {
    display(unit, value).replace("bit/s", "b").replace(" J/GB", "").replace(' ', "")
}

/// `1 connection`, `2 connections`.
pub fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// Power as text with three significant digits, in watts or a multiple.
pub fn watts(value: f64) -> String {
    prefixed(value, "W")
}

/// A value as text, with `u`, `m`, `k` or `M` before the unit where needed.
pub fn prefixed(value: f64, unit: &str) -> String {
    match value {
        v if v >= 999.5 => scaled(v, 1000.0, &[unit, &format!("k{unit}"), &format!("M{unit}")]),
        v if v >= 0.999_5 || v == 0.0 => format!("{} {unit}", significant(v)),
        v if v >= 0.000_999_5 => format!("{} m{unit}", significant(v * 1e3)),
        v => format!("{:.0} u{unit}", v * 1e6),
    }
}

/// Removes superfluous digits of a formatted value: `10.0 ms` becomes `10 ms`.
pub fn trimmed(text: &str) -> String {
    let Some((number, unit)) = text.split_once(' ').filter(|(number, _)| number.contains('.')) else {
        return text.to_owned();
    };
    format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
}

/// The smallest product of one of these digits and a power of ten that is not below `value`, which must be positive.
pub fn round_up(value: f64, digits: &[f64]) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    digits.iter().map(|digit| digit * power).find(|round| *round >= value).unwrap_or(10.0 * power)
}

fn scaled(value: f64, step: f64, units: &[&str]) -> String {
    let (mut value, mut unit) = (value, 0);
    // A value that would be printed as "1000 kB" is printed as "1.00 MB".
    while value >= step * 0.9995 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let number = if unit == 0 { format!("{value:.0}") } else { significant(value) };
    format!("{number} {}", units[unit])
}

fn significant(value: f64) -> String {
    match value {
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_read_well() {
        assert_eq!(display(Unit::Bytes, Some(0.0)), "0 B");
        assert_eq!(display(Unit::Bytes, Some(1_234_567.0)), "1.23 MB");
        assert_eq!(display(Unit::Seconds, Some(0.000_042)), "42 us");
        assert_eq!(display(Unit::Seconds, Some(0.0205)), "20.5 ms");
        assert_eq!(display(Unit::Ratio, Some(0.333)), "33.3 %");
        assert_eq!(display(Unit::BitsPerSecond, None), "-");
        assert_eq!(display(Unit::Bytes, Some(999_999.0)), "1.00 MB");
        assert_eq!(display(Unit::Bytes, Some(9_999.0)), "10.0 kB");
        assert_eq!(display(Unit::Joules, Some(0.004_2)), "4.20 mJ");
        assert_eq!(display(Unit::Joules, Some(12_300.0)), "12.3 kJ");
        assert_eq!(display(Unit::Joules, Some(0.999_9)), "1.00 J");
        assert_eq!(compact(Unit::JoulesPerGigabyte, Some(25.04)), "25.0");
        assert_eq!(watts(0.35), "350 mW");
        assert_eq!(compact(Unit::BitsPerSecond, Some(94_100_000.0)), "94.1Mb");
        assert_eq!(compact(Unit::Seconds, Some(0.0205)), "20.5ms");
    }
}
