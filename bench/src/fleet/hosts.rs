// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hosts of a fleet, and the ends of connections that each host observed. All values depend only on the two numbers in [`Fleet`].

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use mpwatch_exporters::sample::mixed;
use mpwatch_fixtures as fixture;
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::id::Token;
use mpwatch_model::kernel::lifecycle::Role;
use mpwatch_model::unit::{Micros, Nanos};
use mpwatch_store::{Limits, Store};
use tempfile::TempDir;

use crate::store;

/// Every 20th host reports nothing.
const LOST_EVERY: u32 = 20;
/// Every 10th host reports everything twice.
const TWICE_EVERY: u32 = 10;
/// Maximum error of the hosts' clocks, nanoseconds.
const CLOCK_ERROR_NS: i64 = 2_000_000_000;
/// Length of the period around midnight in which connections begin, nanoseconds: an hour.
const PERIOD_NS: i64 = 3_600_000_000_000;
const DAY_NS: i64 = 86_400_000_000_000;
const PER_SNAPSHOT: usize = 1_000;

/// A fleet. `connections`: number of ends of connections at each host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fleet {
    pub(super) hosts: u32,
    pub(super) connections: u32,
}

impl Fleet {
    /// The hosts that report. Lost hosts are left out.
    pub(super) fn reporting(self) -> impl Iterator<Item = Host> {
        (0..self.hosts).map(move |number| Host { fleet: self, number }).filter(|host| !host.is_lost())
    }

    /// Number of connections of each host as the client.
    fn clients(self) -> u32 {
        self.connections / 2
    }

    /// The host number of the server of a client's `nth` connection.
    fn server(self, client: u32, nth: u32) -> u32 {
        (client + 1 + nth % (self.hosts - 1)) % self.hosts
    }

    /// Number of connections whose two ends are at reporting hosts.
    pub(super) fn whole_connections(self) -> u64 {
        let is_lost = |number| Host { fleet: self, number }.is_lost();
        let of_host = |client: u32| {
            let whole =
                (0..self.clients()).filter(|nth| !is_lost(client) && !is_lost(self.server(client, *nth)));
            whole.count() as u64
        };
        (0..self.hosts).map(of_host).sum()
    }
}

/// A host of a fleet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Host {
    pub(super) fleet: Fleet,
    pub(super) number: u32,
}

impl Host {
    fn is_lost(self) -> bool {
        self.number % LOST_EVERY == LOST_EVERY - 1
    }

    pub(super) fn sends_twice(self) -> bool {
        self.number.is_multiple_of(TWICE_EVERY)
    }

    /// Time by which the host's clock is ahead, nanoseconds. Negative: the clock is behind.
    fn clock_error_ns(self) -> i64 {
        let part = i64::try_from(mixed(u64::from(self.number)) % 2_001).expect("a small number") - 1_000;
        CLOCK_ERROR_NS / 1_000 * part
    }

    fn address(self, path: u8) -> IpAddr {
        let [_, _, high, low] = self.number.to_be_bytes();
        Ipv4Addr::new(10, path, high, low).into()
    }

    /// The ends of connections at this host.
    fn ends(self) -> Vec<Connection> {
        let Fleet { hosts, .. } = self.fleet;
        let clients = self.fleet.clients();
        let own = (0..clients).map(|nth| (self.number, nth));
        let of_others = (0..hosts).filter(|client| *client != self.number).flat_map(|client| {
            (0..clients)
                .filter(move |nth| self.fleet.server(client, *nth) == self.number)
                .map(move |nth| (client, nth))
        });
        let template = fixture::closed(1);
        own.chain(of_others).map(|(client, nth)| self.end(&template, client, nth)).collect()
    }

