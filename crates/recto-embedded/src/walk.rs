//! Entries of a table in key order, starting at an edge (bound of a key range) whose position in the table is
//! verified.
//!
//! The engine finds an edge by binary search. A damaged key misleads the search: rows would be skipped
//! without an error. The search ends between two entries that it compared with the edge. An entry is
//! undamaged if its checksum, which covers its key, is valid. If both entries are undamaged and on different
//! sides of the edge, the search ended at the edge. Damaged keys that the search met before do not matter.
//! The reader verifies the entry after the edge. This module verifies the entry before the edge, in the same
//! descent of the tree.

use std::ops::Bound;

use recto_model::table::ReadDirection;
use recto_store::StoreError;
use redb::{AccessGuard, Cursor, ReadableTable};

use crate::catalog::StoredTable;
use crate::damage::{damaged, hex};
use crate::error::{corrupt, engine};
use crate::log::WriteTable;
use crate::row::StoredRow;
use crate::state::{OpenTable, Rows};

type Bytes = &'static [u8];
type Guard<'a> = AccessGuard<'a, Bytes>;
/// Key and value of an entry.
type Entry<'a> = (&'a [u8], &'a [u8]);

/// Table of the engine that contains rows, as a write transaction opens it.
pub(crate) type RowsTable<'t> = WriteTable<'t>;

/// Table of the engine that contains rows, in a snapshot or in a write transaction.
pub(crate) trait RowsOfTable: ReadableTable<Bytes, Bytes> {}
impl RowsOfTable for Rows {}
impl RowsOfTable for RowsTable<'_> {}

/// Verifies the checksum of an entry of which only the key is used.
pub(crate) fn verify(stored: &StoredTable, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
    match StoredRow::open(stored.key_checksum(key), value) {
        Ok(_) => Ok(()),
        Err(damage) => Err(damaged(stored, key, damage)),
    }
}

/// Returns the error of two entries in the wrong order, or of an entry on the wrong side of an edge.
#[cold]
fn out_of_order(stored: &StoredTable, key: &[u8]) -> StoreError {
    corrupt(format!(
        "table {} has rows in the wrong order (key {})",
        stored.definition.name(),
        hex(key)
    ))
}

/// Checks that the table is really empty after a search found no entry on either side of an edge.
fn expect_empty(stored: &StoredTable, rows: &impl RowsOfTable) -> Result<(), StoreError> {
    match rows.len().map_err(engine)? {
        0 => Ok(()),
        count => Err(corrupt(format!(
            "table {} should have {count} rows, but has none",
            stored.definition.name()
        ))),
    }
}

/// Result of a search for a key.
pub(crate) enum Found<'r> {
    /// Value at the key. The caller must verify the checksum of the value.
    Row(Guard<'r>),
    /// The key does not exist, which was verified. The value is the next key, or `None` at the end of the
    /// table.
    Gap(Option<Guard<'r>>),
}

/// Searches for `key`. If the key does not exist, verifies the entries on both sides of its position, because
/// a damaged key could hide it.
#[inline]
pub(crate) fn search<'r>(
    stored: &StoredTable,
    rows: &'r impl RowsOfTable,
    key: &[u8],
) -> Result<Found<'r>, StoreError> {
    let mut cursor = rows.lower_bound(Bound::Included(key)).map_err(engine)?;
    let next = cursor.peek_next().map_err(engine)?;
    if let Some((found, value)) = next {
        let at = found.value();
        if at == key {
            return Ok(Found::Row(value));
        }
        verify(stored, at, value.value())?;
        if at < key {
            return Err(out_of_order(stored, at));
        }
        check_behind(stored, cursor.peek_prev(), |behind| behind < key)?;
        return Ok(Found::Gap(Some(found)));
    }
    if !check_behind(stored, cursor.peek_prev(), |behind| behind < key)? {
        expect_empty(stored, rows)?;
    }
    Ok(Found::Gap(None))
}

