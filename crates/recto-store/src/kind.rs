//! Kind of a store.

use std::fmt;

/// Storage engine behind a [`Store`](crate::Store). Data in a store's own form, such as a
/// [`ScanPosition`](crate::ScanPosition), is valid only for stores of the same kind. Callers therefore keep
/// the kind with such data. The abilities of a store are in its [`Limits`](crate::Limits), independent of its
/// kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreKind {
    /// Files on this machine, which this process opens.
    Embedded,
    /// Keyspace of a Cassandra cluster.
    Cassandra,
    /// Memory of this process, for tests.
    Memory,
}

impl StoreKind {
    /// Returns the name of the kind, which never changes. The [description](crate::Store::describe) of a
    /// store begins with it, and encrypted tokens contain it.
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
