//! Cassandra that all test processes share. The first process that needs it starts it.
//!
//! Files in the folder of the shared Cassandra:
//!
//! - `lock`: locked while a process starts or stops Cassandra.
//! - `users.lock`: locked in shared mode by each process that uses Cassandra, and exclusively by
//!   the watch process that ends an unused Cassandra.
//! - `state`: exists while Cassandra runs or should run.
//! - `idle`: token that identifies the current watch process, if there is one.
//! - `used`: rewritten by each process that begins to use Cassandra.
//! - a folder for each node, or the file `container`.

use std::env;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::id;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::artefacts::Artefacts;
use super::block::Block;
use super::container::Container;
use super::node::{Node, Peculiarities, answers_cql};
use super::process::{Output, wait_until};
use super::version::Version;
use super::{
    ADDRESS_VARIABLE, ANSWER_TIMEOUT, CQL_PORT, GROUP_VARIABLE, HEAP_VARIABLE, Nodes, RigError, base_dir,
    launch_all, watch_command,
};

/// Time after which an unused shared Cassandra ends, if a test started it.
pub const IDLE_LIMIT: Duration = Duration::from_secs(600);
const IDLE_TICK: Duration = Duration::from_secs(5);
/// Maximum time to wait while another process starts or stops the shared Cassandra. That process
/// may download Cassandra first.
const LOCK_TIMEOUT: Duration = Duration::from_secs(900);
/// Maximum time in which the watch process ends an unused Cassandra.
const WATCH_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum time until the Cassandra in `RECTO_TEST_CASSANDRA` answers. It is short, because this
/// Cassandra should already run.
const GIVEN_TIMEOUT: Duration = Duration::from_secs(20);
const HEAP_OF_CONTAINER: &str = "512M";
/// Java options of a single shared node. Tests never restart the node, so it need not write its
/// schema and its files to disk at once.
const OPTIONS_OF_SHARED_NODE: &[&str] = &[
    "-Dcassandra.skip_sync=true",
    "-Dcassandra.test.flush_local_schema_changes=false",
    "-Dcassandra.unsafesystem=true",
];

/// Origin of the shared Cassandra.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The address in `RECTO_TEST_CASSANDRA`. The rig neither starts nor ends this Cassandra.
    Environment,
    /// A container that the rig started.
    Container,
    /// A Java process that the rig started, with jars from Maven.
    Maven,
}

#[derive(Debug)]
enum Running {
    Given,
    Container(Container),
    Nodes(Vec<Node>),
}

/// Cassandra that all tests share. A test that injects faults must start its own
/// [`Cluster`](super::Cluster).
#[derive(Debug)]
pub struct Shared {
    address: String,
    running: Running,
    /// Shared file lock that keeps the watch process from ending Cassandra while this value exists;
    /// `None`: the lock is not needed.
    _in_use: Option<File>,
}

impl Shared {
    /// Returns the CQL address as `host:port`, which a driver needs to connect.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the origin of this Cassandra: given by the environment, or how it was started.
    pub fn source(&self) -> Source {
        match self.running {
            Running::Given => Source::Environment,
            Running::Container(_) => Source::Container,
            Running::Nodes(_) => Source::Maven,
        }
    }

    /// Calls nodetool on the first node, with arguments such as `&["flush", "my_keyspace"]`.
    ///
    /// # Errors
    /// Nodetool fails, or the address of the Cassandra is given by the environment, so that
    /// nodetool cannot reach it.
    pub fn nodetool(&self, arguments: &[&str]) -> Result<Output, RigError> {
        self.nodetool_on(1, arguments)
    }

    fn nodetool_on(&self, number: usize, arguments: &[&str]) -> Result<Output, RigError> {
        match &self.running {
            Running::Nodes(nodes) if (1..=nodes.len()).contains(&number) => {
                nodes[number - 1].nodetool(arguments)
            }
            Running::Container(container) if number == 1 => container.nodetool(arguments),
            _ => Err(RigError::NoSuchNode { node: number }),
        }
    }

    /// Returns the Cassandra that the environment gives, or the running shared one, or a new one,
    /// which ends when no process has used it for [`IDLE_LIMIT`].
    pub(super) fn find_or_start() -> Result<Self, RigError> {
        match Self::given()? {
            Some(given) => Ok(given),
            None => Rig::at_default()?.use_or_start(Nodes::One, Some(IDLE_LIMIT)),
        }
    }

