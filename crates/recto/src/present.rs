//! Visibility of records: whether a row of a base table is an existing record, and which version
//! the record has.

use recto_model::RowRef;
use recto_plan::SortOrder;
use recto_protocol::views::{Head, StoredError};

use crate::error::{Error, ErrorKind, Result};

/// Record together with its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Versioned<T> {
    /// Fields of the record.
    pub record: T,
    /// Version of the record: the time of its last change in microseconds since 1970, or a larger
    /// number. Each change of the record raises the version. Records that do not change (`writes =
    /// "append"`, `"overwrite"`) have no version.
    pub version: Option<i64>,
}

/// Columns that show whether a row of the base table is a record, in collections whose records
/// change. Other rows belong to records that were deleted or have expired, or to changes that were
/// never decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Presence {
    version: usize,
    head: usize,
}

impl Presence {
    /// Returns the columns in a base table. Returns `None` if the collection's records do not
    /// change, so that each row is a record.
    pub(crate) fn of(sort_order: &SortOrder) -> Option<Self> {
        Some(Self {
            version: sort_order.version?,
            head: sort_order.head?,
        })
    }

    /// Returns whether a row is a record that exists at the time `now_micros`.
    ///
    /// # Errors
    /// The row is damaged, or a newer release wrote it.
    pub(crate) fn has(self, row: RowRef<'_>, now_micros: i64) -> Result<bool> {
        if row.get(self.version).is_none() {
            return Ok(false);
        }
        row.get(self.head).map_or(Ok(true), |head| {
            let life = Head::life(head).map_err(unreadable)?;
            Ok(life.lives_at(now_micros))
        })
    }
}

/// Returns the version of a row's record; `None` in collections whose records have no versions.
pub(crate) fn version_of(sort_order: &SortOrder, row: RowRef<'_>) -> Option<i64> {
    let cell = row.get(sort_order.version?)?;
    Some(i64::from_be_bytes(cell.try_into().ok()?))
}

/// Returns the error for a row of a record whose hidden columns cannot be decoded.
#[cold]
pub(crate) fn unreadable(error: StoredError) -> Error {
    let kind = match error {
        StoredError::UnknownVersion { .. } => ErrorKind::Unsupported,
        _ => ErrorKind::Corrupt,
    };
    Error::new(kind, format!("the row of a record: {error}"))
        .with_hint(error.hint())
        .with_source(error)
}
