//! Tests of pages of views. Some tests use views that Recto maintains. Other tests use a store in
//! memory without transactions, in which views and base tables can disagree while records change.
//! These tests bring base rows and entries into the states in which writers may leave them.
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

/// Schema of suspensions of users. Its view lists them by status, newest first, and has all fields.
const SCHEMA: &str = r#"
[collection.suspensions]
fields = { id = "int", status = "text", day = "int", reason = "text", note = "text" }
key = ["id"]

[collection.suspensions.view.by_status]
partition = ["status"]
order = ["-day"]
"#;

/// Returns a store in memory that behaves like a remote store: each read returns the writes up to
/// that moment.
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
