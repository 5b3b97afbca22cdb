//! Tests on three real Cassandra nodes with three copies of each row, at the consistency level
//! `LOCAL_QUORUM`. In one test, one node at a time is killed or paused. In another, two nodes are
//! killed. At the same time, the tests read pages and write rows through the public crate.
//!
//! Each page must have only states that it may show. At the end, every acknowledged write must be
//! stored, at `LOCAL_QUORUM` and at `ALL`. The environment variable `RECTO_TEST_SEED` repeats the
//! faults and requests of a run, but it cannot repeat the behavior of the nodes.

mod data;
mod history;
mod one_down;
mod reader;
mod two_down;
mod writer;

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the seed for random values: the value of the environment variable `RECTO_TEST_SEED`, or
/// a new seed. Prints the seed, so that a failed run can be repeated.
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
