// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elimination of extra subflows `[MPTCP-D]`: the steps that `mpwatch control eliminate` took or would take, and why.

use std::fmt;
use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::flow::bottleneck::{DetectionMethod, Evidence};
use crate::id::{ConnectionId, SubflowId};
use crate::unit::{BitsPerSecond, Micros, Nanos};
use crate::words::json_words;

json_words! {
    /// How an extra subflow is removed.
    #[derive(Default)]
    pub enum EliminationAction {
        /// The subflow's TCP socket is aborted (`SOCK_DESTROY`); MPTCP reinjects its data on the other subflows. The peer receives a RST.
        #[default]
        Close = "close" => "Abort the TCP socket of the subflow; the peer receives a RST",
        /// Both ends use the subflow only if no other subflow works (`MP_PRIO`, RFC 8684 section 3.3.8).
        Backup = "backup" => "Use only if no other subflow works (MP_PRIO); needs the userspace path manager",
    }
}

crate::words! {
    /// Whether the daemon removes extra subflows: the values of `control.eliminate`.
    #[derive(Default)]
    pub enum EliminationMode {
        /// Elimination does not run.
        #[default]
        Off = "off",
        /// Decisions are reported and not carried out.
        DryRun = "dry-run",
        /// Extra subflows are removed.
        On = "on",
    }
}

/// The conditions under which an extra subflow is removed, and the action.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EliminationPolicy {
    /// How it is removed.
    pub action: EliminationAction,
    /// How long the verdict must have been `shared` without interruption.
    pub stable: Nanos,
    /// Minimum probability of a verdict. Verdicts without a probability are accepted.
    pub probability: f64,
    /// Maximum number of removals within any 60 s from one connection.
    pub max_per_minute: u32,
    /// Whether a rate cap that subflows share counts as their bottleneck.
    pub shared_caps: bool,
}

impl Default for EliminationPolicy {
    fn default() -> Self {
        Self {
            action: EliminationAction::default(),
            stable: Nanos(2_500_000_000),
            probability: 0.99,
            max_per_minute: 10,
            shared_caps: false,
        }
    }
}

/// A subflow of a group, at the time of the decision to remove the extra subflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Candidate {
    /// Id of the subflow.
    pub subflow: SubflowId,
    /// Local address and port.
    #[schemars(with = "String")]
    pub local: SocketAddr,
    /// Remote address and port.
    #[schemars(with = "String")]
    pub remote: SocketAddr,
    /// Mean rate of acknowledged payload in the last 5 s, or since the subflow joined.
    #[serde(rename = "goodput_bps")]
    pub goodput: BitsPerSecond,
    /// Smoothed RTT. `null`: no sample yet.
    #[serde(rename = "srtt_us")]
    pub srtt: Option<Micros>,
}

/// The removal of one extra subflow, with its evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Removal {
    /// How the extra subflow is removed.
    pub action: EliminationAction,
    /// The method that gave the verdict.
    pub method: DetectionMethod,
    /// The subflows that share the bottleneck, including the removed and the kept subflow.
    pub group: Vec<SubflowId>,
    /// The extra subflow.
    pub removed: Candidate,
    /// The best subflow of the group for which the verdict holds: highest goodput, then lowest RTT.
    pub kept: Candidate,
    /// Probability that the removed and the kept subflow share a bottleneck. `null`: the method computes no probability.
    pub probability: Option<f64>,
    /// How long the verdict on this pair had been `shared`, with at least the required probability.
    #[serde(rename = "stable_us")]
    pub stable: Micros,
    /// The figures behind the verdict. `null`: the method computes none.
    pub evidence: Option<Evidence>,
}

/// The throughput of a link before and after an action: payload acknowledged on the paths (pairs of addresses) of the group, over all
/// traced connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Throughput {
    /// Mean rate in the 5 s before the action, or in the observed part of this time.
    #[serde(rename = "before_bps")]
    pub before: BitsPerSecond,
    /// Mean rate since the action.
    #[serde(rename = "after_bps")]
    pub after: BitsPerSecond,
}