    /// This host's end of the `nth` connection of a client.
    fn end(self, template: &Connection, client: u32, nth: u32) -> Connection {
        let number = client * self.fleet.clients() + nth;
        let seed = mixed(u64::from(number) << 32);
        // About two thirds of the connections carry 12 kB, the others up to 120 MB.
        let divisor = if seed.is_multiple_of(3) { 1 + seed % 97 } else { 10_000 };
        let mut end = store::connection(template, number + 1, divisor);
        let [high, low] = [seed >> 32, seed & 0xffff_ffff].map(|half| Token(below_32_bits(half)));
        (end.token, end.remote_token) = (Some(high), Some(low));
        let server = Host { fleet: self.fleet, number: self.fleet.server(client, nth) };
        let client = Host { fleet: self.fleet, number: client };
        for (subflow, path) in end.subflows.iter_mut().zip(1..) {
            subflow.local = SocketAddr::new(client.address(path), subflow.local.port());
            subflow.remote = SocketAddr::new(server.address(path), subflow.remote.port());
            let noise = mixed(seed ^ u64::from(path) ^ u64::from(self.number) << 8);
            subflow.srtt = Some(Micros(200 + noise % 40_000));
            subflow.rtt_p50 = Some(Micros(200 + noise % 39_000));
            subflow.rtt_p99 = Some(Micros(900 + noise % 90_000));
            subflow.rtt_samples = noise % 50_000;
            subflow.cwnd_segments = 10 + below_32_bits(noise % 500);
            if let Some(energy) = &mut subflow.energy {
                energy.cpu = Nanos(noise % 1_300_000_000);
            }
        }
        if self.number != client.number {
            end.role = Some(Role::Server);
            std::mem::swap(&mut end.token, &mut end.remote_token);
            for subflow in &mut end.subflows {
                std::mem::swap(&mut subflow.local, &mut subflow.remote);
                std::mem::swap(&mut subflow.bytes_sent, &mut subflow.bytes_received);
            }
        }
        end.id.token = end.token.expect("a token was just given");
        fixture::settle(&mut end);
        end.shift(
            shift_to_midnight(&end) + (seed % PERIOD_NS.unsigned_abs()).cast_signed() + self.clock_error_ns(),
        );
        end
    }

    /// Creates the host's database, which is deleted when the value is dropped.
    pub(super) fn database(self) -> Database {
        let folder = TempDir::new().expect("a folder for the database");
        let database = Database { folder };
        let store = Store::open(&database.path(), &Limits::none()).expect("the database can be created");
        for part in self.ends().chunks(PER_SNAPSHOT) {
            let mut snapshot = fixture::snapshot(part.to_vec());
            snapshot.host.name = format!("host-{}", self.number);
            snapshot.host.boot_id = format!("{:032x}", mixed(u64::from(self.number)));
            snapshot.host.clock_error = Some(Nanos(self.clock_error_ns().unsigned_abs()));
            store.deliver(&Arc::new(snapshot));
        }
        store.close();
        database
    }
}

/// Time from the start of a connection until half of [`PERIOD_NS`] before the next midnight, nanoseconds.
fn shift_to_midnight(connection: &Connection) -> i64 {
    let opened = connection.opened_at.expect("the template has a time of opening").as_nanosecond();
    let since_midnight = i64::try_from(opened.rem_euclid(i128::from(DAY_NS))).expect("less than a day");
    DAY_NS - since_midnight - PERIOD_NS / 2
}

pub(super) struct Database {
    folder: TempDir,
}

impl Database {
    pub(super) fn path(&self) -> PathBuf {
        self.folder.path().join("flows.db")
    }
}

fn below_32_bits(number: u64) -> u32 {
    u32::try_from(number).expect("a number of 32 bits")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn each_connection_has_two_ends_with_swapped_tokens_and_some_hosts_are_lost() {
        let fleet = Fleet { hosts: 40, connections: 10 };
        let all: Vec<Connection> = fleet.reporting().flat_map(Host::ends).collect();
        let mut ends: BTreeMap<_, Vec<&Connection>> = BTreeMap::new();
        for end in &all {
            let mut pair = [end.token.unwrap(), end.remote_token.unwrap()];
            pair.sort_unstable();
            ends.entry(pair).or_default().push(end);
        }
        let both = ends.values().filter(|ends| ends.len() == 2);
        assert_eq!(both.clone().count() as u64, fleet.whole_connections());
        assert!(fleet.whole_connections() < 40 * 5 && ends.values().all(|ends| ends.len() <= 2));
        for pair in both {
            assert_eq!((pair[0].token, pair[0].remote_token), (pair[1].remote_token, pair[1].token));
            assert_ne!(pair[0].role, pair[1].role);
            let apart = pair[0].opened_at.unwrap().duration_since(pair[1].opened_at.unwrap());
            assert!(apart.abs().as_nanos() <= 2 * i128::from(CLOCK_ERROR_NS), "{apart}");
        }
        let days: std::collections::BTreeSet<_> =
            all.iter().map(|end| end.opened_at.unwrap().as_nanosecond() / i128::from(DAY_NS)).collect();
        assert_eq!(days.len(), 2, "before and after midnight");
    }
}
