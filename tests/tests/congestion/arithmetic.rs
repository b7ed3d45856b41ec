// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the arithmetic of `mptcpd` in the kernel with the reference.

use libbpf_rs::{Object, ObjectBuilder, ProgramInput};
use mpwatch_tests::emulation;
use mpwatch_tests::mptcpd::{Connection, MAX_CWND, MAX_RTT_US, Path, increase_per_segment, rate};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};

use super::may_run;

/// One step of the arithmetic, as `struct step` of step.bpf.c: its input, and the results. `mpwatch_tests::mptcpd` has the units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Step {
    others_rate: u64,
    cwnd: u32,
    rtt_us: u32,
    min_rtt_us: u32,
    acked: u32,
    credit: u64,
    rate: u64,
    increase: u64,
    growth: u32,
}

/// The arithmetic in the kernel.
struct Arithmetic(Object);

impl Arithmetic {
    fn load() -> Self {
        let object = include_bytes!(concat!(env!("OUT_DIR"), "/step.bpf.o"));
        Self(ObjectBuilder::default().open_memory(object).unwrap().load().unwrap())
    }

    fn run(&self, step: &Step) -> Step {
        let Step { others_rate, cwnd, rtt_us, min_rtt_us, acked, credit, .. } = *step;
        let input =
            [others_rate, cwnd.into(), rtt_us.into(), min_rtt_us.into(), acked.into(), credit, 0, 0, 0];
        let mut bytes: Vec<u8> = input.into_iter().flat_map(u64::to_ne_bytes).collect();
        let program = self.0.progs_mut().next().unwrap();
        let output =
            program.test_run(ProgramInput { context_in: Some(&mut bytes), ..ProgramInput::default() });
        output.unwrap();
        let word = |index: usize| u64::from_ne_bytes(*bytes[8 * index..].first_chunk().unwrap());
        let growth = word(8).try_into().unwrap();
        Step { credit: word(5), rate: word(6), increase: word(7), growth, ..*step }
    }
}

/// The kernel computes the same integers as the reference over traces of ACKs.
#[test]
fn the_kernel_computes_the_same_numbers_as_the_reference() {
    if !may_run() {
        return;
    }
    let kernel = Arithmetic::load();
    let numbers = (0..=8_u64 << 56, any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>());
    let usual = (0..1_u64 << 40, 0..=MAX_CWND, 0..=MAX_RTT_US, 0..=MAX_RTT_US, 0..1_000_u32);
    let input = (prop_oneof![numbers, usual], 0..1_u64 << 40, 1_usize..20);
    let compare = |((others_rate, cwnd, rtt_us, min_rtt_us, acked), credit, acks): (_, u64, usize)| {
        let mut path = Path { cwnd, rtt_us, credit };
        for _ in 0..acks {
            let step = Step {
                others_rate,
                min_rtt_us,
                acked,
                cwnd: path.cwnd,
                rtt_us,
                credit: path.credit,
                ..Step::default()
            };
            let computed = kernel.run(&step);
            let own = rate(path.cwnd, rtt_us);
            let increase = increase_per_segment(path.cwnd, rtt_us, others_rate + own, min_rtt_us);
            let growth = path.grow(acked, increase);
            let expected = Step { rate: own, increase, growth, credit: path.credit, ..step };
            prop_assert_eq!(computed, expected);
        }
        Ok(())
    };
    let cases = u32::try_from(emulation::amount(4_000).max(200)).unwrap();
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    TestRunner::new(config).run(&input, compare).unwrap();
}

/// Window in segments and RTT in microseconds of each path.
type Windows = Vec<(u32, u32)>;

/// An event on a path.
#[derive(Clone, Copy, Debug)]
enum Event {
    Acknowledged(u32),
    Lost,
}

/// The windows of all paths of a connection equal the reference over traces of ACKs and losses. On a loss the kernel's Reno halves the window
/// (`tcp_reno_ssthresh`), and `mptcpd_ssthresh` sets the credit to zero.
#[test]
fn windows_of_all_paths_equal_the_reference_over_acks_and_losses() {
    if !may_run() {
        return;
    }
    let kernel = Arithmetic::load();
    let path = (2..=10_000_u32, 1..=2_000_000_u32);
    let event = prop_oneof![4 => (1..200_u32).prop_map(Event::Acknowledged), 1 => Just(Event::Lost)];
    let input = (vec(path, 1..=8), vec((any::<Index>(), event), 1..60));
    let compare = |(paths, events): (Windows, Vec<(Index, Event)>)| {
        let paths: Vec<Path> = paths.into_iter().map(|(cwnd, rtt_us)| Path::new(cwnd, rtt_us)).collect();
        let mut reference = Connection { paths: paths.clone() };
        let mut own = paths;
        for (index, event) in events {
            let on = index.index(own.len());
            match event {
                Event::Acknowledged(acked) => {
                    let rate_of = |path: &Path| {
                        let step = Step { cwnd: path.cwnd, rtt_us: path.rtt_us, ..Step::default() };
                        kernel.run(&step).rate
                    };
                    let others = own.iter().enumerate().filter(|(other, _)| *other != on);
                    let step = Step {
                        others_rate: others.map(|(_, path)| rate_of(path)).sum(),
                        min_rtt_us: own.iter().map(|path| path.rtt_us).min().unwrap(),
                        acked,
                        cwnd: own[on].cwnd,
                        rtt_us: own[on].rtt_us,
                        credit: own[on].credit,
                        ..Step::default()
                    };
                    let computed = kernel.run(&step);
                    own[on].cwnd += computed.growth;
                    own[on].credit = computed.credit;
                    prop_assert_eq!(reference.acknowledge(on, acked), Some(computed.growth));
                }
                Event::Lost => {
                    own[on] = Path::new((own[on].cwnd >> 1).max(2), own[on].rtt_us);
                    reference.lose(on);
                }
            }
            prop_assert_eq!(&reference.paths, &own);
        }
        Ok(())
    };
    let cases = u32::try_from(emulation::amount(500).max(50)).unwrap();
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    TestRunner::new(config).run(&input, compare).unwrap();
}
