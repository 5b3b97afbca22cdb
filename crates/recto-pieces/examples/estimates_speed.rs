//! Measures what it costs to say how many rows a list has, by how many buckets it lies in: counted in the embedded store, and estimated in
//! one in memory that is as Cassandra is; with an address, on a node too, of fewer buckets. And what a page costs at both ends of the longest.
//!
//! ```text
//! cargo run --release -p recto-pieces --example estimates_speed -- [127.0.0.1:9042]
//! ```
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use recto_cassandra::{CassandraConfig, CassandraStore, create_keyspace, drop_keyspace};
use recto_embedded::{EmbeddedOptions, EmbeddedStore};
use recto_model::table::{BucketBound, ColumnKind, Direction, ReadDirection, TableOptions, WriteKind};
use recto_model::{Bound, Cells, Column, Environment, Slice, Table, Type};
use recto_pieces::BucketedStore;
use recto_store::memory::{DEFAULT_LIMITS, MemoryStore};
use recto_store::{
    Limits, Mutation, Operation, PartitionWrite, ReadOptions, Stamp, Store, WriteOptions, WriteOutcome,
};

const KEYSPACE: &str = "recto_estimates_speed";

const BUCKETS: [i64; 3] = [10, 1_000, 100_000];
const BUCKETS_OF_A_NODE: [i64; 2] = [10, 1_000];
/// Rows of each bucket where rows are counted.
const EACH: i64 = 2;
/// How many rows a call writes, and for how many buckets room is made at once.
const CALL: i64 = 10_000;
const ROOMS: i64 = 2_000;
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
    stamp: AtomicI64,
}

impl Measured {
    fn over(inner: Arc<dyn Store>, environment: Environment, bound: BucketBound) -> Self {
        let clock = environment.clone();
        let stamps = Arc::new(move || Stamp(clock.now_micros()));
        Self {
            store: BucketedStore::over(inner, environment, stamps),
            table: table(bound),
            stamp: AtomicI64::new(1),
        }
    }

    fn partition() -> Cells {
        std::iter::once(Some(&b"s"[..])).collect()
    }

    fn write(&self, ats: impl Iterator<Item = i64>, length: usize) -> PartitionWrite {
        let stamp = Stamp(self.stamp.fetch_add(1, Ordering::Relaxed));
        let text = "x".repeat(length);
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

    async fn put(&self, ats: impl Iterator<Item = i64>) {
        let options = WriteOptions {
            timeout: Duration::from_secs(600),
            ..WriteOptions::default()
        };
        let written = self.store.write(self.write(ats, 1), options).await.unwrap();
        assert!(
            matches!(written, WriteOutcome::Done | WriteOutcome::Counted(_)),
            "{written:?}"
        );
    }

    /// Room for as many buckets of 64 KiB: each gets a row.
    async fn has_room_for(&self, buckets: i64) {
        for first in (0..buckets).step_by(usize::try_from(ROOMS).unwrap()) {
            let ats = first..buckets.min(first + ROOMS);
            // Three quarters of a bucket each.
            let sample = vec![self.write(ats, 1_000)];
            self.store
                .make_room(sample, 40, Duration::from_secs(36_000))
                .await
                .unwrap();
        }
        for first in (0..buckets).step_by(1_000) {
            self.put(first..buckets.min(first + 1_000)).await;
        }
    }

    fn slice(&self, from: i64, direction: ReadDirection) -> Slice {
        Slice {
            from: Bound::Before(std::iter::once(Some(&from.to_be_bytes()[..])).collect()),
            direction,
            ..Slice::from_start(&self.table, Self::partition(), 21)
        }
    }

    /// The median of some rounds, in microseconds: of all rows, of those from the middle on, where 60 % end, and a page at each end.
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

fn main() {
    let counted = tokio::runtime::Runtime::new().unwrap();
    counted.block_on(counted_buckets());
    drop(counted);
    let limits = Limits {
        remote: true,
        leaves_tombstones: true,
        sees_conflicts: false,
        transactions: false,
        ..DEFAULT_LIMITS
    };
    let target = BucketBound::Bytes(64 << 10);
    // Time goes on at once where somebody waits for a cut.
    let paused = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    for buckets in BUCKETS {
        paused.block_on(async {
            let clock = Environment::new(Waiting(tokio::time::Instant::now()));
            let store = MemoryStore::with_limits(clock.clone(), limits);
            let measured = Measured::over(Arc::new(store), clock, target);
            measured.store.create_table(&measured.table).await.unwrap();
            measured.has_room_for(buckets).await;
            measured.measure("in memory, by samples", buckets, buckets).await;
        });
    }
    let running = tokio::runtime::Runtime::new().unwrap();
    if let Some(address) = std::env::args().nth(1) {
        running.block_on(async {
            for buckets in BUCKETS_OF_A_NODE {
                let config = CassandraConfig::new([address.as_str()], KEYSPACE);
                create_keyspace(config.clone(), Environment::system(), None)
                    .await
                    .unwrap();
                let store = CassandraStore::connect(config.clone(), Environment::system())
                    .await
                    .unwrap();
                let measured = Measured::over(Arc::new(store), Environment::system(), target);
                measured.store.create_table(&measured.table).await.unwrap();
                measured.has_room_for(buckets).await;
                measured.measure("on a node", buckets, buckets).await;
                measured.store.close().await;
                drop_keyspace(config, Environment::system()).await.unwrap();
            }
        });
    }
}

async fn counted_buckets() {
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
        measured.measure("embedded", buckets, rows).await;
    }
}

/// Clocks that run with the time of sleeping tasks.
struct Waiting(tokio::time::Instant);

impl recto_model::environment::Source for Waiting {
    fn now_micros(&self) -> i64 {
        1_767_225_600_000_000 + i64::try_from(self.0.elapsed().as_micros()).unwrap()
    }

    fn monotonic_nanos(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap()
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        let drawn: Vec<u8> = Environment::system().random::<64>().to_vec();
        for (byte, drawn) in bytes.iter_mut().zip(drawn.iter().cycle()) {
            *byte = *drawn;
        }
    }
}
