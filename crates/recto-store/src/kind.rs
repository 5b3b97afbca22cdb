//! Which store it is.

use std::fmt;

/// What a store is. Whoever keeps something in a store's own form ([`ScanPosition`](crate::ScanPosition)) keeps
/// this beside it; what a store can do it says in its [`Limits`](crate::Limits), whatever its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreKind {
    /// Files of this machine.
    Embedded,
    /// A keyspace of a cluster.
    Cassandra,
    /// The memory of this process, for tests.
    Memory,
}

impl StoreKind {
    /// Its name, which stands first in what a store [says of itself](crate::Store::describe) and is sealed in
    /// tokens: it never changes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Cassandra => "cassandra",
            Self::Memory => "memory",
        }
    }
}

impl fmt::Display for StoreKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
