// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs every target on its corpus, without libFuzzer.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::TARGETS;

/// Maximum size of the corpus of a target in bytes.
const MAX_CORPUS: u64 = 128 << 10;

fn corpus() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

#[test]
fn every_target_accepts_its_corpus() {
    for (name, target) in TARGETS {
        let mut inputs = 0;
        for entry in fs::read_dir(corpus().join(name)).unwrap() {
            let path = entry.unwrap().path();
            // The test shows this line if the target panics.
            println!("{}", path.display());
            target(&fs::read(path).unwrap());
            inputs += 1;
        }
        assert!(inputs > 0, "{name} has no corpus");
    }
}

#[test]
fn every_corpus_is_small_and_has_a_target() {
    let names: BTreeSet<_> =
        fs::read_dir(corpus()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, TARGETS.iter().map(|(name, _)| (*name).into()).collect());
    for name in names {
        let files = fs::read_dir(corpus().join(&name)).unwrap();
        let bytes: u64 = files.map(|file| file.unwrap().metadata().unwrap().len()).sum();
        assert!(bytes <= MAX_CORPUS, "{}: {bytes} bytes", name.display());
    }
}
