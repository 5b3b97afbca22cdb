//! Clusters of three nodes that tests of this program lease, each to one test at a time.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use recto::{CassandraAddress, OpenOptions, Recto, StoreAddress};
use recto_testkit::rig::{Cluster, ClusterOptions, Nodes, unique_keyspace};

use crate::{killed_writers, queues_on_nodes, three_nodes};

/// Prefix of the folders of clusters. The id of the process and the number of the cluster follow.
const FOLDER: &str = "three-nodes-";
/// Number of clusters. More would wait for the rig's permits.
const CLUSTERS: usize = 2;
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

static POOL: [Mutex<Option<Cluster>>; CLUSTERS] = [const { Mutex::new(None) }; CLUSTERS];
/// Number of tests that still need a cluster. The last one ends all clusters; if some tests are filtered out, the end of
/// the process does. Ignored tests are not counted: one that comes after the last starts a cluster again.
static LEFT: AtomicUsize =
    AtomicUsize::new(killed_writers::TESTS + queues_on_nodes::TESTS + three_nodes::TESTS);

/// A cluster for one test. All its nodes are up when the test begins.
pub(crate) struct Lease {
    number: usize,
    slot: MutexGuard<'static, Option<Cluster>>,
}

impl Lease {
    pub(crate) fn new() -> Self {
        loop {
            if let Some((number, slot)) = (0..)
                .zip(&POOL)
                .find_map(|(number, slot)| Some((number, try_lock(slot)?)))
            {
                return Self::ready(number, slot);
            }
            sleep(RETRY_INTERVAL);
        }
    }

    fn ready(number: usize, mut slot: MutexGuard<'static, Option<Cluster>>) -> Self {
        if let Some(cluster) = slot.as_ref() {
            // A test that failed may have left nodes paused or dead.
            for node in cluster.nodes() {
                node.resume().unwrap();
                node.start().unwrap();
            }
            cluster.wait_until_all_up().unwrap();
        } else {
            remove_folders_of_dead_processes();
            // A cluster that did not start may have left its folder.
            let _ = std::fs::remove_dir_all(folder(number));
            let begun = Instant::now();
            let options = ClusterOptions::new(Nodes::Three).heap("512M");
            *slot = Some(Cluster::start_with(&options, folder(number)).unwrap());
            println!("three nodes run after {:.1?}", begun.elapsed());
        }
        Self { number, slot }
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        self.slot.as_ref().expect("it was started")
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if LEFT.fetch_sub(1, Ordering::SeqCst) == 1 {
            end(self.number, &mut self.slot);
            for (number, slot) in (0..).zip(&POOL) {
                if let Some(mut slot) = try_lock(slot) {
                    end(number, &mut slot);
                }
            }
        }
    }
}

/// Ends a cluster and removes its folder. A folder that stays is removed by the next run.
fn end(number: usize, slot: &mut Option<Cluster>) {
    drop(slot.take());
    let _ = std::fs::remove_dir_all(folder(number));
}

/// Locks a cluster unless another test uses it. A test that failed leaves its cluster usable.
fn try_lock(slot: &'static Mutex<Option<Cluster>>) -> Option<MutexGuard<'static, Option<Cluster>>> {
    match slot.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

fn folder(number: usize) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{FOLDER}{}-{number}", std::process::id()))
}

fn remove_folders_of_dead_processes() {
    for entry in std::fs::read_dir(env!("CARGO_TARGET_TMPDIR")).unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let process = name.strip_prefix(FOLDER).and_then(|name| name.split('-').next());
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            // Another process may be removing the same folder.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// A keyspace on the nodes of `cluster`, in the words of an address; nothing is there until it is opened.
pub(crate) fn address(cluster: &Cluster) -> CassandraAddress {
    CassandraAddress::new(cluster.addresses(), unique_keyspace("three"))
}

pub(crate) async fn open(address: &CassandraAddress) -> recto::Result<Recto> {
    let address = StoreAddress::Cassandra(Box::new(address.clone()));
    Recto::open_with(&address, OpenOptions::new().create()).await
}
