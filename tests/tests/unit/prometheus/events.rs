// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of events: joins by interface, accepted connections by listener.

use std::net::SocketAddr;

use mpwatch_fixtures as fixture;
use mpwatch_model::flow::subflow::Closed;
use mpwatch_model::kernel::lifecycle::{CloseReason, Role};
use mpwatch_model::unit::Bytes;

use super::{Scraped, Series, series, sum};

#[test]
fn joins_are_counted_by_interface_and_result_once_each_and_sum_to_the_host() {
    let mut scraped = Scraped::new(0);
    let mut joins = || {
        let mut connection = fixture::connection(9, 3);
        let interface = connection.subflows[1].interface;
        let refused = &mut connection.subflows[2];
        refused.interface = interface;
        (refused.handshake, refused.bytes_acked, refused.bytes_received) = (None, Bytes(0), Bytes(0));
        refused.closed = Some(Closed { at: fixture::at(5_000_000), reason: CloseReason::Refused });
        series(&scraped.tick(vec![connection]))
    };
    let of = |series: &Series, interface: &str, result: &str| {
        let name = format!("mpwatch_interface_joins_total{{interface=\"{interface}\",result=\"{result}\"}}");
        series.get(&name).copied()
    };
    let first = joins();
    let results = ["refused", "established", "unanswered"];
    assert_eq!(results.map(|result| of(&first, "eth2", result)), [Some(1.0), Some(1.0), Some(0.0)]);
    let again = joins();
    assert_eq!(of(&again, "eth2", "refused"), Some(1.0), "a join counts once");
    assert_eq!(sum(&again, "mpwatch_interface_joins_total"), sum(&again, "mpwatch_host_joins_total"));
}

#[test]
fn accepted_connections_are_counted_by_listener_and_by_what_the_client_got() {
    let mut scraped = Scraped::new(0);
    let accepted = |token, port, is_known| {
        let mut connection = fixture::connection(token, 1);
        connection.role = Some(Role::Server);
        connection.local = Some(SocketAddr::from(([10, 0, 0, 1], port)));
        connection.process = connection.process.filter(|_| is_known);
        connection
    };
    let mut fell_back = accepted(4, 443, true);
    fell_back.fallback = fixture::fallen_back(4).fallback;
    let opened = fixture::connection(5, 1);
    let program = opened.process.as_ref().unwrap().comm.text().into_owned();
    let of = |text: &str, listener: &str, got: &str| {
        let name =
            format!("mpwatch_listener_accepted_connections_total{{listener=\"{listener}\",got=\"{got}\"}}");
        series(text).get(&name).copied()
    };
    let first = scraped.tick(vec![
        accepted(1, 443, true),
        accepted(2, 443, true),
        accepted(3, 80, false),
        fell_back,
        opened,
    ]);
    let https = format!("{program}:443");
    assert_eq!(
        ["mptcp", "fell_back", "tcp"].map(|got| of(&first, &https, got)),
        [Some(2.0), Some(1.0), Some(0.0)]
    );
    let http = format!("{program}:80");
    assert_eq!(of(&first, &http, "mptcp"), None, "the process is still unknown");
    let then = scraped.tick(vec![accepted(3, 80, true)]);
    assert_eq!((of(&then, &http, "mptcp"), of(&then, &https, "mptcp")), (Some(1.0), Some(2.0)));
    let sums = ["host", "listener"]
        .map(|of| sum(&series(&then), &format!("mpwatch_{of}_accepted_connections_total")));
    assert_eq!(sums, [4.0; 2], "a connection that this host opened does not count");
}
