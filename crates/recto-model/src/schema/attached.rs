//! Tables that are there: a collection whose rows another program writes.

use std::fmt;
use std::str::FromStr;

use super::names::{NameError, check_name};

/// A table of a keyspace of Cassandra that a collection's records are read from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct AttachedTable {
    /// The keyspace.
    pub keyspace: String,
    /// The table.
    pub table: String,
}

/// Why a text is no table that can be attached.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AttachedTableError {
    /// It is not two names with a dot between.
    #[error("a table that is attached is named with its keyspace, keyspace.table")]
    NoKeyspace,
    /// One of them is no name.
    #[error("{name:?}: {error}")]
    Name {
        /// It.
        name: String,
        /// Why not.
        error: NameError,
    },
}

impl AttachedTable {
    /// The table of this name.
    ///
    /// # Errors
    /// One of the names is none: both are as those of collections.
    pub fn new(keyspace: impl Into<String>, table: impl Into<String>) -> Result<Self, AttachedTableError> {
        let (keyspace, table) = (keyspace.into(), table.into());
        for name in [&keyspace, &table] {
            check_name(name).map_err(|error| AttachedTableError::Name {
                name: name.clone(),
                error,
            })?;
        }
        Ok(Self { keyspace, table })
    }

    /// What another table of its keyspace is called.
    pub fn beside(&self, table: &str) -> String {
        format!("{}.{table}", self.keyspace)
    }

    /// The keyspace of a table of this name; none if it is not attached: names of other tables have no dot.
    pub fn keyspace_of(table: &str) -> Option<&str> {
        table.split_once('.').map(|(keyspace, _)| keyspace)
    }
}

/// `keyspace.table`.
impl fmt::Display for AttachedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.keyspace, self.table)
    }
}

/// Reads what `Display` writes.
impl FromStr for AttachedTable {
    type Err = AttachedTableError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (keyspace, table) = text.split_once('.').ok_or(AttachedTableError::NoKeyspace)?;
        Self::new(keyspace, table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_two_names() {
        let table: AttachedTable = "shop.orders".parse().expect("two names");
        assert_eq!(
            (table.keyspace.as_str(), table.table.as_str()),
            ("shop", "orders")
        );
        assert_eq!(table.to_string(), "shop.orders");
        assert_eq!(table.beside("by_status"), "shop.by_status");
        assert_eq!(AttachedTable::keyspace_of(&table.to_string()), Some("shop"));
        assert_eq!(AttachedTable::keyspace_of("orders"), None);
        for text in [
            "",
            "orders",
            "shop.",
            ".orders",
            "shop.Orders",
            "shop.orders.more",
            "shop.recto_x",
        ] {
            assert!(text.parse::<AttachedTable>().is_err(), "{text}");
        }
    }
}
