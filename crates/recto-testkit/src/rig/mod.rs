//! Real Apache Cassandra clusters for tests.
//!
//! Most tests need one node, which all test binaries of a run share, and a keyspace for each test:
//!
//! ```no_run
//! use recto_testkit::rig::{Cluster, unique_keyspace};
//!
//! let cassandra = Cluster::shared().expect("a Cassandra");
//! let keyspace = unique_keyspace("pages");
//! // connect to cassandra.address(), CREATE KEYSPACE …, test, DROP KEYSPACE …
//! ```
//!
//! A test of another release of Cassandra starts its own cluster with [`ClusterOptions::version`].
//!
//! Tests of faults start their own cluster and inject faults into its nodes:
//!
//! ```no_run
//! use recto_testkit::rig::{Cluster, Nodes};
//!
//! # fn main() -> Result<(), recto_testkit::rig::RigError> {
//! let dir = tempfile::tempdir().expect("a folder");
//! let cluster = Cluster::start(Nodes::Three, dir.path())?;
//! cluster.node(3).kill()?;
//! cluster.node(2).pause()?;
//! cluster.node(2).resume()?;
//! cluster.node(3).start()?;
//! cluster.wait_until_all_up()?;
//! # Ok(())
//! # }
//! ```
//!
//! [`Cluster::shared`] uses the first of these that is available:
//!
//! 1. the address in `RECTO_TEST_CASSANDRA`
//! 2. the shared node that runs already
//! 3. a container, if docker or podman answers
//! 4. Java 17 and Cassandra's jars, which Maven downloads once
//!
//! If none of them is available, a test that needs Cassandra fails, and the error names the
//! packages to install.
//!
//! | variable | default | |
//! |---|---|---|
//! | `RECTO_TEST_CASSANDRA` | | host:port of a running Cassandra: the rig starts nothing |
//! | `RECTO_TEST_CASSANDRA_DIR` | `cassandra` in cargo's target folder | jars, and files of the shared node |
//! | `RECTO_TEST_CASSANDRA_GROUP` | | name of a group: only processes with the same name share a node |
//! | `RECTO_TEST_CASSANDRA_VERSION` | `5.0` | release of all nodes: `4.0`, `4.1`, `5.0` or `6.0` |
//! | `RECTO_TEST_CASSANDRA_HEAP` | `1G` for one node, `256M` for each of three | |
//! | `JAVA_HOME` | `java` in the path | a Java 17 |
//!
//! Linux only: the rig inspects processes through `/proc`, and uses any address in 127.0.0.0/8.

mod artefacts;
mod block;
pub mod certificates;
mod class_archive;
mod container;
mod error;
mod membership;
mod node;
mod options;
mod permits;
mod process;
mod scratch;
mod shared;
mod sstables;
mod version;

use std::env;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio, id};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use artefacts::Artefacts;
use block::Block;
use node::MEMBERS_INTERVAL;
use permits::Permits;
use process::wait_until;

pub use error::RigError;
pub use membership::Member;
pub use node::{ANSWER_TIMEOUT, KILL_TIMEOUT, NODETOOL_TIMEOUT, Node, START_TIMEOUT, STOP_TIMEOUT};
pub use options::ClusterOptions;
pub use process::{Output, freeze, let_go};
pub use scratch::Scratch;
pub use shared::{IDLE_LIMIT, Rig, Shared, Source};
pub use version::Version;

const ADDRESS_VARIABLE: &str = "RECTO_TEST_CASSANDRA";
const DIR_VARIABLE: &str = "RECTO_TEST_CASSANDRA_DIR";
const VERSION_VARIABLE: &str = "RECTO_TEST_CASSANDRA_VERSION";
const HEAP_VARIABLE: &str = "RECTO_TEST_CASSANDRA_HEAP";
const GROUP_VARIABLE: &str = "RECTO_TEST_CASSANDRA_GROUP";
const APT_LINE: &str = "apt-get install openjdk-17-jre-headless maven";
const CQL_PORT: u16 = 9042;
/// Index of the first block of addresses (127.0.B.*) for clusters of single tests. The shared
/// cluster uses block 0 if it is free.
const FIRST_OWN_BLOCK: u8 = 1;
/// Maximum time until all running nodes of a cluster regard each other as alive.
pub const SETTLE_TIMEOUT: Duration = Duration::from_secs(300);
const GUARD_TIMEOUT: Duration = Duration::from_secs(10);
const WATCH_SCRIPT: &str = include_str!("watch.sh");
/// Maximum length of a test's prefix in the name of a keyspace, in characters. Cassandra limits the
/// whole name to 48 characters.
const KEYSPACE_PREFIX_CHARS: usize = 18;

