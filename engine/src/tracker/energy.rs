// SPDX-License-Identifier: MIT OR Apache-2.0
//! Energy of flows: charges the energy of each tick to the flows that used the CPUs.

use mpwatch_model::host::energy::power::MachinePower;
use mpwatch_model::host::energy::window::EnergyWindow;
use mpwatch_model::host::energy::{Convention, FlowEnergy, SnapshotEnergy};
use mpwatch_model::id::SubflowId;
use mpwatch_model::kernel::cpu::{CpuAccounts, CpuSampling, LedgerMode, divide};
use mpwatch_model::kernel::event::Tick;
use mpwatch_model::unit::Nanos;

use super::flow::Flow;
use super::subflow::SubflowState;
use crate::energy::attribute::Split;
use crate::energy::calibration::Calibration;
use crate::energy::ledger::Ledger;
use crate::energy::sampling::Sampling;

/// Number of charges without new CPU time after which the energy of a flow is final. Rounding may move a microjoule to the next charge.
const QUIET_CHARGES: u32 = 2;
/// Maximum time that a closed connection waits for its CPU time, which a sampled ledger estimates every few seconds.
pub(super) const MAX_DEFERRED: Nanos = Nanos(40_000_000_000);

/// Energy and CPU time charged so far.
#[derive(Default)]
pub(super) struct Energy {
    mode: LedgerMode,
    pub(super) split: Split,
    ledger: Ledger,
    /// CPU accounts at the last charge.
    cpus: Vec<CpuAccounts>,
    sampling: Sampling,
    /// Energy to charge when the next window of the sampled ledger has ended. `None`: all energy is charged.
    deferred: Option<EnergyWindow>,
    /// Whether the latest tick had energy to charge.
    is_charging: bool,
}

impl Energy {
    pub(super) fn new(machine: &MachinePower, mode: LedgerMode) -> Self {
        let split = Split::new(machine.cpus, Calibration::from_zones(&machine.calibrated));
        Self { mode, split, ..Self::default() }
    }

    /// Charges the energy of one tick. The flows must have applied all records up to the tick.
    pub(super) fn on_tick(&mut self, tick: &Tick, flows: &mut [&mut Flow]) {
        self.is_charging = tick.energy.is_some();
        let Some(window) = &tick.energy else {
            // Energy is not measured, or the kernel has refused the ledger: nothing is charged.
            self.deferred = None;
            return;
        };
        let Some(sampling) = &tick.sampling else {
            self.charge(window, &tick.cpus, flows);
            return;
        };
        let due = match self.deferred.take() {
            None => window.clone(),
            Some(mut due) => {
                if !due.join(window) {
                    // The windows cannot be joined, so the earlier ones are charged now: to the flows if their energy is known, otherwise to none.
                    if due.has_energy() {
                        self.charge_estimate(&due, tick, sampling, flows);
                    } else {
                        self.split.charge(&due, &Ledger::default());
                    }
                    due.clone_from(window);
                }
                due
            }
        };
        if sampling.charges {
            self.charge_estimate(&due, tick, sampling, flows);
        } else {
            self.deferred = Some(due);
        }
    }

    /// Estimates the CPU time since the last charge from the sampled ledger, then charges it.
    fn charge_estimate(
        &mut self,
        window: &EnergyWindow,
        tick: &Tick,
        sampling: &CpuSampling,
        flows: &mut [&mut Flow],
    ) {
        if self.sampling.has_new_window(&tick.cpus) {
            self.sampling.costs.age();
        }
        for subflow in subflows(flows) {
            let sample = subflow.sample();
            let [all, sampled] = self.sampling.costs.observe(&mut subflow.estimate, &sample);
            self.sampling.work.all += all;
            self.sampling.work.sampled += sampled;
        }
        let costs = &self.sampling.costs;
        let due: Vec<Option<[u64; 5]>> =
            subflows(flows).map(|subflow| costs.due(&subflow.estimate)).collect();
        let totals: Vec<u64> = due.iter().map(|due| due.iter().flatten().sum()).collect();
        let charged = self.sampling.charge(&tick.cpus, sampling, totals.iter().sum());
        for ((subflow, due), charged) in subflows(flows).zip(due).zip(divide(charged, &totals)) {
            if let Some(due) = due {
                subflow.estimate.charge(charged, due);
            }
        }
        let accounts = self.sampling.accounts().to_vec();
        self.charge(window, &accounts, flows);
    }

    fn charge(&mut self, window: &EnergyWindow, cpus: &[CpuAccounts], flows: &mut [&mut Flow]) {
        self.ledger.clear();
        self.ledger.add_cpus(&self.cpus, cpus);
        self.cpus.clear();
        self.cpus.extend_from_slice(cpus);
        for subflow in subflows(flows) {
            let time = subflow.take_new_cpu_time(self.mode);
            self.ledger.add_flow(subflow.record.id, time);
        }
        for flow in flows {
            flow.quiet.charges += 1;
        }
        self.split.charge(window, &self.ledger);
    }

    /// The accounts of each CPU at the last charge.
    pub(super) fn cpus(&self) -> &[CpuAccounts] {
        &self.cpus
    }

    /// Energy of a subflow. `None`: no energy was charged to it yet.
    pub(super) fn flow_energy(&self, subflow: &SubflowState) -> Option<FlowEnergy> {
        let cpu = subflow.cpu(self.mode)?.total();
        let energy = FlowEnergy { cpu, ..self.split.flow(subflow.record.id)? };
        if self.mode != LedgerMode::Sampled {
            return Some(energy);
        }
        let error = self.sampling.costs.error(&subflow.estimate);
        Some(FlowEnergy { convention: Convention::SampledCpuTime, ..energy.widened(error) })
    }

    /// Whether CPU time is charged later, when a window of the sampled ledger has ended.
    pub(super) fn is_deferred(&self) -> bool {
        self.deferred.is_some()
    }

    /// Whether all CPU time of these subflows is charged.
    pub(super) fn are_settled(&self, mut subflows: impl Iterator<Item = SubflowId>) -> bool {
        self.deferred.is_none() && subflows.all(|id| self.split.is_settled(id))
    }

    /// Whether the energy of a flow changes only when one of its records changes or the idle power of a zone becomes known.
    pub(super) fn is_steady(&self, flow: &Flow) -> bool {
        let mut subflows = flow.subflow_ids();
        !self.is_charging
            || (flow.quiet.charges >= QUIET_CHARGES && subflows.all(|id| self.split.is_settled(id)))
    }

    pub(super) fn forget(&mut self, subflows: impl Iterator<Item = SubflowId>) {
        subflows.for_each(|id| self.split.forget(id));
    }

    pub(super) fn snapshot(&self) -> SnapshotEnergy {
        let snapshot = self.split.snapshot();
        match self.mode {
            LedgerMode::Sampled => SnapshotEnergy { convention: Convention::SampledCpuTime, ..snapshot },
            LedgerMode::Exact | LedgerMode::Off => snapshot,
        }
    }
}

fn subflows<'a>(flows: &'a mut [&mut Flow]) -> impl Iterator<Item = &'a mut SubflowState> {
    flows.iter_mut().flat_map(|flow| &mut flow.subflows)
}
