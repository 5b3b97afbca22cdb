//! The two stores: one of each kind that all tests of a binary share, and fresh ones for tests that
//! change the schema.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use recto::schema::Schema;
use recto::store::Limits;
use recto::store::memory::{DEFAULT_LIMITS, MemoryStore};
use recto::{CassandraAddress, Environment, OpenOptions, Recto, StoreAddress};
use recto_cassandra::{CassandraConfig, drop_keyspace};
use recto_testkit::rig::{Cluster, Scratch, unique_keyspace};
use tokio::sync::OnceCell;

/// A kind of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Embedded,
    Cassandra,
}

static EMBEDDED: OnceCell<Recto> = OnceCell::const_new();
static CASSANDRA: OnceCell<Recto> = OnceCell::const_new();

/// The store of a kind that this binary's tests share, holding `schema`.
pub(crate) async fn shared(kind: Kind, schema: &str) -> Recto {
    let cell = match kind {
        Kind::Embedded => &EMBEDDED,
        Kind::Cassandra => &CASSANDRA,
    };
    cell.get_or_init(|| async {
        let recto = Fresh::new(kind).open().await;
        recto.apply(&parse(schema)).await.unwrap();
        recto
    })
    .await
    .clone()
}

/// The kind of an open store.
pub(crate) fn kind_of(recto: &Recto) -> Kind {
    if recto.describe().starts_with("cassandra") {
        Kind::Cassandra
    } else {
        Kind::Embedded
    }
}

/// A new store in memory, with transactions as the embedded one, or without as Cassandra.
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

/// The schema that `text` declares.
pub(crate) fn parse(text: &str) -> Schema {
    Schema::parse(text).unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}

/// How long one call may take: tests run side by side, beside nodes that start, on as few processors as there are.
const PATIENCE: Duration = Duration::from_secs(60);

/// A store of a test's own: nothing is there until it is opened.
#[derive(Debug, Clone)]
pub(crate) struct Fresh {
    pub(crate) kind: Kind,
    pub(crate) address: StoreAddress,
}

impl Fresh {
    pub(crate) fn new(kind: Kind) -> Self {
        let address = match kind {
            Kind::Embedded => {
                let name = unique_keyspace("recto_suite");
                StoreAddress::Embedded(scratch().folder().unwrap().join(name))
            }
            Kind::Cassandra => {
                let cassandra = Cluster::shared().expect("tests need a Cassandra");
                let name = scratch().keyspace("recto_suite").unwrap();
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

fn scratch() -> Scratch {
    Scratch::new(env!("CARGO_TARGET_TMPDIR"))
}

/// Held by each test while it runs; with the last one's end, the stores go. Where some tests were
/// filtered out, the next run removes what this one leaves.
pub(crate) struct Scope(&'static AtomicUsize);

impl Scope {
    pub(crate) fn new(left: &'static AtomicUsize) -> Self {
        Self(left)
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        if self.0.fetch_sub(1, Ordering::SeqCst) == 1 {
            super::run(remove_all());
        }
    }
}

/// Removes the stores of this process and of processes that are gone.
async fn remove_all() {
    let drop_keyspace = async |keyspace: String| {
        let cassandra = Cluster::shared().expect("a keyspace was made, so there is a Cassandra");
        drop_keyspace(
            CassandraConfig::new([cassandra.address()], keyspace),
            Environment::system(),
        )
        .await
    };
    if let Err(error) = scratch().remove_all(drop_keyspace).await {
        println!("keyspaces are still there: {error}");
    }
}
