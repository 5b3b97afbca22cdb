//! Attached tables: existing tables of another program, which writes their rows. A schema declares
//! them as collections that Recto only reads.

use std::fmt;
use std::str::FromStr;

use super::names::{NameError, check_name};

/// Name of an attached table: a table in a Cassandra keyspace that another program writes, and that
/// contains the records of a collection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct AttachedTable {
    /// Name of the keyspace.
    pub keyspace: String,
    /// Name of the table.
    pub table: String,
}

/// Error for a text that is not the name of an attached table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AttachedTableError {
    /// The text does not consist of two names with a dot between them.
    #[error("the name of an attached table must have its keyspace: keyspace.table")]
    NoKeyspace,
    /// The name of the keyspace or of the table is invalid.
    #[error("{name:?}: {error}")]
    Name {
        /// Name that is invalid.
        name: String,
        /// Rule that the name violates.
        error: NameError,
    },
}

impl AttachedTable {
    /// Returns the attached table with the given keyspace and name.
    ///
    /// # Errors
    /// One of the two names is invalid. Both must satisfy the rules for names of collections.
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

    /// Returns the full name, `keyspace.table`, of another table in the keyspace of this table.
    pub fn beside(&self, table: &str) -> String {
        format!("{}.{table}", self.keyspace)
    }

    /// Returns the keyspace in the full name of an attached table. `None` if the table is not
    /// attached: the names of Recto's own tables have no dot.
    pub fn keyspace_of(table: &str) -> Option<&str> {
        table.split_once('.').map(|(keyspace, _)| keyspace)
    }
}

/// Writes `keyspace.table`.
impl fmt::Display for AttachedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.keyspace, self.table)
    }
}

/// Parses `keyspace.table`, as `Display` writes it.
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
