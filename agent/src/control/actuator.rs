// SPDX-License-Identifier: MIT OR Apache-2.0
//! What carries out decisions, and what it needs to know of a connection.

use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::elimination::Removal;
use mpwatch_model::id::Token;

/// What an action needs to know of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) netns: String,
    pub(crate) netns_inode: u32,
    pub(crate) token: Option<Token>,
}

impl From<&Connection> for Target {
    fn from(connection: &Connection) -> Self {
        Self { netns: connection.netns.clone(), netns_inode: connection.netns_inode, token: connection.token }
    }
}

/// Carries out decisions.
pub(crate) trait Actuator {
    /// Removes a subflow. The error is text for people.
    fn apply(&mut self, target: &Target, removal: &Removal) -> Result<(), String>;
    /// Ends the backup role that [`Self::apply`] gave a subflow.
    fn undo(&mut self, target: &Target, removal: &Removal) -> Result<(), String>;
}
