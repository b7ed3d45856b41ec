// SPDX-License-Identifier: MIT OR Apache-2.0
//! Notifications to systemd. Without systemd nothing is sent.

use sd_notify::NotifyState;

/// Sends states. A failure is logged only.
pub(super) fn send(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, ?states, "cannot notify systemd");
    }
}
