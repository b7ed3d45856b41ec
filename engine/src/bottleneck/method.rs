// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interface of a detection method.

use mpwatch_model::flow::bottleneck::DetectionMethod;
use mpwatch_model::id::SubflowId;
use mpwatch_model::kernel::sample::DelaySample;
use mpwatch_model::unit::Nanos;

use super::evaluation::PairEvaluation;

/// Creates the method of this name for one connection.
pub type NewMethod = fn(DetectionMethod) -> Box<dyn Method + Send>;

/// A detection method for one connection. Samples of a subflow arrive in order of time; samples of different subflows are interleaved.
pub trait Method {
    /// Adds samples of a subflow.
    fn add(&mut self, subflow: SubflowId, samples: &[DelaySample]);

    /// Evaluates the samples up to this time: one result per pair of subflows with samples, in order of subflow ids.
    fn evaluate(&mut self, at: Nanos) -> Vec<PairEvaluation>;

    /// The subflows that the method would have closed so far. `None`: the method does not close subflows.
    fn closed(&self) -> Option<Vec<SubflowId>> {
        None
    }

    /// Removes a subflow that has ended.
    fn forget(&mut self, subflow: SubflowId);

    /// Continues after evaluation was suspended for this long. Samples were added during that time.
    fn resume(&mut self, _suspended_for: Nanos) {}
}
