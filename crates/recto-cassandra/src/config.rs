//! Address of a cluster, and options of its requests.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use recto_store::{ConsistencyLevel, StoreError, StoreErrorKind};

/// Default port of a Cassandra node.
pub const DEFAULT_PORT: u16 = 9042;
/// Maximum number of hosts that a configuration may name.
pub const MAX_HOSTS: usize = 64;
/// Maximum number of retries of one request that a configuration may set.
pub const MAX_RETRIES: u32 = 16;
/// Maximum number of connections per node that a configuration may set.
pub const MAX_POOL_SIZE: u16 = 64;
/// Maximum number of writes of one store that a configuration may allow to be in flight at a time.
pub const MAX_IN_FLIGHT: usize = 4_096;
/// Minimum size limit of one mutation that a configuration may set, in bytes.
const MIN_MUTATION_BYTES: usize = 64 << 10;
/// Minimum size limit of a logged batch that a configuration may set, in bytes.
const MIN_BATCH_BYTES: usize = 1 << 10;
/// Maximum size limit of one mutation or one logged batch that a configuration may set, in bytes.
pub const MAX_REQUEST_BYTES: usize = 16 << 20;

/// Address of a cluster, and options of its requests.
///
/// The password is never printed: `Debug` leaves it out, and no error or description contains it.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CassandraConfig {
    /// Nodes to contact first, as `host` or `host:port`. They report the other nodes of the
    /// cluster.
    pub hosts: Vec<String>,
    /// Keyspace that holds Recto's tables: a letter, then letters, digits and underscores, at most
    /// 48 characters in all.
    pub keyspace: String,
    /// Name of the user; `None` connects without credentials.
    pub username: Option<String>,
    /// Password of the user.
    pub password: Option<String>,
    /// Encryption and authentication of connections; `None` sends plain text.
    pub tls: Option<TlsConfig>,
    /// Data center of this process: requests go only to its nodes. Required if the cluster has
    /// several data centers.
    pub local_datacenter: Option<String>,
    /// Consistency level of reads and writes: the replicas that must answer, unless a call sets
    /// another level.
    pub consistency: ConsistencyLevel,
    /// Replicas that decide conditional writes: `Serial` (all data centers) or `LocalSerial` (the
    /// local data center).
    pub serial_consistency: ConsistencyLevel,
    /// Maximum time to connect, for all hosts together.
    pub connect_timeout: Duration,
    /// Maximum time of one schema change, including the wait until all nodes agree on it.
    pub schema_timeout: Duration,
    /// Maximum number of retries of an idempotent request that failed for a transient reason,
    /// within its deadline. A conditional write is retried only if no attempt can have had an
    /// effect.
    pub retries: u32,
    /// Number of connections that the store opens to each node.
    pub pool_size: u16,
    /// Maximum number of writes in flight at a time, over all calls of `write_many` that write each
    /// partition separately.
    pub in_flight: usize,
    /// Maximum size of one mutation, in bytes. `None` means 2 MiB, or the cluster's
    /// `max_mutation_size` if it is less. Cassandra rejects mutations larger than half its commit
    /// log segment (16 MiB by default). A mutation of that size blocks its partition for
    /// conditional writes.
    pub mutation_bytes: Option<usize>,
    /// Maximum size of a logged batch, in bytes. `None` means the cluster's
    /// `batch_size_fail_threshold`.
    ///
    /// The store reads the cluster's limits from `system_views.settings` of one node when it opens.
    /// If the user may not read this table, the store assumes Cassandra's defaults.
    pub batch_bytes: Option<usize>,
}

/// TLS options of the connections to a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsConfig {
    /// Certificates (PEM) of the authorities that sign the nodes' certificates.
    pub ca_file: PathBuf,
    /// Certificate chain and private key of this client (PEM), for nodes that require a client
    /// certificate.
    pub client: Option<ClientCertificate>,
    /// True if a node's certificate must name the address of the node. Recto connects to nodes by
    /// IP address, and many certificates contain no IP address. For such certificates set this to
    /// false: the client then accepts any certificate that the authorities signed.
    pub check_server_name: bool,
}

/// Certificate and key files of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// File with the client's certificate chain, in PEM.
    pub certificate_file: PathBuf,
    /// File with the client's private key, in PEM.
    pub key_file: PathBuf,
}

impl TlsConfig {
    /// Returns a configuration that trusts the authorities in `ca_file` and checks the names of
    /// nodes.
    pub fn new(ca_file: impl Into<PathBuf>) -> Self {
        Self {
            ca_file: ca_file.into(),
            client: None,
            check_server_name: true,
        }
    }
}

/// Number of copies of each row in a new keyspace, which always uses `NetworkTopologyStrategy`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Replication {
    /// Number of copies in every data center of the cluster.
    Everywhere(u8),
    /// Number of copies in each named data center; other data centers get none.
    Datacenters(Vec<(String, u8)>),
}

impl CassandraConfig {
    /// Returns the default configuration for `keyspace` on the nodes at `hosts`: no credentials, no
    /// TLS, local quorum, local serial.
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

    /// Checks the settings that can be checked without a cluster.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let refuse = |message: String, hint: &str| {
            Err(StoreError::new(StoreErrorKind::Invalid, message).with_hint(hint))
        };
        if self.hosts.is_empty() || self.hosts.len() > MAX_HOSTS {
            return refuse(
                format!(
                    "the number of Cassandra hosts is {}, and must be from 1 to {MAX_HOSTS}",
                    self.hosts.len()
                ),
                "name a node as host or host:port",
            );
        }
        if !is_keyspace_name(&self.keyspace) {
            return refuse(
                format!("{:?} is not a keyspace name", self.keyspace),
                "use a letter, then letters, digits and underscores, at most 48 characters in total",
            );
        }
        if self.username.is_some() != self.password.is_some() {
            return refuse(
                "only one of user name and password is set".to_owned(),
                "set both or neither",
            );
        }
        if is_serial(self.consistency) || !is_serial(self.serial_consistency) {
            return refuse(
                "the consistency must not be serial, and the serial consistency must be serial".to_owned(),
                "use for example consistency local_quorum and serial consistency local_serial",
            );
        }
        if self.retries > MAX_RETRIES || !(1..=MAX_POOL_SIZE).contains(&self.pool_size) {
            return refuse(
                format!(
                    "{} retries and {} connections per node are out of range",
                    self.retries, self.pool_size
                ),
                "set 0 to 16 retries and 1 to 64 connections",
            );
        }
        if !(1..=MAX_IN_FLIGHT).contains(&self.in_flight) {
            return refuse(
                format!("{} writes in flight are out of range", self.in_flight),
                "set a number from 1 to 4096",
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
                    format!("{bytes} bytes are out of range for {what}"),
                    "set 64 KiB to 16 MiB for a mutation, and 1 KiB to 16 MiB for a logged batch",
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
