//! Keys of stored rows. A key has the components of the partition, a kind byte, and the components of the
//! clustering columns. `docs/format.md` describes keys, and [`recto_model::key`] encodes their components.

use recto_model::key::{self, KeyError};
use recto_model::{Bound, Cells, Column, Table};
use recto_store::{StoreError, StoreErrorKind};

/// Kind byte of a partition's static row, which comes before the other rows of the partition.
pub(crate) const STATIC: u8 = 0x00;
/// Kind byte, between the partition and the clustering components of a key, of a row that is not static.
pub(crate) const ROW: u8 = 0x01;

/// Returns the error for a key part whose type differs from the type of its column.
#[cold]
fn invalid(table: &Table, error: KeyError) -> StoreError {
    StoreError::new(
        StoreErrorKind::Invalid,
        format!("a key of table {}: {error}", table.name()),
    )
    .with_source(error)
}

/// Appends the encoded components of a partition key to `out`.
pub(crate) fn push_partition(table: &Table, partition: &Cells, out: &mut Vec<u8>) -> Result<(), StoreError> {
    key::encode_partition(table, partition.as_row(), out).map_err(|error| invalid(table, error))
}

/// Appends the encoded components of a clustering key, or of a prefix of one, to `out`.
pub(crate) fn push_clustering(
    table: &Table,
    clustering: &Cells,
    out: &mut Vec<u8>,
) -> Result<(), StoreError> {
    key::encode_clustering(table, clustering.as_row(), out).map_err(|error| invalid(table, error))
}

/// Appends the whole key of a row to `out`: partition components, kind byte, clustering components.
pub(crate) fn push_row(
    table: &Table,
    partition: &Cells,
    clustering: &Cells,
    out: &mut Vec<u8>,
) -> Result<(), StoreError> {
    push_partition(table, partition, out)?;
    out.push(ROW);
    push_clustering(table, clustering, out)
}

/// Returns the first key at or after an edge of a partition. `rows` is the common prefix of the partition's row keys.
pub(crate) fn edge(table: &Table, rows: &[u8], bound: &Bound) -> Result<Vec<u8>, StoreError> {
    let mut key = Vec::with_capacity(rows.len() + bound.cells().byte_len() + KEY_ROOM_BYTES);
    key.extend_from_slice(rows);
    push_clustering(table, bound.cells(), &mut key)?;
    if matches!(bound, Bound::After(_)) {
        let found = key::prefix_successor(&mut key);
        debug_assert!(found, "the kind byte is never 0xFF");
    }
    Ok(key)
}

/// Bytes to reserve for a key in addition to its cells, for the bytes that encoding usually adds.
pub(crate) const KEY_ROOM_BYTES: usize = 32;

/// Decodes the components of `columns` at the start of `bytes`, removes them from `bytes`, and appends each cell to
/// `cells`.
pub(crate) fn decode(columns: &[Column], bytes: &mut &[u8], cells: &mut Cells) -> Result<(), KeyError> {
    for column in columns {
        let direction = direction(column);
        cells.try_push_with(|out| key::decode(&column.ty, direction, bytes, out))?;
    }
    Ok(())
}

/// Returns the direction of a key column. Partition columns are ascending.
pub(crate) fn direction(column: &Column) -> recto_model::Direction {
    match column.kind {
        recto_model::table::ColumnKind::Clustering(direction) => direction,
        _ => recto_model::Direction::Ascending,
    }
}
