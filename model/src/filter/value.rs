// SPDX-License-Identifier: MIT OR Apache-2.0
//! The values in a filter: networks, name patterns, and numbers with a unit. Each value prints as text that parses to the same value.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use ipnet::{IpNet, Ipv4Net};
use wildmatch::WildMatch;

use crate::flow::connection::Connection;
use crate::flow::subflow::Subflow;
use crate::words;

words! {
    /// The value that a comparison reads.
    pub(super) enum Subject {
        Rate = "rate",
        Rtt = "rtt",
        Bytes = "bytes",
        Subflows = "subflows",
    }
}

words! {
    /// Comparison operators. The longer operators come first, because `>=` begins with `>`.
    pub(super) enum Comparison {
        AtMost = "<=",
        AtLeast = ">=",
        Less = "<",
        More = ">",
    }
}

impl Subject {
    /// The values of a connection, in bit/s, microseconds, bytes or as counts. `Rtt` gives one value per open subflow with a working path.
    /// Empty: unknown.
    pub(super) fn values(self, c: &Connection) -> Vec<u64> {
        match self {
            Self::Rate => c.rate().map(|rate| rate.0).into_iter().collect(),
            Self::Rtt => {
                let open = c.subflows.iter().filter(|s| s.closed.is_none());
                open.filter_map(Subflow::current_srtt).map(|srtt| srtt.0).collect()
            }
            Self::Bytes => c
                .bytes_sent
                .zip(c.bytes_received)
                .map(|(sent, received)| (sent + received).0)
                .into_iter()
                .collect(),
            Self::Subflows => vec![c.subflows.iter().filter(|s| s.closed.is_none()).count() as u64],
        }
    }
}

impl Comparison {
    pub(super) fn holds(self, value: u64, limit: u64) -> bool {
        match self {
            Self::Less => value < limit,
            Self::AtMost => value <= limit,
            Self::AtLeast => value >= limit,
            Self::More => value > limit,
        }
    }
}

/// An address prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Network(IpNet);

impl Network {
    /// Parses `10.1.2.3`, `fd00::/8` and `10.0.0.0/16`, for which `10.0/16` and `10.0` are short forms.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix.parse().ok()?)),
            None => (text, None),
        };
        let network = address.parse::<IpAddr>().map_or_else(|_| short_ipv4(address), |ip| Some(ip.into()))?;
        let prefix = prefix.unwrap_or(network.prefix_len());
        Some(Self(IpNet::new(network.addr(), prefix).ok()?.trunc()))
    }

    pub(super) fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.prefix_len() == self.0.max_prefix_len() { self.0.addr().fmt(f) } else { self.0.fmt(f) }
    }
}

/// Parses the first one to three numbers of an IPv4 address. The prefix of the network has the length of these numbers.
fn short_ipv4(text: &str) -> Option<IpNet> {
    let mut octets = [0; 4];
    let mut count = 0;
    for part in text.split('.').filter(|part| !part.is_empty()) {
        *octets.get_mut(usize::from(count))? = part.parse().ok()?;
        count += 1;
    }
    Some(Ipv4Net::new(Ipv4Addr::from(octets), count * 8).ok().filter(|_| count > 0)?.into())
}

/// A name pattern. It matches a part of the name; after `=`, or with `*` (any text) or `?` (one character), the whole name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern(String);

impl Pattern {
    pub(super) fn parse(text: &str) -> Option<Self> {
        (!text.is_empty() && text != "=").then(|| Self(text.to_owned()))
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }

    pub(super) fn matches(&self, name: &str) -> bool {
        let whole = self.0.strip_prefix('=');
        if whole.is_none() && !self.0.contains(['*', '?']) {
            return name.contains(&self.0);
        }
        WildMatch::new(whole.unwrap_or(&self.0)).matches(name)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A number in the base unit of its subject: bit/s, microseconds, bytes or a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) base: u64,
    units: &'static [(&'static str, u64)],
}

const SCALES: &[(&str, u64)] =
    &[("", 1), ("k", 1_000), ("M", 1_000_000), ("G", 1_000_000_000), ("T", 1_000_000_000_000)];
const TIMES: &[(&str, u64)] = &[("us", 1), ("ms", 1_000), ("s", 1_000_000)];
const NUMBERS: &[(&str, u64)] = &[("", 1)];

