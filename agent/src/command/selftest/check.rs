// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares a value of mpwatch with the value of another source, and formats a table of all comparisons. `compare` supplies the values.

use serde::Serialize;
use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Check {
    /// The compared quantity, with its unit.
    name: String,
    /// Value of mpwatch: a number, a text, or `null` if it is unknown.
    ours: Value,
    /// Value of `source`, such as the `TCP_INFO` of the kernel.
    theirs: Value,
    source: &'static str,
    pub(super) ok: bool,
    /// `ours / theirs - 1`. `None`: an exact check passed, one value is not a number, or `theirs` is 0.
    deviation: Option<f64>,
}

impl Check {
    /// Both values must be equal and known.
    pub(super) fn exact(
        name: impl Into<String>,
        ours: impl Into<Value>,
        theirs: impl Into<Value>,
        source: &'static str,
    ) -> Self {
        let (ours, theirs) = (ours.into(), theirs.into());
        let ok = ours == theirs && !ours.is_null();
        let deviation = deviation(&ours, &theirs).filter(|_| !ok);
        Self { name: name.into(), ours, theirs, source, ok, deviation }
    }

    /// The value of mpwatch may differ from the other value by at most the fraction `tolerance` of it.
    pub(super) fn within(
        tolerance: f64,
        name: impl Into<String>,
        ours: impl Into<Value>,
        theirs: impl Into<Value>,
        source: &'static str,
    ) -> Self {
        let mut check = Self::exact(name, ours, theirs, source);
        check.deviation = deviation(&check.ours, &check.theirs);
        check.ok = check.deviation.is_some_and(|deviation| deviation.abs() <= tolerance);
        check
    }

    /// The value of mpwatch must lie between `low` and `high`, or differ from the nearer one by at most the fraction `tolerance`.
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
    let (ours, theirs) = (ours.as_u64()?, theirs.as_u64().filter(|theirs| *theirs != 0)?);
    Some(ours as f64 / theirs as f64 - 1.0)
}

pub(super) fn table(checks: &[Check]) -> String {
    let titles = ["", "check", "mpwatch", "other", "source", "deviation"].map(str::to_owned);
    let rows: Vec<[String; 6]> = std::iter::once(titles).chain(checks.iter().map(row)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let [w0, w1, w2, w3, w4, w5] = std::array::from_fn(width);
    let mut text = String::new();
    for [verdict, name, ours, theirs, source, deviation] in &rows {
        let line =
            format!("{verdict:w0$}  {name:w1$}  {ours:>w2$}  {theirs:>w3$}  {source:w4$}  {deviation:>w5$}");
        text = text + line.trim_end() + "\n";
    }
    let failed = checks.iter().filter(|check| !check.ok).count();
    text + &match failed {
        0 => format!("all {} checks agree\n", checks.len()),
        _ => format!("{failed} of {} checks FAILED\n", checks.len()),
    }
}

fn row(check: &Check) -> [String; 6] {
    let deviation = match check.deviation {
        Some(deviation) => format!("{:+.2} %", deviation * 100.0),
        None if check.ok => "exact".to_owned(),
        None => "-".to_owned(),
    };
    let verdict = if check.ok { "ok" } else { "FAIL" };
    let text = |value: &Value| match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let (ours, theirs) = (text(&check.ours), text(&check.theirs));
    [verdict.to_owned(), check.name.clone(), ours, theirs, check.source.to_owned(), deviation]
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
    fn a_number_between_the_bounds_has_deviation_zero() {
        let between = |ours| Check::between(0.1, "rtt", ours, [100, 120], "x");
        let verdicts = [89, 90, 110, 131, 133].map(|ours| between(Some(ours)).ok);
        assert_eq!(verdicts, [false, true, true, true, false]);
        assert_eq!(between(Some(110)).deviation, Some(0.0));
        assert_eq!(between(Some(150)).deviation, Some(0.25));
        assert!(!between(None).ok);
        assert!(!Check::between(0.1, "rtt", Some(50), [100, 20], "x").ok, "swapped bounds");
    }

    #[test]
    fn an_unknown_number_equals_nothing() {
        assert!(!Check::exact("bytes", None::<u64>, None::<u64>, "x").ok);
        assert!(!Check::exact("bytes", None::<u64>, 0_u64, "x").ok);
        assert!(!Check::within(0.1, "bytes", None::<u64>, 3_u64, "x").ok);
        assert!(!Check::within(0.1, "bytes", 3_u64, 0_u64, "x").ok);
    }

    #[test]
    fn the_table_is_aligned_and_marks_failed_checks() {
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
    fn an_unknown_number_is_null_in_json() {
        let json = serde_json::to_value(Check::exact("b", None::<u64>, 2_u64, "kernel")).unwrap();
        let expected = serde_json::json!({ "name": "b", "ours": null, "theirs": 2, "source": "kernel", "ok": false, "deviation": null });
        assert_eq!(json, expected);
    }
}
