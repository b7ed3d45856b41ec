// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPU time spent on a connection but on no particular subflow. It is divided among the subflows as integers that sum to that time.

use mpwatch_model::kernel::cpu::{CpuTimes, divide};
use serde::{Deserialize, Serialize};

use super::subflow::SubflowState;

/// The CPU time of a connection, and the part of it that was divided.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct ConnectionCpu {
    /// `None`: the CPU time of connections is not measured.
    pub(super) total: Option<CpuTimes>,
    divided: Option<CpuTimes>,
}

impl ConnectionCpu {
    /// Divides the time since the last tick in proportion to the payload carried since the last tick or, if there was none, to all payload. Must
    /// run before the subflows end their tick. If the opening was not traced, time before the first tick is left out: its payload is unknown.
    pub(super) fn divide(&mut self, subflows: &mut [SubflowState], seen_open: bool) {
        let Some(total) = self.total else { return };
        let divided = self.divided.unwrap_or(if seen_open { CpuTimes::default() } else { total });
        if subflows.is_empty() {
            return;
        }
        self.divided = Some(total);
        if total == divided {
            return;
        }
        let carried: Vec<(u64, u64)> = subflows.iter().map(SubflowState::carried).collect();
        let (since_last_tick, in_total): (Vec<u64>, Vec<u64>) = carried.into_iter().unzip();
        let weights =
            if since_last_tick.iter().all(|&bytes| bytes == 0) { in_total } else { since_last_tick };
        let parts = (total - divided).classes().map(|amount| divide(amount, &weights).collect::<Vec<u64>>());
        for (index, subflow) in subflows.iter_mut().enumerate() {
            subflow.cpu_share +=
                CpuTimes::from_classes(std::array::from_fn(|class| parts[class][index]), true);
        }
    }
}
