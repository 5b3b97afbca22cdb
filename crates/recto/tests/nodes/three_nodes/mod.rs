//! Three real Cassandra nodes, three copies of each row, `LOCAL_QUORUM`: one killed, one paused, two
//! killed, and brought back, while pages are read and rows are written through the public crate.
//!
//! Each page is compared with what it may show; at the end every acknowledged write is there, at
//! `LOCAL_QUORUM` and at `ALL`. `RECTO_TEST_SEED` draws again what a seed drew, as far as faults and
//! requests go; what nodes do of themselves is not in its hands.

mod data;
mod history;
mod one_down;
mod reader;
mod two_down;
mod writer;

use std::time::{SystemTime, UNIX_EPOCH};

/// The seed to draw with: the environment's, or a new one. It is printed, for a failure.
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
