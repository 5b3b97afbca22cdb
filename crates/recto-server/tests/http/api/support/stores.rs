//! The embedded store and the Cassandra keyspace that all tests share.

use std::sync::atomic::{AtomicUsize, Ordering};

use recto::schema::Schema;
use recto::{CassandraAddress, Environment, OpenOptions, Recto, StoreAddress};
use recto_cassandra::{CassandraConfig, drop_keyspace};
use recto_testkit::rig::{Cluster, Scratch, unique_keyspace};
use tokio::sync::OnceCell;

const SCHEMA: &str = include_str!("../schema.toml");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Embedded,
    Cassandra,
}

static EMBEDDED: OnceCell<Recto> = OnceCell::const_new();
static CASSANDRA: OnceCell<Recto> = OnceCell::const_new();

/// Returns the shared store of the given kind, with the schema of the tests.
pub(crate) async fn shared(kind: Kind) -> Recto {
    let cell = match kind {
        Kind::Embedded => &EMBEDDED,
        Kind::Cassandra => &CASSANDRA,
    };
    cell.get_or_init(|| open(kind)).await.clone()
}

async fn open(kind: Kind) -> Recto {
    let address = match kind {
        Kind::Embedded => {
            let name = unique_keyspace("recto_http");
            StoreAddress::Embedded(scratch().folder().unwrap().join(name))
        }
        Kind::Cassandra => {
            let cassandra = Cluster::shared().expect("tests need a Cassandra");
            let name = scratch().keyspace("recto_http").unwrap();
            let hosts = vec![cassandra.address().to_owned()];
            StoreAddress::Cassandra(Box::new(CassandraAddress::new(hosts, name)))
        }
    };
    let recto = Recto::open_with(&address, OpenOptions::new().create())
        .await
        .unwrap();
    recto.apply(&Schema::parse(SCHEMA).unwrap()).await.unwrap();
    recto
}

fn scratch() -> Scratch {
    Scratch::new(env!("CARGO_TARGET_TMPDIR"))
}

/// Guard that each test holds while it runs. The drop of the last guard removes the stores. If some
/// tests were filtered out, the next test run removes the stores.
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

/// Removes the stores of the current process, and of processes that have ended.
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
