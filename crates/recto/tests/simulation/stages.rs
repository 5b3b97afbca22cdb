//! What a change costs: how many requests, and how many one after the other.

use std::sync::Arc;
use std::time::Duration;

use recto::schema::Schema;
use recto::store::Store;
use recto::store::memory::MemoryStore;
use recto::{Environment, OpenOptions, Recto};
use tokio::time::{Instant, sleep};

use crate::clock::{Clock, Clocks};
use crate::gate::Gate;
use crate::records::{self, COLLECTION, Fields, Tables};
use crate::world::LIMITS;

/// How long a request takes, there or back.
const WAY: Duration = Duration::from_millis(50);
const TIME: Duration = Duration::from_secs(10);

/// Requests until the answer, requests after it, and how many stages were waited for.
async fn cost(recto: &Recto, gate: &Gate, asked: records::Asked) -> (u64, u64, u128) {
    let (before, begun) = (gate.requests(), Instant::now());
    recto
        .change_record(COLLECTION, records::key(1), asked, TIME)
        .await
        .unwrap()
        .unwrap();
    let (answered, took) = (gate.requests(), begun.elapsed());
    sleep(2 * WAY + WAY).await;
    let stages = took.as_millis() / (2 * WAY.as_millis());
    (answered - before, gate.requests() - answered, stages)
}

/// The intent beside the reading of the row, the conditional write, the entries side by side; and the mark, for which
/// nobody waits.
pub(crate) async fn three_stages() {
    let clock = Arc::new(Clock::new(Instant::now(), 0, 0));
    let environment = Environment::new(Clocks(clock));
    let memory: Arc<dyn Store> = Arc::new(MemoryStore::with_limits(environment.clone(), LIMITS));
    let tables = Tables::new();
    for table in tables.all() {
        memory.create_table(&table).await.unwrap();
    }
    let gate = Gate::steady(memory, WAY);
    let options = OpenOptions::new().environment(environment);
    let recto = Recto::with_store(Arc::new(gate.clone()), options).await.unwrap();
    recto.apply(&Schema::default()).await.unwrap();
    recto.assume((*tables.schema).clone());
    let fields = |status, at, note| Fields {
        status: Some(status),
        at: Some(at),
        log: String::new(),
        note: Some(note),
    };
    // The first one registers the process, which then renews and sweeps every five seconds.
    recto
        .change_record(COLLECTION, records::key(0), records::delete(), TIME)
        .await
        .unwrap()
        .unwrap();
    sleep(Duration::from_secs(3)).await;
    // Row, intent, conditional write, an entry in each view.
    let insert = records::insert(1, &fields(0, 0, 0));
    assert_eq!(cost(&recto, &gate, insert).await, (5, 1, 3));
    // Out of one partition and into another of both views.
    let moves = records::move_to(Some(1), Some(1), Some(1));
    assert_eq!(cost(&recto, &gate, moves).await, (7, 1, 3));
    // Within a partition: what goes and what comes is one request for each view.
    let moves = records::move_to(Some(1), Some(2), Some(1));
    assert_eq!(cost(&recto, &gate, moves).await, (5, 1, 3));
}
