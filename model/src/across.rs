// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bottlenecks between the connections of this host to one destination, as outputs show them.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bottleneck::{DetectionMethod, PairVerdict};
use crate::id::{ConnectionId, SubflowId};

/// What was found by comparing subflows of different connections.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Across {
    /// Addresses to which two connections or more are sending.
    pub destinations: Vec<Destination>,
    /// Such addresses beyond those that there is room for: nothing is known of them.
    pub destinations_left_out: u32,
}

/// The connections of this host to one address, compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Destination {
    /// Network namespace of the connections, by the name that people use.
    pub netns: String,
    /// Where they send to.
    #[schemars(with = "String")]
    pub remote: IpAddr,
    /// By which method all of this was found.
    pub method: DetectionMethod,
    /// The subflows that are compared.
    pub subflows: Vec<Member>,
    /// Subflows to the same address beyond those that there is room for: nothing is known of them.
    pub left_out: u32,
    /// The compared subflows, those behind one bottleneck together; one of which nothing is known stands alone.
    pub groups: Vec<Vec<SubflowId>>,
    /// The verdict on each two of them that belong to different connections. `since_us` counts from the first sample towards this address.
    pub pairs: Vec<PairVerdict>,
}

/// A subflow, and whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Member {
    /// Its connection.
    pub connection: ConnectionId,
    /// The subflow.
    pub subflow: SubflowId,
}

impl Destination {
    /// The connection of a compared subflow.
    pub fn connection_of(&self, subflow: SubflowId) -> Option<ConnectionId> {
        self.subflows.iter().find(|member| member.subflow == subflow).map(|member| member.connection)
    }
}
