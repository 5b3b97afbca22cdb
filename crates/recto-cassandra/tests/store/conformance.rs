//! The suite every store passes, on a real Cassandra.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use recto_cassandra::CassandraStore;
use recto_store::Store;
use recto_store::conformance::Bench;
use tokio::sync::OnceCell;

/// One connection for all behaviours; another after `reopen`.
#[derive(Clone)]
struct Cassandra {
    store: Arc<Mutex<Arc<CassandraStore>>>,
}

async fn bench() -> Cassandra {
    static BENCH: OnceCell<Cassandra> = OnceCell::const_new();
    BENCH
        .get_or_init(|| async {
            Cassandra {
                store: Arc::new(Mutex::new(common::store().await)),
            }
        })
        .await
        .clone()
}

#[async_trait]
impl Bench for Cassandra {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&*self.store.lock().unwrap()) as Arc<dyn Store>
    }

    async fn reopen(&self) -> Arc<dyn Store> {
        let store = common::store().await;
        *self.store.lock().unwrap() = Arc::clone(&store);
        store
    }
}

recto_store::conformance_suite!(bench());