/// Number of nodes in a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nodes {
    /// One node, for tests of behavior, and for tests with much data.
    One,
    /// Two nodes, for tests with two data centers.
    Two,
    /// Three nodes, for tests of faults, with up to three replicas.
    Three,
}

impl Nodes {
    /// Returns the number of nodes.
    pub fn count(self) -> usize {
        match self {
            Self::One => 1,
            Self::Two => 2,
            Self::Three => 3,
        }
    }
}

/// Cluster of one test, with its own loopback addresses. Its nodes are killed when this value is
/// dropped, or when the test process ends in any way.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Node>,
    guard: Child,
    _block: Block,
    _permits: Permits,
}

impl Cluster {
    /// Returns the Cassandra that all tests share. The first call in a process finds or starts it.
    ///
    /// It contains the data of other tests. So use a keyspace from [`unique_keyspace`], and drop
    /// the keyspace at the end.
    pub fn shared() -> Result<&'static Shared, &'static RigError> {
        static SHARED: OnceLock<Result<Shared, RigError>> = OnceLock::new();
        SHARED.get_or_init(Shared::find_or_start).as_ref()
    }

    /// Starts a cluster with files in `dir`, which must not contain a cluster. Waits until all
    /// nodes answer and regard each other as alive.
    ///
    /// The folder is not removed: use a folder of `tempfile::tempdir`, or keep it to read the logs.
    pub fn start(nodes: Nodes, dir: impl AsRef<Path>) -> Result<Self, RigError> {
        Self::start_with(&ClusterOptions::new(nodes), dir)
    }

    /// Starts a cluster as [`start`](Self::start) does, with further options.
    pub fn start_with(options: &ClusterOptions, dir: impl AsRef<Path>) -> Result<Self, RigError> {
        let dir = dir.as_ref();
        fs::create_dir_all(dir).map_err(RigError::io("make", dir))?;
        let dir = dir.canonicalize().map_err(RigError::io("find", dir))?;
        if dir.join("node1").exists() {
            return Err(RigError::DirInUse { dir });
        }
        let version = options.version.map_or_else(Version::of_environment, Ok)?;
        let artefacts = Arc::new(Artefacts::ready(version)?);
        let count = options.nodes.count();
        let permits = Permits::acquire(count)?;
        let block = Block::claim(FIRST_OWN_BLOCK, count)?;
        let nodes = (1..=count)
            .map(|n| {
                let peculiarities = options.peculiarities(n);
                Node::new(
                    &dir,
                    block.number,
                    n,
                    count,
                    Arc::clone(&artefacts),
                    peculiarities,
                )
            })
            .collect();
        let guard = watch_command(&["owner"], &dir).stdin(Stdio::piped()).spawn();
        let guard = guard.map_err(|source| RigError::Io {
            doing: "start sh".to_owned(),
            source,
        })?;
        // Create the cluster before the launch. If the launch fails, the cluster is dropped, which
        // ends the started processes.
        let cluster = Self {
            nodes,
            guard,
            _block: block,
            _permits: permits,
        };
        launch_all(&cluster.nodes)?;
        Ok(cluster)
    }

    /// Returns the node with this index, from 1.
    ///
    /// # Panics
    /// If the cluster has no such node.
    pub fn node(&self, number: usize) -> &Node {
        assert!(
            (1..=self.nodes.len()).contains(&number),
            "nodes are 1 to {}, not {number}",
            self.nodes.len()
        );
        &self.nodes[number - 1]
    }

    /// Returns all nodes of the cluster, in the order of their indexes.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns the CQL addresses of all nodes as `ip:port`, which a driver needs to connect.
    pub fn addresses(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.address().to_string()).collect()
    }

    /// Restarts each node with another release of Cassandra, as an operator upgrades a cluster: the nodes keep
    /// their data. A release can open the data of the release before it.
    pub fn upgrade(&mut self, version: Version) -> Result<(), RigError> {
        let artefacts = Arc::new(Artefacts::ready(version)?);
        for node in &mut self.nodes {
            node.stop()?;
            node.run_with(Arc::clone(&artefacts));
            node.start()?;
        }
        self.wait_until_all_up()
    }

    /// Waits until all nodes regard each other as alive. All nodes must run.
    pub fn wait_until_all_up(&self) -> Result<(), RigError> {
        wait_until_all_up(&self.nodes)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for node in &self.nodes {
            // Ignore an error: no caller could get it, and the guard process also kills the nodes.
            let _ = node.kill();
        }
        drop(self.guard.stdin.take());
        wait_until(GUARD_TIMEOUT, || !matches!(self.guard.try_wait(), Ok(None)));
    }
}

