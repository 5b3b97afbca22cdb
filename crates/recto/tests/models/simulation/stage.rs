//! Environment of a simulation with one store, in which processes run one after another.

use std::sync::Arc;

use recto::store::Store;
use recto::store::memory::MemoryStore;
use recto::{Environment, OpenOptions, Recto};
use tokio::time::{Instant, sleep};

use super::check::Checked;
use super::clock::{Clock, Clocks};
use super::history::History;
use super::records::Tables;
use super::world::{LATER_MICROS, LIMITS, RECOVERING};

/// Store in memory with a clock that all simulated processes share.
pub(crate) struct Stage {
    clock: Arc<Clock>,
    pub(crate) memory: Arc<dyn Store>,
    tables: Tables,
    pub(crate) history: History,
}

impl Stage {
    pub(crate) async fn new() -> Self {
        let clock = Arc::new(Clock::new(Instant::now(), 0, 1));
        let environment = Environment::new(Clocks(Arc::clone(&clock)));
        let memory: Arc<dyn Store> = Arc::new(MemoryStore::with_limits(environment, LIMITS));
        let stage = Self {
            clock,
            memory,
            tables: Tables::new(false),
            history: History::default(),
        };
        let first = stage.open(&stage.memory).await;
        first.apply(&stage.tables.schema).await.unwrap();
        first.close().await.unwrap();
        stage
    }

    pub(crate) async fn open(&self, store: &Arc<dyn Store>) -> Recto {
        let environment = Environment::new(Clocks(Arc::clone(&self.clock)));
        let options = OpenOptions::new().environment(environment);
        Recto::with_store(Arc::clone(store), options).await.unwrap()
    }

    /// Returns the stored data and the history, to check them at the end.
    pub(crate) fn checked(&self) -> Checked<'_> {
        Checked {
            scanned: &*self.memory,
            store: &*self.memory,
            tables: &self.tables,
            history: &self.history,
        }
    }

    /// Finds dead processes, and resolves their changes in progress. Repeats it a day later, when
    /// their intents may be removed.
    pub(crate) async fn recover(&self, recto: &Recto) {
        for _ in 0..2 {
            recto.recover(|pass| !pass.is_done()).await.unwrap();
            self.clock.jump(LATER_MICROS);
            sleep(RECOVERING).await;
        }
    }
}
