//! Which rows of a table are records, and of which version.

use recto_model::RowRef;
use recto_plan::SortOrder;
use recto_protocol::views::{Head, StoredError};

use crate::error::{Error, ErrorKind, Result};

/// A record with its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Versioned<T> {
    /// The record.
    pub record: T,
    /// What each change of it raises: microseconds since 1970, or more. Records that do not change (`writes = "append"`,
    /// `"overwrite"`) have none.
    pub version: Option<i64>,
}

/// Says which rows of the base table of records that change are records. The others are of records that were deleted
/// or have expired, or of changes that were never decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Presence {
    version: usize,
    head: usize,
}

impl Presence {
    /// None of tables each of whose rows is a record.
    pub(crate) fn of(sort_order: &SortOrder) -> Option<Self> {
        Some(Self {
            version: sort_order.version?,
            head: sort_order.head?,
        })
    }

    /// Whether a row is a record at this moment.
    ///
    /// # Errors
    /// It is damaged, or a newer release wrote it.
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

/// The version of a row's record; none in collections whose records have none.
pub(crate) fn version_of(sort_order: &SortOrder, row: RowRef<'_>) -> Option<i64> {
    let cell = row.get(sort_order.version?)?;
    Some(i64::from_be_bytes(cell.try_into().ok()?))
}

/// The error of hidden columns that cannot be read.
#[cold]
pub(crate) fn unreadable(error: StoredError) -> Error {
    let kind = match error {
        StoredError::UnknownVersion { .. } => ErrorKind::Unsupported,
        _ => ErrorKind::Corrupt,
    };
    Error::new(kind, format!("a record's row: {error}"))
        .with_hint(error.hint())
        .with_source(error)
}
