//! The two stores, each shared by all tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use recto::schema::Schema;
use recto::{CassandraAddress, Environment, OpenOptions, Recto, StoreAddress};
use recto_cassandra::{CassandraConfig, drop_keyspace};
use recto_testkit::rig::{Cluster, unique_keyspace};
use tokio::sync::OnceCell;

const SCHEMA: &str = include_str!("../schema.toml");

/// A kind of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Embedded,
    Cassandra,
}

static EMBEDDED: OnceCell<Recto> = OnceCell::const_new();
static CASSANDRA: OnceCell<Recto> = OnceCell::const_new();

/// The store of a kind, holding the suite's schema.
pub(crate) async fn shared(kind: Kind) -> Recto {
    let cell = match kind {
        Kind::Embedded => &EMBEDDED,
        Kind::Cassandra => &CASSANDRA,
    };
    cell.get_or_init(|| open(kind)).await.clone()
}

async fn open(kind: Kind) -> Recto {
    let name = unique_keyspace("recto_http");
    let address = match kind {
        Kind::Embedded => StoreAddress::Embedded(own_folder().join("stores").join(name)),
        Kind::Cassandra => {
            let cassandra = Cluster::shared().expect("tests need a Cassandra");
            fs::write(own_folder().join("keyspaces").join(&name), b"").unwrap();
            let hosts = vec![cassandra.address().to_owned()];
            StoreAddress::Cassandra(Box::new(CassandraAddress::new(hosts, name)))
        }
    };
    let mut recto = Recto::open_with(&address, OpenOptions::new().create())
        .await
        .unwrap();
    recto.apply(&Schema::parse(SCHEMA).unwrap()).await.unwrap();
    recto
}

/// Where this process keeps its embedded store, and one empty file per keyspace it made.
fn own_folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("recto-http-{}", std::process::id()));
    fs::create_dir_all(folder.join("keyspaces")).unwrap();
    fs::create_dir_all(folder.join("stores")).unwrap();
    folder
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
    for entry in fs::read_dir(env!("CARGO_TARGET_TMPDIR")).unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(process) = name.strip_prefix("recto-http-") else {
            continue;
        };
        let is_own = process == std::process::id().to_string();
        if !is_own && Path::new("/proc").join(process).exists() {
            continue;
        }
        let keyspaces = fs::read_dir(entry.path().join("keyspaces"));
        for keyspace in keyspaces.into_iter().flatten().flatten() {
            let cassandra = Cluster::shared().expect("a keyspace was made, so there is a Cassandra");
            let config = CassandraConfig::new(
                [cassandra.address()],
                keyspace.file_name().to_string_lossy().into_owned(),
            );
            if let Err(error) = drop_keyspace(config, Environment::system()).await {
                println!("{keyspace:?} is still there: {error}");
                return;
            }
        }
        // Another process may be removing the same; what is left goes next time.
        let _ = fs::remove_dir_all(entry.path());
    }
}
