//! Simulation of the engine in virtual time. Several processes send and receive. Their clocks differ, and
//! some processes crash. They use one store without transactions that loses, delays and repeats requests. A
//! seed determines all of this.
//!
//! At the end, the simulation checks the following:
//!
//! - Each confirmed message is resolved.
//! - No message was received after its acknowledgment was durable.
//! - No two messages with the same deduplication id were received.
//! - Only open segments remain.
//!
//! `RECTO_TEST_SEED=…` repeats one seed step by step. `RECTO_TEST_SCALE=20` runs twenty times as many seeds.

mod clock;
mod history;
mod process;
mod world;

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::runtime::Builder;

use world::{Broken, run};

const SEED_VARIABLE: &str = "RECTO_TEST_SEED";
const SCALE_VARIABLE: &str = "RECTO_TEST_SCALE";
/// Number of seeds in the set of tests that runs on each push.
const SEEDS: u64 = 30;
/// Number of seeds in the set of slow tests.
const SLOW_SEEDS: u64 = 250;
/// Maximum number of seeds that the simulation needs to find a broken guarantee of the store.
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
fn each_confirmed_message_is_done_with_when_all_is_over() {
    run_seeds(SEEDS);
}

#[test]
#[ignore = "slow: 250 seeds take minutes"]
fn each_confirmed_message_is_handled_with_many_seeds() {
    run_seeds(SLOW_SEEDS);
}

/// Runs the seed in `RECTO_TEST_SEED`, or otherwise `count` seeds multiplied by `RECTO_TEST_SCALE`.
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
                    if let Err(wrong) = in_virtual_time(seed, None) {
                        panic!("seed {seed}: {wrong}\n{SEED_VARIABLE}={seed} runs it again");
                    }
                }
            });
        }
    });
}

#[test]
fn a_seed_replays_exactly() {
    for seed in 0..5 {
        assert_eq!(in_virtual_time(seed, None), in_virtual_time(seed, None));
    }
}

/// Checks that the simulation reports an error if the store breaks a guarantee that the protocol needs.
fn notices(broken: Broken, says: &str) {
    for seed in 0..MAX_SEEDS_TO_NOTICE {
        if let Err(wrong) = in_virtual_time(seed, Some(broken))
            && wrong.contains(says)
        {
            println!("{broken:?} with seed {seed}: {wrong}");
            return;
        }
    }
    panic!("{broken:?} is not noticed with {MAX_SEEDS_TO_NOTICE} seeds");
}

#[test]
fn conditions_that_are_not_looked_at_are_noticed() {
    notices(Broken::Conditions, "");
}

#[test]
fn acknowledgements_that_are_not_written_are_noticed() {
    notices(Broken::States, "after its acknowledgement");
}

#[test]
fn bodies_that_are_not_written_are_noticed() {
    notices(Broken::Bodies, "");
}

#[test]
fn tables_that_are_emptied_twice_are_noticed() {
    notices(Broken::Emptying, "");
}
