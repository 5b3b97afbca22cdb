//! Values that conditional writes set in a table, and that can come back after the table was emptied.
//!
//! Paxos stores its last decision of a partition apart from the table. After an emptying, it writes this
//! decision into the table again if a replica missed it.

use std::sync::Arc;

use recto_model::table::{ColumnKind, WriteKind};
use recto_model::{Cells, RowRef, Table};

use crate::{Cas, CasCondition, Mutation, Operation, ReadOptions, RowAddress, Store, StoreError, TokenRange};

/// Maximum number of rows of a table that are examined before it is emptied. Further rows do not come back.
pub const MAX_REVIVED_ROWS: u32 = 1_000;

/// Returns conditional writes that restore the values that conditional writes set in `table`, after the table
/// was emptied. Each restores one row, if the values of the row are null.
pub(super) async fn decided_rows(store: &dyn Store, table: &Table) -> Result<Vec<Cas>, StoreError> {
    if !table.columns().iter().any(|column| is_decided(column.kind)) {
        return Ok(Vec::new());
    }
    let table = Arc::new(table.clone());
    let options = ReadOptions {
        stamps: true,
        ..ReadOptions::default()
    };
    let snapshot = store.snapshot()?;
    let whole = TokenRange::whole();
    let read = snapshot
        .scan(&table, &whole, None, MAX_REVIVED_ROWS, &options)
        .await?;
    let rows = read.rows.iter().zip(read.ends_in_seconds);
    Ok(rows
        .filter_map(|(row, ends)| set_again(&table, row, ends))
        .collect())
}

fn is_decided(kind: ColumnKind) -> bool {
    matches!(
        kind,
        ColumnKind::Static(WriteKind::Cas) | ColumnKind::Regular(WriteKind::Cas)
    )
}

/// Returns a conditional write that restores the values that conditional writes set in a row, and in the
/// static cells of its partition. Returns `None` if conditional writes set no value of the row.
fn set_again(table: &Arc<Table>, row: RowRef<'_>, ends_in_seconds: Option<u32>) -> Option<Cas> {
    let cells = |from, to| -> Cells { (from..to).map(|index| row.get(index)).collect() };
    let (partition, statics) = (table.partition().len(), table.key_len());
    let (clustering, regular) = (cells(partition, statics), statics + table.statics().len());
    let (mut conditions, mut mutations) = (Vec::new(), Vec::new());
    if let Some((columns, cells)) = decided_cells(table, row, statics, regular) {
        conditions.extend(nothing_yet(&RowAddress::Static, &columns));
        mutations.push(mutation(Operation::PatchStatic { columns, cells }, None));
    }
    if let Some((columns, cells)) = decided_cells(table, row, regular, table.columns().len()) {
        conditions.extend(nothing_yet(&RowAddress::Row(clustering.clone()), &columns));
        let patch = Operation::Patch {
            clustering,
            columns,
            cells,
        };
        mutations.push(mutation(patch, ends_in_seconds));
    }
    (!mutations.is_empty()).then(|| Cas {
        table: Arc::clone(table),
        partition: cells(0, partition),
        conditions,
        mutations,
    })
}

/// Returns the columns in the range from `from` to `to` that conditional writes set, with their values. The
/// returned indexes of the columns count from `from`.
fn decided_cells(table: &Table, row: RowRef<'_>, from: usize, to: usize) -> Option<(Vec<u16>, Cells)> {
    let decided = (from..to).filter(|index| is_decided(table.columns()[*index].kind));
    let held = decided.filter_map(|index| Some(((index - from) as u16, row.get(index)?)));
    let (columns, cells): (Vec<u16>, Vec<&[u8]>) = held.unzip();
    (!columns.is_empty()).then(|| (columns, cells.into_iter().map(Some).collect()))
}

fn nothing_yet<'c>(row: &RowAddress, columns: &'c [u16]) -> impl Iterator<Item = CasCondition> + use<'c> {
    let row = row.clone();
    columns.iter().map(move |column| CasCondition {
        row: row.clone(),
        column: *column,
        expected: None,
    })
}

fn mutation(operation: Operation, ttl_seconds: Option<u32>) -> Mutation {
    Mutation {
        operation,
        stamp: None,
        ttl_seconds,
    }
}
