// SPDX-License-Identifier: MIT OR Apache-2.0
//! The results of a soak: all samples as CSV, a table, and a chart.

use std::fmt::Write as _;
use std::time::Duration;

use super::chart::{self, Line, Panel};
use super::churn::Counts;
use super::sample::Sample;
use crate::table::markdown;

/// A quantity: a column of the CSV file and a row of the table.
struct Quantity {
    column: &'static str,
    title: &'static str,
    /// Factor by which values of the column are multiplied in the table and the chart.
    scale: f64,
    read: fn(&Sample) -> Option<u64>,
}

const MEBI: f64 = 1.0 / 1024.0;
const QUANTITIES: [Quantity; 9] = [
    Quantity {
        column: "rss_anon_kb",
        title: "anonymous memory (RssAnon), MiB",
        scale: MEBI,
        read: |sample| Some(sample.anonymous_kb),
    },
    Quantity {
        column: "rss_file_kb",
        title: "pages of files (RssFile + RssShmem), MiB",
        scale: MEBI,
        read: |sample| Some(sample.file_kb),
    },
    Quantity {
        column: "vm_size_kb",
        title: "address space, MiB",
        scale: MEBI,
        read: |sample| Some(sample.virtual_kb),
    },
    Quantity {
        column: "descriptors",
        title: "open descriptors",
        scale: 1.0,
        read: |sample| Some(sample.descriptors),
    },
    Quantity { column: "threads", title: "threads", scale: 1.0, read: |sample| Some(sample.threads) },
    Quantity { column: "maps_kb", title: "BPF maps, MiB", scale: MEBI, read: |sample| Some(sample.maps_kb) },
    Quantity {
        column: "written_kb",
        title: "database or recording, MiB",
        scale: MEBI,
        read: |sample| Some(sample.written_kb),
    },
    Quantity {
        column: "lost",
        title: "lost records, connections, samples, snapshots",
        scale: 1.0,
        read: |sample| Some(sample.losses?.lost),
    },
    Quantity {
        column: "missed",
        title: "missed events",
        scale: 1.0,
        read: |sample| Some(sample.losses?.missed),
    },
];
/// The columns whose quantities are in the chart.
const PANELS: [&str; 6] = ["rss_anon_kb", "rss_file_kb", "descriptors", "maps_kb", "written_kb", "lost"];

/// All samples of a soak.
pub(super) struct Results {
    processes: Vec<(&'static str, Vec<Sample>)>,
    length: Duration,
    churn: Counts,
    notes: Vec<String>,
}

impl Results {
    pub(super) fn new(names: impl Iterator<Item = &'static str>) -> Self {
        let processes = names.map(|name| (name, Vec::new())).collect();
        Self { processes, length: Duration::ZERO, churn: Counts::default(), notes: Vec::new() }
    }

    /// Adds a sample of a process.
    pub(super) fn add(&mut self, process: usize, sample: Sample) {
        self.processes[process].1.push(sample);
    }

    /// Sets the totals and notes that are known only at the end.
    pub(super) fn end(&mut self, length: Duration, churn: Counts, notes: Vec<String>) {
        (self.length, self.churn, self.notes) = (length, churn, notes);
    }

    pub(super) fn csv(&self) -> String {
        let columns: Vec<&str> = QUANTITIES.iter().map(|quantity| quantity.column).collect();
        let mut text = format!("seconds,process,{},connections,jobs,failed\n", columns.join(","));
        let mut rows: Vec<(&str, &Sample)> = Vec::new();
        for (name, samples) in &self.processes {
            rows.extend(samples.iter().map(|sample| (*name, sample)));
        }
        rows.sort_by_key(|(_, sample)| sample.at);
        for (name, sample) in rows {
            let values = QUANTITIES.iter().map(|quantity| (quantity.read)(sample));
            let values: Vec<String> =
                values.map(|value| value.map_or_else(String::new, |n| n.to_string())).collect();
            let Counts { connections, jobs, failed } = sample.churn;
            let seconds = sample.at.as_secs_f64();
            let _ = writeln!(text, "{seconds:.1},{name},{},{connections},{jobs},{failed}", values.join(","));
        }
        text
    }

    /// The totals, the table and the notes as text.
    pub(super) fn text(&self) -> String {
        let Counts { connections, jobs, failed } = self.churn;
        let (minutes, seconds) = (self.length.as_secs_f64() / 60.0, self.length.as_secs_f64());
        let mut text = format!(
            "{minutes:.1} minutes: {connections} connections ({:.0}/s), {jobs} namespaces and control groups ({:.1}/s) with one connection each, \
             {failed} failed.\n\n",
            connections as f64 / seconds,
            jobs as f64 / seconds,
        );
        let header =
            ["process", "quantity", "first", "half-time", "last", "maximum", "change over the second half"];
        let mut rows = Vec::new();
        for (name, samples) in &self.processes {
            rows.extend(QUANTITIES.iter().filter_map(|quantity| row(name, quantity, samples)));
        }
        text += &markdown(&header, &rows);
        for note in &self.notes {
            let _ = write!(text, "\n{note}\n");
        }
        text
    }

