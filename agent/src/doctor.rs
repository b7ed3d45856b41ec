// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch doctor`: can this machine, or the kernel whose BTF is given, be traced, and what will not be known there?
//!
//! [`facts`] gathers, [`rules`] judges, [`render`] prints: only the first touches the system. Nothing is loaded or changed.

mod facts;
mod render;
mod rules;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use mpwatch_ebpf::core_check;
use schemars::JsonSchema;
use serde::Serialize;

use crate::exit;
use facts::{Facts, Roots};
pub(crate) use rules::is_kept;

/// How a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    /// As it should be.
    Ok,
    /// mpwatch runs, but something will not be known or not be seen.
    Warn,
    /// mpwatch does not run.
    Fail,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Check {
    /// Stable name; those of one group begin alike, as `hooks/tcp_probe`.
    name: String,
    /// How it went.
    status: Status,
    /// What was found and what follows from it.
    message: String,
    /// What to do; null if nothing needs to be or can be done.
    fix: Option<String>,
    /// Only a privilege is missing, nothing of the kernel.
    #[serde(skip)]
    is_permission: bool,
}

impl Check {
    fn new(name: impl Into<String>, status: Status, message: impl Into<String>) -> Self {
        Self { name: name.into(), status, message: message.into(), fix: None, is_permission: false }
    }

    fn ok(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(name, Status::Ok, message)
    }

    fn warn(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(name, Status::Warn, message)
    }

    fn fail(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(name, Status::Fail, message)
    }

    fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}

/// What `doctor --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Diagnosis {
    /// Version of this form.
    schema: u32,
    /// Everything that was looked at.
    checks: Vec<Check>,
}

/// What the checks come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Able,
    KernelLacks,
    NotPermitted,
}

impl Outcome {
    fn of(checks: &[Check]) -> Self {
        let mut failed = checks.iter().filter(|check| check.status == Status::Fail);
        match failed.next() {
            None => Self::Able,
            Some(first) if first.is_permission && failed.all(|check| check.is_permission) => {
                Self::NotPermitted
            }
            Some(_) => Self::KernelLacks,
        }
    }

    fn exit_code(self) -> ExitCode {
        match self {
            Self::Able => ExitCode::SUCCESS,
            Self::KernelLacks => ExitCode::from(exit::KERNEL),
            Self::NotPermitted => ExitCode::from(exit::PERMISSION),
        }
    }
}

/// Checks this machine or, with `btf`, what the BTF of another kernel can tell about that one.
/// Energy counters are looked for below `sysfs`, or else in `/sys`.
pub(crate) fn run(
    json: bool,
    btf: Option<&Path>,
    sysfs: Option<&Path>,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let checks = match btf {
        Some(path) => rules::kernel(&core_check::check_file(path)?),
        None => rules::machine(&Facts::gather(&Roots::default(), sysfs)),
    };
    let outcome = Outcome::of(&checks);
    if json {
        serde_json::to_writer_pretty(&mut *out, &Diagnosis { schema: 1, checks })?;
        writeln!(out)?;
    } else {
        out.write_all(render::text(&checks, outcome).as_bytes())?;
    }
    out.flush()?;
    Ok(outcome.exit_code())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_has_a_version_and_one_object_a_check() {
        let checks = vec![Check::ok("kernel", "6.12.1"), Check::warn("bpf_jit", "off").fix("on")];
        let printed = serde_json::to_value(Diagnosis { schema: 1, checks }).unwrap();
        let expected = serde_json::json!({"schema": 1, "checks": [
            {"name": "kernel", "status": "ok", "message": "6.12.1", "fix": null},
            {"name": "bpf_jit", "status": "warn", "message": "off", "fix": "on"},
        ]});
        assert_eq!(printed, expected);
    }

    #[test]
    fn a_file_that_is_no_btf_is_an_error_that_names_it() {
        let error =
            run(false, Some(Path::new("/proc/self/status")), None, &mut Vec::new()).unwrap_err().to_string();
        assert!(error.starts_with("/proc/self/status is not a kernel's raw BTF"), "{error}");
    }

    #[test]
    fn a_file_without_an_end_is_not_read_to_it() {
        let error = run(false, Some(Path::new("/dev/zero")), None, &mut Vec::new()).unwrap_err().to_string();
        assert!(error.starts_with("/dev/zero is not a kernel's raw BTF"), "{error}");
    }
}
