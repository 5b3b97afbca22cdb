//! Tests of three real Cassandra nodes with three copies of each row, at the consistency level
//! `LOCAL_QUORUM`. One node is killed, one is paused, and two are killed, while the tests read
//! pages and write rows through the public crate. All nodes are restarted later.
//!
//! The tests compare each page with the states that it may show. At the end, every acknowledged
//! write is stored, at `LOCAL_QUORUM` and at `ALL`. `RECTO_TEST_SEED` repeats the faults and
//! requests of a seed. It cannot repeat the behavior of the nodes themselves.

mod data;
mod history;
mod one_down;
mod reader;
mod two_down;
mod writer;

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the seed for random values: the value of the environment variable `RECTO_TEST_SEED`, or
/// a new seed. Prints the seed, so that a failure can be repeated.
fn seed() -> u64 {
    let given = std::env::var("RECTO_TEST_SEED").ok();
    let seed = given.and_then(|text| text.parse().ok()).unwrap_or_else(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_nanos() % u128::from(u64::MAX)).unwrap_or_default()
    });
    println!("RECTO_TEST_SEED={seed}");
    seed
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .unwrap()
}
