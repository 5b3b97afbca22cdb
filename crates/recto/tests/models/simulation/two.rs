//! Two simulated processes on one store: one applies schemas, and the other writes records. Tests
//! may freeze the writing process during a request.

use std::sync::Arc;
use std::time::Duration;

use recto::schema::Schema;
use recto::store::Store;
use recto::store::memory::MemoryStore;
use recto::{Environment, OpenOptions, Recto};
use tokio::time::Instant;

use super::broken::{Broken, BrokenStore};
use super::clock::{Clock, Clocks};
use super::gate::Gate;
use super::world::LIMITS;

/// Time that a request of the writing process needs to reach the store, and that its answer needs
/// to come back.
const WAY: Duration = Duration::from_millis(10);

pub(crate) struct Two {
    pub(crate) memory: Arc<dyn Store>,
    /// Process that applies schemas. Its store may break one of the promises that Recto relies on.
    pub(crate) applies: Recto,
    pub(crate) writes: Recto,
    /// Connection between the writing process and the store. While it is closed, the process is
    /// frozen.
    pub(crate) gate: Gate,
}

impl Two {
    pub(crate) async fn open(schema: &Schema, broken: Option<Broken>) -> Self {
        let clock = Arc::new(Clock::new(Instant::now(), 0, 1));
        let environment = Environment::new(Clocks(Arc::clone(&clock)));
        let options = OpenOptions::new().environment(environment.clone());
        let memory: Arc<dyn Store> = Arc::new(MemoryStore::with_limits(environment, LIMITS));
        let open = |store: Arc<dyn Store>| Recto::with_store(store, options.clone());
        let store = match broken {
            Some(broken) => Arc::new(BrokenStore::new(Arc::clone(&memory), broken, &clock)) as Arc<dyn Store>,
            None => Arc::clone(&memory),
        };
        let applies = open(store).await.unwrap();
        applies.apply(schema).await.unwrap();
        let gate = Gate::steady(Arc::clone(&memory), WAY);
        let writes = open(Arc::new(gate.clone())).await.unwrap();
        Self {
            memory,
            applies,
            writes,
            gate,
        }
    }
}
