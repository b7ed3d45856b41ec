// SPDX-License-Identifier: MIT OR Apache-2.0
//! The published formulas by which other tools attribute energy, to compare them with mpwatch on the same runs.

/// What a tool measures in one window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measurement {
    /// Energy of the machine, joules.
    pub energy: f64,
    /// Length of the window, seconds.
    pub elapsed: f64,
    /// Number of CPUs.
    pub cpus: f64,
    /// CPU time of the consumer, seconds.
    pub own: f64,
    /// CPU time of all consumers, seconds.
    pub all: f64,
    /// Idle power, watts, measured before the window. Only EnergAt uses it.
    pub idle: f64,
}

/// A formula: joules of the consumer.
pub type Formula = fn(&Measurement) -> f64;

/// All formulas, by the name of the tool.
pub const FORMULAS: [(&str, Formula); 3] =
    [("kepler", kepler), ("scaphandre", scaphandre), ("energat", energat)];

/// Kepler 0.10 and later: active energy is energy times CPU utilisation, without a baseline, divided by CPU time.
pub fn kepler(measured: &Measurement) -> f64 {
    if measured.all == 0.0 {
        return 0.0;
    }
    let utilisation = measured.all / (measured.cpus * measured.elapsed);
    measured.energy * utilisation * (measured.own / measured.all)
}

/// Scaphandre: the host's power times the consumer's CPU percentage, divided by the number of cores.
pub fn scaphandre(measured: &Measurement) -> f64 {
    let watts = measured.energy / measured.elapsed;
    watts * (measured.own / measured.elapsed / measured.cpus) * measured.elapsed
}

/// EnergAt: energy above the baseline times the share of CPU time to the power of 0.3 (its default).
pub fn energat(measured: &Measurement) -> f64 {
    const GAMMA: f64 = 0.3;
    if measured.all == 0.0 {
        return 0.0;
    }
    (measured.energy - measured.idle * measured.elapsed) * (measured.own / measured.all).powf(GAMMA)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 40 W idle and 60 W more at full load on 8 CPUs. A flow uses half a CPU, so its true energy is always 3.75 J.
    #[test]
    fn the_formulas_give_the_published_results_for_a_simple_machine() {
        let with_others = |others: f64| {
            let all = 0.5 + others;
            let energy = 40.0 + 60.0 * all / 8.0;
            Measurement { energy, elapsed: 1.0, cpus: 8.0, own: 0.5, all, idle: 40.0 }
        };
        for (others, by_share, by_power_law) in [(0.0, 2.73, 3.75), (2.0, 3.67, 11.57), (6.0, 5.55, 22.58)] {
            let measured = with_others(others);
            assert!((kepler(&measured) - by_share).abs() < 0.01);
            assert!((scaphandre(&measured) - by_share).abs() < 0.01);
            assert!((energat(&measured) - by_power_law).abs() < 0.01, "{}", energat(&measured));
        }
    }
}
