// SPDX-License-Identifier: MIT OR Apache-2.0
//! The answer of `mpwatch why`, in the form in which `--json` prints it.

use std::borrow::Cow;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::ConnectionId;
use crate::words::json_words;

json_words! {
    /// How certain a cause is.
    #[derive(PartialOrd, Ord)]
    pub enum Certainty {
        /// The facts allow no other cause.
        Certain = "certain",
        /// A counter of the whole namespace, or an exclusion of other causes, suggests it.
        Likely = "likely",
    }
}

json_words! {
    /// The host on which a command is to be run.
    pub enum Place {
        /// This host.
        Here = "here",
        /// The other end of the connection.
        Peer = "peer",
    }
}

/// A command that removes a cause. New connections then behave differently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fix {
    /// Where to run it.
    pub on: Place,
    /// The command, for a shell of root.
    pub command: String,
}

/// A cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cause {
    /// Stable name.
    pub id: Cow<'static, str>,
    /// What prevents a second path.
    pub sentence: String,
    /// How certain it is.
    pub certainty: Certainty,
    /// Configuration, counters and sockets that show it, one per entry.
    pub evidence: Vec<String>,
    /// What to do, if no command does it.
    pub advice: Option<Cow<'static, str>>,
    /// Commands that remove the cause, in this order.
    pub fix: Vec<Fix>,
}

/// The answer for a traced connection, which is asked once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// The connection.
    pub connection: ConnectionId,
    /// The most important cause. `None`: nothing was found.
    pub cause: Option<Arc<Cause>>,
}

/// Connections with the same causes, or a connection that does not exist yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// Name of the network namespace.
    pub netns: String,
    /// The connections, as `local -> remote`, at most [`Answer::MAX_LISTED`] of them. Empty: a new connection.
    pub connections: Vec<String>,
    /// Number of these connections.
    pub count: usize,
    /// The peer of a new connection. `null`: any peer, or `connections` lists connections.
    pub peer: Option<String>,
    /// State of these connections.
    pub state: String,
    /// Causes, most important first. Empty: nothing was found.
    pub causes: Vec<Cause>,
}

impl Answer {
    /// Maximum number of connections that an answer lists.
    pub const MAX_LISTED: usize = 10;
}
