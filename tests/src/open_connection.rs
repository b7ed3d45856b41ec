// SPDX-License-Identifier: MIT OR Apache-2.0
//! A connection that has finished its transfer and stays open, for tests of mpwatch's snapshots.

use std::sync::Arc;
use std::time::Duration;

use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::{Control, Transfer, Workload};
use mpwatch_lab::{Topology, poll_until};

use crate::emulation;

/// Timeout of the upload.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A finished upload over two paths. The connection stays open until this is dropped.
pub struct OpenConnection {
    /// Network of the connection.
    pub lab: Topology,
    _transfer: Transfer,
}

impl OpenConnection {
    /// Uploads bytes and returns when the server has received all of them.
    pub fn after_upload(bytes: u64) -> Self {
        let lab = Topology::two_paths(LinkSpec::default(), LinkSpec::default()).unwrap();
        let control = Arc::new(Control::holding());
        let spec = lab.traffic(Workload::upload(bytes)).unwrap();
        let transfer = Transfer::start(lab.client(), lab.server(), &spec, &control).unwrap();
        let is_held = || (control.held() == 1).then_some(());
        poll_until("the end of the transfer", emulation::timeout(TIMEOUT), is_held).unwrap();
        Self { lab, _transfer: transfer }
    }

    /// Name of the client's namespace.
    pub fn client(&self) -> &str {
        self.lab.client().name()
    }
}
