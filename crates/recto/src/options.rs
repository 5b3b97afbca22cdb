//! What a store is opened with, and how its requests are bounded.

use std::sync::Arc;
use std::time::Duration;

use recto_model::Environment;
use recto_store::{ReadOptions, WriteOptions};

use crate::address::Secret;
#[cfg(doc)]
use crate::error::ErrorKind;

/// How to open a store.
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
    /// Whether to make the store (folder, keyspace) if it is not there.
    pub create: bool,
    /// Whether to open an embedded store without changing it, beside other processes that read it.
    pub read_only: bool,
    /// Whether this process leaves the maintenance of the store to other processes.
    pub without_upkeep: bool,
    /// How long to wait for a store that another process holds, or that cannot be reached yet.
    pub wait: Duration,
    /// Memory for the embedded store's pages, in bytes; absent: its default.
    pub cache_bytes: Option<usize>,
    /// How long cursors live; absent: for ever.
    pub cursor_lifetime: Option<Duration>,
    /// How long one request (a page, a read, a write) may take unless it says otherwise; absent: 5 s
    /// for reads, 10 s for writes. An address that gives one is heard first.
    pub request_timeout: Option<Duration>,
    pub(crate) cursor_keys: Option<GivenKeys>,
    /// What holds for keyspaces of which tables are attached, unless the store recorded otherwise.
    #[cfg_attr(not(feature = "cassandra"), allow(dead_code))]
    pub(crate) cassandra: Vec<(String, Secret)>,
    pub(crate) environment: Option<Environment>,
}

/// Cursor keys from configuration; never printed.
#[derive(Clone)]
pub(crate) struct GivenKeys(pub(crate) Arc<[u8]>);

impl std::fmt::Debug for GivenKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[secret]")
    }
}

impl OpenOptions {
    /// The defaults: the store must be there, cursors live for ever and are sealed with the keys
    /// that the store holds.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the store if it is not there.
    #[must_use]
    pub fn create(mut self) -> Self {
        self.create = true;
        self
    }

    /// Opens an embedded store to read it: several processes may at a time, if none writes. Writes are
    /// refused. A store that was not closed is brought in order first. On Cassandra it changes nothing.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// Leaves the maintenance of the store to other processes: this one splits no buckets, removes no stale entries of
    /// views and no expired messages, and creates no tables of queues. With [`read_only`](Self::read_only), a process that
    /// only reads changes nothing, on Cassandra too.
    #[must_use]
    pub fn without_upkeep(mut self) -> Self {
        self.without_upkeep = true;
        self
    }

    /// How long to wait for a store that another process holds, or that cannot be reached yet. Opening is
    /// tried again every quarter of a second, as long as it fails with [`ErrorKind::Unavailable`] or
    /// [`ErrorKind::Timeout`]; one try that is under way when the time is over goes on to its end.
    #[must_use]
    pub fn wait(mut self, time: Duration) -> Self {
        self.wait = time;
        self
    }

    /// Memory for the embedded store's pages, in bytes.
    #[must_use]
    pub fn cache_bytes(mut self, bytes: usize) -> Self {
        self.cache_bytes = Some(bytes);
        self
    }

    /// How long cursors live from when a page gives them.
    #[must_use]
    pub fn cursor_lifetime(mut self, lifetime: Duration) -> Self {
        self.cursor_lifetime = Some(lifetime);
        self
    }

    /// How long one request (a page, a read, a write) may take unless it says otherwise.
    #[must_use]
    pub fn request_timeout(mut self, time: Duration) -> Self {
        self.request_timeout = Some(time);
        self
    }

    /// The keys to seal cursors with, in the form that [`Recto::export_cursor_keys`](crate::Recto::export_cursor_keys) gives, in place
    /// of those that the store holds: for stores that must open one another's cursors.
    #[must_use]
    pub fn cursor_keys(mut self, keys: &[u8]) -> Self {
        self.cursor_keys = Some(GivenKeys(keys.into()));
        self
    }

    /// What holds for every keyspace of which tables are attached, unless the store recorded otherwise: `username`, `password`
    /// and the other parameters that [`CassandraAddress::set`](crate::CassandraAddress::set) takes. A store records how such a keyspace is reached without credentials.
    #[must_use]
    pub fn cassandra_parameter(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.cassandra.push((name.into(), Secret::new(value)));
        self
    }

    pub(crate) fn has_cursor_keys(&self) -> bool {
        self.cursor_keys.is_some()
    }

    /// The handle on time and randomness, for tests that control both.
    #[must_use]
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = Some(environment);
        self
    }
}

/// How to read where a request may take this long, or what reads may.
pub(crate) fn read_options(request_timeout: Option<Duration>) -> ReadOptions {
    let default = ReadOptions::default();
    ReadOptions {
        timeout: request_timeout.unwrap_or(default.timeout),
        ..default
    }
}

/// How to write where a request may take this long, or what writes may.
pub(crate) fn write_options(request_timeout: Option<Duration>) -> WriteOptions {
    let default = WriteOptions::default();
    WriteOptions {
        timeout: request_timeout.unwrap_or(default.timeout),
        ..default
    }
}
