// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which paths the kernel may sample thinly, and until when. An order is in the kernel's map only as long as it is in force, so nothing
//! has to be told when a socket ends.

use std::collections::HashMap;
use std::time::Duration;

use libbpf_rs::{MapCore, MapFlags, MapHandle, Object};
use mpwatch_model::sample::Rest;
use mpwatch_model::unit::{Micros, Nanos};
use nix::time::{ClockId, clock_gettime};

use crate::abi;
use crate::tracer::{TracerError, map};

/// The orders in force.
pub(crate) struct Resting {
    map: MapHandle,
    /// By cookie.
    until: HashMap<u64, Nanos>,
}

impl Resting {
    pub(crate) fn open(object: &Object) -> Result<Self, TracerError> {
        Ok(Self { map: map(object, "resting")?, until: HashMap::new() })
    }

    /// Passes orders on, and takes out what is over.
    pub(crate) fn tell(&mut self, orders: &[Rest]) {
        let over = take(&mut self.until, orders, boot_now());
        for order in orders {
            let cookie = order.id.cookie;
            let (key, value) = (cookie.0.to_ne_bytes(), encoded(order));
            let is_in_force = self.until.contains_key(&cookie.0);
            if is_in_force && self.map.update(&key, bytemuck::bytes_of(&value), MapFlags::ANY).is_err() {
                // No room: it is sampled as ever. What was in force before is not what is wanted now.
                self.until.remove(&cookie.0);
                let _ = self.map.delete(&key);
            }
        }
        for cookie in over {
            // It was there, and nobody else takes it out.
            let _ = self.map.delete(&cookie.to_ne_bytes());
        }
    }
}

fn encoded(order: &Rest) -> abi::mpw_rest {
    let micros = |time: Micros| u32::try_from(time.0).unwrap_or(u32::MAX);
    abi::mpw_rest {
        until_ns: order.until.0,
        rtt_from_us: micros(order.usual.from),
        rtt_to_us: micros(order.usual.to),
        generation: order.id.generation,
        pause_us: micros(order.pause.micros()),
    }
}

/// Takes orders into the account of those in force; the cookies whose order is over.
fn take(until: &mut HashMap<u64, Nanos>, orders: &[Rest], now: Nanos) -> Vec<u64> {
    until.extend(orders.iter().map(|rest| (rest.id.cookie.0, rest.until)));
    let over = until.extract_if(|_, until| *until <= now);
    over.map(|(cookie, _)| cookie).collect()
}

fn boot_now() -> Nanos {
    let now = clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(Duration::ZERO, Duration::from);
    Nanos(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpwatch_model::id::{SocketCookie, SubflowId};
    use mpwatch_model::sample::RttRange;

    #[test]
    fn an_order_is_kept_until_its_time_and_a_later_one_takes_its_place() {
        let order = |cookie, until| Rest {
            id: SubflowId { cookie: SocketCookie(cookie), generation: 0 },
            until: Nanos(until),
            pause: Nanos(1_000_000_000),
            usual: RttRange { from: Micros(8_000), to: Micros(u64::MAX) },
        };
        let mut until = HashMap::new();
        assert!(take(&mut until, &[order(1, 50), order(2, 90)], Nanos(10)).is_empty());
        assert!(take(&mut until, &[order(1, 80)], Nanos(60)).is_empty());
        // The first one is woken, the second one's time comes.
        assert_eq!(take(&mut until, &[order(1, 0)], Nanos(60)), [1]);
        assert_eq!(take(&mut until, &[], Nanos(90)), [2]);
        assert!(until.is_empty());
        let abi::mpw_rest { until_ns, rtt_from_us, rtt_to_us, generation, pause_us } = encoded(&order(1, 50));
        assert_eq!((until_ns, rtt_from_us, rtt_to_us), (50, 8_000, u32::MAX));
        assert_eq!((generation, pause_us), (0, 1_000_000));
    }
}