/// One step of the elimination in one connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum EliminationStep {
    /// Dry run: the subflow would be removed.
    Planned(Box<Removal>),
    /// The subflow was removed.
    Removed(Box<Removal>),
    /// The kernel refused the removal. From now on, elimination leaves this connection alone.
    Failed {
        /// The removal that failed.
        #[serde(flatten)]
        removal: Box<Removal>,
        /// Why it failed.
        error: String,
    },
    /// The throughput of the link did not drop by more than 10 % in the 5 s after the removal.
    Confirmed(Throughput),
    /// The throughput of the link dropped by more than 10 % after the removal. From now on, elimination leaves this connection alone.
    LeftAlone(Throughput),
    /// The subflow is no longer a backup, because the throughput dropped.
    Undone {
        /// The subflow.
        subflow: SubflowId,
    },
    /// The kernel refused to end the backup role of the subflow.
    UndoFailed {
        /// The subflow.
        subflow: SubflowId,
        /// Why the kernel refused.
        error: String,
    },
}

impl EliminationStep {
    /// The name of the step in JSON and as a label.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Planned(_) => "planned",
            Self::Removed(_) => "removed",
            Self::Failed { .. } => "failed",
            Self::Confirmed(_) => "confirmed",
            Self::LeftAlone(_) => "left_alone",
            Self::Undone { .. } => "undone",
            Self::UndoFailed { .. } => "undo_failed",
        }
    }

    /// The removal that was planned, made or failed in this step.
    pub fn removal(&self) -> Option<&Removal> {
        match self {
            Self::Planned(removal) | Self::Removed(removal) | Self::Failed { removal, .. } => Some(removal),
            _ => None,
        }
    }

    /// Whether the step is a failure.
    pub fn is_failure(&self) -> bool {
        matches!(self, Self::Failed { .. } | Self::LeftAlone(_) | Self::UndoFailed { .. })
    }

    /// The step as a sentence; `name` gives the name of a subflow.
    pub fn describe(&self, name: &dyn Fn(SubflowId) -> String) -> String {
        match self {
            Self::Planned(removal) => format!("would {}", removal.describe("close", "set", name)),
            Self::Removed(removal) => removal.describe("closed", "set", name),
            Self::Failed { removal, error } => {
                format!(
                    "cannot {}: {error}; this connection is left alone",
                    removal.describe("close", "set", name)
                )
            }
            Self::Confirmed(throughput) => format!("elimination confirmed: {throughput}"),
            Self::LeftAlone(throughput) => {
                format!("elimination leaves this connection alone from now on: {throughput}")
            }
            Self::Undone { subflow } => format!("subflow {} is no longer set to backup", name(*subflow)),
            Self::UndoFailed { subflow, error } => {
                format!("cannot end the backup role of subflow {}: {error}", name(*subflow))
            }
        }
    }
}

impl Removal {
    fn describe(&self, close: &str, set: &str, name: &dyn Fn(SubflowId) -> String) -> String {
        let (removed, kept) = (&self.removed, &self.kept);
        let what = match self.action {
            EliminationAction::Close => format!("{close} extra subflow {}", name(removed.subflow)),
            EliminationAction::Backup => format!("{set} extra subflow {} to backup", name(removed.subflow)),
        };
        let probability =
            self.probability.map_or_else(String::new, |value| format!(", probability {value:.3}"));
        format!(
            "{what} ({removed}): it shares a bottleneck with subflow {} ({kept}); {}{probability}, stable for {:.1} s, group of {}",
            name(kept.subflow),
            self.method.as_str(),
            self.stable.seconds(),
            self.group.len(),
        )
    }
}

/// Prints no addresses, because timelines are also shown in privacy mode.
impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} Mbit/s", self.goodput.0 as f64 / 1e6)?;
        self.srtt.map_or(Ok(()), |srtt| write!(f, ", RTT {:.1} ms", srtt.0 as f64 / 1e3))
    }
}

impl fmt::Display for Throughput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mbit = |rate: BitsPerSecond| rate.0 as f64 / 1e6;
        write!(f, "{:.2} Mbit/s before, {:.2} Mbit/s after", mbit(self.before), mbit(self.after))
    }
}

/// A step with its time and its connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EliminationRecord {
    /// Boot-clock time of the step.
    pub at: Nanos,
    /// The connection.
    pub connection: ConnectionId,
    /// The step.
    pub step: EliminationStep,
}
