//! How far the filling of views is, kept in the store that they are of.
//!
//! Table `recto_builds` has a partition for each collection whose views are being filled, and in it a row for each piece of
//! the base table: what is left of it, and for which views that holds. It goes when the views are ready.

use std::sync::Arc;

use recto_model::table::{Column, ColumnKind, Direction, TableOptions, WriteKind};
use recto_model::{Cells, RowRef, Table, Type};
use recto_store::{Mutation, Operation, PartitionWrite, PointRead, ScanPosition, StoreErrorKind, TokenRange};

use crate::beside::send;
use crate::catalog::change::{TableChange, change_table};
use crate::error::Result;
use crate::shared::Shared;

/// The table of views that are being filled.
const TABLE: &str = "recto_builds";
/// The most pieces of a base table.
pub(super) const MAX_PIECES: u32 = 64;

/// A piece of the base table, and how far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) number: i32,
    pub(super) range: TokenRange,
    /// Where to go on; none at its beginning.
    pub(super) after: Option<ScanPosition>,
    /// Records that were read.
    pub(super) rows: u64,
    pub(super) is_done: bool,
}

/// How far some views of a collection are.
pub(crate) struct Kept<'a> {
    shared: &'a Shared,
    table: Arc<Table>,
    collection: String,
    /// The numbers of the views.
    views: String,
}

fn table() -> Table {
    let column = |name: &str, ty, kind| Column {
        name: name.into(),
        ty,
        kind,
    };
    let plain = ColumnKind::Regular(WriteKind::Plain);
    let columns = vec![
        column("collection", Type::Text, ColumnKind::Partition),
        column("piece", Type::Int, ColumnKind::Clustering(Direction::Ascending)),
        column("views", Type::Text, plain),
        column("begins", Type::Blob, plain),
        column("ends", Type::Blob, plain),
        column("position", Type::Blob, plain),
        column("records", Type::BigInt, plain),
        column("is_done", Type::Boolean, plain),
    ];
    Table::new(TABLE, columns, TableOptions::default()).expect("what is kept of views is a table")
}

impl<'a> Kept<'a> {
    pub(crate) fn new(shared: &'a Shared, collection: &str, views: &[u64]) -> Self {
        let views: Vec<String> = views.iter().map(u64::to_string).collect();
        Self {
            shared,
            table: Arc::new(table()),
            collection: collection.to_owned(),
            views: views.join(","),
        }
    }

    /// Makes the table, if it is not there.
    pub(super) async fn prepare(&self) -> Result<()> {
        let make = TableChange::Make(Table::clone(&self.table));
        change_table(&self.shared.store, &self.shared.environment, &make).await
    }

    /// The pieces, if these views were begun to be filled, and no others with them.
    pub(super) async fn read(&self) -> Result<Vec<Piece>> {
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

    /// How many records were read so far.
    pub(crate) async fn rows(&self) -> Result<Option<u64>> {
        let pieces = self.read().await?;
        Ok((!pieces.is_empty()).then(|| pieces.iter().map(|piece| piece.rows).sum()))
    }

    /// The piece that a row is; none if it is of other views.
    fn piece(&self, row: RowRef<'_>) -> Option<Piece> {
        let bytes = |column: usize| row.get(column).unwrap_or_default().to_vec();
        let int = |column: usize| Some(i32::from_be_bytes(row.get(column)?.try_into().ok()?));
        let is_ours = row.get(2) == Some(self.views.as_bytes());
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

    /// Begins with these pieces, and forgets what there was.
    pub(super) async fn begin(&self, pieces: &[Piece]) -> Result<()> {
        self.forget().await?;
        self.put(pieces).await
    }

    /// A piece is so far. What was written before is durable with it.
    pub(super) async fn put(&self, pieces: &[Piece]) -> Result<()> {
        let operations = pieces.iter().map(|piece| {
            let start = &piece.range.start;
            let cells: [Option<&[u8]>; 6] = [
                Some(self.views.as_bytes()),
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

    /// Nothing is kept any more.
    pub(crate) async fn forget(&self) -> Result<()> {
        self.write(vec![Operation::DeletePartition]).await
    }

    async fn write(&self, operations: Vec<Operation>) -> Result<()> {
        let stamp = Some(self.shared.stamps.next());
        let mutations = operations.into_iter().map(|operation| Mutation {
            operation,
            stamp,
            ttl_seconds: None,
        });
        let write = PartitionWrite {
            table: Arc::clone(&self.table),
            partition: self.partition(),
            mutations: mutations.collect(),
        };
        // Not in buckets.
        send(self.shared, vec![write], false, None).await.map(drop)
    }

    fn partition(&self) -> Cells {
        std::iter::once(Some(self.collection.as_bytes())).collect()
    }
}
