//! Tests of pages of views. Some tests use views that Recto maintains on an embedded store. Other
//! tests use a store in memory without transactions, in which views can disagree with base rows.
//! These tests write base rows and rows of views separately, in every state in which a writer may
//! leave them.
#![allow(clippy::cast_possible_wrap)]

mod intersected;
mod kept;
mod moves;
mod pages;
mod planted;
mod present;

use std::future::Future;
use std::sync::Arc;

use recto::Environment;
use recto::store::{Limits, Store};
use recto_store::memory::{DEFAULT_LIMITS, MemoryStore};

/// Schema of suspensions of users. The view `by_status` has all fields, and lists the suspensions
/// with the same status from the newest to the oldest.
const SCHEMA: &str = r#"
[collection.suspensions]
fields = { id = "int", status = "text", day = "int", reason = "text", note = "text" }
key = ["id"]

[collection.suspensions.view.by_status]
partition = ["status"]
order = ["-day"]
"#;

/// Returns a store in memory that behaves like a remote store. Each read returns the newest writes,
/// because there are no snapshots of earlier states.
fn store() -> Arc<dyn Store> {
    let limits = Limits {
        remote: true,
        leaves_tombstones: true,
        sees_conflicts: false,
        transactions: false,
        ..DEFAULT_LIMITS
    };
    Arc::new(MemoryStore::with_limits(Environment::system(), limits))
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(test);
}
