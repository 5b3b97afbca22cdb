//! Test that the properties of each target hold for its stored inputs.
#![allow(clippy::unwrap_used)]

use recto_fuzz::corpus::MAX_INPUT_BYTES;
use recto_fuzz::mutate::{Draws, mutate};
use recto_fuzz::{TARGETS, corpus};

/// Maximum size of all corpora in the repository, in bytes.
const MAX_CORPUS_BYTES: usize = 1 << 20;

#[test]
fn every_property_holds_for_every_input() {
    let mut bytes = 0;
    for target in TARGETS {
        let inputs = corpus::read(target.name).unwrap();
        assert!(!inputs.is_empty(), "the corpus of {} is empty", target.name);
        for (name, input) in inputs {
            bytes += input.len();
            let outcome = std::panic::catch_unwind(|| (target.run)(&input));
            assert!(outcome.is_ok(), "{}: {name}", target.name);
        }
    }
    assert!(bytes <= MAX_CORPUS_BYTES, "{bytes} bytes of corpus");
}

#[test]
fn every_corpus_has_a_target() {
    let mut names: Vec<String> = std::fs::read_dir(corpus::folder(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let mut targets: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    targets.sort_unstable();
    assert_eq!(names, targets);
}

#[test]
fn mutations_follow_from_their_seed_and_stay_short() {
    let mutated = |seed| {
        let (mut draws, mut input) = (Draws::new(seed), vec![7; MAX_INPUT_BYTES]);
        for _ in 0..100 {
            mutate(&mut input, b"other", &["word"], &mut draws);
            assert!(input.len() <= MAX_INPUT_BYTES);
        }
        input
    };
    assert_eq!(mutated(1), mutated(1));
    assert_ne!(mutated(1), mutated(2));
    let mut empty = Vec::new();
    for seed in 0..1_000 {
        mutate(&mut empty, b"", &[], &mut Draws::new(seed));
    }
}
