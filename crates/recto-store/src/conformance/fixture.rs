//! Table under test, with short functions that write to it and that assert its content.

use std::sync::Arc;

use recto_model::table::{ColumnKind, ReadDirection, TableOptions, WriteKind};
use recto_model::{Bound, Cells, Column, Direction, Slice, Table, Type};

use super::Bench;
use super::model::Model;
use crate::{
    Mutation, Operation, PartitionWrite, PointRead, ReadOptions, RowsRead, Snapshot, Stamp, Store,
    StoreError, TableOutcome, WriteOptions, WriteOutcome,
};

/// Returns the bytes of a cell of type `int`.
pub(crate) fn int(value: i32) -> Vec<u8> {
    value.to_be_bytes().to_vec()
}

/// Returns cells of type `int` with these values, for a key or a row.
pub(crate) fn ints<const N: usize>(values: [i32; N]) -> Cells {
    let mut cells = Cells::new();
    for value in values {
        cells.push(Some(&int(value)));
    }
    cells
}

/// Returns these cells. `None` is a null cell.
pub(crate) fn cells<const N: usize>(values: [Option<&[u8]>; N]) -> Cells {
    values.into_iter().collect()
}

/// Returns the cells of `left`, followed by the cells of `right`.
pub(crate) fn concat(left: &Cells, right: &Cells) -> Cells {
    left.iter().chain(right.iter()).collect()
}

pub(crate) fn partition(name: &str, ty: Type) -> Column {
    column(name, ty, ColumnKind::Partition)
}

pub(crate) fn clustering(name: &str, ty: Type, direction: Direction) -> Column {
    column(name, ty, ColumnKind::Clustering(direction))
}

pub(crate) fn ascending(name: &str, ty: Type) -> Column {
    clustering(name, ty, Direction::Ascending)
}

pub(crate) fn fixed(name: &str, ty: Type) -> Column {
    column(name, ty, ColumnKind::Static(WriteKind::Plain))
}

pub(crate) fn regular(name: &str, ty: Type) -> Column {
    column(name, ty, ColumnKind::Regular(WriteKind::Plain))
}

pub(crate) fn column(name: &str, ty: Type, kind: ColumnKind) -> Column {
    Column {
        name: name.to_owned(),
        ty,
        kind,
    }
}

/// Returns a mutation with the write timestamp `stamp`, which does not expire.
pub(crate) fn at(stamp: i64, operation: Operation) -> Mutation {
    Mutation {
        operation,
        stamp: Some(Stamp(stamp)),
        ttl_seconds: None,
    }
}

/// Returns a put that replaces the whole row.
pub(crate) fn put(clustering: Cells, cells: Cells) -> Operation {
    Operation::Put {
        clustering,
        cells,
        replace: true,
    }
}

/// Returns an insert of a row that never changes.
pub(crate) fn insert(clustering: Cells, cells: Cells) -> Operation {
    Operation::Put {
        clustering,
        cells,
        replace: false,
    }
}

/// Returns a patch of some columns of a row.
pub(crate) fn patch<const N: usize>(clustering: Cells, columns: [u16; N], cells: Cells) -> Operation {
    Operation::Patch {
        clustering,
        columns: columns.to_vec(),
        cells,
    }
}

/// Returns a patch of some static columns.
pub(crate) fn patch_static<const N: usize>(columns: [u16; N], cells: Cells) -> Operation {
    Operation::PatchStatic {
        columns: columns.to_vec(),
        cells,
    }
}

pub(crate) async fn make(store: &Arc<dyn Store>, table: &Table) {
    match store.create_table(table).await {
        Ok(TableOutcome::Done) => {}
        other => panic!("making table {} ended as {other:?}", table.name()),
    }
}

/// Store and a new table, which only one test uses.
pub(crate) struct Fixture {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) table: Arc<Table>,
}

impl Fixture {
    /// Creates a table with these columns and the default options, under a unique name.
    pub(crate) async fn new(bench: &dyn Bench, prefix: &str, columns: Vec<Column>) -> Self {
        Self::with_options(bench, prefix, columns, TableOptions::default()).await
    }

