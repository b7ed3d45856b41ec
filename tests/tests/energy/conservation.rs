// SPDX-License-Identifier: MIT OR Apache-2.0
//! Energy is conserved: the parts of each zone sum to its counter, to the microjoule.

use std::path::Path;
use std::time::Duration;

use mpwatch_lab::raplsim::live::LoadScope;
use mpwatch_lab::raplsim::{Platform, ZoneSpec};
use mpwatch_lab::topology::LinkSpec;
use mpwatch_lab::traffic::{self, TrafficSpec, Workload};
use mpwatch_lab::{Topology, poll_until};
use mpwatch_tests::simulated_counters::{SimulatedCounters, cpus};
use mpwatch_tests::{Observer, ZONE_PARTS, emulation, list, may_run_as_root, number};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

use super::exclusive::exclusive;

#[test]
fn every_microjoule_of_every_counter_is_in_one_place() {
    if may_run_as_root() {
        assert_conserved(emulation::timeout(Duration::from_secs(5)));
    }
}

#[test]
#[ignore = "takes a minute"]
fn every_microjoule_of_a_minute_is_in_one_place() {
    assert_conserved(Duration::from_mins(1));
}

/// The counters do not advance when mpwatch starts and when it ends, so the test can compute the exact energy that mpwatch measured.
fn assert_conserved(length: Duration) {
    let _guard = exclusive();
    // Two sockets with memory, or one if the number of CPUs is odd.
    let platform = if cpus().is_multiple_of(2) { Platform::Dram } else { Platform::DramOnTop };
    let topology = Topology::two_paths(LinkSpec::default(), LinkSpec::default()).unwrap();
    let mut simulated = SimulatedCounters::new(platform);
    simulated.write_power_file();
    let zones = simulated.counted_zones();
    let initial: Vec<u64> = zones.iter().map(|zone| simulated.energy_uj(zone.device)).collect();
    let reads = FileReads::new(&simulated.counter_file(zones[0].device));
    let observer = Observer::start(
        &[&["--ledger", "exact"], &simulated.arguments().each_ref().map(String::as_str)[..]].concat(),
    );
    reads.wait_for_windows(2);
    simulated.start(LoadScope::Machine);
    let spec = TrafficSpec::new(topology.path(0).unwrap().server_address(), Workload::upload_for(length));
    traffic::run(topology.client(), topology.server(), &spec).unwrap();
    simulated.stop();
    let report = observer.finish_after_close(&topology);
    let reported = list(&report.json["energy"], "zones");
    assert_eq!(reported.len(), zones.len(), "{reported:#?}");
    for (spec, initial) in zones.iter().zip(initial) {
        let label = label(spec, &zones);
        let zone = reported.iter().find(|zone| zone["zone"] == label).unwrap_or_else(|| panic!("no {label}"));
        println!("{zone}");
        assert_eq!(number(zone, "zone_uj"), ZONE_PARTS.iter().map(|part| number(zone, part)).sum::<u64>());
        assert_eq!(number(zone, "zone_uj"), simulated.energy_uj(spec.device) - initial, "{label}");
        assert_eq!(number(zone, "windows_lost"), 0);
        assert!(number(zone, "flows_uj") > 0);
    }
    assert_eq!(number(&report.json["losses"], "energy_windows_broken"), 0);
}

/// The name of a zone in the report: `package-0`, or `package-0/dram` for a subzone.
fn label(zone: &ZoneSpec, all: &[ZoneSpec]) -> String {
    let name = zone.name.unwrap();
    let parent =
        zone.device.rsplit_once(':').and_then(|(parent, _)| all.iter().find(|zone| zone.device == parent));
    parent.map_or(name.to_owned(), |parent| format!("{}/{name}", parent.name.unwrap()))
}

/// Detects reads of a file.
struct FileReads(Inotify);

impl FileReads {
    fn new(path: &Path) -> Self {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).unwrap();
        inotify.add_watch(path, AddWatchFlags::IN_ACCESS).unwrap();
        Self(inotify)
    }

    /// Waits for energy windows. A window reads the counter up to three times, before and after it settles the ledger.
    fn wait_for_windows(&self, windows: u32) {
        while self.0.read_events().is_ok() {}
        for _ in 0..windows * 6 {
            let read = || self.0.read_events().ok().map(|_| ());
            poll_until("mpwatch to read a counter", emulation::timeout(Duration::from_secs(10)), read)
                .unwrap();
        }
    }
}
