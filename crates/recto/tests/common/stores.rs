//! Stores for tests: one store of each kind that the tests of a suite share, and new stores for
//! tests that change the schema.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use recto::schema::Schema;
use recto::store::memory::{DEFAULT_LIMITS, MemoryStore};
use recto::store::{Limits, StoreError};
use recto::{CassandraAddress, Environment, OpenOptions, Recto, StoreAddress};
use recto_cassandra::{CassandraConfig, drop_keyspace};
use recto_testkit::rig::{Cluster, Scratch, unique_keyspace};
use tokio::sync::OnceCell;

/// Kind of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Embedded,
    Cassandra,
}

/// Returns the kind of an open store.
pub(crate) fn kind_of(recto: &Recto) -> Kind {
    if recto.describe().starts_with("cassandra") {
        Kind::Cassandra
    } else {
        Kind::Embedded
    }
}

/// Returns a new store in memory. With transactions, it behaves like the embedded store, and
/// without transactions like Cassandra.
pub(crate) async fn in_memory(transactions: bool) -> Recto {
    let limits = Limits {
        remote: !transactions,
        leaves_tombstones: !transactions,
        sees_conflicts: transactions,
        transactions,
        ..DEFAULT_LIMITS
    };
    let store = Arc::new(MemoryStore::with_limits(Environment::system(), limits));
    Recto::with_store(store, OpenOptions::new().create())
        .await
        .unwrap()
}

/// Parses a schema, and panics with its errors if it is invalid.
pub(crate) fn parse(text: &str) -> Schema {
    Schema::parse(text).unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}

/// Request timeout of tests. It is long, because many tests and starting Cassandra nodes share few
/// processors.
const PATIENCE: Duration = Duration::from_secs(60);

/// Address of a new store for one test. The store is created when the test opens it.
#[derive(Debug, Clone)]
pub(crate) struct Fresh {
    pub(crate) kind: Kind,
    pub(crate) address: StoreAddress,
}

impl Fresh {
    pub(crate) fn new(kind: Kind) -> Self {
        Self::named(kind, "recto_suite")
    }

    /// Returns an address whose folder or keyspace has the given prefix. Use another prefix than
    /// `recto_` for a keyspace that the test attaches, because Recto rejects that prefix.
    pub(crate) fn named(kind: Kind, prefix: &str) -> Self {
        let address = match kind {
            Kind::Embedded => {
                let name = unique_keyspace(prefix);
                StoreAddress::Embedded(scratch().folder().unwrap().join(name))
            }
            Kind::Cassandra => {
                let cassandra = Cluster::shared().expect("tests need a Cassandra");
                let name = scratch().keyspace(prefix).unwrap();
                let hosts = vec![cassandra.address().to_owned()];
                let mut address = CassandraAddress::new(hosts, name);
                address.connect_timeout = Some(PATIENCE);
                address.request_timeout = Some(PATIENCE);
                StoreAddress::Cassandra(Box::new(address))
            }
        };
        Self { kind, address }
    }

    pub(crate) async fn open(&self) -> Recto {
        self.open_with(OpenOptions::new()).await
    }

    pub(crate) async fn open_with(&self, options: OpenOptions) -> Recto {
        Recto::open_with(&self.address, options.create()).await.unwrap()
    }
}

/// Test suite: the tests of a module, which create stores. The last test to end removes the stores.
/// If some tests were not run, the next run of the suite removes them.
pub(crate) struct Suite {
    /// Path of the module, which is the name of the suite.
    name: &'static str,
    /// Number of tests of the module, to know which test is the last.
    tests: usize,
    running: AtomicUsize,
    ended: AtomicUsize,
    embedded: OnceCell<Recto>,
    cassandra: OnceCell<Recto>,
}

thread_local! {
    /// Suite of the test that runs on the current thread.
    static SUITE: Cell<Option<&'static Suite>> = const { Cell::new(None) };
}

impl Suite {
    /// Returns the suite of a module that has `tests` tests.
    pub(crate) const fn new(name: &'static str, tests: usize) -> Self {
        Self {
            name,
            tests,
            running: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            embedded: OnceCell::const_new(),
            cassandra: OnceCell::const_new(),
        }
    }

    /// Returns the store of the given kind that the tests of the suite share. The first call
    /// creates it with the schema `schema`.
    pub(crate) async fn shared(&self, kind: Kind, schema: &str) -> Recto {
        let cell = match kind {
            Kind::Embedded => &self.embedded,
            Kind::Cassandra => &self.cassandra,
        };
        cell.get_or_init(|| async {
            let recto = Fresh::new(kind).open().await;
            recto.apply(&parse(schema)).await.unwrap();
            recto
        })
        .await
        .clone()
    }

    /// Returns the folder in which only the tests of the suite have their stores.
    fn scratch(&self) -> Scratch {
        Scratch::new(Path::new(FOLDER).join(self.name.replace("::", "-")))
    }

    /// Removes the stores of the suite's tests, and stores that ended processes left behind.
    async fn remove_all(&self) {
        for shared in [&self.embedded, &self.cassandra]
            .into_iter()
            .filter_map(OnceCell::get)
        {
            if let Err(error) = shared.close().await {
                println!("a shared store was not closed: {error}");
            }
        }
        let removed = match self.scratch().remove_all(remove_keyspace).await {
            Ok(()) => Scratch::new(FOLDER).remove_left(remove_keyspace).await,
            failed => failed,
        };
        if let Err(error) = removed {
            println!("keyspaces are still there: {error}");
        }
    }
}

/// Guard that exists while a test runs. Stores that the test creates belong to the guard's suite.
pub(crate) struct Scope(&'static Suite);

impl Scope {
    pub(crate) fn new(suite: &'static Suite) -> Self {
        suite.running.fetch_add(1, Ordering::SeqCst);
        SUITE.set(Some(suite));
        Self(suite)
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        SUITE.set(None);
        self.0.ended.fetch_add(1, Ordering::SeqCst);
        // If the suite's stated number of tests is too small, other tests may still run. Remove the
        // stores only when none runs.
        let is_last = self.0.running.fetch_sub(1, Ordering::SeqCst) == 1;
        if is_last && self.0.ended.load(Ordering::SeqCst) >= self.0.tests {
            super::run(self.0.remove_all());
        }
    }
}

const FOLDER: &str = env!("CARGO_TARGET_TMPDIR");

/// Returns the folder for the stores of the running test: the folder of its suite or, without a
/// suite, a folder that a later process empties.
fn scratch() -> Scratch {
    SUITE.get().map_or_else(|| Scratch::new(FOLDER), Suite::scratch)
}

async fn remove_keyspace(keyspace: String) -> Result<(), StoreError> {
    let cassandra = Cluster::shared().expect("a keyspace was made, so there is a Cassandra");
    let config = CassandraConfig::new([cassandra.address()], keyspace);
    drop_keyspace(config, Environment::system()).await
}