    /// Creates a table with these columns and options, under a unique name.
    pub(crate) async fn with_options(
        bench: &dyn Bench,
        prefix: &str,
        columns: Vec<Column>,
        options: TableOptions,
    ) -> Self {
        let name = bench.unique_name(prefix);
        let table = Table::new(name, columns, options).expect("the suite's tables are valid");
        let store = bench.store();
        make(&store, &table).await;
        Self {
            store,
            table: Arc::new(table),
        }
    }

    /// Creates a table: partition `p int`, clustering `c int`, regular `a text` and `b int`.
    pub(crate) async fn simple(bench: &dyn Bench, prefix: &str) -> Self {
        let columns = vec![
            partition("p", Type::Int),
            ascending("c", Type::Int),
            regular("a", Type::Text),
            regular("b", Type::Int),
        ];
        Self::new(bench, prefix, columns).await
    }

    /// Creates a table: partition `p int`, clustering `c int`, static `s text` and `t int`, regular `a text`.
    pub(crate) async fn with_statics(bench: &dyn Bench, prefix: &str) -> Self {
        let columns = vec![
            partition("p", Type::Int),
            ascending("c", Type::Int),
            fixed("s", Type::Text),
            fixed("t", Type::Int),
            regular("a", Type::Text),
        ];
        Self::new(bench, prefix, columns).await
    }

    /// Drops the table at the end of the test. Panics on failure.
    pub(crate) async fn drop(self) {
        match self.store.drop_table(self.table.name()).await {
            Ok(TableOutcome::Done) => {}
            other => panic!("dropping table {} ended as {other:?}", self.table.name()),
        }
    }

    pub(crate) fn write_of(&self, partition: &Cells, mutations: Vec<Mutation>) -> PartitionWrite {
        PartitionWrite {
            table: self.table.clone(),
            partition: partition.clone(),
            mutations,
        }
    }

    pub(crate) async fn try_write(&self, write: PartitionWrite) -> Result<WriteOutcome, StoreError> {
        self.store.write(write, WriteOptions::default()).await
    }

    /// Writes mutations to a partition. Panics if the write does not succeed.
    pub(crate) async fn write(&self, partition: &Cells, mutations: Vec<Mutation>) {
        let outcome = self.try_write(self.write_of(partition, mutations.clone())).await;
        assert!(
            matches!(outcome, Ok(WriteOutcome::Done)),
            "a write of table {} ended as {outcome:?}: {mutations:?}",
            self.table.name()
        );
    }

    /// Applies one mutation with the write timestamp `stamp`. Panics if the write does not succeed.
    pub(crate) async fn apply(&self, partition: &Cells, stamp: i64, operation: Operation) {
        self.write(partition, vec![at(stamp, operation)]).await;
    }

    /// Puts whole rows (without static cells) into the store, with the write timestamp 1, and into the model.
    pub(crate) async fn fill(&self, model: &mut Model, rows: Vec<Cells>) {
        /// Number of rows of one write.
        const CHUNK: usize = 50;
        assert!(self.table.statics().is_empty());
        let mut partitions: Vec<(Cells, Vec<Mutation>)> = Vec::new();
        for row in rows {
            let (partition, operation) = self.put_of(&row);
            model.put(row);
            match partitions.iter_mut().find(|(there, _)| *there == partition) {
                Some((_, mutations)) => mutations.push(at(1, operation)),
                None => partitions.push((partition, vec![at(1, operation)])),
            }
        }
        for (partition, mutations) in partitions {
            for chunk in mutations.chunks(CHUNK) {
                self.write(&partition, chunk.to_vec()).await;
            }
        }
    }

    /// Returns the partition of a whole row, and the put that creates the row.
    pub(crate) fn put_of(&self, row: &Cells) -> (Cells, Operation) {
        let part = |from: usize, to: usize| (from..to).map(|index| row.get(index)).collect::<Cells>();
        let partition = self.table.partition().len();
        let key = self.table.key_len();
        let regular = key + self.table.statics().len();
        (
            part(0, partition),
            put(part(partition, key), part(regular, row.len())),
        )
    }

