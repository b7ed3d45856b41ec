// SPDX-License-Identifier: MIT OR Apache-2.0
//! Labels and settings of a run, for example for the methods section of a paper.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum length of the name and of the value of a label, in bytes.
const MAX_LENGTH: usize = 64;

/// Labels and settings of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Setup {
    /// Labels that the user gave to the run (`--label`), by name.
    pub labels: BTreeMap<String, String>,
    /// Configured time between two snapshots, in milliseconds. `null`: unknown.
    pub interval_ms: Option<u64>,
    /// Model of the CPU (`/proc/cpuinfo`). `null`: unknown.
    pub cpu_model: Option<String>,
    /// Frequency scaling governors of the CPUs, each named once. `null`: frequencies are not scaled, as in most virtual machines.
    pub governor: Option<String>,
    /// Sysctls below `net.mptcp` when tracing began, by name, in the network namespace of `--netns`, of a demo's client, or else of mpwatch itself.
    /// Empty: unknown.
    pub mptcp_sysctls: BTreeMap<String, String>,
}

impl Setup {
    /// The values that are equal in two runs. Other values are unknown in the result.
    #[must_use]
    pub fn in_common(&self, other: &Self) -> Self {
        fn same<T: Clone + PartialEq>(own: Option<&T>, other: Option<&T>) -> Option<T> {
            own.filter(|_| own == other).cloned()
        }
        let shared = |own: &BTreeMap<String, String>, other: &BTreeMap<String, String>| {
            let entries = own.iter().filter(|(name, value)| other.get(*name) == Some(*value));
            entries.map(|(name, value)| (name.clone(), value.clone())).collect()
        };
        Self {
            labels: shared(&self.labels, &other.labels),
            interval_ms: same(self.interval_ms.as_ref(), other.interval_ms.as_ref()),
            cpu_model: same(self.cpu_model.as_ref(), other.cpu_model.as_ref()),
            governor: same(self.governor.as_ref(), other.governor.as_ref()),
            mptcp_sysctls: shared(&self.mptcp_sysctls, &other.mptcp_sysctls),
        }
    }
}

/// The first field of this name in the text of `/proc/cpuinfo`. `None`: there is no such field.
pub fn cpuinfo_field<'a>(cpuinfo: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
}

/// The model of the first CPU in the text of `/proc/cpuinfo`. arm64 kernels have four numbers instead of a name.
pub fn cpu_model(cpuinfo: &str) -> Option<String> {
    let field = |name: &str| cpuinfo_field(cpuinfo, name);
    let by_number = || {
        let (implementer, part) = (field("CPU implementer")?, field("CPU part")?);
        let (variant, revision) = (field("CPU variant")?, field("CPU revision")?);
        Some(format!("ARM implementer {implementer} part {part} variant {variant} revision {revision}"))
    };
    field("model name").map(str::to_owned).or_else(by_number)
}

/// A label, written as `name=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Letters, digits and underscores, not beginning with a digit.
    pub name: String,
    /// Printable text without commas, because commas separate the labels of a list.
    pub value: String,
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.value)
    }
}

/// The error for a text that is not a valid label. The message has an example.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LabelError(String);

impl FromStr for Label {
    type Err = LabelError;

    fn from_str(text: &str) -> Result<Self, LabelError> {
        let wrong = |why: &str| LabelError(format!("{why}; use NAME=VALUE, for example scheduler=default"));
        let (name, value) = text.split_once('=').ok_or_else(|| wrong("there is no ="))?;
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        if name.is_empty()
            || name.starts_with(|first: char| first.is_ascii_digit())
            || !name.chars().all(is_letter)
        {
            return Err(wrong("a name has letters, digits and _, and does not begin with a digit"));
        }
        if value.is_empty() || value.contains(|letter: char| letter == ',' || letter.is_control()) {
            return Err(wrong("a value is not empty and has no comma and no control character"));
        }
        if name.len().max(value.len()) > MAX_LENGTH {
            return Err(wrong("a name and a value have at most 64 bytes"));
        }
        Ok(Self { name: name.to_owned(), value: value.to_owned() })
    }
}

/// Labels by name. Returns an error if two labels have the same name.
pub fn by_name(labels: impl IntoIterator<Item = Label>) -> Result<BTreeMap<String, String>, LabelError> {
    let mut all = BTreeMap::new();
    for Label { name, value } in labels {
        if let Some(before) = all.insert(name.clone(), value) {
            return Err(LabelError(format!(
                "the label {name} is given twice, first as `{before}`; give it once"
            )));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_of_an_arm64_has_numbers_in_place_of_a_name() {
        let x86 = "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Some CPU\n";
        assert_eq!(cpu_model(x86).as_deref(), Some("Some CPU"));
        let arm64 = "processor\t: 0\nBogoMIPS\t: 125.00\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x4\n\
                     CPU part\t: 0xd0c\nCPU revision\t: 1\n";
        let expected = "ARM implementer 0x41 part 0xd0c variant 0x4 revision 1";
        assert_eq!(cpu_model(arm64).as_deref(), Some(expected));
        assert_eq!(cpu_model(""), None);
    }

    #[test]
    fn a_label_has_a_name_and_a_value() {
        let label = "scheduler=round robin".parse::<Label>().unwrap();
        assert_eq!((label.name.as_str(), label.value.as_str()), ("scheduler", "round robin"));
        assert_eq!("a=b=c".parse::<Label>().unwrap().value, "b=c");
        let long = format!("a={}", "x".repeat(65));
        for wrong in ["", "a", "=b", "a=", "1a=b", "a-b=c", "a=b,c", "a=b\x1b", &long] {
            assert!(wrong.parse::<Label>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_label_is_given_once() {
        let labels = |texts: &[&str]| by_name(texts.iter().map(|text| text.parse().unwrap()));
        assert_eq!(labels(&["b=2", "a=1"]).unwrap().into_keys().collect::<String>(), "ab");
        assert!(labels(&["a=1", "a=2"]).unwrap_err().to_string().contains("first as `1`"));
    }

    #[test]
    fn settings_that_differ_between_runs_are_unknown() {
        let labels = |text: &str| {
            BTreeMap::from([("kind".to_owned(), "test".to_owned()), ("n".to_owned(), text.to_owned())])
        };
        let setup = |n: &str, interval| Setup {
            labels: labels(n),
            interval_ms: Some(interval),
            cpu_model: Some("X".to_owned()),
            ..Setup::default()
        };
        let common = setup("1", 100).in_common(&setup("2", 200));
        let expected = Setup {
            labels: BTreeMap::from([("kind".to_owned(), "test".to_owned())]),
            cpu_model: Some("X".to_owned()),
            ..Setup::default()
        };
        assert_eq!(common, expected);
        assert_eq!(setup("1", 100).in_common(&setup("1", 100)), setup("1", 100));
    }
}
