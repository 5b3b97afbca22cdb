//! Mutations that store and delete records. Writes and loads both create them here.

use recto_model::Cells;
use recto_store::{Mutation, Operation, Stamp};

use crate::core::CollectionCore;

/// Source of the cells of a record, by the columns of the base table. For a deletion, the source
/// has only the cells of the key.
pub(crate) trait BaseRow {
    /// Returns the cell at the index `column`; `None` means null.
    fn cell(&self, column: usize) -> Option<&[u8]>;
}

impl BaseRow for Cells {
    fn cell(&self, column: usize) -> Option<&[u8]> {
        self.get(column)
    }
}

/// Returns the cells of the record's partition key in the base table.
pub(crate) fn partition(core: &CollectionCore, row: &impl BaseRow) -> Cells {
    cells(row, 0..core.written.partition().len())
}

/// Returns the cells of the record's clustering key in the base table.
pub(crate) fn clustering(core: &CollectionCore, row: &impl BaseRow) -> Cells {
    let table = &core.written;
    cells(row, table.partition().len()..table.key_len())
}

/// Returns the mutation that stores a record. Fields that the record type does not know remain
/// unchanged. In a collection whose records never change, the mutation omits the columns after the
/// last one that the record type knows.
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

/// Returns the mutation that deletes the record with a key.
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