    /// Returns the Cassandra at the address in `RECTO_TEST_CASSANDRA`; `None` if the variable is
    /// not set. Returns an error if no Cassandra answers there.
    pub fn given() -> Result<Option<Self>, RigError> {
        let Some(text) = env::var(ADDRESS_VARIABLE).ok().filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let Some(addresses) = text.to_socket_addrs().ok().map(Iterator::collect::<Vec<_>>) else {
            return Err(RigError::BadAddress { text });
        };
        let answers = || {
            addresses
                .iter()
                .any(|address| answers_cql(*address, ANSWER_TIMEOUT))
        };
        if wait_until(GIVEN_TIMEOUT, answers) {
            return Ok(Some(Self {
                address: text,
                running: Running::Given,
                _in_use: None,
            }));
        }
        Err(RigError::NotAnswering {
            address: text,
            waited: GIVEN_TIMEOUT,
        })
    }
}

/// Handle to the shared Cassandra, with which the program `recto-rig` starts and stops it.
#[derive(Debug)]
pub struct Rig {
    dir: PathBuf,
    containers: bool,
    version: Version,
}

/// Content of the file `state`, which records what the rig has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Container,
    Nodes { count: usize, block: u8 },
}

impl Rig {
    /// Returns the rig that [`Cluster::shared`](super::Cluster::shared) uses.
    /// `RECTO_TEST_CASSANDRA_GROUP` can select a separate rig for a group of tests. Separate nodes
    /// make groups faster, because a schema change takes longer if Cassandra has more tables.
    pub fn at_default() -> Result<Self, RigError> {
        let dir = base_dir()?;
        let rig = match env::var(GROUP_VARIABLE) {
            Ok(group) if !group.is_empty() => Self::at(&dir.join(group))?,
            _ => Self::at(&dir)?,
        };
        rig.of_version(Version::of_environment()?)
    }

    /// Returns a separate rig in another folder. Several rigs can run at the same time.
    pub fn at(dir: &Path) -> Result<Self, RigError> {
        let dir = dir.join("shared");
        fs::create_dir_all(&dir).map_err(RigError::io("make", &dir))?;
        let dir = dir.canonicalize().map_err(RigError::io("find", &dir))?;
        Ok(Self {
            dir,
            containers: true,
            version: Version::default(),
        })
    }

    /// Returns a separate rig for another release of Cassandra. It uses no container engine.
    pub fn of_version(self, version: Version) -> Result<Self, RigError> {
        if version == self.version {
            return Ok(self);
        }
        let other = Self::at(&self.dir.join(version.name()))?;
        Ok(Self {
            containers: false,
            version,
            ..other
        })
    }

    /// Makes the rig use no container engine.
    #[must_use]
    pub fn without_containers(self) -> Self {
        Self {
            containers: false,
            ..self
        }
    }

    /// Returns the folder with the logs and the data.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Starts Cassandra, unless it runs, and waits until it answers. A new Cassandra has no data.
    /// It runs until [`Rig::stop`], or until no process has used it for `idle`.
    pub fn start(&self, nodes: Nodes, idle: Option<Duration>) -> Result<Shared, RigError> {
        let shared = self.use_or_start(nodes, idle)?;
        let running = match &shared.running {
            Running::Nodes(nodes) => nodes.len(),
            Running::Given | Running::Container(_) => 1,
        };
        if running != nodes.count() {
            return Err(RigError::NodesDiffer {
                running,
                wanted: nodes.count(),
            });
        }
        if idle.is_none() {
            // Cassandra must stay from now on, so end the watch process with which a test may have
            // started it.
            self.end_watch()?;
        }
        Ok(shared)
    }

    /// Ends Cassandra at once, even if processes use it. Returns false if it did not run.
    pub fn stop(&self) -> Result<bool, RigError> {
        let _lock = self.lock()?;
        let Some(running) = self.attach()? else {
            return Ok(false);
        };
        self.end_watch()?;
        self.end(&running)?;
        Ok(true)
    }

    /// Returns the CQL address as `host:port`; `None` if Cassandra does not run.
    pub fn address(&self) -> Result<Option<String>, RigError> {
        Ok(self.running()?.map(|shared| shared.address))
    }

    /// Calls nodetool on the node with this index, from 1.
    pub fn nodetool(&self, node: usize, arguments: &[&str]) -> Result<Output, RigError> {
        self.running()?
            .ok_or(RigError::NoSuchNode { node })?
            .nodetool_on(node, arguments)
    }

    fn running(&self) -> Result<Option<Shared>, RigError> {
        let _lock = self.lock()?;
        let Some(running) = self.attach()? else {
            return Ok(None);
        };
        if !is_running(&running) {
            return Ok(None);
        }
        Ok(Some(Shared {
            address: address_of(&running)?,
            running,
            _in_use: None,
        }))
    }

