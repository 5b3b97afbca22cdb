//! Moves rows from one partition to another in one transaction, together with the row that records their
//! bucket. A store with transactions splits a bucket in this way.

use std::sync::Arc;

use recto_model::table::{ColumnKind, TableOptions, WriteKind};
use recto_model::{Bound, Cells, Column, Table, Type};

use super::Bench;
use super::fixture::{
    Fixture, ascending, at, column, concat, fixed, int, ints, make, partition, patch, patch_static, put,
    regular,
};
use crate::{
    Cas, CasCondition, Mutation, Operation, PartitionWrite, ReadOptions, RowAddress, Stamp, Store,
    TransactionOutcome, WriteOptions,
};

/// Maximum number of bytes that are moved at a time, counted by the bytes of rows.
const MOVED_BYTES: usize = 4 << 20;
/// Number of bytes of the largest cell of a row.
const CELL_BYTES: usize = 2_000;
/// Newest stamp of the rows.
const NEWEST: i64 = 1_000_000;

/// Rows in buckets, and the range map that says which bucket is read. Each has its own table.
struct Buckets {
    rows: Fixture,
    directory: Fixture,
    count: i32,
}

impl Buckets {
    /// Creates rows in bucket 0. `None` if the store has no transactions.
    async fn new(bench: &dyn Bench) -> Option<Self> {
        let store = bench.store();
        let limits = store.limits();
        if !limits.transactions {
            return None;
        }
        let options = TableOptions {
            counts_partitions: limits.counts_partitions,
            ..TableOptions::default()
        };
        let columns = vec![
            partition("p", Type::Int),
            partition("bucket", Type::Int),
            ascending("c", Type::Int),
            fixed("root", Type::Boolean),
            regular("a", Type::Blob),
            regular("b", Type::Int),
        ];
        let directory = vec![
            partition("p", Type::Int),
            ascending("start", Type::Int),
            column("version", Type::Int, ColumnKind::Static(WriteKind::Cas)),
            column("bucket", Type::Int, ColumnKind::Regular(WriteKind::Cas)),
        ];
        // A store for tests can have a lower limit for transactions, so move fewer bytes there.
        let bytes = MOVED_BYTES.min(limits.batch_bytes / 2);
        let buckets = Self {
            rows: made(&store, bench, "moved", columns, options).await,
            directory: made(&store, bench, "directory", directory, TableOptions::default()).await,
            count: i32::try_from(bytes / CELL_BYTES).expect("there are few rows"),
        };
        buckets.fill().await;
        Some(buckets)
    }

    async fn fill(&self) {
        let rows: Vec<Mutation> = (0..2 * self.count).map(numbered).collect();
        for some in rows.chunks(100) {
            self.rows.write(&ints([1, 0]), some.to_vec()).await;
        }
        let root = patch_static([0], [Some(&[1][..])].into_iter().collect());
        self.rows.apply(&ints([1, 0]), 1, root).await;
        let outcome = self.transact(None, Vec::new(), 1, 0).await;
        assert!(matches!(outcome, TransactionOutcome::Applied), "{outcome:?}");
    }

    /// Writes rows if the range map has version `expected`. Increments the version, and assigns the range
    /// from `start` on to `bucket`.
    async fn transact(
        &self,
        expected: Option<i32>,
        plain: Vec<PartitionWrite>,
        start: i32,
        bucket: i32,
    ) -> TransactionOutcome {
        let next = expected.map_or(0, |version| version + 1);
        let version = Operation::PatchStatic {
            columns: vec![0],
            cells: ints([next]),
        };
        let operations = [version, patch(ints([start]), [0], ints([bucket]))];
        let cas = Cas {
            table: self.directory.table.clone(),
            partition: ints([1]),
            conditions: vec![CasCondition {
                row: RowAddress::Static,
                column: 0,
                expected: expected.map(int),
            }],
            mutations: operations
                .map(|operation| Mutation {
                    operation,
                    stamp: None,
                    ttl_seconds: None,
                })
                .to_vec(),
        };
        let store = &self.rows.store;
        let outcome = store.transact(vec![cas], plain, WriteOptions::default()).await;
        outcome.expect("a transaction can be made")
    }

    /// Returns the rows of a bucket, each with its stamp and with whether it expires.
    async fn contents(&self, bucket: i32) -> Vec<(Cells, i64, bool)> {
        let snapshot = self.rows.snapshot();
        let options = ReadOptions {
            stamps: true,
            max_bytes: u64::MAX,
            ..ReadOptions::default()
        };
        let read = snapshot
            .slice(&self.rows.whole(&ints([1, bucket])), &options)
            .await;
        let read = read.expect("a bucket can be read");
        let lives = read.stamps.iter().zip(&read.ends_in_seconds);
        let rows = read.rows.iter().zip(lives);
        rows.map(|(row, (stamp, ends))| (row.to_cells(), *stamp, ends.is_some()))
            .collect()
    }

