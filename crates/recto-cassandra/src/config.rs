//! How to reach a cluster, and what to ask of it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use recto_store::{ConsistencyLevel, StoreError, StoreErrorKind};

/// The port Cassandra listens on unless told otherwise.
pub const DEFAULT_PORT: u16 = 9042;
/// The most hosts a configuration may name.
pub const MAX_HOSTS: usize = 64;
/// The most retries of one request that a configuration may ask for.
pub const MAX_RETRIES: u32 = 16;
/// The most connections per node that a configuration may ask for.
pub const MAX_POOL_SIZE: u16 = 64;
/// The most writes of one `write_many` that a configuration may have in flight.
pub const MAX_IN_FLIGHT: usize = 4_096;
/// The least bytes of one mutation that a configuration may allow.
const MIN_MUTATION_BYTES: usize = 64 << 10;
/// The least bytes of a logged batch that a configuration may allow.
const MIN_BATCH_BYTES: usize = 1 << 10;
/// The most bytes of one mutation or one logged batch that a configuration may allow.
pub const MAX_REQUEST_BYTES: usize = 16 << 20;

/// How to reach a cluster, and what to ask of it.
///
/// The password is never printed: `Debug` leaves it out, and no error or description holds it.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CassandraConfig {
    /// Nodes to ask first, `host` or `host:port`; the rest of the cluster is found from them.
    pub hosts: Vec<String>,
    /// The keyspace that holds Recto's tables: a letter, then letters, digits and underscores, at
    /// most 48 in all.
    pub keyspace: String,
    /// The user; none: connect without credentials.
    pub username: Option<String>,
    /// The user's password.
    pub password: Option<String>,
    /// Encrypt and authenticate connections; none: plain text.
    pub tls: Option<TlsConfig>,
    /// The data centre this process is in: only its nodes are asked. Required if there are several.
    pub local_datacenter: Option<String>,
    /// How many replicas must agree, unless a call says otherwise.
    pub consistency: ConsistencyLevel,
    /// `Serial` or `LocalSerial`: across which replicas conditional writes are decided.
    pub serial_consistency: ConsistencyLevel,
    /// How long connecting may take, all hosts together.
    pub connect_timeout: Duration,
    /// How long one change of the schema may take, with the wait until all nodes agree on it.
    pub schema_timeout: Duration,
    /// How often an idempotent request that failed for a passing reason is sent again, within its
    /// deadline. Conditional writes never are.
    pub retries: u32,
    /// Connections per node.
    pub pool_size: u16,
    /// The most writes of all `write_many` for themselves together that are in flight at a time.
    pub in_flight: usize,
    /// The most bytes of one mutation; none: 2 MiB, or the cluster's `max_mutation_size` if that is less.
    /// Cassandra refuses more than half its commit log segment (16 MiB by default), and a mutation that
    /// large blocks its partition for conditional writes.
    pub mutation_bytes: Option<usize>,
    /// The most bytes of a logged batch; none: the cluster's `batch_size_fail_threshold`.
    ///
    /// Settings are read from `system_views.settings` of one node, when the store is opened. Where the user
    /// may not read them, Cassandra's defaults are taken for them.
    pub batch_bytes: Option<usize>,
}

/// How to encrypt connections.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsConfig {
    /// Certificates (PEM) of the authorities that sign the nodes' certificates.
    pub ca_file: PathBuf,
    /// This client's certificate chain and private key (PEM), where nodes ask for one.
    pub client: Option<ClientCertificate>,
    /// Whether a node's certificate must name the address it is reached by. Nodes are reached by IP
    /// address, and certificates often name none: then this must be false, and any certificate
    /// that the authorities signed is taken.
    pub check_server_name: bool,
}

/// A client's certificate and key files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The certificate chain (PEM).
    pub certificate_file: PathBuf,
    /// The private key (PEM).
    pub key_file: PathBuf,
}

impl TlsConfig {
    /// Trusts the authorities in `ca_file`, and checks the names of nodes.
    pub fn new(ca_file: impl Into<PathBuf>) -> Self {
        Self {
            ca_file: ca_file.into(),
            client: None,
            check_server_name: true,
        }
    }
}

/// How many copies of each row a new keyspace keeps, by `NetworkTopologyStrategy`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Replication {
    /// This many in every data centre of the cluster.
    Everywhere(u8),
    /// This many in each data centre named, and none elsewhere.
    Datacenters(Vec<(String, u8)>),
}

