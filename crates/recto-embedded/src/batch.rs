//! Preparation of writes: keys and rows are encoded on the caller's thread, so that the writer thread only looks up and
//! inserts.

use std::ops::Range;
use std::sync::Arc;

use recto_model::{Bound, Cells, Table};
use recto_store::{Mutation, Operation, StoreError, StoreErrorKind};

use crate::catalog::{Catalog, StoredTable};
use crate::keys;
use crate::limits::MAX_REQUEST_BYTES;
use crate::row::{Cell, Life, Row};

/// Effect of a change of a batch on the row at its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Action {
    /// Merges a row into the stored row, which probably does not exist.
    Put,
    /// Inserts a row, and does not change an existing row. The row is probably new.
    Insert,
    /// Merges a row into the stored row, which probably exists.
    Patch,
    /// Deletes the row. Parts of the row that are newer than the deletion stay.
    Delete,
    /// Deletes the rows from the key up to an end. Rows and parts of rows that are newer than the deletion
    /// stay.
    DeleteRange,
}

impl Action {
    fn deletes(self) -> bool {
        matches!(self, Self::Delete | Self::DeleteRange)
    }
}

/// One change of a batch. Its key and value are stored in the batch's buffer.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    /// Index of the table in [`Batch::tables`].
    pub(crate) table: usize,
    pub(crate) action: Action,
    /// Index of the mutation among all mutations of the call.
    pub(crate) number: u32,
    /// Timestamp of the change. `None`: the writer gives it a newer timestamp than that of the existing row.
    pub(crate) stamp: Option<i64>,
    key: Range<u32>,
    /// Position in the buffer: of the row to merge, or of the end of the range to delete.
    value: Range<u32>,
}

impl Change {
    /// Returns the sort key for the changes of one row. Changes with a timestamp come first, by ascending
    /// timestamp. At equal timestamps, deletions come last.
    fn order(&self) -> (bool, Option<i64>, bool) {
        (self.stamp.is_none(), self.stamp, self.action.deletes())
    }
}

/// Encoded changes of one write call.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) tables: Vec<Arc<StoredTable>>,
    pub(crate) changes: Vec<Change>,
    /// True if conflicting inserts are skipped. If false, one conflict rejects the whole batch.
    pub(crate) row_by_row: bool,
    buffer: Vec<u8>,
    has_ranges: bool,
    /// Number of sorted changes, from the first one on, that are in key order.
    in_key_order: usize,
    has_inserts: bool,
    /// Number of mutations that were added so far, which is the index of the next mutation.
    mutations: u32,
}

/// Table and encoded partition key of consecutive mutations, so that they are looked up and encoded once.
struct Place<'a> {
    table: usize,
    definition: &'a Table,
    partition: Vec<u8>,
}

impl Batch {
    pub(crate) fn key(&self, change: &Change) -> &[u8] {
        &self.buffer[change.key.start as usize..change.key.end as usize]
    }

    pub(crate) fn value(&self, change: &Change) -> &[u8] {
        &self.buffer[change.value.start as usize..change.value.end as usize]
    }

    /// Returns whether an insert of the batch may conflict. A conflict undoes the changes before it.
    pub(crate) fn may_be_undone(&self) -> bool {
        self.has_inserts && !self.row_by_row
    }

    /// Returns the number of [sorted](Self::sort) changes, from the first one on, that are in key order.
    pub(crate) fn in_key_order(&self) -> usize {
        self.in_key_order
    }

    pub(crate) fn byte_len(&self) -> usize {
        self.buffer.len() + self.changes.len() * size_of::<Change>()
    }

    /// Adds the mutations of a partition. Rows of mutations without a timestamp are encoded with the
    /// timestamp 0, which the writer replaces later.
    pub(crate) fn add(
        &mut self,
        catalog: &Catalog,
        (definition, partition): (&Table, &Cells),
        mutations: &[Mutation],
        now_seconds: u32,
    ) -> Result<(), StoreError> {
        let stored = catalog.find(definition)?;
        let known = self.tables.iter().position(|known| known.id == stored.id);
        let table = known.unwrap_or(self.tables.len());
        if known.is_none() {
            self.tables.push(Arc::clone(stored));
        }
        let mut key = Vec::with_capacity(partition.byte_len() + keys::KEY_ROOM_BYTES);
        keys::push_partition(definition, partition, &mut key)?;
        let place = Place {
            table,
            definition,
            partition: key,
        };
        for mutation in mutations {
            self.add_mutation(&place, mutation, now_seconds)?;
            self.mutations += 1;
        }
        if self.buffer.len() > MAX_REQUEST_BYTES {
            return Err(too_large());
        }
        Ok(())
    }

