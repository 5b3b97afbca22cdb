//! Partition of the reference store: all its writes, which are merged by their stamps as in Cassandra.

use std::cmp::Ordering;

use recto_model::{Bound, Cells, Table};

use crate::{Mutation, Operation, RowAddress};

const MICROS_PER_SECOND: i64 = 1_000_000;

/// Last write to a cell. The greater of two writes takes precedence; these fields are compared in their
/// order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Written {
    stamp: i64,
    /// True if the write is a deletion, which wins over a value with an equal stamp (write timestamp).
    deleted: bool,
    /// Written value, empty for a deletion. At equal stamps, the larger value wins.
    value: Vec<u8>,
    /// Time of expiry, in microseconds since 1970; `i64::MAX` if the value does not expire.
    expires: i64,
}

/// Cell of the reference store: the last write to it, or `None` if it was never written.
#[derive(Debug, Clone, Default)]
struct Cell(Option<Written>);

impl Cell {
    fn merge(&mut self, written: Written) {
        if self.0.as_ref().is_none_or(|there| *there < written) {
            self.0 = Some(written);
        }
    }

    fn live(&self, shadow: i64, now: i64) -> Option<&Written> {
        self.0
            .as_ref()
            .filter(|written| !written.deleted && written.stamp > shadow && written.expires > now)
    }
}

/// Row that was written. It may be deleted or expired.
#[derive(Debug, Clone)]
struct Row {
    clustering: Cells,
    /// Write timestamp of the newest deletion of the row; `i64::MIN` before the first deletion.
    deleted: i64,
    /// Write that makes the row exist even without values (row marker).
    marker: Cell,
    cells: Vec<Cell>,
}

#[derive(Debug, Clone)]
pub(super) struct Partition {
    /// Write timestamp of the newest deletion of the partition; `i64::MIN` before the first deletion.
    deleted: i64,
    ranges: Vec<(Bound, Bound, i64)>,
    statics: Vec<Cell>,
    /// Rows in clustering order.
    rows: Vec<Row>,
}

/// Write timestamp of a mutation, and the time when its data expires, both in microseconds since 1970.
#[derive(Clone, Copy)]
struct When {
    stamp: i64,
    expires: i64,
}

impl When {
    fn value(self, cell: Option<&[u8]>) -> Written {
        Written {
            stamp: self.stamp,
            deleted: cell.is_none(),
            value: cell.unwrap_or_default().to_vec(),
            expires: self.expires,
        }
    }
}

/// Returns whether a row with the key `clustering` is before the edge `bound`.
pub(super) fn lies_before(table: &Table, clustering: &Cells, bound: &Bound) -> bool {
    match table.compare_clustering(clustering, bound.cells()) {
        Ordering::Less => true,
        Ordering::Greater => false,
        Ordering::Equal => matches!(bound, Bound::After(_)),
    }
}

/// Kind of existing row that a put finds at its key, to report conflicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Met {
    /// No row exists at the key.
    Nothing,
    /// A row with the same values and the same write timestamp: the put is a repetition.
    Own,
    /// A row with the same values, put with another write timestamp.
    Same,
    /// A row with other values.
    Other,
}

/// Returns the time when the data of a mutation expires, in microseconds since 1970. `i64::MAX`: the data
/// does not expire.
fn expires(mutation: &Mutation, now: i64) -> i64 {
    mutation.ttl_seconds.map_or(i64::MAX, |seconds| {
        now.saturating_add(i64::from(seconds) * MICROS_PER_SECOND)
    })
}

impl Partition {
    pub(super) fn new(table: &Table) -> Self {
        Self {
            deleted: i64::MIN,
            ranges: Vec::new(),
            statics: vec![Cell::default(); table.statics().len()],
            rows: Vec::new(),
        }
    }

    /// Merges a mutation with the write timestamp `stamp` into the partition. `now` is the current time, from
    /// which lifetimes count. Both are in microseconds since 1970.
    pub(super) fn apply(&mut self, table: &Table, mutation: &Mutation, stamp: i64, now: i64) {
        let when = When {
            stamp,
            expires: expires(mutation, now),
        };
        match &mutation.operation {
            Operation::Put {
                clustering,
                cells,
                replace,
            } => {
                let row = self.row(table, clustering);
                row.marker.merge(when.value(Some(b"")));
                for (there, cell) in row.cells.iter_mut().zip(cells.iter()) {
                    if *replace || cell.is_some() {
                        there.merge(when.value(cell));
                    }
                }
            }
            Operation::Patch {
                clustering,
                columns,
                cells,
            } => {
                let row = self.row(table, clustering);
                row.marker.merge(when.value(Some(b"")));
                for (column, cell) in columns.iter().zip(cells.iter()) {
                    row.cells[usize::from(*column)].merge(when.value(cell));
                }
            }
            Operation::PatchStatic { columns, cells } => {
                for (column, cell) in columns.iter().zip(cells.iter()) {
                    self.statics[usize::from(*column)].merge(when.value(cell));
                }
            }
            Operation::DeleteRow { clustering } => {
                let row = self.row(table, clustering);
                row.deleted = row.deleted.max(stamp);
            }
            Operation::DeleteRange { from, to } => self.ranges.push((from.clone(), to.clone(), stamp)),
            Operation::DeletePartition => self.deleted = self.deleted.max(stamp),
        }
    }

