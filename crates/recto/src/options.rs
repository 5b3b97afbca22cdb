//! Options for opening a store, and limits of its requests.

use std::sync::Arc;
use std::time::Duration;

use recto_model::Environment;
use recto_store::{ReadOptions, WriteOptions};

use crate::address::Secret;
#[cfg(doc)]
use crate::error::ErrorKind;

/// Options for opening a store.
///
/// ```
/// use std::time::Duration;
/// use recto::OpenOptions;
///
/// let options = OpenOptions::new().create().cursor_lifetime(Duration::from_secs(3_600));
/// assert!(options.create);
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct OpenOptions {
    /// If true, creates the store (folder or keyspace) if it does not exist.
    pub create: bool,
    /// If true, opens an embedded store read-only. Other processes can read it at the same time.
    pub read_only: bool,
    /// True if this process leaves the maintenance of the store to other processes.
    pub without_upkeep: bool,
    /// Maximum time to wait for a store that another process has open or that is not reachable yet.
    pub wait: Duration,
    /// Memory for the cache of an embedded store's pages, in bytes. `None`: 256 MiB.
    pub cache_bytes: Option<usize>,
    /// Lifetime of cursors. `None`: cursors never expire.
    pub cursor_lifetime: Option<Duration>,
    /// Maximum time for one request (a page, a read or a write) that has no time limit of its own. `None`: 5
    /// s for reads, 10 s for writes. A time limit in the store's address takes precedence.
    pub request_timeout: Option<Duration>,
    pub(crate) cursor_keys: Option<GivenKeys>,
    /// Connection parameters for keyspaces with attached tables, as names and values. Parameters that the
    /// store has recorded take precedence.
    #[cfg_attr(not(feature = "cassandra"), allow(dead_code))]
    pub(crate) cassandra: Vec<(String, Secret)>,
    pub(crate) environment: Option<Environment>,
}

/// Cursor keys from the configuration. The debug output of the type does not show the keys.
#[derive(Clone)]
pub(crate) struct GivenKeys(pub(crate) Arc<[u8]>);

impl std::fmt::Debug for GivenKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[secret]")
    }
}

impl OpenOptions {
    /// Returns the default options: the store must exist, cursors never expire, and the keys in the
    /// store encrypt cursors.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates the store if it does not exist.
    #[must_use]
    pub fn create(mut self) -> Self {
        self.create = true;
        self
    }

    /// Opens an embedded store read-only, so that writes are rejected. Several processes can open a store
    /// read-only at the same time if none writes. A store that was not closed properly is repaired first.
    /// This option has no effect on Cassandra.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// Leaves the maintenance of the store to other processes: this process splits no buckets, removes no
    /// stale entries of views and no expired messages, and creates no tables of queues. With
    /// [`read_only`](Self::read_only), a process that only reads changes nothing, on Cassandra too.
    #[must_use]
    pub fn without_upkeep(mut self) -> Self {
        self.without_upkeep = true;
        self
    }

    /// Sets the maximum time to wait for a store that another process has open or that is not
    /// reachable yet. Recto tries to open the store every quarter of a second while it fails with
    /// [`ErrorKind::Unavailable`] or [`ErrorKind::Timeout`]. An attempt that has begun continues
    /// after the time has elapsed.
    #[must_use]
    pub fn wait(mut self, time: Duration) -> Self {
        self.wait = time;
        self
    }

    /// Sets the memory for the cache of an embedded store's pages, in bytes.
    #[must_use]
    pub fn cache_bytes(mut self, bytes: usize) -> Self {
        self.cache_bytes = Some(bytes);
        self
    }

    /// Sets the lifetime of cursors. The lifetime of a cursor begins when its page is created.
    #[must_use]
    pub fn cursor_lifetime(mut self, lifetime: Duration) -> Self {
        self.cursor_lifetime = Some(lifetime);
        self
    }

    /// Sets the maximum time for one request (a page, a read or a write) that has no time limit of its own.
    #[must_use]
    pub fn request_timeout(mut self, time: Duration) -> Self {
        self.request_timeout = Some(time);
        self
    }

    /// Sets the keys that encrypt cursors, in the form that
    /// [`Recto::export_cursor_keys`](crate::Recto::export_cursor_keys) returns. They replace the
    /// keys in the store. Stores that have the same keys accept each other's cursors.
    #[must_use]
    pub fn cursor_keys(mut self, keys: &[u8]) -> Self {
        self.cursor_keys = Some(GivenKeys(keys.into()));
        self
    }

    /// Sets a connection parameter for every keyspace with attached tables: `username`, `password`,
    /// or another parameter of [`CassandraAddress::set`](crate::CassandraAddress::set). Parameters
    /// that the store has recorded with a keyspace's address take precedence. The store records no
    /// credentials.
    #[must_use]
    pub fn cassandra_parameter(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.cassandra.push((name.into(), Secret::new(value)));
        self
    }

    pub(crate) fn has_cursor_keys(&self) -> bool {
        self.cursor_keys.is_some()
    }

    /// Sets the source of time and randomness, for tests that control both.
    #[must_use]
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = Some(environment);
        self
    }
}

/// Returns the options of reads, with `request_timeout` or the default as time limit.
pub(crate) fn read_options(request_timeout: Option<Duration>) -> ReadOptions {
    let default = ReadOptions::default();
    ReadOptions {
        timeout: request_timeout.unwrap_or(default.timeout),
        ..default
    }
}

/// Returns the options of writes, with `request_timeout` or the default as time limit.
pub(crate) fn write_options(request_timeout: Option<Duration>) -> WriteOptions {
    let default = WriteOptions::default();
    WriteOptions {
        timeout: request_timeout.unwrap_or(default.timeout),
        ..default
    }
}
