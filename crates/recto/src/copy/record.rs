//! Records of a source store, as a copy reads them.

use std::sync::Arc;

use recto_model::schema::{Collection, WriteMode};
use recto_model::{Cells, RowRef};
use recto_protocol::views::{BaseTable, Micros, Version};
use recto_store::ScanRead;

use crate::beside::RecordRow;
use crate::core::CollectionCore;
use crate::error::{Error, ErrorKind, Result};
use crate::viewed::Written;

/// Record of a collection, in a form that every target store accepts.
#[derive(Debug, Clone)]
pub(super) struct Record {
    /// All cells of the base table's row, including hidden cells.
    pub(super) cells: Cells,
    /// Cells of the fields, in the order of the collection.
    pub(super) fields: Cells,
    /// Version of the record. If the collection has no versions (`writes` is not `update`), this is
    /// the write timestamp of the values, or 0 if it is unknown.
    pub(super) version: Version,
    /// Remaining time to live in seconds, as the store reports it, if the record expires.
    pub(super) ends_in_seconds: Option<u32>,
    /// Time at which the record expires, by the local clock.
    pub(super) expires_at: Option<Micros>,
    /// True if a field outside the key has a value.
    pub(super) has_values: bool,
}

/// Records that one read returned. Deleted and expired records are omitted.
#[derive(Debug, Default)]
pub(super) struct Records(pub(super) Vec<Record>);

impl Records {
    /// Returns the records of rows that were read from a collection.
    ///
    /// # Errors
    /// A row is damaged, or a newer release wrote it.
    pub(super) fn of(core: &Arc<CollectionCore>, read: &ScanRead) -> Result<Self> {
        let now = core.shared.environment.now_micros();
        let changes = core.definition.writes == WriteMode::Update;
        let mut records = Vec::with_capacity(read.rows.len());
        for (index, row) in read.rows.iter().enumerate() {
            let record = if changes {
                changed(core, row, now)?
            } else {
                let ends = read.ends_in_seconds.get(index).copied().flatten();
                let stamp = read.stamps.get(index).copied().unwrap_or(0);
                Some(plain(core, row, (stamp, ends), now))
            };
            records.extend(record);
        }
        Ok(Self(records))
    }

    /// Returns whether the rows contain any record. A deleted record whose version is still stored counts
    /// too.
    ///
    /// # Errors
    /// The errors of [`of`](Self::of).
    pub(super) fn has_any(collection: &Collection, read: &ScanRead) -> Result<bool> {
        if collection.writes != WriteMode::Update {
            return Ok(!read.rows.is_empty());
        }
        let base = BaseTable::new(collection)
            .map_err(|error| Error::new(ErrorKind::SchemaMismatch, error.to_string()).with_source(error))?;
        for row in read.rows.iter() {
            if base.row(row).map_err(damaged)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cold]
fn damaged(error: recto_protocol::views::StoredError) -> Error {
    Error::new(ErrorKind::Corrupt, error.to_string())
        .with_hint(error.hint())
        .with_source(error)
}

/// Returns the record of a row in a collection with `writes = "update"`. Returns `None` if the record is
/// deleted or has expired.
fn changed(core: &Arc<CollectionCore>, row: RowRef<'_>, now: Micros) -> Result<Option<Record>> {
    let Some(viewed) = &core.viewed else {
        return Ok(None);
    };
    let found: Option<RecordRow> = viewed.row(row, Written::UNTOLD)?;
    Ok(found.and_then(|found| {
        let fields = found.record_at(now)?.clone();
        Some(Record {
            cells: row.to_cells(),
            version: found.version,
            ends_in_seconds: None,
            expires_at: found.expires_at,
            has_values: true,
            fields,
        })
    }))
}

/// Returns the record of a row in a collection whose `writes` is not `update`.
fn plain(
    core: &Arc<CollectionCore>,
    row: RowRef<'_>,
    (stamp, ends_in_seconds): (i64, Option<u32>),
    now: Micros,
) -> Record {
    let base = core.base();
    let cell = |column: &Option<usize>| column.and_then(|column| row.get(column));
    let mut regular = base.table.key_len()..base.table.columns().len();
    let has_values = regular.any(|column| row.get(column).is_some());
    let ends_in_seconds = ends_in_seconds.filter(|_| has_values);
    Record {
        cells: row.to_cells(),
        fields: base.column_of_field.iter().map(cell).collect(),
        version: Version(stamp),
        ends_in_seconds,
        expires_at: ends_in_seconds.map(|seconds| now.saturating_add(i64::from(seconds) * 1_000_000)),
        has_values,
    }
}
