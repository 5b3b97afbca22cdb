//! Bulk loads into partitions that are kept in buckets, compared with loads into partitions that are not: the duration,
//! the bytes that are copied, and the resulting sizes of buckets. Rows arrive sorted, in the order of a file, reversed,
//! and in random order.
//!
//! `RECTO_TEST_FLIGHTS` names a file of flights, in the format of `recto demo`. Without it, the test generates similar
//! rows. The test prints its figures. `RECTO_TEST_SCALE=16` loads all rows instead of a part.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt};
use recto_buckets::{BucketedStore, Partition, PieceStore, PiecedTable};
use recto_model::table::{BucketBound, ColumnKind, Direction, TableOptions, WriteKind};
use recto_model::{Cells, Column, Environment, Slice, Table, Type};
use recto_protocol::buckets::sizing::Sizing;
use recto_store::{
    Atomicity, Mutation, Operation, PartitionWrite, ReadOptions, Stamp, Store, WriteOptions, WriteOutcome,
};

use crate::calls::{Calls, Counted};
use crate::process::{TIME, keyspace};
use crate::{SCALE_VARIABLE, number};

const TARGET: u64 = 1 << 20;
/// Number of flights in the whole file, and the divisor that reduces the number of loaded flights by
/// default.
const ALL: usize = 336_776;
const PARTS: usize = 16;
/// Sizes of a load: rows of a call, rows of one partition's write, and concurrent calls.
const CALL: usize = 1_000;
const TOGETHER: usize = 50;
const CALLS: usize = 8;
/// Sampling interval: one row in 16 is announced before the load, so that buckets can be split in advance.
const EACH: u32 = 16;
const ROOM_TIME: Duration = Duration::from_secs(60);
const SETTLED: Duration = Duration::from_secs(600);

/// Flight: its origin, its time, its identifier, and the rest of its row.
struct Flight {
    from: String,
    at: i64,
    which: String,
    rest: String,
}

impl Flight {
    fn read(line: &str) -> Self {
        let fields: Vec<&str> = line.split(',').collect();
        let digits = |text: &str| text.bytes().filter(u8::is_ascii_digit).collect::<Vec<_>>();
        let at = String::from_utf8(digits(fields[18])).unwrap();
        Self {
            from: fields[12].to_owned(),
            at: at.parse().unwrap(),
            which: format!("{} {}", fields[9], fields[10]),
            rest: line.to_owned(),
        }
    }

    fn made(index: usize) -> Self {
        let from = ["EWR", "JFK", "LGA"][index % 3];
        Self {
            from: from.to_owned(),
            at: 20_130_101_000_000 + i64::try_from(index / 40).unwrap() * 10_000,
            which: format!("UA {index}"),
            rest: format!("{index:0>90}"),
        }
    }
}

fn flights() -> Vec<Flight> {
    let count = ALL / PARTS * usize::try_from(number(SCALE_VARIABLE).unwrap_or(1)).unwrap();
    match std::env::var("RECTO_TEST_FLIGHTS") {
        Ok(path) => {
            let text = std::fs::read_to_string(path).unwrap();
            text.lines()
                .skip(1)
                .take(count + PARTS)
                .map(Flight::read)
                .collect()
        }
        Err(_) => (0..count).map(Flight::made).collect(),
    }
}

fn table(name: &str, buckets: Option<BucketBound>) -> Table {
    let plain = ColumnKind::Regular(WriteKind::Plain);
    let column = |name: &str, ty, kind| Column {
        name: name.to_owned(),
        ty,
        kind,
    };
    let ascending = ColumnKind::Clustering(Direction::Ascending);
    let columns = vec![
        column("origin", Type::Text, ColumnKind::Partition),
        column("at", Type::BigInt, ascending),
        column("flight", Type::Text, ascending),
        column("rest", Type::Text, plain),
    ];
    let options = TableOptions {
        buckets: buckets.map(Into::into),
        ..TableOptions::default()
    };
    Table::new(name, columns, options).unwrap()
}