    /// Returns the kind of existing row that `put`, with the write timestamp `stamp`, finds at its key.
    pub(super) fn meet(&self, table: &Table, put: &Mutation, stamp: i64, now: i64) -> Met {
        let Operation::Put {
            clustering, cells, ..
        } = &put.operation
        else {
            return Met::Nothing;
        };
        let found = self
            .rows
            .binary_search_by(|row| table.compare_clustering(&row.clustering, clustering));
        let row = found.ok().map(|index| &self.rows[index]);
        let Some(row) = row.and_then(|row| self.live_row(table, row, now)) else {
            return Met::Nothing;
        };
        match row.cells.iter().copied().eq(cells.iter()) {
            true if row.marker == Some(stamp) => Met::Own,
            true => Met::Same,
            false => Met::Other,
        }
    }

    /// Extends the lifetime of the row at the key of a put to the lifetime of the put, unless the row lives
    /// longer.
    pub(super) fn prolong(&mut self, table: &Table, put: &Mutation, now: i64) {
        let Some(clustering) = put.operation.row() else {
            return;
        };
        let expires = expires(put, now);
        let row = self.row(table, clustering);
        for cell in row.cells.iter_mut().chain([&mut row.marker]) {
            // Do not extend the lifetime of expired data, because it must stay invisible.
            if let Some(written) = cell.0.as_mut().filter(|written| written.expires > now) {
                written.expires = written.expires.max(expires);
            }
        }
    }

    /// Returns the row with the key `clustering`, with a cell for each regular column of `table` and for each
    /// column that was written. Creates the row if it never existed.
    fn row(&mut self, table: &Table, clustering: &Cells) -> &mut Row {
        let found = self
            .rows
            .binary_search_by(|row| table.compare_clustering(&row.clustering, clustering));
        let index = found.unwrap_or_else(|index| {
            let row = Row {
                clustering: clustering.clone(),
                deleted: i64::MIN,
                marker: Cell::default(),
                cells: vec![Cell::default(); table.regular().len()],
            };
            self.rows.insert(index, row);
            index
        });
        let row = &mut self.rows[index];
        let width = row.cells.len().max(table.regular().len());
        row.cells.resize(width, Cell::default());
        row
    }

    /// Returns the write timestamp of the newest deletion that covers the row: of the row, of a range, or of
    /// the partition.
    fn shadow(&self, table: &Table, row: &Row) -> i64 {
        self.ranges
            .iter()
            .filter(|(from, to, _)| {
                !lies_before(table, &row.clustering, from) && lies_before(table, &row.clustering, to)
            })
            .map(|(.., stamp)| *stamp)
            .fold(self.deleted.max(row.deleted), i64::max)
    }

    /// Returns the rows that exist at `now`, in clustering order: their clustering cells, the regular cells
    /// that `table` knows, and the newest stamp of these cells. A row exists if any of its cells has a value,
    /// even in a column that `table` does not know.
    pub(super) fn live_rows(&self, table: &Table, now: i64) -> Vec<LiveRow<'_>> {
        self.rows
            .iter()
            .filter_map(|row| self.live_row(table, row, now))
            .collect()
    }

    fn live_row<'a>(&'a self, table: &Table, row: &'a Row, now: i64) -> Option<LiveRow<'a>> {
        let shadow = self.shadow(table, row);
        let mut cells: Vec<Option<&Written>> = row.cells.iter().map(|cell| cell.live(shadow, now)).collect();
        let exists = row.marker.live(shadow, now).is_some() || cells.iter().any(Option::is_some);
        cells.resize(table.regular().len(), None);
        exists.then(|| LiveRow {
            clustering: &row.clustering,
            marker: row.marker.live(shadow, now).map(|written| written.stamp),
            stamp: cells
                .iter()
                .flatten()
                .map(|written| written.stamp)
                .max()
                .unwrap_or(0),
            ends_in_seconds: cells
                .iter()
                .flatten()
                .map(|written| written.expires)
                .max()
                .filter(|expires| *expires != i64::MAX)
                .map(|expires| (expires - now + MICROS_PER_SECOND - 1) / MICROS_PER_SECOND)
                .and_then(|seconds| u32::try_from(seconds).ok()),
            cells: cells
                .into_iter()
                .map(|written| written.map(|written| written.value.as_slice()))
                .collect(),
        })
    }

    /// Returns the static cells at `now`, with null for expired and deleted cells.
    pub(super) fn live_statics(&self, now: i64) -> Vec<Option<&[u8]>> {
        self.statics
            .iter()
            .map(|cell| {
                cell.live(self.deleted, now)
                    .map(|written| written.value.as_slice())
            })
            .collect()
    }

    /// Returns the value at `now` of a column that a condition compares.
    pub(super) fn column(&self, table: &Table, row: &RowAddress, column: u16, now: i64) -> Option<Vec<u8>> {
        let column = usize::from(column);
        match row {
            RowAddress::Static => self.live_statics(now)[column].map(<[u8]>::to_vec),
            RowAddress::Row(clustering) => self
                .live_rows(table, now)
                .into_iter()
                .find(|row| table.compare_clustering(row.clustering, clustering).is_eq())
                .and_then(|row| row.cells[column].map(<[u8]>::to_vec)),
        }
    }
}

/// Row that exists at the time of a read.
pub(super) struct LiveRow<'a> {
    pub(super) clustering: &'a Cells,
    /// Write timestamp of the put of the row. `None` if the row exists only because its cells have values.
    marker: Option<i64>,
    pub(super) cells: Vec<Option<&'a [u8]>>,
    /// Newest write timestamp of the cells; 0 if all cells are null.
    pub(super) stamp: i64,
    /// Remaining lifetime of the cells, in seconds. `None` if they do not expire.
    pub(super) ends_in_seconds: Option<u32>,
}
