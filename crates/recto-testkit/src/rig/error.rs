//! Errors of the rig, with advice on how to fix them.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{ADDRESS_VARIABLE, APT_LINE};

/// Reason why Cassandra is not available, or why an operation on it failed.
///
/// `Debug` prints the same text as `Display`, so that the `expect` of a test shows the advice.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum RigError {
    /// A program that the rig runs is not installed.
    #[error(
        "there is no `{program}` here. To start a Cassandra for tests: `{APT_LINE}`; \
         or run a container engine; or set {ADDRESS_VARIABLE}=host:port to use one that runs"
    )]
    Missing {
        /// Name of the program.
        program: String,
    },
    /// The installed Java has a version on which Cassandra 5.0 does not run.
    #[error(
        "`{java}` is version {found}, and Cassandra 5.0 needs 17. `{APT_LINE}`, and set JAVA_HOME to it; \
         or set {ADDRESS_VARIABLE}=host:port to use a Cassandra that runs"
    )]
    JavaVersion {
        /// Path of the Java program.
        java: PathBuf,
        /// Reported version.
        found: String,
    },
    /// The value of the environment variable with Cassandra's address is invalid.
    #[error("{ADDRESS_VARIABLE}={text} is not host:port")]
    BadAddress {
        /// Value of the variable.
        text: String,
    },
    /// No CQL server answers at this address.
    #[error("no Cassandra answers at {address} (waited {waited:?})")]
    NotAnswering {
        /// Address to which the rig sent requests.
        address: String,
        /// Time waited.
        waited: Duration,
    },
    /// The process of a node ended during a wait for the node.
    #[error("node {node} ended by itself; {} says:\n{excerpt}", log.display())]
    NodeEnded {
        /// Number of the node, beginning with 1.
        node: usize,
        /// Path of its log.
        log: PathBuf,
        /// Lines of the log that are likely to have the reason.
        excerpt: String,
    },
    /// A wait reached its deadline.
    #[error("{what} took longer than {limit:?}")]
    TookTooLong {
        /// Event that the rig waited for.
        what: String,
        /// Maximum time.
        limit: Duration,
    },
    /// The exit code of a command was not 0.
    #[error("`{command}` failed ({}):\n{output}", code.map_or("by a signal".to_owned(), |code| format!("code {code}")))]
    CommandFailed {
        /// Command line that failed.
        command: String,
        /// Exit code. `None`: a signal ended the command.
        code: Option<i32>,
        /// End of the output of the command.
        output: String,
    },
    /// All loopback addresses for clusters are in use.
    #[error(
        "no free loopback addresses for a cluster: something holds {first}, and the like up to 127.0.{last_block}.*. \
         End what listens at 0.0.0.0:9042 or 0.0.0.0:7000; or set {ADDRESS_VARIABLE}=host:port to use it"
    )]
    NoFreeAddress {
        /// First address that was tried.
        first: SocketAddr,
        /// Last block of addresses that was tried.
        last_block: u8,
    },
    /// The folder for a new cluster contains a cluster already.
    #[error("{} holds a cluster already; give each cluster a fresh folder", dir.display())]
    DirInUse {
        /// Folder that contains the existing cluster.
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
    /// The cluster has no node with this number, or the rig did not start the node. Nodetool cannot
    /// reach a Cassandra whose address is from the environment.
    #[error("there is no node {node} that the rig could reach with nodetool")]
    NoSuchNode {
        /// Requested number, beginning with 1.
        node: usize,
    },
    /// A file in which the rig records its state is invalid.
    #[error("{} does not hold {what}; remove it, and end its Cassandra if it runs", path.display())]
    BadState {
        /// Path of the file.
        path: PathBuf,
        /// Expected content.
        what: &'static str,
    },
    /// Maven could not download Cassandra's jars.
    #[error(
        "could not fetch Cassandra: {why}\nMaven needs the network for this once, or a mirror in ~/.m2/settings.xml; \
         or set {ADDRESS_VARIABLE}=host:port to use a Cassandra that runs"
    )]
    NotFetched {
        /// Error of Maven.
        why: Box<RigError>,
    },
    /// The shared node could not be started: a container failed, and so did Java with the jars from
    /// Maven.
    #[error("no Cassandra by container: {container}\nand none by Maven: {maven}")]
    NeitherWay {
        /// Error of the container engine.
        container: Box<RigError>,
        /// Error of the start with Java and the jars from Maven.
        maven: Box<RigError>,
    },
    /// A certificate for a test could not be created.
    #[error("could not make a certificate: {why}")]
    Certificate {
        /// Error message of the certificate library.
        why: String,
    },
    /// A request to the operating system failed.
    #[error("could not {doing}: {source}")]
    Io {
        /// Operation that failed.
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
    /// Returns a function for `map_err` that converts an I/O error and adds the attempted operation
    /// and the path.
    pub(super) fn io(doing: &str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let doing = format!("{doing} {}", path.display());
        move |source| Self::Io { doing, source }
    }
}
