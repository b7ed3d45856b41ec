// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a connection has no second path: the facts ([`facts`]) and the answer ([`answer`]). `mpwatch_engine::why` finds the causes.

pub mod answer;
pub mod facts;