    /// Returns the writes that copy the rows from `count` on to bucket 1 unchanged, and delete the rows that
    /// were read from bucket 0.
    async fn writes_of_a_cut(&self) -> Vec<PartitionWrite> {
        let from = Bound::Before(ints([self.count]));
        let to = Bound::end();
        let rows = self.contents(0).await.into_iter().skip(self.count as usize);
        let moved = rows.map(|(row, stamp, ends)| {
            let (_, operation) = self.rows.put_of(&row);
            Mutation {
                operation,
                stamp: Some(Stamp(stamp)),
                ttl_seconds: ends.then_some(100_000),
            }
        });
        let gone = at(NEWEST, Operation::DeleteRange { from, to });
        vec![
            self.rows.write_of(&ints([1, 1]), moved.collect()),
            self.rows.write_of(&ints([1, 0]), vec![gone]),
        ]
    }

    /// Asserts that each row is unchanged and in the right bucket, and that the counts of the buckets are
    /// right.
    async fn expect(&self, cut_at: i32) {
        let last = 2 * self.count;
        for (bucket, range) in [(0, 0..cut_at), (1, cut_at..last)] {
            let found = self.contents(bucket).await;
            assert_eq!(found.len(), range.len(), "rows of bucket {bucket}");
            for (c, (row, stamp, ends)) in range.clone().zip(found) {
                let root = (bucket == 0).then_some(&[1][..]);
                let Operation::Put { cells, .. } = numbered(c).operation else {
                    panic!("a row is put");
                };
                let key = concat(&ints([1, bucket, c]), &[root].into_iter().collect());
                assert!(row == concat(&key, &cells), "row {c} of bucket {bucket}");
                assert_eq!((stamp, ends), (NEWEST - i64::from(c), c % 10 == 0), "row {c}");
            }
            if self.rows.table.options().counts_partitions {
                let snapshot = self.rows.snapshot();
                let counts = snapshot
                    .count_partitions(&self.rows.table, &[ints([1, bucket])], &ReadOptions::default())
                    .await;
                let count = counts.expect("counts can be read")[0];
                assert_eq!(count.rows, range.len() as u64, "counted rows of bucket {bucket}");
            }
        }
    }
}

/// Returns row `c`, with its own stamp. Every tenth row expires.
fn numbered(c: i32) -> Mutation {
    let large = vec![c.to_be_bytes()[3]; CELL_BYTES];
    let cells = [Some(large.as_slice()), Some(&int(c))].into_iter().collect();
    Mutation {
        operation: put(ints([c]), cells),
        stamp: Some(Stamp(NEWEST - i64::from(c))),
        ttl_seconds: (c % 10 == 0).then_some(100_000),
    }
}

async fn made(
    store: &Arc<dyn Store>,
    bench: &dyn Bench,
    prefix: &str,
    columns: Vec<Column>,
    options: TableOptions,
) -> Fixture {
    let table =
        Table::new(bench.unique_name(prefix), columns, options).expect("the suite's tables are valid");
    make(store, &table).await;
    Fixture {
        store: store.clone(),
        table: Arc::new(table),
    }
}

/// Checks that a transaction moves 4 MiB of rows from one partition to another with their own
/// stamps, and deletes them in the old partition. It also updates a row of a third partition in
/// another table. All of it is applied if that row is unchanged, and nothing otherwise.
pub async fn rows_move_with_what_says_where_they_lie(bench: &dyn Bench) {
    let Some(buckets) = Buckets::new(bench).await else {
        return;
    };
    let count = buckets.count;
    buckets.expect(2 * count).await;
    let cut = buckets.writes_of_a_cut().await;
    let outcome = buckets.transact(Some(7), cut.clone(), count, 1).await;
    assert!(
        matches!(outcome, TransactionOutcome::NotApplied { .. }),
        "{outcome:?}"
    );
    buckets.expect(2 * count).await;
    let outcome = buckets.transact(Some(0), cut, count, 1).await;
    assert!(matches!(outcome, TransactionOutcome::Applied), "{outcome:?}");
    buckets.expect(count).await;
    let pieces = buckets.directory.rows(&ints([1])).await;
    assert_eq!(pieces, [ints([1, 1, 1, 0]), ints([1, count, 1, 1])]);
    buckets.rows.drop().await;
    buckets.directory.drop().await;
}
