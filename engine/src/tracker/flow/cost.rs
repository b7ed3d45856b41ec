// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPU time of a connection: what was spent on no subflow in particular is divided among its subflows, so that they sum to the
//! whole as integers.

use mpwatch_model::cpu::{CpuTimes, divide};

use super::Flow;
use crate::tracker::subflow::SubflowState;

impl Flow {
    /// Hands what was spent since the last tick to the subflows, by the payload that each has carried meanwhile; if none has, by what
    /// each has carried in all. Called before they forget where they stood at the last tick.
    pub(super) fn divide_cpu(&mut self) {
        let Some(cpu) = self.cpu else { return };
        if self.subflows.is_empty() || cpu == self.cpu_divided {
            return;
        }
        let carried: Vec<(u64, u64)> = self.subflows.iter().map(SubflowState::carried).collect();
        let (lately, ever): (Vec<u64>, Vec<u64>) = carried.into_iter().unzip();
        let weights = if lately.iter().all(|&bytes| bytes == 0) { ever } else { lately };
        let parts =
            (cpu - self.cpu_divided).classes().map(|amount| divide(amount, &weights).collect::<Vec<u64>>());
        for (place, subflow) in self.subflows.iter_mut().enumerate() {
            subflow.cpu_share +=
                CpuTimes::from_classes(std::array::from_fn(|class| parts[class][place]), true);
        }
        self.cpu_divided = cpu;
    }
}
