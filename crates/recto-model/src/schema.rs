//! Collections, views, and the TOML they are written in.

use std::sync::Arc;

use crate::Type;
use crate::table::{Direction, Table};
use crate::types::UdtType;

/// A schema: the collections and UDTs of one store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Schema {
    /// UDTs, in declaration order.
    pub types: Vec<Arc<UdtType>>,
    /// Collections, in declaration order.
    pub collections: Vec<Arc<Collection>>,
}

/// How a collection's records may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum WriteMode {
    /// Records change and must not drift. The default; not yet supported.
    #[default]
    Update,
    /// Whole rows, last writer wins.
    Overwrite,
    /// Never changed once written.
    Append,
}

/// A field of a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: Type,
}

/// A column of an arrangement's order, by name, with its direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderColumn {
    /// The field.
    pub field: String,
    /// Its direction.
    pub direction: Direction,
}

/// A further view of a collection (declared, not yet supported by `apply`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// Its name.
    pub name: String,
    /// Partition fields.
    pub partition: Vec<String>,
    /// Order columns as declared (the key follows by itself as tie-breaker).
    pub order: Vec<OrderColumn>,
    /// Everything else that was declared (bucket, nulls, unique, collate, fields), kept as
    /// canonical TOML text so that a plan can name it.
    pub options: Vec<(String, String)>,
}

/// Records of one schema, with a key that identifies one record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collection {
    /// Its name.
    pub name: String,
    /// Its fields, in declaration order.
    pub fields: Vec<Field>,
    /// The key: names of the fields that identify one record, in order.
    pub key: Vec<String>,
    /// The base table's partition fields, in order.
    pub partition: Vec<String>,
    /// The base table's order columns: as declared, completed with the key fields not named.
    pub order: Vec<OrderColumn>,
    /// How records may be written.
    pub writes: WriteMode,
    /// Further views, in declaration order.
    pub views: Vec<View>,
    /// What was declared that this release cannot do, named for `plan` and `apply` to refuse
    /// (`unique`, `collate`, `bucket`, …), with the TOML text.
    pub unsupported: Vec<(String, String)>,
}

impl Collection {
    /// The field of this name and where it stands.
    pub fn field(&self, name: &str) -> Option<(usize, &Field)> {
        self.fields
            .iter()
            .enumerate()
            .find(|(_, field)| field.name == name)
    }

    /// The table of the base arrangement. Its name is the collection's.
    pub fn base_table(&self) -> Table {
        todo!()
    }
}