    pub(crate) fn slice_of(
        &self,
        partition: &Cells,
        from: Bound,
        to: Bound,
        direction: ReadDirection,
        limit: u32,
    ) -> Slice {
        Slice {
            table: self.table.clone(),
            partition: partition.clone(),
            from,
            to,
            direction,
            limit,
        }
    }

    /// Returns the slice that reads the whole partition in clustering order, at most 10,000 rows.
    pub(crate) fn whole(&self, partition: &Cells) -> Slice {
        self.slice_of(
            partition,
            Bound::start(),
            Bound::end(),
            ReadDirection::Forward,
            10_000,
        )
    }

    pub(crate) fn snapshot(&self) -> Arc<dyn Snapshot> {
        self.store.snapshot().expect("a store under test gives snapshots")
    }

    pub(crate) async fn read(&self, slice: &Slice) -> RowsRead {
        let snapshot = self.snapshot();
        let read = snapshot.slice(slice, &ReadOptions::default()).await;
        let read = read.unwrap_or_else(|error| panic!("{error} (reading {slice:?})"));
        if let Some(now) = snapshot.slice_now(slice, &ReadOptions::default()) {
            let now = now.unwrap_or_else(|error| panic!("{error} (reading at once {slice:?})"));
            assert!(
                now.rows.iter().eq(read.rows.iter()) && now.exhausted == read.exhausted,
                "slice_now differs from slice: {slice:?}"
            );
        }
        read
    }

    /// Returns all rows of a partition in clustering order.
    pub(crate) async fn rows(&self, partition: &Cells) -> Vec<Cells> {
        let read = self.read(&self.whole(partition)).await;
        assert!(read.exhausted, "a partition shorter than the limit is exhausted");
        read.rows.iter().map(|row| row.to_cells()).collect()
    }

    /// Asserts that a partition contains exactly these rows, in this order.
    pub(crate) async fn expect(&self, partition: &Cells, rows: &[Cells]) {
        let found = self.rows(partition).await;
        assert_eq!(found, rows, "the rows of table {}", self.table.name());
    }

    /// Asserts that the store returns the same rows for `slice` as the model, which computes the expected
    /// result.
    pub(crate) async fn check(&self, model: &Model, slice: &Slice) {
        let expected = model.slice(slice);
        let read = self.read(slice).await;
        let found: Vec<Cells> = read.rows.iter().map(|row| row.to_cells()).collect();
        let limit = slice.limit as usize;
        let first: Vec<Cells> = expected.iter().take(limit).map(|row| (*row).clone()).collect();
        assert_eq!(read.rows.width(), self.table.columns().len());
        assert_eq!(found, first, "the rows of {slice:?}");
        assert_eq!(
            read.exhausted,
            expected.len() < limit,
            "exhausted means that the slice ended before its limit: {slice:?}"
        );
    }

    pub(crate) async fn get(&self, partition: &Cells, clustering: &Cells) -> Option<Cells> {
        let read = PointRead {
            table: self.table.clone(),
            partition: partition.clone(),
            clustering: clustering.clone(),
        };
        let snapshot = self.snapshot();
        let found = snapshot.get(&read, &ReadOptions::default()).await;
        let found = found.unwrap_or_else(|error| panic!("{error} (reading {read:?})"));
        assert!(found.rows.len() <= 1, "a full key is of one row: {read:?}");
        found.rows.iter().next().map(|row| row.to_cells())
    }

    pub(crate) async fn get_statics(&self, partition: &Cells) -> Option<Cells> {
        let snapshot = self.snapshot();
        let found = snapshot
            .get_statics(&self.table, partition, &ReadOptions::default())
            .await
            .unwrap_or_else(|error| panic!("{error} (reading statics of {partition:?})"));
        assert!(found.rows.len() <= 1, "a partition has one row of statics");
        found.rows.iter().next().map(|row| row.to_cells())
    }
}