    pub(super) fn chart(&self) -> String {
        let panel = |column: &&str| {
            let quantity = QUANTITIES.iter().find(|quantity| quantity.column == *column)?;
            let lines = self.processes.iter().filter_map(|(name, samples)| {
                let values: Vec<(f64, f64)> = over_time(quantity, samples).collect();
                (!values.is_empty()).then_some(Line { name, values })
            });
            Some(Panel { title: quantity.title, lines: lines.collect() })
        };
        chart::draw(&PANELS.iter().filter_map(panel).collect::<Vec<_>>(), "minutes")
    }
}

/// Time in minutes and scaled value of each sample that has a value.
fn over_time(quantity: &Quantity, samples: &[Sample]) -> impl Iterator<Item = (f64, f64)> {
    samples.iter().filter_map(|sample| {
        Some((sample.at.as_secs_f64() / 60.0, (quantity.read)(sample)? as f64 * quantity.scale))
    })
}

fn row(process: &str, quantity: &Quantity, samples: &[Sample]) -> Option<Vec<String>> {
    let values: Vec<(f64, f64)> = over_time(quantity, samples).collect();
    let second_half = &values[values.len() / 2..];
    let (first, half, last) = (values.first()?.1, second_half.first()?.1, values.last()?.1);
    let maximum = values.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let value = |value: f64| format!("{value:.*}", usize::from(quantity.scale < 1.0));
    let change = change(second_half).map_or_else(|| "-".to_owned(), |percent| format!("{percent:+.1} %"));
    let mut row = vec![process.to_owned(), quantity.title.to_owned()];
    row.extend([first, half, last, maximum].map(value));
    row.push(change);
    Some(row)
}

/// Change of the least-squares line from the first to the last time, in percent of the mean. `None`: fewer than two values, or all are
/// zero.
fn change(values: &[(f64, f64)]) -> Option<f64> {
    let count = values.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| values.iter().map(of).sum::<f64>() / count;
    let (mean_x, mean_y) = (mean(|(x, _)| *x), mean(|(_, y)| *y));
    let covariance: f64 = values.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let variance: f64 = values.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let length = values.last()?.0 - values.first()?.0;
    (variance > 0.0 && mean_y > 0.0).then(|| covariance / variance * length / mean_y * 100.0)
}

#[cfg(test)]
mod tests {
    use super::super::sample::Losses;
    use super::*;

    fn results() -> Results {
        let mut results = Results::new(["daemon", "record"].into_iter());
        for second in 0..10 {
            let at = Duration::from_secs(second * 6);
            let sample =
                Sample { at, anonymous_kb: 10_240 + second * 1024, descriptors: 90, ..Sample::default() };
            results.add(1, sample.clone());
            results.add(0, Sample { losses: Some(Losses::default()), ..sample });
        }
        results.end(
            Duration::from_mins(1),
            Counts { connections: 600, jobs: 60, failed: 0 },
            vec!["done".to_owned()],
        );
        results
    }

    #[test]
    fn the_change_follows_the_line_through_the_values() {
        let rising: Vec<(f64, f64)> = (0..=10).map(|x| (f64::from(x), 95.0 + f64::from(x))).collect();
        assert!((change(&rising).unwrap() - 10.0).abs() < 1e-9);
        assert_eq!(change(&[(0.0, 1.0)]), None);
        assert_eq!(change(&[(0.0, 0.0), (1.0, 0.0)]), None);
    }

    #[test]
    fn the_table_has_each_quantity_of_each_process() {
        let text = results().text();
        let memory = "| daemon | anonymous memory (RssAnon), MiB | 10.0 | 15.0 | 19.0 | 19.0 | +23.5 % |";
        assert!(text.contains(memory), "{text}");
        assert!(text.contains("| record | open descriptors | 90 | 90 | 90 | 90 | +0.0 % |"), "{text}");
        assert!(!text.contains("| record | lost"), "a recording serves no metrics: {text}");
        assert!(text.starts_with("1.0 minutes: 600 connections (10/s), 60 namespaces"), "{text}");
    }

    #[test]
    fn a_row_of_the_csv_file_is_one_sample_of_one_process() {
        let csv = results().csv();
        assert_eq!(csv.lines().count(), 21);
        let columns =
            csv.lines().map(|line| line.split(',').count()).collect::<std::collections::BTreeSet<_>>();
        assert_eq!(columns.len(), 1, "{csv}");
        assert!(csv.lines().any(|line| line == "6.0,record,11264,0,0,90,0,0,0,,,0,0,0"), "{csv}");
    }

    #[test]
    fn the_chart_has_a_line_for_each_process() {
        let chart = results().chart();
        assert_eq!(chart.matches("<polyline").count(), 2 * 5 + 1, "{chart}");
    }
}
