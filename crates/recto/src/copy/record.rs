//! Records as they are read.

use std::sync::Arc;

use recto_model::schema::{Collection, WriteMode};
use recto_model::{Cells, RowRef};
use recto_protocol::views::{BaseTable, Micros, Version};
use recto_store::ScanRead;

use crate::beside::RecordRow;
use crate::core::CollectionCore;
use crate::error::{Error, ErrorKind, Result};
use crate::viewed::Written;

/// A record of a collection, wherever it is to be put.
#[derive(Debug, Clone)]
pub(super) struct Record {
    /// All cells of the base table's row, hidden ones too.
    pub(super) cells: Cells,
    /// Those of the fields, in the collection's order.
    pub(super) fields: Cells,
    /// Its version; where records are written plainly the stamp of its values, 0 if that is not known.
    pub(super) version: Version,
    /// For how long it lives, if it ends: as the store tells.
    pub(super) ends_in_seconds: Option<u32>,
    /// When it ends, by the clock here.
    pub(super) expires_at: Option<Micros>,
    /// Whether a field beside the key has a value.
    pub(super) has_values: bool,
}

/// Records that were read together, and that there are.
#[derive(Debug, Default)]
pub(super) struct Records(pub(super) Vec<Record>);

impl Records {
    /// What was read of a collection.
    ///
    /// # Errors
    /// A row is damaged, or was written by a newer release.
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

    /// Whether there is any record in what was read, or what is left of one that was deleted, whose version goes on.
    ///
    /// # Errors
    /// As [`of`](Self::of).
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

/// A record that changes; none if it is deleted, or has expired.
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

/// A record that is written plainly.
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
