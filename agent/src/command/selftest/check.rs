// SPDX-License-Identifier: MIT OR Apache-2.0
//! One comparison of a number of ours with the same number from somewhere else, and how a list of them is shown. Pure:
//! where the numbers come from is `compare.rs`.

use std::fmt;

use serde::Serialize;

/// A number or a text that is compared. Unknown is `None`, in JSON `null`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(super) enum Value {
    /// A number, in the unit that the check's name says.
    Number(u64),
    /// A text.
    Text(String),
    /// We do not know it.
    Unknown,
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Self {
        Self::Number(number as u64)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Unknown, Into::into)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
            Self::Unknown => f.write_str("-"),
        }
    }
}

/// One comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Check {
    /// What was compared, with its unit.
    name: String,
    /// What mpwatch says.
    ours: Value,
    /// What the other source says.
    theirs: Value,
    /// The other source.
    source: &'static str,
    /// Whether they agree.
    pub(super) ok: bool,
    /// `ours / theirs - 1`; `None` where the two are equal or no numbers.
    deviation: Option<f64>,
}

impl Check {
    /// The two must be equal.
    pub(super) fn exact(
        name: impl Into<String>,
        ours: impl Into<Value>,
        theirs: impl Into<Value>,
        source: &'static str,
    ) -> Self {
        let (ours, theirs) = (ours.into(), theirs.into());
        let ok = ours == theirs && ours != Value::Unknown;
        let deviation = if ok { None } else { deviation(&ours, &theirs) };
        Self { name: name.into(), ours, theirs, source, ok, deviation }
    }

    /// Ours may be off by this part of theirs.
    pub(super) fn within(
        tolerance: f64,
        name: impl Into<String>,
        ours: impl Into<Value>,
        theirs: impl Into<Value>,
        source: &'static str,
    ) -> Self {
        let (ours, theirs) = (ours.into(), theirs.into());
        let deviation = deviation(&ours, &theirs);
        let ok = deviation.is_some_and(|deviation| deviation.abs() <= tolerance);
        Self { name: name.into(), ours, theirs, source, ok, deviation }
    }

    /// Ours lies between two numbers, or off by this part of the nearer one.
    pub(super) fn between(
        tolerance: f64,
        name: impl Into<String>,
        ours: Option<u64>,
        [low, high]: [u64; 2],
        source: &'static str,
    ) -> Self {
        let nearest = ours.map(|ours| ours.clamp(low, high.max(low)));
        let mut check = Self::within(tolerance, name, ours, nearest, source);
        check.theirs = format!("{low}..{high}").into();
        check
    }
}

fn deviation(ours: &Value, theirs: &Value) -> Option<f64> {
    match (ours, theirs) {
        (Value::Number(ours), Value::Number(theirs)) if *theirs != 0 => {
            Some(*ours as f64 / *theirs as f64 - 1.0)
        }
        _ => None,
    }
}

/// The checks as people read them: a line each, in columns, and the sum.
pub(super) fn table(checks: &[Check]) -> String {
    let rows: Vec<[String; 6]> = checks.iter().map(row).collect();
    let titles = ["", "check", "mpwatch", "other", "source", "deviation"].map(str::to_owned);
    let mut widths = [0; 6];
    for row in rows.iter().chain([&titles]) {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for row in [&titles].into_iter().chain(&rows) {
        text.push_str(line(row, &widths).trim_end());
        text.push('\n');
    }
    text.push_str(&sum(checks));
    text
}

fn row(check: &Check) -> [String; 6] {
    let deviation = match check.deviation {
        Some(deviation) => format!("{:+.2} %", deviation * 100.0),
        None if check.ok => "exact".to_owned(),
        None => "-".to_owned(),
    };
    let verdict = if check.ok { "ok" } else { "FAIL" }.to_owned();
    [
        verdict,
        check.name.clone(),
        check.ours.to_string(),
        check.theirs.to_string(),
        check.source.to_owned(),
        deviation,
    ]
}

fn line(row: &[String; 6], widths: &[usize; 6]) -> String {
    let [verdict, name, ours, theirs, source, deviation] = row;
    let [w0, w1, w2, w3, w4, w5] = widths;
    format!("{verdict:w0$}  {name:w1$}  {ours:>w2$}  {theirs:>w3$}  {source:w4$}  {deviation:>w5$}")
}

fn sum(checks: &[Check]) -> String {
    let failed = checks.iter().filter(|check| !check.ok).count();
    match failed {
        0 => format!("all {} checks agree\n", checks.len()),
        _ => format!("{failed} of {} checks FAILED\n", checks.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_number_fails() {
        assert!(Check::exact("bytes", 7_u64, 7_u64, "x").ok);
        let wrong = Check::exact("bytes", 70_u64, 7_u64, "x");
        assert_eq!((wrong.ok, wrong.deviation), (false, Some(9.0)));
        assert!(Check::within(0.02, "bytes", 101_u64, 100_u64, "x").ok);
        assert!(!Check::within(0.02, "bytes", 103_u64, 100_u64, "x").ok);
        assert!(!Check::within(0.02, "bytes", 97_u64, 100_u64, "x").ok);
        assert!(!Check::exact("token", "a".to_owned(), "b".to_owned(), "x").ok);
    }

    #[test]
    fn between_two_bounds_nothing_is_off() {
        let between = |ours| Check::between(0.1, "rtt", ours, [100, 120], "x");
        let verdicts = [89, 90, 110, 131, 133].map(|ours| between(Some(ours)).ok);
        assert_eq!(verdicts, [false, true, true, true, false]);
        assert_eq!(between(Some(110)).deviation, Some(0.0));
        assert_eq!(between(Some(150)).deviation, Some(0.25));
        assert!(!between(None).ok);
        assert!(!Check::between(0.1, "rtt", Some(50), [100, 20], "x").ok, "bounds that were swapped");
    }

    #[test]
    fn what_is_not_known_agrees_with_nothing() {
        assert!(!Check::exact("bytes", None::<u64>, None::<u64>, "x").ok);
        assert!(!Check::exact("bytes", None::<u64>, 0_u64, "x").ok);
        assert!(!Check::within(0.1, "bytes", None::<u64>, 3_u64, "x").ok);
        assert!(!Check::within(0.1, "bytes", 3_u64, 0_u64, "x").ok);
    }

    #[test]
    fn the_table_is_aligned_and_says_what_failed() {
        let checks = [
            Check::exact("a", 7_u64, 7_u64, "kernel"),
            Check::within(0.5, "long name", 1_000_000_u64, 1_000_000_u64, "interfaces"),
            Check::exact("b", 1_u64, 2_u64, "kernel"),
        ];
        let expected = "      check      mpwatch    other  source      deviation\n\
                        ok    a                7        7  kernel          exact\n\
                        ok    long name  1000000  1000000  interfaces    +0.00 %\n\
                        FAIL  b                1        2  kernel       -50.00 %\n\
                        1 of 3 checks FAILED\n";
        assert_eq!(table(&checks), expected);
        assert!(table(&checks[..2]).ends_with("all 2 checks agree\n"));
    }

    #[test]
    fn json_has_null_for_what_is_not_known() {
        let json = serde_json::to_value(Check::exact("b", None::<u64>, 2_u64, "kernel")).unwrap();
        let expected = serde_json::json!({ "name": "b", "ours": null, "theirs": 2, "source": "kernel", "ok": false, "deviation": null });
        assert_eq!(json, expected);
    }
}