/// Returns a name for a keyspace that no other test on this machine uses: at most 48 characters, in
/// lower case, valid without quotes.
///
/// The name begins with the first 18 letters, digits and underscores of `prefix`.
pub fn unique_keyspace(prefix: &str) -> String {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let counter = COUNTER.fetch_add(1, Ordering::Relaxed);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let is_kept = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
    let mut name: String = prefix
        .chars()
        .filter(is_kept)
        .take(KEYSPACE_PREFIX_CHARS)
        .collect();
    name.make_ascii_lowercase();
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        name.insert(0, 'k');
    }
    format!("{name}_{:x}_{:x}_{counter:x}", id(), since.as_millis())
}

/// Starts nodes concurrently. Waits until all of them answer, and regard each other as alive.
fn launch_all(nodes: &[Node]) -> Result<(), RigError> {
    nodes.iter().try_for_each(Node::launch)?;
    nodes.iter().try_for_each(Node::wait_for_answer)?;
    if nodes.len() > 1 {
        wait_until_all_up(nodes)
    } else {
        Ok(())
    }
}

fn wait_until_all_up(nodes: &[Node]) -> Result<(), RigError> {
    let deadline = Instant::now() + SETTLE_TIMEOUT;
    let sees_all = |node: &Node| -> Result<bool, RigError> {
        let members = node.members()?;
        Ok(members.len() == nodes.len() && members.iter().all(|member| member.up && member.normal))
    };
    let settles = |node: &Node| {
        while !sees_all(node)? {
            thread::sleep(MEMBERS_INTERVAL);
            if Instant::now() >= deadline {
                let what = format!("node {} seeing all nodes up", node.number());
                return Err(RigError::TookTooLong {
                    what,
                    limit: SETTLE_TIMEOUT,
                });
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let waits: Vec<_> = nodes
            .iter()
            .map(|node| scope.spawn(move || settles(node)))
            .collect();
        waits.into_iter().try_for_each(|wait| {
            wait.join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })
}

/// Returns the folder for Cassandra's jars, and by default for the files of the shared node.
fn base_dir() -> Result<PathBuf, RigError> {
    let set = |name| {
        env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let dir = set(DIR_VARIABLE)
        // Ignore a relative path: it is relative to the folder in which cargo was called, which is
        // unknown here.
        .or_else(|| {
            Some(
                set("CARGO_TARGET_DIR")
                    .filter(|dir| dir.is_absolute())?
                    .join("cassandra"),
            )
        })
        .unwrap_or_else(|| workspace.join("target/cassandra"));
    fs::create_dir_all(&dir).map_err(RigError::io("make", &dir))?;
    dir.canonicalize().map_err(RigError::io("find", &dir))
}

/// Returns the command that runs the script `watch.sh`, which ends the processes of the cluster in
/// `dir`. The first of `words` says when, and the others are further arguments.
fn watch_command(words: &[&str], dir: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", WATCH_SCRIPT, "recto-watch"]);
    let (when, more) = words.split_at(1);
    command.args(when).arg(dir).args(more);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keyspace_names_are_unique_and_short() {
        let names = ["Pages", "", "9", "a-very-long-name-of-a-test-in-some-module"].map(unique_keyspace);
        for name in &names {
            assert!(name.len() <= 48, "{name}");
            assert!(name.starts_with(|c: char| c.is_ascii_lowercase()), "{name}");
            assert!(
                name.chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'),
                "{name}"
            );
        }
        assert_ne!(unique_keyspace("a"), unique_keyspace("a"));
    }

    #[test]
    fn the_words_of_an_error_are_seen_by_expect() {
        let error = RigError::Missing {
            program: "java".to_owned(),
        };
        assert_eq!(format!("{error:?}"), error.to_string());
        assert!(
            error
                .to_string()
                .contains("apt-get install openjdk-17-jre-headless maven")
        );
        assert!(error.to_string().contains("RECTO_TEST_CASSANDRA=host:port"));
    }
}
