// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts of a connection.

use mpwatch_model::host::names::Pod;
use mpwatch_model::why::answer::{Cause, Certainty, Fix, Place};

/// The pod of every connection.
pub fn pod() -> Pod {
    Pod {
        namespace: "shop".to_owned(),
        name: "web-0".to_owned(),
        uid: "0f4d2e6c-8f1b-4c1e-9f52-7a2b6f0d9c11".to_owned(),
        container: Some("nginx".to_owned()),
    }
}

/// Why a connection fell back.
pub fn cause() -> Cause {
    Cause {
        id: "no-option-in-answer".into(),
        sentence: "10.0.1.2 answered without MP_CAPABLE".to_owned(),
        certainty: Certainty::Certain,
        evidence: vec!["MPTcpExtMPCapableFallbackSYNACK 1".to_owned()],
        advice: Some("run `mpwatch why` at the peer".into()),
        fix: vec![Fix { on: Place::Peer, command: "sysctl -w net.mptcp.enabled=1".to_owned() }],
    }
}
