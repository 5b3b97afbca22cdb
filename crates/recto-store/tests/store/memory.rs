//! Runs the conformance suite on the reference store, with snapshots and as a remote store.

use std::future::{Ready, ready};
use std::sync::Arc;

use crate::common::{Clock, ClockBench};
use recto_store::Limits;
use recto_store::memory::{DEFAULT_LIMITS, MemoryStore};

fn bench(remote: bool) -> Ready<ClockBench> {
    let clock = Clock::new();
    let limits = Limits {
        remote,
        leaves_tombstones: remote,
        sees_conflicts: !remote,
        transactions: !remote,
        ..DEFAULT_LIMITS
    };
    let store = Arc::new(MemoryStore::with_limits(clock.environment(), limits));
    ready(ClockBench { clock, store })
}

mod snapshots {
    use super::bench;
    recto_store::conformance_suite!(bench(false));
}

mod remote {
    use super::bench;
    recto_store::conformance_suite!(bench(true));
}
