// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpwatch doctor`: checks whether this machine, or a kernel with a given BTF, can be traced, and which values would be unknown. [`facts`]
//! reads the system, [`rules`] judges, [`render`] formats. [`paths`] checks the configuration of MPTCP. Nothing is loaded or changed.

mod check;
mod facts;
mod paths;
mod render;
mod rules;

use std::path::Path;
use std::process::ExitCode;

use mpwatch_ebpf::support::core_check;
use serde::Serialize;

use crate::cli::DoctorOptions;
use crate::command::output::print;
use crate::error;
use check::{Check, Outcome};
use facts::Facts;

/// Output of `doctor --json`.
#[derive(Debug, Serialize)]
pub(crate) struct Diagnosis {
    /// Version of this schema.
    schema: u32,
    checks: Vec<Check>,
}

/// Checks this machine, or a kernel by its BTF, and prints the result.
pub(crate) fn run(options: &DoctorOptions) -> anyhow::Result<ExitCode> {
    let checks = match (&options.btf, &options.paths) {
        (Some(path), _) => rules::kernel(&core_check::check_file(path)?),
        (None, Some(peer)) => paths::check(peer)?,
        (None, None) => {
            rules::machine(&Facts::read(Path::new("/proc"), Path::new("/sys"), options.sysfs_root.as_deref()))
        }
    };
    let outcome = if options.paths.is_some() { Outcome::Paths } else { Outcome::from_checks(&checks) };
    print(&if options.json {
        serde_json::to_string_pretty(&Diagnosis { schema: 1, checks })?
    } else {
        render::text(&checks, outcome)
    })?;
    Ok(match outcome {
        Outcome::CanRun | Outcome::Paths => ExitCode::SUCCESS,
        Outcome::KernelUnsupported => ExitCode::from(error::KERNEL),
        Outcome::NotPermitted => ExitCode::from(error::PERMISSION),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_has_a_version_and_one_object_per_check() {
        let checks = vec![Check::ok("kernel", "6.12.1"), Check::warn("bpf_jit", "off").fix("on")];
        let printed = serde_json::to_value(Diagnosis { schema: 1, checks }).unwrap();
        let expected = serde_json::json!({"schema": 1, "checks": [
            {"name": "kernel", "status": "ok", "message": "6.12.1", "fix": null},
            {"name": "bpf_jit", "status": "warn", "message": "off", "fix": "on"},
        ]});
        assert_eq!(printed, expected);
    }

    #[test]
    fn a_file_without_btf_is_refused_by_name_even_if_it_is_endless() {
        for path in ["/proc/self/status", "/dev/zero"] {
            let options =
                DoctorOptions { json: false, btf: Some(path.into()), sysfs_root: None, paths: None };
            let error = run(&options).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{path} is not a kernel's raw BTF")), "{error}");
        }
    }
}