/// Returns the writes that put the rows in the given order. Adjacent rows of a partition form one write.
fn writes(table: &Arc<Table>, rows: &[&Flight]) -> Vec<PartitionWrite> {
    let mut writes: Vec<PartitionWrite> = Vec::new();
    for row in rows {
        let mutation = Mutation {
            operation: Operation::Put {
                clustering: [Some(&row.at.to_be_bytes()[..]), Some(row.which.as_bytes())]
                    .into_iter()
                    .collect(),
                cells: std::iter::once(Some(row.rest.as_bytes())).collect(),
                replace: false,
            },
            stamp: Some(Stamp(1_000_000)),
            ttl_seconds: None,
        };
        let partition: Cells = std::iter::once(Some(row.from.as_bytes())).collect();
        match writes
            .iter_mut()
            .find(|write| write.partition == partition && write.mutations.len() < TOGETHER)
        {
            Some(write) => write.mutations.push(mutation),
            None => writes.push(PartitionWrite {
                table: Arc::clone(table),
                partition,
                mutations: vec![mutation],
            }),
        }
    }
    writes
}

async fn load(store: &BucketedStore, table: &Arc<Table>, rows: &[&Flight]) -> Duration {
    let begun = Instant::now();
    let options = WriteOptions {
        relaxed: true,
        timeout: Duration::from_secs(60),
        ..WriteOptions::default()
    };
    let calls = rows.chunks(CALL).map(|rows| async move {
        let written = store
            .write_many(writes(table, rows), Atomicity::Each, options)
            .await;
        assert!(matches!(written, Ok(WriteOutcome::Done)), "{written:?}");
    });
    stream::iter(calls)
        .buffer_unordered(CALLS)
        .collect::<Vec<()>>()
        .await;
    begun.elapsed()
}

struct Loaded {
    store: BucketedStore,
    inner: Arc<dyn Store>,
    calls: Arc<Calls>,
    environment: Environment,
    stamps: recto_buckets::Stamps,
}

impl Loaded {
    async fn new() -> Self {
        let (environment, calls) = (Environment::system(), Arc::new(Calls::default()));
        let inner: Arc<dyn Store> = Arc::new(Counted {
            inner: crate::keyspace::store(keyspace().await, environment.clone()).await,
            calls: Arc::clone(&calls),
        });
        let newest = AtomicI64::new(environment.now_micros());
        let stamps: recto_buckets::Stamps = Arc::new(move || Stamp(newest.fetch_add(1, Ordering::Relaxed)));
        let store = BucketedStore::over(Arc::clone(&inner), environment.clone(), Arc::clone(&stamps));
        Self {
            store,
            inner,
            calls,
            environment,
            stamps,
        }
    }

    async fn made(&self, name: &str, buckets: Option<BucketBound>) -> Arc<Table> {
        let table = table(name, buckets);
        self.store.create_table(&table).await.unwrap();
        Arc::new(table)
    }

    /// Returns the partitions of a table as the store contains them.
    async fn partitions(&self, name: &str) -> Vec<(Partition, Arc<PiecedTable>)> {
        let open = PieceStore::open(
            Arc::clone(&self.inner),
            self.environment.clone(),
            Arc::clone(&self.stamps),
        );
        let pieces = open.await.unwrap();
        let tables = self.inner.list_tables().await.unwrap();
        let table = Arc::new(tables.into_iter().find(|table| table.name() == name).unwrap());
        let sizing = Sizing::new(TARGET, TARGET / 160, 1e-6).unwrap();
        let pieced = Arc::new(PiecedTable::new(table, sizing).unwrap());
        let partition = |from: &str| {
            let key = std::iter::once(Some(from.as_bytes())).collect();
            (pieces.partition(&pieced, key).unwrap(), Arc::clone(&pieced))
        };
        ["EWR", "JFK", "LGA"].map(partition).into_iter().collect()
    }

    /// Makes all due splits. Returns the number of key ranges, and the size of the largest bucket in
    /// bytes.
    async fn mended(&self, name: &str) -> (usize, u64) {
        let begun = Instant::now();
        let (mut pieces, mut largest) = (0, 0);
        for (partition, pieced) in self.partitions(name).await {
            partition
                .mend(recto_buckets::BucketSize::Bytes(TARGET), false)
                .await
                .unwrap();
            let directory = partition.directory(TIME).await.unwrap();
            assert!(begun.elapsed() < SETTLED && !directory.is_being_cut());
            pieces += directory.pieces.len();
            for (span, piece) in directory.spans() {
                largest = largest.max(
                    self.bytes_in(&pieced, &partition, (&span, piece.roles.read.0))
                        .await,
                );
            }
        }
        (pieces, largest)
    }

