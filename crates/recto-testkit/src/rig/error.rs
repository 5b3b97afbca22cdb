//! What can go wrong with the rig, and what to do about it.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{ADDRESS_VARIABLE, APT_LINE};

/// Why there is no Cassandra, or why it did not do as told.
///
/// `Debug` prints the same words as `Display`, so that the `expect` of a test says how to get what is missing.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum RigError {
    /// A program the rig runs is not on this machine.
    #[error(
        "there is no `{program}` here. To start a Cassandra for tests: `{APT_LINE}`; \
         or run a container engine; or set {ADDRESS_VARIABLE}=host:port to use one that runs"
    )]
    Missing {
        /// The program.
        program: String,
    },
    /// There is a Java, but Cassandra 5.0 does not run on it.
    #[error(
        "`{java}` is version {found}, and Cassandra 5.0 needs 17. `{APT_LINE}`, and set JAVA_HOME to it; \
         or set {ADDRESS_VARIABLE}=host:port to use a Cassandra that runs"
    )]
    JavaVersion {
        /// Which Java was asked.
        java: PathBuf,
        /// What it says of itself.
        found: String,
    },
    /// The address in the environment is none.
    #[error("{ADDRESS_VARIABLE}={text} is not host:port")]
    BadAddress {
        /// What the variable holds.
        text: String,
    },
    /// Nobody speaks CQL at this address.
    #[error("no Cassandra answers at {address} (waited {waited:?})")]
    NotAnswering {
        /// Where.
        address: String,
        /// For how long.
        waited: Duration,
    },
    /// The process of a node ended while it was waited for.
    #[error("node {node} ended by itself; {} says:\n{excerpt}", log.display())]
    NodeEnded {
        /// Which node, from 1.
        node: usize,
        /// Its log.
        log: PathBuf,
        /// The lines of the log which say why, as far as one can tell.
        excerpt: String,
    },
    /// A wait reached its deadline.
    #[error("{what} took longer than {limit:?}")]
    TookTooLong {
        /// What was waited for.
        what: String,
        /// The deadline.
        limit: Duration,
    },
    /// A command ended with another code than 0.
    #[error("`{command}` failed ({}):\n{output}", code.map_or("by a signal".to_owned(), |code| format!("code {code}")))]
    CommandFailed {
        /// The command.
        command: String,
        /// The code it ended with, unless a signal ended it.
        code: Option<i32>,
        /// The end of what it printed.
        output: String,
    },
    /// No loopback addresses are left to run a cluster at.
    #[error(
        "no free loopback addresses for a cluster: something holds {first}, and the like up to 127.0.{last_block}.*. \
         End what listens at 0.0.0.0:9042 or 0.0.0.0:7000; or set {ADDRESS_VARIABLE}=host:port to use it"
    )]
    NoFreeAddress {
        /// The first address that was tried.
        first: SocketAddr,
        /// The last block of addresses that was tried.
        last_block: u8,
    },
    /// The folder for a cluster of one's own holds a cluster already.
    #[error("{} holds a cluster already; give each cluster a fresh folder", dir.display())]
    DirInUse {
        /// The folder.
        dir: PathBuf,
    },
    /// The shared cluster runs, but not with as many nodes as asked for.
    #[error("the shared cluster runs with {running} node(s), not {wanted}; stop it first: `recto-rig stop`")]
    NodesDiffer {
        /// How many run.
        running: usize,
        /// How many were asked for.
        wanted: usize,
    },
    /// There is no such node, or it is not the rig's: one from the environment has no `nodetool` here.
    #[error("there is no node {node} that the rig could reach with nodetool")]
    NoSuchNode {
        /// The number asked for, from 1.
        node: usize,
    },
    /// A file of the rig's state does not read as the rig writes it.
    #[error("{} does not hold {what}; remove it, and end its Cassandra if it runs", path.display())]
    BadState {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        what: &'static str,
    },
    /// Maven did not bring Cassandra's jars.
    #[error(
        "could not fetch Cassandra: {why}\nMaven needs the network for this once, or a mirror in ~/.m2/settings.xml; \
         or set {ADDRESS_VARIABLE}=host:port to use a Cassandra that runs"
    )]
    NotFetched {
        /// What Maven said.
        why: Box<RigError>,
    },
    /// Neither way of starting a shared node worked.
    #[error("no Cassandra by container: {container}\nand none by Maven: {maven}")]
    NeitherWay {
        /// Why the container engine gave none.
        container: Box<RigError>,
        /// Why the Maven artefacts gave none.
        maven: Box<RigError>,
    },
    /// A certificate for a test could not be made.
    #[error("could not make a certificate: {why}")]
    Certificate {
        /// What the library said.
        why: String,
    },
    /// The operating system refused.
    #[error("could not {doing}: {source}")]
    Io {
        /// What was tried.
        doing: String,
        /// What the system said.
        source: io::Error,
    },
}

impl fmt::Debug for RigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl RigError {
    /// For `map_err`: the system's error, with what was tried and at which path.
    pub(super) fn io(doing: &str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let doing = format!("{doing} {}", path.display());
        move |source| Self::Io { doing, source }
    }
}
