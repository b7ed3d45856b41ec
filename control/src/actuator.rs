// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interface between decisions and the kernel.

use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::elimination::Removal;
use mpwatch_model::id::Token;

/// Identifies a connection to the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetConnection {
    /// Name of its network namespace, for messages.
    pub netns: String,
    /// Inode of its network namespace.
    pub netns_inode: u32,
    /// `None`: unknown.
    pub token: Option<Token>,
}

impl From<&Connection> for TargetConnection {
    fn from(connection: &Connection) -> Self {
        Self { netns: connection.netns.clone(), netns_inode: connection.netns_inode, token: connection.token }
    }
}

/// Carries out decisions. Errors are text for people.
pub trait Actuator {
    /// Removes a subflow.
    ///
    /// # Errors
    /// If the kernel refuses.
    fn apply(&mut self, connection: &TargetConnection, removal: &Removal) -> Result<(), String>;

    /// Ends the backup role that [`Self::apply`] gave a subflow.
    ///
    /// # Errors
    /// If the kernel refuses.
    fn undo(&mut self, connection: &TargetConnection, removal: &Removal) -> Result<(), String>;
}