    fn add_mutation(
        &mut self,
        place: &Place<'_>,
        mutation: &Mutation,
        now_seconds: u32,
    ) -> Result<(), StoreError> {
        let stamp = mutation.stamp.map(|stamp| stamp.0);
        let life = Life {
            stamp: stamp.unwrap_or(0),
            expiry: mutation
                .ttl_seconds
                .map_or(0, |seconds| now_seconds.saturating_add(seconds)),
        };
        match &mutation.operation {
            Operation::Put {
                clustering,
                cells,
                replace,
            } => {
                let cell = |value: Option<_>| match value {
                    None if !replace => Cell::UNWRITTEN,
                    value => Cell { life, value },
                };
                let row = Row {
                    marker: life,
                    cells: cells.iter().map(cell).collect(),
                };
                // Only an insert with a timestamp can conflict. In a conditional write, a put has
                // no timestamp and meets no conflict.
                self.has_inserts |= !replace && stamp.is_some();
                let action = if *replace { Action::Put } else { Action::Insert };
                self.add_row(place, action, Some(clustering), &row, stamp)
            }
            Operation::Patch {
                clustering,
                columns,
                cells,
            } => {
                let row = patch(life, life, place.definition.regular().len(), columns, cells);
                self.add_row(place, Action::Patch, Some(clustering), &row, stamp)
            }
            Operation::PatchStatic { columns, cells } => {
                let row = patch(Life::NONE, life, place.definition.statics().len(), columns, cells);
                self.add_row(place, Action::Patch, None, &row, stamp)
            }
            Operation::DeleteRow { clustering } => {
                let key = self.push_key(place, Some(clustering))?;
                self.push_change(place, Action::Delete, stamp, key, 0..0);
                Ok(())
            }
            Operation::DeleteRange { from, to } => self.add_range(place, from, to, stamp),
            Operation::DeletePartition => {
                let statics = self.push(|buffer| {
                    buffer.extend_from_slice(&place.partition);
                    buffer.push(keys::STATIC);
                    Ok(())
                })?;
                let end = self.push(|buffer| {
                    buffer.extend_from_slice(&place.partition);
                    buffer.push(keys::ROW + 1);
                    Ok(())
                })?;
                self.push_range(place, stamp, statics, end);
                Ok(())
            }
        }
    }

    fn add_row(
        &mut self,
        place: &Place<'_>,
        action: Action,
        clustering: Option<&Cells>,
        row: &Row<'_>,
        stamp: Option<i64>,
    ) -> Result<(), StoreError> {
        let key = self.push_key(place, clustering)?;
        let bytes = &self.buffer[key.start as usize..key.end as usize];
        let checksum = self.tables[place.table].key_checksum(bytes);
        let value = self.push(|buffer| {
            row.encode(checksum, buffer);
            Ok(())
        })?;
        self.push_change(place, action, stamp, key, value);
        Ok(())
    }

    fn add_range(
        &mut self,
        place: &Place<'_>,
        from: &Bound,
        to: &Bound,
        stamp: Option<i64>,
    ) -> Result<(), StoreError> {
        let mut rows = place.partition.clone();
        rows.push(keys::ROW);
        let from = keys::edge(place.definition, &rows, from)?;
        let to = keys::edge(place.definition, &rows, to)?;
        if from < to {
            let from = self.push_bytes(&from)?;
            let to = self.push_bytes(&to)?;
            self.push_range(place, stamp, from, to);
        }
        Ok(())
    }

    fn push_range(&mut self, place: &Place<'_>, stamp: Option<i64>, from: Range<u32>, to: Range<u32>) {
        self.has_ranges = true;
        self.push_change(place, Action::DeleteRange, stamp, from, to);
    }

    fn push_key(&mut self, place: &Place<'_>, clustering: Option<&Cells>) -> Result<Range<u32>, StoreError> {
        self.push(|buffer| {
            buffer.extend_from_slice(&place.partition);
            match clustering {
                None => buffer.push(keys::STATIC),
                Some(clustering) => {
                    buffer.push(keys::ROW);
                    keys::push_clustering(place.definition, clustering, buffer)?;
                }
            }
            Ok(())
        })
    }

    fn push_bytes(&mut self, bytes: &[u8]) -> Result<Range<u32>, StoreError> {
        self.push(|buffer| {
            buffer.extend_from_slice(bytes);
            Ok(())
        })
    }

    fn push(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), StoreError>,
    ) -> Result<Range<u32>, StoreError> {
        let at = |buffer: &Vec<u8>| u32::try_from(buffer.len()).map_err(|_| too_large());
        let start = at(&self.buffer)?;
        write(&mut self.buffer)?;
        Ok(start..at(&self.buffer)?)
    }

    fn push_change(
        &mut self,
        place: &Place<'_>,
        action: Action,
        stamp: Option<i64>,
        key: Range<u32>,
        value: Range<u32>,
    ) {
        self.changes.push(Change {
            table: place.table,
            action,
            number: self.mutations,
            stamp,
            key,
            value,
        });
    }

    /// Sorts the changes into the [order](Change::order) in which they are applied. If no range is deleted,
    /// or if all range deletions come last, the changes are also sorted by key. Inserting in key order is
    /// several times as fast, and the order matters only among changes of one row.
    pub(crate) fn sort(&mut self) {
        let mut changes = std::mem::take(&mut self.changes);
        let ranges = if self.has_ranges {
            changes.sort_by_key(Change::order);
            let is_range = |change: &Change| change.action == Action::DeleteRange;
            let first = changes.iter().position(is_range).unwrap_or(changes.len());
            if !changes[first..].iter().all(is_range) {
                self.changes = changes;
                return;
            }
            changes.split_off(first)
        } else {
            Vec::new()
        };
        let order = |change: &Change| (change.table, self.key(change), change.order());
        if !changes.is_sorted_by(|left, right| order(left) <= order(right)) {
            changes.sort_by(|left, right| order(left).cmp(&order(right)));
        }
        self.in_key_order = changes.len();
        changes.extend(ranges);
        self.changes = changes;
    }
}

#[cold]
fn too_large() -> StoreError {
    StoreError::new(
        StoreErrorKind::Invalid,
        format!("one write call has more than {MAX_REQUEST_BYTES} bytes"),
    )
    .with_hint("split the write into several calls")
}

fn patch<'a>(marker: Life, life: Life, width: usize, columns: &[u16], cells: &'a Cells) -> Row<'a> {
    let mut row = Row {
        marker,
        cells: vec![Cell::UNWRITTEN; width],
    };
    for (column, value) in columns.iter().zip(cells.iter()) {
        row.cells[usize::from(*column)] = Cell { life, value };
    }
    row
}
