// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the filter language.
#![allow(clippy::unwrap_used, reason = "the filters here are right")]

use mpwatch_fixtures as fixture;
use mpwatch_model::filter::{Filter, HELP};
use mpwatch_model::flow::connection::Connection;
use mpwatch_model::flow::progress::Progress;
use mpwatch_model::flow::subflow::Subflow;
use proptest::prelude::*;

fn passes(filter: &str, connection: &Connection) -> bool {
    Filter::parse(filter).unwrap_or_else(|error| panic!("{error}")).matches(connection)
}

#[test]
fn each_term_tests_its_part_of_a_connection() {
    let connection = fixture::connection(0x9f3c_0a1b, 2);
    for yes in [
        "",
        "peer:10.0/16",
        "peer:10.0.2.2",
        "local:10.0.1.1",
        "port:5201",
        "port:43212",
        "proc:iperf3",
        "proc:1234",
        "proc:ip*",
        "iface:eth2",
        "netns:client",
        "cgroup:/user*",
        "pod:shop/web*",
        "id:9f3c",
        "id:1001-9f3c",
        "state:established",
        "role:client",
        "class:long",
        "rate>1M",
        "rate<1G",
        "rtt>40ms",
        "rtt<=20.8ms",
        "bytes>100M",
        "subflows>=2",
        "mptcp",
        "open",
        "!tcp !fallback !closed !stale !failed",
        "  mptcp   open  ",
        "!peer:192.168/16",
    ] {
        assert!(passes(yes, &connection), "{yes}");
    }
    for no in [
        "peer:10.1/16",
        "local:10.0.1.2",
        "port:80",
        "proc:nginx",
        "iface:eth3",
        "id:0a1b",
        "role:server",
        "rate>1G",
        "rtt>1s",
        "tcp",
        "closed",
        "mptcp fallback",
        "!mptcp",
        "subflows>2",
    ] {
        assert!(!passes(no, &connection), "{no}");
    }
}

#[test]
fn shared_matches_connections_with_a_known_shared_bottleneck() {
    let mut connection = fixture::connection(1, 3);
    assert!(!passes("shared", &connection) && passes("!shared", &connection));
    connection.bottlenecks = Some(fixture::bottleneck::shared(&connection.subflows));
    assert!(passes("shared", &connection) && !passes("shared fallback", &connection));
    connection.bottlenecks = None;
    assert!(!passes("shared", &connection), "bottleneck detection is disabled");
}

#[test]
fn one_filter_can_have_every_kind_of_term() {
    let text = "peer:10.0/16 proc:nginx iface:eth1 state:established rate>1M rtt>20ms shared fallback";
    let filter = Filter::parse(text).unwrap();
    assert_eq!(filter.to_string(), text.replace("10.0/16", "10.0.0.0/16"));
    assert!(!filter.matches(&fixture::connection(1, 2)));
    let error = Filter::parse("proc:nginx share").unwrap_err();
    assert_eq!(error.position, 12);
    assert!(error.problem.ends_with("did you mean `shared`?"), "{error}");
}

#[test]
fn a_comparison_with_an_unknown_value_does_not_hold() {
    let mut connection = fixture::failover(1);
    assert!(passes("stale", &connection) && passes("failed", &connection));
    assert!(!passes("failed", &fixture::connection(1, 2)));
    connection.subflows.iter_mut().for_each(|subflow| subflow.srtt = None);
    connection.bytes_sent = None;
    for either in ["rtt>0us", "rtt<100s", "bytes>0", "bytes<1T"] {
        assert!(!passes(either, &connection), "{either}");
    }
}

#[test]
fn a_failed_path_has_no_current_rtt() {
    let mut connection = fixture::connection(1, 2);
    connection.subflows.iter_mut().for_each(|subflow| subflow.progress = Progress::Failed);
    assert!(!passes("rtt>0us", &connection));
    connection.subflows[1].progress = Progress::Working;
    assert!(passes("rtt>0us", &connection));
    let failed = Subflow { path_failures: 1, ..connection.subflows[1].clone() };
    assert!(failed.current_srtt().is_some(), "the path works again");
    let closed = fixture::closed(1).subflows[0].clone();
    assert!(closed.current_srtt().is_some());
    assert_eq!(Subflow { path_failures: 1, ..closed }.current_srtt(), None);
}

