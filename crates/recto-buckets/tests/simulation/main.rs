//! Simulation of the product's engine in virtual time. Several processes write, delete, read pages and
//! split buckets. Their clocks differ, are set, and stop for less than the allowed duration. The processes
//! pause and crash. They use one store without transactions that loses, delays and repeats requests. A
//! seed determines all of this.
//!
//! A page that begins after the acknowledgment of a write shows that write or a later one, once and in
//! order. At the end, the range map is complete, all old buckets are cleared, and no bucket is too large.
//!
//! `RECTO_TEST_SEED=…` repeats the run of one seed exactly. `RECTO_TEST_SCALE=20` runs twenty times as
//! many seeds.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod clock;
mod history;
mod process;
mod world;

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::runtime::Builder;

use crate::world::{Broken, run};

const SEED_VARIABLE: &str = "RECTO_TEST_SEED";
const SCALE_VARIABLE: &str = "RECTO_TEST_SCALE";
/// Number of seeds of the simulation that runs at each push.
const SEEDS: u64 = 20;
/// Number of seeds of the slow simulation.
const SLOW_SEEDS: u64 = 100;
/// Maximum number of seeds that the simulation may need to detect a missing part of the protocol.
const MAX_SEEDS_TO_NOTICE: u64 = 100;

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable} is no number: {text}")),
    )
}

fn in_virtual_time(seed: u64, broken: Option<Broken>) -> Result<String, String> {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(run(seed, broken))
}

#[test]
fn each_page_shows_what_was_acknowledged_before_it() {
    run_seeds(SEEDS);
}

#[test]
#[ignore = "slow: 100 seeds take minutes"]
fn each_page_is_current_with_many_seeds() {
    run_seeds(SLOW_SEEDS);
}

/// Runs the seed that the environment variable names. If it names none, runs `count` seeds, multiplied by
/// the scale.
fn run_seeds(count: u64) {
    let seeds = match number(SEED_VARIABLE) {
        Some(seed) => seed..seed + 1,
        None => 0..count * number(SCALE_VARIABLE).unwrap_or(1),
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicU64::new(seeds.start);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let seed = next.fetch_add(1, Ordering::Relaxed)
                    && seeds.contains(&seed)
                {
                    match in_virtual_time(seed, None) {
                        Ok(told) if seeds.end - seeds.start == 1 => println!("{told}"),
                        Ok(_) => {}
                        Err(wrong) => panic!("seed {seed}: {wrong}\n{SEED_VARIABLE}={seed} runs it again"),
                    }
                }
            });
        }
    });
}

#[test]
fn a_seed_replays_exactly() {
    for seed in 0..3 {
        assert_eq!(in_virtual_time(seed, None), in_virtual_time(seed, None));
    }
}

/// Checks that the simulation detects a missing part of the protocol, and reports one of the errors
/// `says`.
fn notices(broken: Broken, says: &[&str]) {
    for seed in 0..MAX_SEEDS_TO_NOTICE {
        if let Err(wrong) = in_virtual_time(seed, Some(broken))
            && says.iter().any(|says| wrong.starts_with(says))
        {
            println!("{broken:?} with seed {seed}: {wrong}");
            return;
        }
    }
    panic!("{broken:?} is not noticed with {MAX_SEEDS_TO_NOTICE} seeds");
}

#[test]
fn notices_splits_without_waits() {
    notices(Broken::Waits, &["B1", "B2"]);
}

#[test]
fn notices_splits_without_copies() {
    notices(Broken::Copies, &["B1"]);
}

#[test]
fn notices_copies_at_other_timestamps() {
    notices(Broken::Stamps, &["B1", "B2"]);
}

#[test]
fn notices_use_of_expired_range_maps() {
    notices(Broken::Lives, &["B1", "B2"]);
}

#[test]
fn conditions_that_are_not_looked_at_are_noticed() {
    notices(Broken::Conditions, &[""]);
}