    fn use_or_start(&self, nodes: Nodes, idle: Option<Duration>) -> Result<Shared, RigError> {
        let _lock = self.lock()?;
        let in_use = self.mark_in_use()?;
        if let Some(running) = self.attach()? {
            if is_running(&running) && answers_in_time(&running) {
                return Ok(Shared {
                    address: address_of(&running)?,
                    running,
                    _in_use: Some(in_use),
                });
            }
            self.end_watch()?;
            self.end(&running)?;
        }
        let running = self.start_anew(nodes)?;
        if let Some(limit) = idle {
            self.start_watch(limit)?;
        }
        Ok(Shared {
            address: address_of(&running)?,
            running,
            _in_use: Some(in_use),
        })
    }

    fn start_anew(&self, nodes: Nodes) -> Result<Running, RigError> {
        // Use a container only for a single node, because the rig runs one node per container.
        let engine = if self.containers && nodes == Nodes::One {
            Container::engine()
        } else {
            None
        };
        let Some(engine) = engine else {
            return self.start_nodes(nodes.count());
        };
        self.start_container(engine).or_else(|container| {
            let both = |maven| RigError::NeitherWay {
                container: Box::new(container),
                maven: Box::new(maven),
            };
            self.start_nodes(nodes.count()).map_err(both)
        })
    }

    fn start_container(&self, engine: &str) -> Result<Running, RigError> {
        let usual = format!("127.0.0.1:{CQL_PORT}");
        let publish = if TcpListener::bind(&usual).is_ok() {
            usual
        } else {
            "127.0.0.1:".to_owned()
        };
        let heap = env::var(HEAP_VARIABLE).unwrap_or_else(|_| HEAP_OF_CONTAINER.to_owned());
        let container = Container::start(engine, &publish, &heap)?;
        container.write(&self.file("container"))?;
        self.write_state(State::Container)?;
        Ok(Running::Container(container))
    }

    fn start_nodes(&self, count: usize) -> Result<Running, RigError> {
        let artefacts = Arc::new(Artefacts::ready(self.version)?);
        self.clear_nodes()?;
        let block = Block::claim(0, count)?;
        let nodes = self.nodes(count, block.number, &artefacts);
        // Write the file `state` before the launch, so that the nodes can be found and ended if
        // this process crashes.
        self.write_state(State::Nodes {
            count,
            block: block.number,
        })?;
        let launched = launch_all(&nodes).and_then(|()| nodes.first().map_or(Ok(()), Node::archive_classes));
        let running = Running::Nodes(nodes);
        match launched {
            Ok(()) => Ok(running),
            Err(error) => {
                // Ignore an error of `end`, so that the caller gets the error of the launch.
                let _ = self.end(&running);
                Err(error)
            }
        }
    }

    fn nodes(&self, count: usize, block: u8, artefacts: &Arc<Artefacts>) -> Vec<Node> {
        (1..=count)
            .map(|number| {
                let usual = Peculiarities {
                    is_urgent: true,
                    java_options: if count == 1 { OPTIONS_OF_SHARED_NODE } else { &[] },
                    ..Peculiarities::default()
                };
                Node::new(&self.dir, block, number, count, Arc::clone(artefacts), usual)
            })
            .collect()
    }

    /// Removes the data and logs of nodes that ran earlier.
    fn clear_nodes(&self) -> Result<(), RigError> {
        for number in 1..=Nodes::Three.count() {
            let dir = self.file(&format!("node{number}"));
            if dir.exists() {
                fs::remove_dir_all(&dir).map_err(RigError::io("remove", &dir))?;
            }
        }
        Ok(())
    }

    /// Returns handles to the nodes or the container that the file `state` lists; `None` if there
    /// is no such file. They need not run.
    fn attach(&self) -> Result<Option<Running>, RigError> {
        match self.read_state()? {
            None => Ok(None),
            Some(State::Container) => Ok(Some(Running::Container(Container::read(
                &self.file("container"),
            )?))),
            Some(State::Nodes { count, block }) => {
                let artefacts = Arc::new(Artefacts::ready(self.version)?);
                Ok(Some(Running::Nodes(self.nodes(count, block, &artefacts))))
            }
        }
    }

    fn end(&self, running: &Running) -> Result<(), RigError> {
        match running {
            Running::Given => {}
            Running::Container(container) => {
                container.remove()?;
                remove_if_there(&self.file("container"))?;
            }
            Running::Nodes(nodes) => nodes.iter().try_for_each(Node::kill)?,
        }
        remove_if_there(&self.file("state"))
    }