impl Amount {
    /// Parses a number with at most one decimal point and a unit of the subject, in upper or lower case.
    pub(super) fn parse(subject: Subject, text: &str) -> Option<Self> {
        let units = match subject {
            Subject::Rate | Subject::Bytes => SCALES,
            Subject::Rtt => TIMES,
            Subject::Subflows => NUMBERS,
        };
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let (_, scale) = units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() || fraction.contains('.') {
            return None;
        }
        let whole = whole.parse::<u64>().ok()?.checked_mul(*scale)?;
        Some(Self { base: whole.checked_add(fraction_of(*scale, fraction))?, units })
    }
}

/// `scale` times the decimal fraction with these digits, rounded down: 250 for a scale of 1000 and the digits `25`.
fn fraction_of(scale: u64, digits: &str) -> u64 {
    let steps = digits.bytes().scan(scale, |rest, digit| {
        *rest /= 10;
        Some(*rest * u64::from(digit - b'0'))
    });
    steps.sum()
}

impl fmt::Display for Amount {
    /// Prints the number in the largest unit that needs no decimal point.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fitting = self
            .units
            .iter()
            .rev()
            .find(|(_, scale)| self.base.is_multiple_of(*scale) && self.base >= *scale);
        let (unit, scale) = fitting.unwrap_or(&self.units[0]);
        write!(f, "{}{unit}", self.base / scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_can_be_written_short() {
        let network = Network::parse("10.0/16").unwrap();
        assert_eq!(network.to_string(), "10.0.0.0/16");
        assert_eq!(Network::parse("10.0"), Some(network));
        assert_eq!(Network::parse("10.0.7.7/16"), Some(network));
        assert!(network.contains("10.0.200.1".parse().unwrap()));
        assert!(!network.contains("10.1.0.1".parse().unwrap()));
        assert!(!network.contains("::ffff:10.0.0.1".parse().unwrap()));
        assert!(Network::parse("0/0").unwrap().contains("8.8.8.8".parse().unwrap()));
        assert_eq!(Network::parse("fd00::1:2/8").unwrap().to_string(), "fd00::/8");
        for wrong in ["", "/", "10.0/33", "fd00::/129", "1.2.3.4.5", "eth0", "10.256"] {
            assert_eq!(Network::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_pattern_fits_a_part_or_the_whole_of_a_name() {
        let fits = |pattern: &str, name: &str| Pattern::parse(pattern).unwrap().matches(name);
        assert!(fits("nginx", "nginx") && fits("gin", "nginx") && !fits("nginx", "ngin"));
        assert!(fits("=nginx", "nginx") && !fits("=nginx", "nginx2") && fits("=ng*", "nginx"));
        assert!(Pattern::parse("").is_none() && Pattern::parse("=").is_none());
        assert!(fits("eth*", "eth1") && fits("*worker", "nginx: worker") && fits("*", ""));
        assert!(fits("a*b*c", "aXbXbXc") && !fits("a*b", "abc"));
        assert!(fits("Web?Content", "Web Content") && !fits("?", ""));
    }

    #[test]
    fn a_number_has_the_units_of_its_subject() {
        let base = |subject, text| Amount::parse(subject, text).map(|quantity| quantity.base);
        assert_eq!(base(Subject::Rate, "1.5M"), Some(1_500_000));
        assert_eq!(base(Subject::Bytes, "10g"), Some(10_000_000_000));
        assert_eq!(base(Subject::Rtt, "20ms"), Some(20_000));
        assert_eq!(base(Subject::Rtt, "0.0000001s"), Some(0));
        assert_eq!(base(Subject::Subflows, "2"), Some(2));
        for (subject, wrong) in [
            (Subject::Rtt, "20"),
            (Subject::Subflows, "2k"),
            (Subject::Rate, "M"),
            (Subject::Rate, "1.2.3"),
            (Subject::Rate, "99999999T"),
        ] {
            assert_eq!(base(subject, wrong), None, "{wrong}");
        }
        assert_eq!(Amount::parse(Subject::Rate, "1.5M").unwrap().to_string(), "1500k");
        assert_eq!(Amount::parse(Subject::Rtt, "0s").unwrap().to_string(), "0us");
    }
}
