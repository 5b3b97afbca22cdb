//! Checks the cost of a change: the number of requests, and the number of sequential stages.

use std::sync::Arc;
use std::time::Duration;

use recto::store::Store;
use recto::store::memory::MemoryStore;
use recto::{Environment, OpenOptions, Recto};
use tokio::time::{Instant, sleep};

use super::clock::{Clock, Clocks};
use super::gate::Gate;
use super::records::{ChangeEffect, Fields, Place, RecordChange, Tables};
use super::world::LIMITS;

/// Time that a request or an answer takes between the process and the store.
const WAY: Duration = Duration::from_millis(50);

/// Executes a change. Returns the number of requests before its answer, the number of requests
/// after it, and the number of sequential stages.
async fn cost(recto: &Recto, gate: &Gate, asked: RecordChange) -> (u64, u64, u128) {
    let (before, begun) = (gate.requests(), Instant::now());
    asked.ask(recto).await.unwrap();
    let (answered, took) = (gate.requests(), begun.elapsed());
    sleep(2 * WAY + WAY).await;
    let stages = took.as_millis() / (2 * WAY.as_millis());
    (answered - before, gate.requests() - answered, stages)
}

/// Checks that a change has three sequential stages: the intent and the read of the row, then the
/// conditional write, then all entries. The change does not wait for the mark of completion that
/// follows.
pub(crate) async fn three_stages() {
    let clock = Arc::new(Clock::new(Instant::now(), 0, 0));
    let environment = Environment::new(Clocks(clock));
    let memory: Arc<dyn Store> = Arc::new(MemoryStore::with_limits(environment.clone(), LIMITS));
    let options = OpenOptions::new().environment(environment);
    let first = Recto::with_store(Arc::clone(&memory), options.clone());
    let first = first.await.unwrap();
    first.apply(&Tables::new(false).schema).await.unwrap();
    first.close().await.unwrap();
    let gate = Gate::steady(memory, WAY);
    let recto = Recto::with_store(Arc::new(gate.clone()), options).await.unwrap();
    // The first change registers the process, which then renews its lease and recovers every five
    // seconds.
    let first = RecordChange::new(0, ChangeEffect::Deleted);
    first.ask(&recto).await.unwrap();
    sleep(Duration::from_secs(3)).await;
    let place = |status, at, note| Place {
        status: Some(status),
        at: Some(at),
        note: Some(note),
    };
    let moves = |status, at, note| RecordChange::new(1, ChangeEffect::Moved(place(status, at, note)));
    // An insert sends five requests: it reads the row, notes the intent, writes conditionally, and
    // writes an entry in each view.
    let inserts = RecordChange::new(1, ChangeEffect::Inserted(Fields::at(place(0, 0, 0))));
    assert_eq!(cost(&recto, &gate, inserts).await, (5, 1, 3));
    // The record moves from one partition to another in both views, so each view
    // needs two requests.
    assert_eq!(cost(&recto, &gate, moves(1, 1, 1)).await, (7, 1, 3));
    // The record moves within a partition, so the old and the new entry are one
    // request for each view.
    assert_eq!(cost(&recto, &gate, moves(1, 2, 1)).await, (5, 1, 3));
    // Wait, so that the next requests fall between two renewals of the registration.
    sleep(Duration::from_secs(3)).await;
    // The change claims a unique value before the conditional write, by one more request. Later
    // changes of the record keep this claim.
    let handle = Some(1);
    let named = ChangeEffect::Inserted(Fields {
        handle,
        ..Fields::at(place(0, 0, 0))
    });
    assert_eq!(cost(&recto, &gate, RecordChange::new(2, named)).await, (6, 1, 4));
    assert_eq!(
        cost(
            &recto,
            &gate,
            RecordChange::new(2, ChangeEffect::Moved(place(0, 1, 0)))
        )
        .await,
        (5, 1, 3)
    );
    // The deletion releases the claim of the unique value concurrently with the
    // writes of the entries.
    let deletion = RecordChange::new(2, ChangeEffect::Deleted);
    assert_eq!(cost(&recto, &gate, deletion).await, (6, 1, 3));
}
