// SPDX-License-Identifier: MIT OR Apache-2.0
//! A database file that is removed while the daemon writes it.

use mpwatch_fixtures as fixture;
use mpwatch_store::{Archive, Period};

use super::*;

#[test]
fn a_removed_file_is_replaced_by_a_new_one_and_losses_are_counted() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("flows.db");
    let mut config = Config::default();
    config.store_path = Some(path.clone());
    let status = Arc::new(Status::new(&config));
    let mut sink = StoreSink::open(&config, status).unwrap().unwrap();
    let written = |sink: &StoreSink| sink.store.as_ref().map_or(0, |store| store.figures().written);
    let open = Arc::new(fixture::snapshot(vec![fixture::connection(1, 2)]));
    let mut consume_until = |snapshot: &Arc<Snapshot>, reached: &dyn Fn(&StoreSink) -> bool| {
        sink.consume(snapshot);
        let deadline = Instant::now() + Duration::from_secs(30);
        while !reached(&sink) {
            assert!(Instant::now() < deadline, "not reached within 30 s");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    consume_until(&open, &|sink| written(sink) == 1);
    std::fs::remove_file(&path).unwrap();
    let mut closed = fixture::closed(2);
    closed.id.birth.0 = 77;
    let closed = Arc::new(fixture::snapshot(vec![fixture::connection(1, 2), closed]));
    consume_until(&closed, &|sink| sink.store.as_ref().is_ok_and(Store::is_removed));
    consume_until(&open, &|sink| written(sink) == 1);
    let mut losses = Losses::default();
    sink.add_losses(&mut losses);
    assert_eq!(losses.store_flows_lost, 1, "the connection that closed without a file");
    sink.finish();
    let mut found = Vec::new();
    let archive = Archive::open(&path).unwrap();
    archive
        .parts(Period::default(), None, 9, |report, _| {
            found.extend(report.connections.iter().map(|connection| connection.id));
            Ok::<_, StoreError>(())
        })
        .unwrap();
    assert_eq!(found, [fixture::connection(1, 2).id]);
}
