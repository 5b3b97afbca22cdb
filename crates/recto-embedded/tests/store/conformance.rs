//! Runs the conformance suite of the storage interface on the embedded store.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use recto_embedded::{EmbeddedOptions, EmbeddedStore};
use recto_model::Environment;
use recto_store::Store;
use recto_store::conformance::Bench;
use tempfile::TempDir;

struct Embedded {
    directory: TempDir,
    store: Mutex<Option<Arc<EmbeddedStore>>>,
}

impl Embedded {
    fn open(&self) -> Arc<EmbeddedStore> {
        let path = self.directory.path().join("store");
        EmbeddedStore::open(path, EmbeddedOptions::default(), Environment::system()).unwrap()
    }
}

fn bench() -> Embedded {
    let bench = Embedded {
        directory: tempfile::tempdir().unwrap(),
        store: Mutex::new(None),
    };
    let store = bench.open();
    *bench.store.lock().unwrap() = Some(store);
    bench
}

#[async_trait]
impl Bench for Embedded {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(self.store.lock().unwrap().as_ref().unwrap()) as Arc<dyn Store>
    }

    async fn reopen(&self) -> Arc<dyn Store> {
        drop(self.store.lock().unwrap().take());
        let store = self.open();
        *self.store.lock().unwrap() = Some(Arc::clone(&store));
        store
    }
}

recto_store::conformance_suite!(std::future::ready(bench()));