impl CassandraConfig {
    /// The defaults, for `keyspace` on the nodes at `hosts`: no credentials, no TLS, local quorum,
    /// local serial.
    pub fn new(hosts: impl IntoIterator<Item = impl Into<String>>, keyspace: impl Into<String>) -> Self {
        Self {
            hosts: hosts.into_iter().map(Into::into).collect(),
            keyspace: keyspace.into(),
            username: None,
            password: None,
            tls: None,
            local_datacenter: None,
            consistency: ConsistencyLevel::LocalQuorum,
            serial_consistency: ConsistencyLevel::LocalSerial,
            connect_timeout: Duration::from_secs(10),
            schema_timeout: Duration::from_secs(60),
            retries: 2,
            pool_size: 1,
            in_flight: 128,
            mutation_bytes: None,
            batch_bytes: None,
        }
    }

    /// Checks what can be checked without a cluster.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let refuse = |message: String, hint: &str| {
            Err(StoreError::new(StoreErrorKind::Invalid, message).with_hint(hint))
        };
        if self.hosts.is_empty() || self.hosts.len() > MAX_HOSTS {
            return refuse(
                format!(
                    "{} Cassandra hosts are given, 1 to {MAX_HOSTS} are needed",
                    self.hosts.len()
                ),
                "name a node as host or host:port",
            );
        }
        if !is_keyspace_name(&self.keyspace) {
            return refuse(
                format!("{:?} is not a keyspace name", self.keyspace),
                "a letter, then letters, digits and underscores, at most 48 in all",
            );
        }
        if self.username.is_some() != self.password.is_some() {
            return refuse(
                "of user name and password only one is given".to_owned(),
                "give both or neither",
            );
        }
        if is_serial(self.consistency) || !is_serial(self.serial_consistency) {
            return refuse(
                "the consistency must not be serial, and the serial consistency must be".to_owned(),
                "for example consistency local_quorum, serial consistency local_serial",
            );
        }
        if self.retries > MAX_RETRIES || !(1..=MAX_POOL_SIZE).contains(&self.pool_size) {
            return refuse(
                format!(
                    "{} retries, {} connections per node",
                    self.retries, self.pool_size
                ),
                "at most 16 retries; 1 to 64 connections",
            );
        }
        if !(1..=MAX_IN_FLIGHT).contains(&self.in_flight) {
            return refuse(
                format!("{} writes in flight", self.in_flight),
                "1 to 4096 can be in flight",
            );
        }
        for (what, bytes, least) in [
            ("a mutation", self.mutation_bytes, MIN_MUTATION_BYTES),
            ("a logged batch", self.batch_bytes, MIN_BATCH_BYTES),
        ] {
            if let Some(bytes) = bytes
                && !(least..=MAX_REQUEST_BYTES).contains(&bytes)
            {
                return refuse(
                    format!("{bytes} bytes {what}"),
                    "a mutation may have 64 KiB to 16 MiB, a logged batch 1 KiB to 16 MiB",
                );
            }
        }
        Ok(())
    }
}

pub(crate) fn is_serial(level: ConsistencyLevel) -> bool {
    matches!(level, ConsistencyLevel::Serial | ConsistencyLevel::LocalSerial)
}

fn is_keyspace_name(name: &str) -> bool {
    let mut characters = name.chars();
    characters.next().is_some_and(|first| first.is_ascii_alphabetic())
        && characters.all(|character| character.is_ascii_alphanumeric() || character == '_')
        && name.len() <= 48
}

impl fmt::Debug for CassandraConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CassandraConfig")
            .field("hosts", &self.hosts)
            .field("keyspace", &self.keyspace)
            .field("username", &self.username)
            .field("password", &self.password.as_ref().map(|_| "(not shown)"))
            .field("tls", &self.tls)
            .field("local_datacenter", &self.local_datacenter)
            .field("consistency", &self.consistency)
            .field("serial_consistency", &self.serial_consistency)
            .field("connect_timeout", &self.connect_timeout)
            .field("schema_timeout", &self.schema_timeout)
            .field("retries", &self.retries)
            .field("pool_size", &self.pool_size)
            .field("in_flight", &self.in_flight)
            .field("mutation_bytes", &self.mutation_bytes)
            .field("batch_bytes", &self.batch_bytes)
            .finish()
    }
}
