// SPDX-License-Identifier: MIT OR Apache-2.0
//! A check of the doctor, and the outcome of all checks.

use serde::Serialize;

mpwatch_model::words! {
    #[derive(Serialize)]
    #[serde(rename_all = "lowercase")]
    pub(crate) enum Status {
        Ok = "ok",
        /// mpwatch runs, but some values are unknown or some connections are not traced.
        Warn = "warn",
        /// mpwatch does not run.
        Fail = "FAIL",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    /// Stable name. The checks of a group share a prefix, as in `hooks/tcp_probe`.
    pub(super) name: String,
    pub(super) status: Status,
    /// The finding and its consequence.
    pub(super) message: String,
    /// What to do. `null`: nothing.
    pub(super) fix: Option<String>,
    /// Whether the check failed only for lack of a privilege, not of kernel support.
    #[serde(skip)]
    pub(super) is_permission: bool,
}

impl Check {
    fn new(name: impl Into<String>, status: Status, message: impl Into<String>) -> Self {
        Self { name: name.into(), status, message: message.into(), fix: None, is_permission: false }
    }

    pub(super) fn ok(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(name, Status::Ok, message)
    }

    pub(super) fn warn(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(name, Status::Warn, message)
    }

    pub(super) fn fail(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(name, Status::Fail, message)
    }

    pub(super) fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    CanRun,
    /// Only the configuration was checked.
    Paths,
    KernelUnsupported,
    NotPermitted,
}

impl Outcome {
    pub(super) fn from_checks(checks: &[Check]) -> Self {
        let mut failed = checks.iter().filter(|check| check.status == Status::Fail).peekable();
        if failed.peek().is_none() {
            Self::CanRun
        } else if failed.all(|check| check.is_permission) {
            Self::NotPermitted
        } else {
            Self::KernelUnsupported
        }
    }
}
