//! Tests of the number of requests of a change of a record, and of the number of its sequential
//! stages.

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

/// Time that a request needs to reach the store, and that its answer needs to come back.
const WAY: Duration = Duration::from_millis(50);

/// Executes a change of a record. Returns three numbers: its requests before the answer to the
/// client, its requests after the answer, and its sequential stages.
async fn cost(recto: &Recto, gate: &Gate, asked: RecordChange) -> (u64, u64, u128) {
    let (before, begun) = (gate.requests(), Instant::now());
    asked.ask(recto).await.unwrap();
    let (answered, took) = (gate.requests(), begun.elapsed());
    sleep(2 * WAY + WAY).await;
    let stages = took.as_millis() / (2 * WAY.as_millis());
    (answered - before, gate.requests() - answered, stages)
}

/// Checks that a change of a record has three sequential stages. First, it writes the intent
/// (record of a change in progress) and reads the base row. It next executes the conditional write
/// of the base row, and finally updates all rows of views. The change is answered before its intent
/// is marked as complete.
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
    // The first change registers the process. A registered process renews its lease and recovers
    // the changes of other processes every five seconds.
    let first = RecordChange::new(0, ChangeEffect::Deleted);
    first.ask(&recto).await.unwrap();
    sleep(Duration::from_secs(3)).await;
    let place = |status, at, note| Place {
        status: Some(status),
        at: Some(at),
        note: Some(note),
    };
    let moves = |status, at, note| RecordChange::new(1, ChangeEffect::Moved(place(status, at, note)));
    // Five requests before the answer: the read of the base row, the write of the intent, the
    // conditional write, and the write of one row in each of two views.
    let inserts = RecordChange::new(1, ChangeEffect::Inserted(Fields::at(place(0, 0, 0))));
    assert_eq!(cost(&recto, &gate, inserts).await, (5, 1, 3));
    // In each of the two views, the row of the record moves to another partition, so each view
    // needs two requests.
    assert_eq!(cost(&recto, &gate, moves(1, 1, 1)).await, (7, 1, 3));
    // In each of the two views, the row of the record moves within its partition, so each view
    // needs only one request for the old and the new row.
    assert_eq!(cost(&recto, &gate, moves(1, 2, 1)).await, (5, 1, 3));
    // Wait, so that the requests of the next changes fall between two renewals of the process's
    // lease.
    sleep(Duration::from_secs(3)).await;
    // Before the conditional write, the change reserves a unique value (claim), which needs one
    // more request. Later changes of this record keep the claim.
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
    // The deletion releases the claim (reservation of a unique value) while it deletes the rows in
    // the views, so it has no additional stage.
    let deletion = RecordChange::new(2, ChangeEffect::Deleted);
    assert_eq!(cost(&recto, &gate, deletion).await, (6, 1, 3));
}