#[test]
fn an_error_names_the_reason_the_term_and_its_column() {
    let error = |filter: &str| Filter::parse(filter).unwrap_err().to_string();
    assert_eq!(error("mptcp stat:x"), "`stat` is unknown; did you mean `state`? (term `stat:x`, column 7)");
    assert_eq!(
        error("äö"),
        "`äö` is unknown; known are peer, local, port, proc, iface, netns, cgroup, pod, id, state, role, class, rate, rtt, bytes, subflows, mptcp, tcp, fallback, shared, open, closed, stale, failed (term `äö`, column 1)"
    );
    assert_eq!(
        error("rtt>20"),
        "`20` is not a time with its unit, such as 800us, 20ms or 1s (term `rtt>20`, column 1)"
    );
    assert!(error("peer:nginx").contains("`nginx` is not an address or network, such as 10.0/16"));
    assert!(error("role:boss").starts_with("`boss` is not client or server"));
    assert!(error("rate").starts_with("needs a comparison, such as rate>1M"));
    assert!(error("rate:1M").starts_with("compare it with <, <=, >= or >, such as rate>1M"));
    assert!(error("port>3").starts_with("cannot be compared; write port:VALUE"));
    assert!(error("port").contains("needs a value: port:"));
    assert_eq!(
        error("rate>"),
        "needs a value: rate>1M; it is a number of bit/s, such as 500k or 1.5M (term `rate>`, column 1)"
    );
    assert_eq!(
        error("role:"),
        "needs a value: role:VALUE, where VALUE is client or server (term `role:`, column 1)"
    );
    assert!(error("rate=3").contains("compare with <"));
    assert!(error("!").contains("is unknown"));
    assert!(error("id:XYZ").contains("lower-case hexadecimal"));
}

#[test]
fn the_help_shows_filters_that_parse() {
    for line in HELP.lines().skip(1) {
        for term in line
            .split("  ")
            .map(str::trim)
            .filter(|part| part.contains([':', '<', '>']) && !part.contains(' '))
        {
            assert!(Filter::parse(term).is_ok(), "{term}");
        }
    }
}

fn term() -> impl Strategy<Value = String> {
    let number = (0u32..100_000, 0u32..1000).prop_map(|(whole, part)| format!("{whole}.{part}"));
    let key = prop::sample::select(vec!["proc", "iface", "netns", "cgroup", "pod"]);
    prop_oneof![
        (key, "[a-z0-9*?/._:-]{1,12}").prop_map(|(key, name)| format!("{key}:{name}")),
        (any::<std::net::IpAddr>(), 0u8..=32)
            .prop_map(|(address, prefix)| format!("peer:{address}/{prefix}")),
        (number.clone(), prop::sample::select(vec!["", "k", "M", "G"]))
            .prop_map(|(n, unit)| format!("rate>={n}{unit}")),
        (number, prop::sample::select(vec!["us", "ms", "s"])).prop_map(|(n, unit)| format!("rtt<{n}{unit}")),
        any::<u16>().prop_map(|port| format!("port:{port}")),
        "id:[0-9a-f-]{1,20}",
        prop::sample::select(vec![
            "mptcp",
            "shared",
            "!open",
            "state:syn_sent",
            "state:unknown",
            "class:query"
        ])
        .prop_map(str::to_owned),
    ]
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in any::<String>()) {
        let _ = Filter::parse(&text);
    }

    #[test]
    fn no_almost_valid_filter_makes_the_parser_panic(text in "(!?(peer|rtt|rate|port|id|x)(:|<|>=|=|)[0-9a-z./:é]{0,8} ?){0,4}") {
        if let Ok(filter) = Filter::parse(&text) {
            let _ = filter.matches(&fixture::connection(1, 2));
        }
    }

    #[test]
    fn a_printed_filter_parses_to_the_same_filter(terms in proptest::collection::vec(term(), 0..5)) {
        let filter = Filter::parse(&terms.join(" ")).unwrap();
        prop_assert_eq!(Filter::parse(&filter.to_string()).unwrap(), filter);
    }
}
