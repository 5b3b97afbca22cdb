//! The conformance suite of the storage interface, on a real Cassandra.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use recto_cassandra::CassandraStore;
use recto_store::Store;
use recto_store::conformance::Bench;
use tokio::sync::OnceCell;

use crate::common::Keyspace;

static KEYSPACE: Keyspace = Keyspace::new();

/// Store that the tests of the suite share. `reopen` replaces it by a store with a new connection.
#[derive(Clone)]
struct Cassandra {
    store: Arc<Mutex<Arc<CassandraStore>>>,
}

async fn bench() -> Cassandra {
    static BENCH: OnceCell<Cassandra> = OnceCell::const_new();
    BENCH
        .get_or_init(|| async {
            Cassandra {
                store: Arc::new(Mutex::new(KEYSPACE.store().await)),
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
        let store = KEYSPACE.store().await;
        *self.store.lock().unwrap() = Arc::clone(&store);
        store
    }
}

recto_store::conformance_suite!(bench());