/// Returns the value at `key`, or `None` if it is verified that the key does not exist. The caller must
/// verify the checksum of the value.
pub(crate) fn find<'r>(
    stored: &StoredTable,
    rows: &'r impl RowsOfTable,
    key: &[u8],
) -> Result<Option<Guard<'r>>, StoreError> {
    Ok(match search(stored, rows, key)? {
        Found::Row(value) => Some(value),
        Found::Gap(_) => None,
    })
}

/// Verifies that the engine finds the position of `edge`, so that operations of the engine from `edge` on
/// miss no row.
pub(crate) fn find_edge(
    stored: &StoredTable,
    rows: &impl RowsOfTable,
    edge: &[u8],
) -> Result<(), StoreError> {
    match find(stored, rows, edge)? {
        Some(value) => verify(stored, edge, value.value()),
        None => Ok(()),
    }
}

type Peeked<'a> = Result<Option<(Guard<'a>, Guard<'a>)>, redb::StorageError>;

/// Verifies the entry next to an edge that the read does not return, on the side of the edge where the read
/// does not go. Returns whether such an entry exists.
fn check_behind(
    stored: &StoredTable,
    peeked: Peeked<'_>,
    is_behind: impl FnOnce(&[u8]) -> bool,
) -> Result<bool, StoreError> {
    let Some((key, value)) = peeked.map_err(engine)? else {
        return Ok(false);
    };
    verify(stored, key.value(), value.value())?;
    if is_behind(key.value()) {
        Ok(true)
    } else {
        Err(out_of_order(stored, key.value()))
    }
}

/// Returns whether `key` satisfies the lower bound `edge`.
fn admits(edge: Bound<&[u8]>, key: &[u8]) -> bool {
    match edge {
        Bound::Included(edge) => key >= edge,
        Bound::Excluded(edge) => key > edge,
        Bound::Unbounded => true,
    }
}

/// Iterator over entries in one direction. It verifies that each key is beyond the previous one. The caller
/// must verify the checksums of the entries.
pub(crate) struct Walk<'a> {
    open: &'a OpenTable,
    cursor: Cursor<'a, Bytes, Bytes>,
    edge: Bound<&'a [u8]>,
    direction: ReadDirection,
    has_behind: bool,
    /// Key and value that the walk returned last.
    last: Option<(Guard<'a>, Guard<'a>)>,
}

impl<'a> Walk<'a> {
    /// Starts at the gap before the first key that satisfies the lower bound `edge`. A forward walk returns
    /// the keys that satisfy the bound, and a backward walk returns the other keys.
    pub(crate) fn begin(
        open: &'a OpenTable,
        edge: Bound<&'a [u8]>,
        direction: ReadDirection,
    ) -> Result<Self, StoreError> {
        let mut cursor = open.rows.lower_bound(edge).map_err(engine)?;
        let has_behind = match direction {
            ReadDirection::Forward => {
                check_behind(&open.stored, cursor.peek_prev(), |key| !admits(edge, key))?
            }
            ReadDirection::Backward => {
                check_behind(&open.stored, cursor.peek_next(), |key| admits(edge, key))?
            }
        };
        Ok(Self {
            open,
            cursor,
            edge,
            direction,
            has_behind,
            last: None,
        })
    }

    /// Returns the next key and value, or `None` at the end of the table.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<Entry<'_>>, StoreError> {
        let is_forward = self.direction == ReadDirection::Forward;
        let entry = if is_forward {
            self.cursor.next()
        } else {
            self.cursor.prev()
        };
        let Some((key, value)) = entry.map_err(engine)? else {
            return self.end();
        };
        let is_in_order = match &self.last {
            Some((last, _)) if is_forward => key.value() > last.value(),
            Some((last, _)) => key.value() < last.value(),
            None => admits(self.edge, key.value()) == is_forward,
        };
        if !is_in_order {
            return Err(out_of_order(&self.open.stored, key.value()));
        }
        let (key, value) = self.last.insert((key, value));
        Ok(Some((key.value(), value.value())))
    }

    #[cold]
    fn end<T>(&self) -> Result<Option<T>, StoreError> {
        if self.last.is_none() && !self.has_behind {
            expect_empty(&self.open.stored, &self.open.rows)?;
        }
        Ok(None)
    }
}
