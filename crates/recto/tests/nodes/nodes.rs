//! Cluster of three Cassandra nodes that the tests of this program share. Only one test uses it at
//! a time.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use recto::{CassandraAddress, OpenOptions, Recto, StoreAddress};
use recto_testkit::rig::{Cluster, ClusterOptions, Nodes, unique_keyspace};

/// Prefix of the name of a cluster's folder. The id of the process that started the cluster
/// follows.
const FOLDER: &str = "three-nodes-";

static CLUSTER: Mutex<Option<Cluster>> = Mutex::new(None);
/// Number of tests that use the shared cluster. All of them are slow.
const LEASES: usize = 7;
/// Number of tests that have not used the shared cluster yet. The last test stops the nodes. If
/// only some tests run, the nodes stop when the process ends.
static LEFT: AtomicUsize = AtomicUsize::new(LEASES);

/// Exclusive access of one test to the shared cluster. All nodes are up when a test gets it.
pub(crate) struct Lease(MutexGuard<'static, Option<Cluster>>);

impl Lease {
    pub(crate) fn new() -> Self {
        let mut held = CLUSTER.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cluster) = held.as_ref() {
            // A failed test may have left paused or killed nodes, so resume and start all nodes.
            for node in cluster.nodes() {
                node.resume().unwrap();
                node.start().unwrap();
            }
            cluster.wait_until_all_up().unwrap();
        } else {
            remove_left_behind();
            let begun = Instant::now();
            let options = ClusterOptions::new(Nodes::Three).heap("512M");
            *held = Some(Cluster::start_with(&options, folder(std::process::id())).unwrap());
            println!("three nodes run after {:.1?}", begun.elapsed());
        }
        Self(held)
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        self.0.as_ref().expect("it was started")
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if LEFT.fetch_sub(1, Ordering::SeqCst) == 1 {
            drop(self.0.take());
            remove_left_behind();
        }
    }
}

fn folder(process: u32) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{FOLDER}{process}"))
}

/// Removes the folders of clusters whose processes have ended, and of the cluster of this process.
fn remove_left_behind() {
    for entry in std::fs::read_dir(env!("CARGO_TARGET_TMPDIR")).unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(process) = name.strip_prefix(FOLDER) else {
            continue;
        };
        let is_own = process == std::process::id().to_string();
        if is_own || !Path::new("/proc").join(process).exists() {
            // Ignore errors, because another process may remove the same folder concurrently.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns the address of a new keyspace on the nodes of `cluster`. Opening a store at this address
/// creates the keyspace.
pub(crate) fn address(cluster: &Cluster) -> CassandraAddress {
    CassandraAddress::new(cluster.addresses(), unique_keyspace("three"))
}

pub(crate) async fn open(address: &CassandraAddress) -> recto::Result<Recto> {
    let address = StoreAddress::Cassandra(Box::new(address.clone()));
    Recto::open_with(&address, OpenOptions::new().create()).await
}
