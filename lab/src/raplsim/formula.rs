// SPDX-License-Identifier: MIT OR Apache-2.0
//! How other tools divide energy, written anew from their published formulas (shared notes on energy, section 3), so that one
//! harness judges them and us on the same runs. Joules of one consumer in one window.

/// What a tool sees of one window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// Energy of the machine, joules.
    pub energy: f64,
    /// Length of the window, seconds.
    pub elapsed: f64,
    /// CPUs.
    pub cpus: f64,
    /// CPU time of the consumer, seconds.
    pub own: f64,
    /// CPU time of all, seconds.
    pub all: f64,
    /// Idle power, watts, measured before; only EnergAt uses it.
    pub idle: f64,
}

/// A formula.
pub type Formula = fn(&Seen) -> f64;

/// All of them, by the name of the tool.
pub const FORMULAS: [(&str, Formula); 3] =
    [("kepler", kepler), ("scaphandre", scaphandre), ("energat", energat)];

/// Kepler 0.10 and later: active energy is energy times CPU utilisation, without a baseline, by share of CPU time.
pub fn kepler(seen: &Seen) -> f64 {
    if seen.all == 0.0 {
        return 0.0;
    }
    let utilisation = seen.all / (seen.cpus * seen.elapsed);
    seen.energy * utilisation * (seen.own / seen.all)
}

/// Scaphandre: the host's watts times the consumer's CPU percentage over the number of cores.
pub fn scaphandre(seen: &Seen) -> f64 {
    let watts = seen.energy / seen.elapsed;
    watts * (seen.own / seen.elapsed / seen.cpus) * seen.elapsed
}

/// EnergAt: energy above the base times the share of CPU time to the power of 0.3 (its default).
pub fn energat(seen: &Seen) -> f64 {
    const GAMMA: f64 = 0.3;
    if seen.all == 0.0 {
        return 0.0;
    }
    (seen.energy - seen.idle * seen.elapsed) * (seen.own / seen.all).powf(GAMMA)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 40 W idle and 60 W at full load on 8 CPUs; a flow uses half a CPU. Truth: 3.75 J, whoever else runs.
    #[test]
    fn they_give_what_the_notes_say_of_the_toy_machine() {
        let seen = |others: f64| {
            let all = 0.5 + others;
            let energy = 40.0 + 60.0 * all / 8.0;
            Seen { energy, elapsed: 1.0, cpus: 8.0, own: 0.5, all, idle: 40.0 }
        };
        for (others, ratio, cube) in [(0.0, 2.73, 3.75), (2.0, 3.67, 11.57), (6.0, 5.55, 22.58)] {
            assert!((kepler(&seen(others)) - ratio).abs() < 0.01);
            assert!((scaphandre(&seen(others)) - ratio).abs() < 0.01);
            assert!((energat(&seen(others)) - cube).abs() < 0.01, "{}", energat(&seen(others)));
        }
    }
}