    async fn bytes_in(
        &self,
        pieced: &PiecedTable,
        partition: &Partition,
        (span, bucket): (&recto_protocol::buckets::Span, u64),
    ) -> u64 {
        let options = ReadOptions {
            max_bytes: u64::MAX,
            timeout: TIME,
            ..ReadOptions::default()
        };
        let mut bytes = 0;
        for slice in pieced.slices_in(partition, span, bucket).unwrap() {
            let slice = Slice {
                limit: u32::MAX >> 1,
                ..slice
            };
            let read = self.inner.snapshot().unwrap().slice(&slice, &options).await;
            let rows = read.unwrap().rows;
            bytes += rows.byte_len() as u64 + 64 * rows.len() as u64;
        }
        bytes
    }
}

/// Returns the rows in a pseudo-random order, which is equal in each run.
fn shuffled<'f>(rows: &[&'f Flight]) -> Vec<&'f Flight> {
    let mut keyed: Vec<_> = rows.iter().enumerate().collect();
    keyed.sort_by_key(|(index, _)| {
        (*index as u64)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .rotate_left(23)
    });
    keyed.into_iter().map(|(_, row)| *row).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_in_order_finds_room() {
    load_with_room(1, f64::INFINITY).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "slow: four loads at full speed, minutes in all, and a busy machine copies more"]
async fn loads_in_any_order_find_room() {
    load_with_room(usize::MAX, 0.6).await;
}

/// Loads the flights in the first `orders_tried` orders. Checks for each order that the buckets are prepared in time,
/// that no bucket is too large, and that at most `max_copied` bytes are copied per loaded byte.
async fn load_with_room(orders_tried: usize, max_copied: f64) {
    let all = flights();
    let in_order: Vec<&Flight> = all.iter().collect();
    let reversed = in_order.iter().rev().copied().collect();
    let mut sorted = in_order.clone();
    sorted.sort_by_key(|row| (&row.from, row.at, &row.which));
    let orders = [
        // This is the usual order, because a load sorts the rows that it has read.
        ("sorted", sorted),
        ("as_they_come", in_order.clone()),
        ("reversed", reversed),
        ("shuffled", shuffled(&in_order)),
    ];
    for (order, rows) in orders.into_iter().take(orders_tried) {
        let loaded = Loaded::new().await;
        let plain = loaded.made(&format!("plain_{order}"), None).await;
        let again = loaded.made(&format!("again_{order}"), None).await;
        // Load some rows first, because the first load warms up the store.
        load(&loaded.store, &again, &rows[..rows.len() / 4]).await;
        let before = load(&loaded.store, &plain, &rows).await;
        let name = format!("load_{order}");
        let table = loaded.made(&name, Some(BucketBound::Bytes(TARGET))).await;
        let begun = Instant::now();
        let sample: Vec<_> = rows.iter().step_by(EACH as usize).copied().collect();
        let room = loaded
            .store
            .make_room(writes(&table, &sample), EACH, ROOM_TIME)
            .await;
        room.unwrap();
        let waited = begun.elapsed();
        let took = load(&loaded.store, &table, &rows).await;
        let unbucketed = (before + load(&loaded.store, &again, &rows).await) / 2;
        let (pieces, largest) = loaded.mended(&name).await;
        let of_plain = loaded.calls.bytes_of(plain.name()) as f64;
        // Subtract the bytes of the cell `recto_row` of each row, because only a table with buckets
        // has that cell.
        let beside = 9.0 * rows.len() as f64;
        let copied = (loaded.calls.bytes_of(&name) as f64 - beside) / of_plain - 1.0;
        let rate = |time: Duration| rows.len() as f64 / time.as_secs_f64();
        println!(
            "{} flights {order}: {:.0} rows/s, {:.0} rows/s without buckets ({:.2}); waited {:.1} s for room; {copied:.2} bytes copied per \
             byte; {pieces} buckets, the largest {:.2} of its target",
            rows.len(),
            rate(took),
            rate(unbucketed),
            rate(took) / rate(unbucketed),
            waited.as_secs_f64(),
            largest as f64 / TARGET as f64
        );
        assert!(waited < Duration::from_secs(30), "{waited:?}");
        assert!(largest <= TARGET, "{largest} bytes");
        assert!(copied <= max_copied, "{copied}");
    }
}
