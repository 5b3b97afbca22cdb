//! Progress of work on the base tables of collections, stored in the target store of the work. The
//! kinds of work are the filling of views and the copying of collections.
//!
//! Each kind of work has its own table. The table has a partition for each collection with unfinished work,
//! and a row in the partition for each range of the base table. The row contains the rest of the range, and
//! identifies the views or the copy. The rows are deleted when the work is done.

use std::sync::Arc;

use recto_model::table::{Column, ColumnKind, Direction, TableOptions, WriteKind};
use recto_model::{Cells, RowRef, Table, Type};
use recto_store::{
    Mutation, Operation, PartitionWrite, PointRead, ScanPosition, Snapshot, StoreErrorKind, TokenRange,
};

use crate::beside::send;
use crate::catalog::change::{TableChange, change_table};
use crate::error::Result;
use crate::shared::Shared;

/// Maximum number of ranges into which the work divides a base table.
pub(crate) const MAX_PIECES: u32 = 64;

/// Kind of long work (filling views, or copying a collection) whose progress is stored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work {
    /// Name of the table that stores the progress.
    table: &'static str,
    /// Name of the column that identifies the views or the copy.
    of: &'static str,
}

impl Work {
    /// Filling of views, identified by the ids of the views.
    pub(crate) const FILL: Self = Self {
        table: "recto_builds",
        of: "views",
    };

    /// Copy of a collection from another store, identified by the id of the copy.
    pub(crate) const COPY: Self = Self {
        table: "recto_copies",
        of: "copy",
    };
}

/// Range of partitions of the base table, with the progress of the work on this range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) number: i32,
    pub(crate) range: TokenRange,
    /// Position after which the work continues; `None` at the beginning.
    pub(crate) after: Option<ScanPosition>,
    /// Number of records of the range that the work has read.
    pub(crate) rows: u64,
    pub(crate) is_done: bool,
}

/// Handle to the stored progress of the work on a collection.
pub(crate) struct Covered<'a> {
    shared: &'a Shared,
    table: Arc<Table>,
    collection: String,
    /// Identity of the work: the ids of the views, or the id of the copy.
    of: String,
}

fn table(work: Work) -> Table {
    let column = |name: &str, ty, kind| Column {
        name: name.into(),
        ty,
        kind,
    };
    let plain = ColumnKind::Regular(WriteKind::Plain);
    let columns = vec![
        column("collection", Type::Text, ColumnKind::Partition),
        column("piece", Type::Int, ColumnKind::Clustering(Direction::Ascending)),
        column(work.of, Type::Text, plain),
        column("begins", Type::Blob, plain),
        column("ends", Type::Blob, plain),
        column("position", Type::Blob, plain),
        column("records", Type::BigInt, plain),
        column("is_done", Type::Boolean, plain),
    ];
    Table::new(work.table, columns, TableOptions::default()).expect("the columns form a table")
}

impl<'a> Covered<'a> {
    /// Returns a handle to the progress of filling the views with the ids `views`. Reads nothing.
    pub(crate) fn filling(shared: &'a Shared, collection: &str, views: &[u64]) -> Self {
        let views: Vec<String> = views.iter().map(u64::to_string).collect();
        Self::new(shared, Work::FILL, collection, views.join(","))
    }

    /// Returns a handle to the progress of the work of kind `work` on `collection`. `of` identifies the work.
    /// Reads nothing.
    pub(crate) fn new(shared: &'a Shared, work: Work, collection: &str, of: String) -> Self {
        Self {
            shared,
            table: Arc::new(table(work)),
            collection: collection.to_owned(),
            of,
        }
    }

    /// Creates the table that stores the progress, if it does not exist.
    pub(crate) async fn prepare(&self) -> Result<()> {
        let make = TableChange::Make(Table::clone(&self.table));
        change_table(&self.shared.store, &self.shared.environment, &make).await
    }

    /// Reads the ranges of the base table with their progress. Returns an empty list if the work has not
    /// begun, or if the stored progress belongs to other work.
    pub(crate) async fn read(&self) -> Result<Vec<Piece>> {
        let snapshot = self.shared.store.snapshot()?;
        let mut pieces = Vec::new();
        for number in 0..MAX_PIECES {
            let read = PointRead {
                table: Arc::clone(&self.table),
                partition: self.partition(),
                clustering: std::iter::once(Some(&number.to_be_bytes()[..])).collect(),
            };
            let found = match snapshot.get(&read, &self.shared.read_options()).await {
                Err(error) if error.kind() == StoreErrorKind::Table => break,
                found => found?,
            };
            let Some(row) = found.rows.iter().next() else {
                break;
            };
            let Some(piece) = self.piece(row) else {
                return Ok(Vec::new());
            };
            pieces.push(piece);
        }
        Ok(pieces)
    }

