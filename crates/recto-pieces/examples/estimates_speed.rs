//! Measures the cost of counting the rows of a list in the embedded store, depending on its number
//! of buckets. Also measures the cost of a page at each end of the list.
//!
//! ```text
//! cargo run --release -p recto-pieces --example estimates_speed
//! ```
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use recto_embedded::{EmbeddedOptions, EmbeddedStore};
use recto_model::table::{BucketBound, ColumnKind, Direction, ReadDirection, TableOptions, WriteKind};
use recto_model::{Bound, Cells, Column, Environment, Slice, Table, Type};
use recto_pieces::BucketedStore;
use recto_store::{
    Mutation, Operation, PartitionWrite, ReadOptions, Stamp, Store, StoreErrorKind, WriteOptions,
    WriteOutcome,
};

const BUCKETS: [i64; 3] = [10, 1_000, 10_000];
/// Number of rows of each bucket.
const EACH: i64 = 20;
/// Number of rows that a call writes.
const CALL: i64 = 10_000;
const ROUNDS: usize = 9;

fn table(bound: BucketBound) -> Arc<Table> {
    let column = |name: &str, ty, kind| Column {
        name: name.to_owned(),
        ty,
        kind,
    };
    let columns = vec![
        column("stream", Type::Text, ColumnKind::Partition),
        column("at", Type::BigInt, ColumnKind::Clustering(Direction::Ascending)),
        column("text", Type::Text, ColumnKind::Regular(WriteKind::Plain)),
    ];
    let options = TableOptions {
        buckets: Some(bound.into()),
        ..TableOptions::default()
    };
    Arc::new(Table::new("counted", columns, options).unwrap())
}

struct Measured {
    store: BucketedStore,
    table: Arc<Table>,
    environment: Environment,
    stamp: AtomicI64,
}

impl Measured {
    fn over(inner: Arc<dyn Store>, environment: Environment, bound: BucketBound) -> Self {
        let (clock, own) = (environment.clone(), environment.clone());
        let stamps = Arc::new(move || Stamp(clock.now_micros()));
        Self {
            store: BucketedStore::over(inner, environment, stamps),
            table: table(bound),
            environment: own,
            stamp: AtomicI64::new(1),
        }
    }

    fn partition() -> Cells {
        std::iter::once(Some(&b"s"[..])).collect()
    }

    fn write(&self, ats: impl Iterator<Item = i64>) -> PartitionWrite {
        self.stamp
            .fetch_max(self.environment.now_micros(), Ordering::Relaxed);
        let stamp = Stamp(self.stamp.fetch_add(1, Ordering::Relaxed));
        let text = "x";
        let put = |at: i64| Mutation {
            operation: Operation::Put {
                clustering: std::iter::once(Some(&at.to_be_bytes()[..])).collect(),
                cells: std::iter::once(Some(text.as_bytes())).collect(),
                replace: true,
            },
            stamp: Some(stamp),
            ttl_seconds: None,
        };
        PartitionWrite {
            table: Arc::clone(&self.table),
            partition: Self::partition(),
            mutations: ats.map(put).collect(),
        }
    }

    async fn put(&self, ats: impl Iterator<Item = i64> + Clone) {
        let options = WriteOptions {
            timeout: Duration::from_secs(600),
            ..WriteOptions::default()
        };
        loop {
            match self.store.write(self.write(ats.clone()), options).await.unwrap() {
                WriteOutcome::Done | WriteOutcome::Counted(_) => return,
                // A concurrent split moved the bucket of the rows, so repeat the write.
                WriteOutcome::Unknown(error) if error.kind() == StoreErrorKind::Moved => {}
                outcome => panic!("{outcome:?}"),
            }
        }
    }

    fn slice(&self, from: i64, direction: ReadDirection) -> Slice {
        Slice {
            from: Bound::Before(std::iter::once(Some(&from.to_be_bytes()[..])).collect()),
            direction,
            ..Slice::from_start(&self.table, Self::partition(), 21)
        }
    }

    /// Measures medians of some rounds, in microseconds: counting all rows, counting the rows from
    /// the middle on, finding the row at 60 %, and reading a page at each end.
    async fn measure(&self, what: &str, buckets: i64, rows: i64) {
        let snapshot = self.store.snapshot().unwrap();
        let options = ReadOptions {
            timeout: Duration::from_secs(60),
            ..ReadOptions::default()
        };
        let all = self.slice(0, ReadDirection::Forward);
        let half = self.slice(rows / 2 + 1, ReadDirection::Forward);
        let last = self.slice(rows - 40, ReadDirection::Forward);
        let found = snapshot.estimate(&all, &options).await.unwrap();
        let reads = self.store.bucket_metrics().directory_reads;
        snapshot.estimate(&half, &options).await.unwrap();
        let reads = self.store.bucket_metrics().directory_reads - reads;
        let mut times = [const { Vec::new() }; 5];
        for _ in 0..ROUNDS {
            let begun = Instant::now();
            snapshot.estimate(&all, &options).await.unwrap();
            times[0].push(begun.elapsed());
            let begun = Instant::now();
            snapshot.estimate(&half, &options).await.unwrap();
            times[1].push(begun.elapsed());
            let begun = Instant::now();
            snapshot
                .row_at(&all, found.rows * 6 / 10, &options)
                .await
                .unwrap();
            times[2].push(begun.elapsed());
            for (at, slice) in [(3, &all), (4, &last)] {
                let begun = Instant::now();
                snapshot.slice(slice, &options).await.unwrap();
                times[at].push(begun.elapsed());
            }
        }
        let medians = times.map(|mut times| {
            times.sort();
            format!("{:.0}", times[ROUNDS / 2].as_secs_f64() * 1e6)
        });
        println!(
            "{what}, {buckets} buckets: {} µs for all, the half, 60 %, the first page, the last; {} rows ± {:.0}, {reads} reads of directories",
            medians.join(", "),
            found.rows,
            1.96 * (found.variance as f64).sqrt(),
        );
    }
}

#[tokio::main]
async fn main() {
    for buckets in BUCKETS {
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default(), Environment::system());
        let bound = BucketBound::Rows(EACH.unsigned_abs());
        let measured = Measured::over(store.unwrap(), Environment::system(), bound);
        measured.store.create_table(&measured.table).await.unwrap();
        let rows = buckets * EACH;
        for first in (0..rows).step_by(usize::try_from(CALL).unwrap()) {
            measured.put(first..rows.min(first + CALL)).await;
        }
        // Wait until the store makes no more splits.
        let mut made = 0;
        while made != measured.store.bucket_metrics().made {
            made = measured.store.bucket_metrics().made;
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        measured
            .measure("embedded", i64::try_from(made).unwrap() + 1, rows)
            .await;
    }
}
