//! Store wrapper that delays the creation of tables until the test allows it.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use recto_model::Table;
use recto_store::wrapper::StoreWrapper;
use recto_store::{Store, StoreError, TableOutcome};
use tokio::sync::Semaphore;

pub(crate) struct Gate {
    inner: Arc<dyn Store>,
    /// Semaphore that gets a permit whenever a process is about to create a table. The test waits
    /// for it.
    pub(crate) arrived: Semaphore,
    pub(crate) open: Semaphore,
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gate")
    }
}

impl Gate {
    pub(crate) fn new(inner: &Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            inner: Arc::clone(inner),
            arrived: Semaphore::new(0),
            open: Semaphore::new(0),
        })
    }
}

#[async_trait]
impl StoreWrapper for Gate {
    fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    async fn on_create_table(&self, table: &Table) -> Result<TableOutcome, StoreError> {
        if table.name() != "recto_catalog" {
            self.arrived.add_permits(1);
            self.open.acquire().await.unwrap().forget();
        }
        self.inner.create_table(table).await
    }
}
