// SPDX-License-Identifier: MIT OR Apache-2.0
//! A connection that has done its work and stays open, for tests of what is said of it.

use std::sync::Arc;
use std::time::Duration;

use mpwatch_lab::topology::Quality;
use mpwatch_lab::traffic::{Control, Transfer, Workload};
use mpwatch_lab::{Topology, poll_until};

/// Longest time for the upload.
const PATIENCE: Duration = Duration::from_secs(20);

/// An upload over two paths that is done, and stays open until it is dropped.
pub struct Held {
    /// Where.
    pub lab: Topology,
    _transfer: Transfer,
}

impl Held {
    /// Returns when the server has all of it.
    pub fn upload(bytes: u64) -> Self {
        let lab = Topology::two_paths(Quality::default(), Quality::default()).unwrap();
        let control = Arc::new(Control::holding());
        let spec = lab.traffic(Workload::upload(bytes)).unwrap();
        let transfer = Transfer::start(lab.client(), lab.server(), &spec, &control).unwrap();
        let held = || (control.held() == 1).then_some(());
        poll_until("the transfer to be done", mpwatch_bench::harness::pace::limit(PATIENCE), held).unwrap();
        Self { lab, _transfer: transfer }
    }

    /// Its client's namespace.
    pub fn client(&self) -> &str {
        self.lab.client().name()
    }
}