    fn start_watch(&self, limit: Duration) -> Result<(), RigError> {
        let token = token();
        self.write("idle", &token)?;
        let [limit, tick] = [limit, IDLE_TICK].map(|time| time.as_secs().to_string());
        let spawned = watch_command(&["idle", &token, &limit, &tick], &self.dir).spawn();
        // Do not wait for the script, which may run longer than this process.
        spawned.map(drop).map_err(|source| RigError::Io {
            doing: "start sh".to_owned(),
            source,
        })
    }

    fn end_watch(&self) -> Result<(), RigError> {
        remove_if_there(&self.file("idle"))
    }

    fn lock(&self) -> Result<File, RigError> {
        let path = self.file("lock");
        let lock = File::create(&path).map_err(RigError::io("make", &path))?;
        locked(lock, &path, LOCK_TIMEOUT, |lock| lock.try_lock().is_ok())
    }

    fn mark_in_use(&self) -> Result<File, RigError> {
        let path = self.file("users.lock");
        let lock = File::create(&path).map_err(RigError::io("make", &path))?;
        let lock = locked(lock, &path, WATCH_TIMEOUT, |lock| lock.try_lock_shared().is_ok())?;
        self.write("used", &token())?;
        Ok(lock)
    }

    fn read_state(&self) -> Result<Option<State>, RigError> {
        let path = self.file("state");
        if !path.exists() {
            return Ok(None);
        }
        let text = fs::read_to_string(&path).map_err(RigError::io("read", &path))?;
        State::parse(&text).map(Some).ok_or(RigError::BadState {
            path,
            what: "the state of a shared Cassandra",
        })
    }

    fn write_state(&self, state: State) -> Result<(), RigError> {
        self.write("state", &state.to_text())
    }

    /// Writes a file so that a reader sees either the whole new content, or the previous state of
    /// the file.
    fn write(&self, name: &str, text: &str) -> Result<(), RigError> {
        let path = self.file(name);
        let new = self.file(&format!("{name}.{}", id()));
        fs::write(&new, text).map_err(RigError::io("write", &new))?;
        fs::rename(&new, &path).map_err(RigError::io("write", &path))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}

impl State {
    fn to_text(self) -> String {
        match self {
            Self::Container => "container\n".to_owned(),
            Self::Nodes { count, block } => format!("nodes {count} {block}\n"),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        match text.split_whitespace().collect::<Vec<_>>()[..] {
            ["container"] => Some(Self::Container),
            ["nodes", count, block] => Some(Self::Nodes {
                count: count.parse().ok()?,
                block: block.parse().ok()?,
            }),
            _ => None,
        }
    }
}

fn is_running(running: &Running) -> bool {
    match running {
        Running::Given => true,
        Running::Container(container) => container.is_running(),
        Running::Nodes(nodes) => nodes.iter().all(|node| node.pid().is_some()),
    }
}

/// Returns whether all nodes answer. It waits for nodes that are starting, because the process that
/// started them may have died.
fn answers_in_time(running: &Running) -> bool {
    match running {
        Running::Given => true,
        Running::Container(container) => container.wait_for_answer().is_ok(),
        Running::Nodes(nodes) => nodes.iter().all(|node| node.wait_for_answer().is_ok()),
    }
}

fn address_of(running: &Running) -> Result<String, RigError> {
    let address: SocketAddr = match running {
        Running::Container(container) => container.address()?,
        Running::Nodes(nodes) => nodes.first().ok_or(RigError::NoSuchNode { node: 1 })?.address(),
        Running::Given => return Err(RigError::NoSuchNode { node: 1 }),
    };
    Ok(address.to_string())
}

fn locked(
    lock: File,
    path: &Path,
    limit: Duration,
    mut take: impl FnMut(&File) -> bool,
) -> Result<File, RigError> {
    if wait_until(limit, || take(&lock)) {
        return Ok(lock);
    }
    Err(RigError::TookTooLong {
        what: format!("waiting for another process at {}", path.display()),
        limit,
    })
}

fn remove_if_there(path: &Path) -> Result<(), RigError> {
    if path.exists() {
        fs::remove_file(path).map_err(RigError::io("remove", path))
    } else {
        Ok(())
    }
}

/// Returns a new, unique token that identifies a watch process.
fn token() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}-{}", id(), since.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_as_written() {
        for state in [State::Container, State::Nodes { count: 3, block: 7 }] {
            assert_eq!(State::parse(&state.to_text()), Some(state));
        }
        for broken in ["", "nodes", "nodes x 0", "nodes 1 2 3", "other"] {
            assert_eq!(State::parse(broken), None, "{broken}");
        }
    }
}