    /// Returns the number of records that the work has read so far; `None` if the work has not begun.
    pub(crate) async fn rows(&self) -> Result<Option<u64>> {
        let pieces = self.read().await?;
        Ok((!pieces.is_empty()).then(|| pieces.iter().map(|piece| piece.rows).sum()))
    }

    /// Decodes a range and its progress from a row. Returns `None` if the row belongs to other work.
    fn piece(&self, row: RowRef<'_>) -> Option<Piece> {
        let bytes = |column: usize| row.get(column).unwrap_or_default().to_vec();
        let int = |column: usize| Some(i32::from_be_bytes(row.get(column)?.try_into().ok()?));
        let is_ours = row.get(2) == Some(self.of.as_bytes());
        Some(Piece {
            number: int(1)?,
            range: TokenRange {
                start: bytes(3),
                end: bytes(4),
            },
            after: row.get(5).map(|position| ScanPosition(position.to_vec())),
            rows: u64::from_be_bytes(row.get(6)?.try_into().ok()?),
            is_done: row.get(7) == Some(&[1]),
        })
        .filter(|_| is_ours)
    }

    /// Deletes the progress of earlier work on the collection, and stores the ranges of new work.
    pub(crate) async fn begin(&self, pieces: &[Piece]) -> Result<()> {
        self.forget().await?;
        self.put(pieces).await
    }

    /// Stores the progress of ranges. The write also makes earlier relaxed writes (writes without a wait for
    /// the disk) durable.
    pub(crate) async fn put(&self, pieces: &[Piece]) -> Result<()> {
        let operations = pieces.iter().map(|piece| {
            let start = &piece.range.start;
            let cells: [Option<&[u8]>; 6] = [
                Some(self.of.as_bytes()),
                Some(start),
                Some(&piece.range.end),
                piece.after.as_ref().map(|ScanPosition(after)| after.as_slice()),
                Some(&piece.rows.to_be_bytes()),
                Some(if piece.is_done { &[1] } else { &[0] }),
            ];
            Operation::Put {
                clustering: std::iter::once(Some(&piece.number.to_be_bytes()[..])).collect(),
                cells: cells.into_iter().collect(),
                replace: true,
            }
        });
        self.write(operations.collect()).await
    }

    /// Deletes the stored progress of the work on the collection.
    pub(crate) async fn forget(&self) -> Result<()> {
        self.write(vec![Operation::DeletePartition]).await
    }

    /// Deletes the stored progress of the work on several collections of one store.
    pub(crate) async fn forget_all(all: &[Self]) -> Result<()> {
        let Some(first) = all.first() else { return Ok(()) };
        let writes = all
            .iter()
            .map(|one| one.request(vec![Operation::DeletePartition]));
        let writes = writes.collect();
        send(first.shared, writes, false, None).await.map(drop)
    }

    /// Splits the partitions of a table into about `pieces` ranges, at most [`MAX_PIECES`].
    pub(crate) async fn split(
        snapshot: &dyn Snapshot,
        table: &Arc<Table>,
        pieces: u32,
    ) -> Result<Vec<Piece>> {
        // Request half of the maximum, because some stores return more ranges than requested.
        let ranges = snapshot.token_ranges(table, pieces.min(MAX_PIECES / 2)).await?;
        let pieces = ranges.into_iter().take(MAX_PIECES as usize).zip(0..);
        let pieces = pieces.map(|(range, number)| Piece {
            number,
            range,
            after: None,
            rows: 0,
            is_done: false,
        });
        Ok(pieces.collect())
    }

    async fn write(&self, operations: Vec<Operation>) -> Result<()> {
        // The progress tables have no buckets, so `send` cannot report that their rows moved.
        let writes = vec![self.request(operations)];
        send(self.shared, writes, false, None).await.map(drop)
    }

    fn request(&self, operations: Vec<Operation>) -> PartitionWrite {
        let stamp = Some(self.shared.stamps.next());
        let mutations = operations.into_iter().map(|operation| Mutation {
            operation,
            stamp,
            ttl_seconds: None,
        });
        PartitionWrite {
            table: Arc::clone(&self.table),
            partition: self.partition(),
            mutations: mutations.collect(),
        }
    }

    fn partition(&self) -> Cells {
        std::iter::once(Some(self.collection.as_bytes())).collect()
    }
}
