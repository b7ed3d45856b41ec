// SPDX-License-Identifier: MIT OR Apache-2.0
//! Progress of a subflow: the state from which failures, stalls and recoveries are derived.

use crate::words::json_words;

json_words! {
    /// Progress of a subflow, derived from the kernel's state at each sample. It is known even if no segment arrives.
    #[derive(Default)]
    pub enum Progress {
        /// The subflow carries data, or waits for the acknowledgement of data that was just sent.
        Working = "working",
        /// No data is in flight. For a closed subflow: no data was in flight at its end.
        #[default]
        Idle = "idle",
        /// Data waits because the peer's receive window is closed, or the peer answers without accepting data: its program does not read.
        LimitedByReceiver = "limited_by_receiver",
        /// Data in flight has had no acknowledgement for longer than a retransmission timeout.
        Stalled = "stalled",
        /// The path has failed: three retransmission timeouts in a row, no acknowledgement of data in flight for four timeouts and 2 s, three
        /// unanswered probes (keepalive), or the kernel's own mark (`stale`). The failure ends with the next acknowledgement on this path.
        Failed = "failed",
    }
}
