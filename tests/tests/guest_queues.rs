// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records a short run of the corpus of bottlenecks (docs/corpus.md) behind each kind of queue that only the guests' kernels have. Compares
//! the truth about the pairs with the kernel's classes, and mpwatch's verdicts with the truth.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::process::Command;
use std::time::Duration;

use mpwatch_bench::bottleneck::truth::{SECOND, Truth as PairTruth};
use mpwatch_bench::corpus::judge::judge;
use mpwatch_bench::corpus::methods::method;
use mpwatch_bench::corpus::record::record;
use mpwatch_bench::corpus::recording::Recording;
use mpwatch_bench::corpus::score::{CHECKPOINTS, score};
use mpwatch_lab::corpus::{Network, Run, Traffic, all, plan};
use mpwatch_lab::poll_until;
use mpwatch_tests::{may_run_as_root, skip};

/// The time after the start of a pair at which verdicts are compared.
const CHECKPOINT_INDEX: usize = 2;
const CHECKPOINT: u64 = CHECKPOINTS[CHECKPOINT_INDEX];
const TIMEOUT: Duration = Duration::from_secs(30);

#[test]
fn subflows_share_the_rate_of_fq_codel_but_no_queue() {
    verdicts_are_right("codel2", Some("fq_codel"));
}

#[test]
fn subflows_share_the_rate_of_cake_but_no_queue() {
    verdicts_are_right("cake2", Some("cake"));
}

#[test]
fn subflows_share_the_rate_of_sfq_but_no_queue() {
    verdicts_are_right("sfq2", Some("sfq"));
}

#[test]
fn subflows_share_the_queue_of_red() {
    verdicts_are_right("red2", None);
}

#[test]
fn subflows_share_a_queue_whatever_netem_adds_to_their_round_trip_times() {
    verdicts_are_right("rtt2", None);
}

/// Records a connection of a condition with two subflows and one link. `classes`: the discipline whose classes separate the subflows.
fn verdicts_are_right(name: &str, classes: Option<&str>) {
    if !may_run_as_root() {
        return;
    }
    let condition = all().unwrap().into_iter().find(|condition| condition.name == name).unwrap();
    let mut run = plan(&[condition], 1, 1, "-k1-").remove(0);
    if let Err(lack) = Network::check(&run.condition) {
        let module = run.condition.queue.module().unwrap();
        return skip(&format!("needs a kernel with {module} (`./dev vm` has one): {lack}"));
    }
    if let Some(kind) = classes {
        subflows_are_in_different_classes(&run, kind);
    }
    run.length_ms = (CHECKPOINT + 1) * 1_000;
    let folder = tempfile::tempdir().unwrap();
    let truth = record(&run, folder.path()).unwrap();
    let recording = Recording::read(&folder.path().join(format!("{run}.mpw"))).unwrap();

    assert_eq!(truth.flaw(), None, "{:?}", truth.queues);
    let last = truth.queues.last().unwrap();
    assert!(last.drops.iter().all(|drops| *drops > 0), "each queue dropped packets: {last:?}");
    let pairs = recording.pairs();
    assert_eq!(pairs.len(), 1, "{pairs:?}");
    let since = pairs[0][0].established.max(pairs[0][1].established).unwrap();
    let expected = if classes.is_some() { PairTruth::Cap } else { PairTruth::Shared };
    assert_eq!(truth.pair(pairs[0], since, since + CHECKPOINT * SECOND), Some(expected));

    let mut mpwatch = method("mpwatch", &recording).unwrap();
    let score = score(&recording, &truth, &judge(&recording, mpwatch.as_mut()).unwrap());
    println!("{run}: {:?}, caps {:?}", score.at, score.caps);
    // Behind CAKE, the verdict can be wrong for a second (docs/bottleneck.md).
    assert_eq!(score.at[CHECKPOINT_INDEX].wrong(), 0, "{:?}", score.at);
}

/// Fails if the link has no queue per subflow: waits until two classes contain packets at the same time.
fn subflows_are_in_different_classes(run: &Run, kind: &str) {
    let network = Network::build(run).unwrap();
    let traffic = Traffic::start(&network, run).unwrap();
    let found = poll_until("packets in two classes of the link", TIMEOUT, || {
        let classes = network.router.enter(|| classes_with_packets(&Network::queue_port(0), kind)).unwrap();
        (classes >= 2).then_some(())
    });
    traffic.finish().unwrap();
    found.unwrap();
}

/// The number of classes of a discipline that contain packets.
fn classes_with_packets(interface: &str, kind: &str) -> usize {
    let output = Command::new("tc").args(["-s", "class", "show", "dev", interface]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let of_kind = text.split("class ").filter(|class| class.starts_with(&format!("{kind} ")));
    of_kind.filter(|class| class.contains("backlog ") && !class.contains("backlog 0b")).count()
}
