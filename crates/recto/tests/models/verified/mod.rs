//! Pages of views: of those that the product keeps, and of records that change where no transaction keeps views as their
//! base tables are: on a store in memory that has none, in which the tests leave base rows and entries as writers may
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

/// Users by status, the newest first; all of a user that one may ask for.
const SCHEMA: &str = r#"
[collection.suspensions]
fields = { id = "int", status = "text", day = "int", reason = "text", note = "text" }
key = ["id"]

[collection.suspensions.view.by_status]
partition = ["status"]
order = ["-day"]
"#;

/// A store that is like one at the end of a network: each read sees what was written meanwhile.
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
