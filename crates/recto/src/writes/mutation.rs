//! What a store is asked to write for a record: the one place where it is made, for writes and loads.

use recto_model::Cells;
use recto_store::{Mutation, Operation, Stamp};

use crate::core::CollectionCore;

/// A record's cells by the columns of its collection's base table; of a record to delete, those of its key.
pub(crate) trait BaseRow {
    /// The cell of a column; `None`: null.
    fn cell(&self, column: usize) -> Option<&[u8]>;
}

impl BaseRow for Cells {
    fn cell(&self, column: usize) -> Option<&[u8]> {
        self.get(column)
    }
}

/// The partition of the base table that a record is in.
pub(crate) fn partition(core: &CollectionCore, row: &impl BaseRow) -> Cells {
    cells(row, 0..core.written.partition().len())
}

/// Where in its partition it is.
pub(crate) fn clustering(core: &CollectionCore, row: &impl BaseRow) -> Cells {
    let table = &core.written;
    cells(row, table.partition().len()..table.key_len())
}

/// What stores a record. A record type that does not know all fields leaves the others as they are, and one of a
/// collection whose records are never changed does not name those added since.
pub(crate) fn put(
    core: &CollectionCore,
    row: &impl BaseRow,
    stamp: Stamp,
    ttl_seconds: Option<u32>,
) -> Mutation {
    let table = &core.written;
    let clustering = clustering(core, row);
    let regular = cells(row, table.key_len()..table.columns().len());
    let operation = match core.known_columns().filter(|_| core.replaces()) {
        None => Operation::Put {
            clustering,
            cells: regular,
            replace: core.replaces(),
        },
        Some(columns) => Operation::Patch {
            clustering,
            cells: columns.iter().map(|&column| regular.get(column.into())).collect(),
            columns,
        },
    };
    Mutation {
        operation,
        stamp: Some(stamp),
        ttl_seconds,
    }
}

/// What deletes the record of a key.
pub(crate) fn delete(core: &CollectionCore, key: &impl BaseRow, stamp: Stamp) -> Mutation {
    Mutation {
        operation: Operation::DeleteRow {
            clustering: clustering(core, key),
        },
        stamp: Some(stamp),
        ttl_seconds: None,
    }
}

fn cells(row: &impl BaseRow, columns: std::ops::Range<usize>) -> Cells {
    let bytes = columns
        .clone()
        .filter_map(|column| row.cell(column))
        .map(<[u8]>::len)
        .sum();
    let mut cells = Cells::with_capacity(columns.len(), bytes);
    for column in columns {
        cells.push(row.cell(column));
    }
    cells
}
