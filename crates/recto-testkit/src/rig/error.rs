//! Errors of the test clusters, with advice how to fix them.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{ADDRESS_VARIABLE, APT_LINE, VERSION_VARIABLE};

/// Reason why Cassandra is not available, or why an operation on it failed.
///
/// `Debug` prints the same text as `Display`, so that the `expect` of a test shows the advice.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum RigError {
    /// A program that is needed for starting Cassandra is not installed.
    #[error(
        "there is no `{program}` here. To start a Cassandra for tests: `{APT_LINE}`; \
         or run a container engine; or set {ADDRESS_VARIABLE}=host:port to use one that runs"
    )]
    Missing {
        /// Name of the program.
        program: String,
    },
    /// The installed Java has a version on which Cassandra does not run.
    #[error(
        "`{java}` is version {found}, and Cassandra needs 17. `{APT_LINE}`, and set JAVA_HOME to it; \
         or set {ADDRESS_VARIABLE}=host:port to use a Cassandra that runs"
    )]
    JavaVersion {
        /// Path of the installed Java program.
        java: PathBuf,
        /// Version that the program reports.
        found: String,
    },
    /// The environment variable `RECTO_TEST_CASSANDRA` is not an address of the form `host:port`.
    #[error("{ADDRESS_VARIABLE}={text} is not host:port")]
    BadAddress {
        /// Value of the environment variable.
        text: String,
    },
    /// The environment variable `RECTO_TEST_CASSANDRA_VERSION` names no release that the rig can run.
    #[error("{VERSION_VARIABLE}={text} is not one of 4.0, 4.1, 5.0 and 6.0")]
    BadVersion {
        /// Value of the environment variable.
        text: String,
    },
    /// No CQL server answers at this address.
    #[error("no Cassandra answers at {address} (waited {waited:?})")]
    NotAnswering {
        /// Address to which requests were sent.
        address: String,
        /// Time for which the rig waited.
        waited: Duration,
    },
    /// The process of a Cassandra node ended while the rig waited for the node.
    #[error("node {node} ended by itself; {} says:\n{excerpt}", log.display())]
    NodeEnded {
        /// Index of the node in its cluster, from 1.
        node: usize,
        /// Path of the node's log.
        log: PathBuf,
        /// Lines of the log that probably give the reason.
        excerpt: String,
    },
    /// An operation took longer than its limit.
    #[error("{what} took longer than {limit:?}")]
    TookTooLong {
        /// Operation that took too long.
        what: String,
        /// Time limit of the operation.
        limit: Duration,
    },
    /// A command failed: its exit code was not 0.
    #[error("`{command}` failed ({}):\n{output}", code.map_or("by a signal".to_owned(), |code| format!("code {code}")))]
    CommandFailed {
        /// Failed command line.
        command: String,
        /// Exit code; `None`: a signal ended the command.
        code: Option<i32>,
        /// Last part of the command's output.
        output: String,
    },
    /// All loopback addresses for clusters are in use.
    #[error(
        "no free loopback addresses for a cluster: something holds {first}, and the like up to 127.0.{last_block}.*. \
         End what listens at 0.0.0.0:9042 or 0.0.0.0:7000; or set {ADDRESS_VARIABLE}=host:port to use it"
    )]
    NoFreeAddress {
        /// First address that the rig tried.
        first: SocketAddr,
        /// Index of the last block of addresses (127.0.B.*) that the rig tried.
        last_block: u8,
    },
    /// The folder for a new cluster contains a cluster already.
    #[error("{} holds a cluster already; give each cluster a fresh folder", dir.display())]
    DirInUse {
        /// Folder with the existing cluster.
        dir: PathBuf,
    },
    /// The shared cluster runs with another number of nodes than requested.
    #[error("the shared cluster runs with {running} node(s), not {wanted}; stop it first: `recto-rig stop`")]
    NodesDiffer {
        /// Number of running nodes.
        running: usize,
        /// Requested number of nodes.
        wanted: usize,
    },
    /// The cluster has no node with this index, or the rig did not start the node. Nodetool cannot
    /// reach a Cassandra whose address is given by the environment.
    #[error("there is no node {node} that the rig could reach with nodetool")]
    NoSuchNode {
        /// Index of the requested node, from 1.
        node: usize,
    },
    /// A file in which the rig records running processes is invalid.
    #[error("{} does not hold {what}; remove it, and end its Cassandra if it runs", path.display())]
    BadState {
        /// Path of the file.
        path: PathBuf,
        /// Content that the file should have.
        what: &'static str,
    },
    /// Maven could not download the jars of Cassandra.
    #[error(
        "could not fetch Cassandra: {why}\nMaven needs the network for this once, or a mirror in ~/.m2/settings.xml; \
         or set {ADDRESS_VARIABLE}=host:port to use a Cassandra that runs"
    )]
    NotFetched {
        /// Error of the Maven command.
        why: Box<RigError>,
    },
    /// The shared node could not be started, neither in a container, nor with Java and the jars
    /// from Maven.
    #[error("no Cassandra by container: {container}\nand none by Maven: {maven}")]
    NeitherWay {
        /// Error of the start in a container.
        container: Box<RigError>,
        /// Error of the start with Java and the jars from Maven.
        maven: Box<RigError>,
    },
    /// A certificate for a test could not be created.
    #[error("could not make a certificate: {why}")]
    Certificate {
        /// Message of the certificate library.
        why: String,
    },
    /// A request to the operating system failed.
    #[error("could not {doing}: {source}")]
    Io {
        /// Operation that failed, such as `write FILE`.
        doing: String,
        /// Error of the operating system.
        source: io::Error,
    },
}

impl fmt::Debug for RigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl RigError {
    /// Returns a function for `map_err` that adds the attempted operation and the path to an I/O
    /// error.
    pub(super) fn io(doing: &str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let doing = format!("{doing} {}", path.display());
        move |source| Self::Io { doing, source }
    }
}
