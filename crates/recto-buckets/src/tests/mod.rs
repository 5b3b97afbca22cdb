//! Common parts of the tests: a table, a store that behaves like Cassandra, and helpers that write and
//! read rows.

mod bucketed;
mod cuts;
mod directories;
mod estimates;
mod expired;
mod joins;
mod lists;
mod retained;
mod room;
mod rows;
mod samples;
mod shards;
mod stages;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use recto_model::table::{ColumnKind, Direction, ReadDirection, TableOptions, WriteKind};
use recto_model::{Bound, Cells, Column, Environment, Slice, Table, Type};
use recto_protocol::buckets::Shards;
use recto_protocol::buckets::sizing::Sizing;
use recto_store::memory::{DEFAULT_LIMITS, MemoryStore};
use recto_store::{Limits, ReadOptions, RowsRead, Stamp, Store};

use crate::place::{Partition, PieceStore, Place};
use crate::tables::PiecedTable;
use crate::writer::{Change, RowChange};

pub(crate) const TIME: Duration = Duration::from_secs(10);
/// Time at which the clock of each test starts, in microseconds.
const START_MICROS: i64 = 1_767_225_600_000_000;
const SIZING: (u64, u64, f64, u32) = (64 << 10, 1_000, 1e-3, 8);

/// Clocks that follow the time of the test runtime, and a counter as the source of randomness.
struct Clocks {
    start: tokio::time::Instant,
    drawn: AtomicI64,
}

impl recto_model::environment::Source for Clocks {
    fn now_micros(&self) -> i64 {
        START_MICROS + i64::try_from(self.start.elapsed().as_micros()).expect("it is not long")
    }

    fn monotonic_nanos(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).expect("it is not long")
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        let drawn = self
            .drawn
            .fetch_add(0x9E37_79B9_7F4A_7C15_u64.cast_signed(), Ordering::Relaxed);
        for (byte, drawn) in bytes.iter_mut().zip(drawn.to_be_bytes().iter().cycle()) {
            *byte = *drawn;
        }
    }
}

pub(crate) fn environment() -> Environment {
    Environment::new(Clocks {
        start: tokio::time::Instant::now(),
        drawn: AtomicI64::new(1),
    })
}

/// Returns a store that behaves like Cassandra.
pub(crate) fn memory(environment: &Environment) -> MemoryStore {
    let limits = Limits {
        remote: true,
        leaves_tombstones: true,
        sees_conflicts: false,
        transactions: false,
        ..DEFAULT_LIMITS
    };
    MemoryStore::with_limits(environment.clone(), limits)
}

/// Returns a source of write timestamps from the clock. Each is greater than the previous one.
pub(crate) fn stamps(environment: &Environment) -> crate::Stamps {
    let (environment, last) = (environment.clone(), AtomicI64::new(0));
    Arc::new(move || {
        let now = environment.now_micros();
        let before = last.fetch_max(now, Ordering::Relaxed);
        if before < now {
            return Stamp(now);
        }
        Stamp(last.fetch_add(1, Ordering::Relaxed) + 1)
    })
}

fn column(name: &str, ty: Type, kind: ColumnKind) -> Column {
    Column {
        name: name.to_owned(),
        ty,
        kind,
    }
}

/// Returns a table of events of streams, in ascending or descending order of their time.
pub(crate) fn pieced(direction: Direction) -> Arc<PiecedTable> {
    sharded(direction, Shards::ONE)
}

/// Returns the table of events with `shards` shards in each bucket.
pub(crate) fn sharded(direction: Direction, shards: Shards) -> Arc<PiecedTable> {
    let plain = ColumnKind::Regular(WriteKind::Plain);
    let mut columns = vec![
        column("stream", Type::Text, ColumnKind::Partition),
        column("recto_bucket", Type::BigInt, ColumnKind::Partition),
        column("at", Type::BigInt, ColumnKind::Clustering(direction)),
        column("name", Type::Text, ColumnKind::Clustering(Direction::Ascending)),
        column("recto_root", Type::Boolean, ColumnKind::Static(WriteKind::Plain)),
        column("note", Type::Text, plain),
        column("recto_row", Type::Blob, plain),
        column("text", Type::Text, plain),
    ];
    if shards.are_several() {
        columns.push(column("recto_shard", Type::Int, ColumnKind::Partition));
    }
    let table = Table::new("events", columns, TableOptions::default()).expect("these columns are a table");
    let (target, row, epsilon, samples) = SIZING;
    let sizing = Sizing::with_samples(target, row, epsilon, samples).expect("it is one");
    Arc::new(PiecedTable::sharded(Arc::new(table), sizing, shards).expect("it has the columns"))
}

/// Returns a partition of the table of events whose key is `number`.
pub(crate) fn place(number: u8) -> Arc<Place> {
    let pieced = pieced(Direction::Ascending);
    let partition: Cells = std::iter::once(Some(&[number][..])).collect();
    Arc::new(Place {
        id: Arc::new(("events".to_owned(), vec![number])),
        pieced,
        partition,
    })
}

pub(crate) fn cells(cells: &[Option<&[u8]>]) -> Cells {
    cells.iter().copied().collect()
}

pub(crate) fn clustering(at: i64, name: &str) -> Cells {
    cells(&[Some(&at.to_be_bytes()), Some(name.as_bytes())])
}

/// Partition of the table of events (a stream), on a store in memory.
pub(crate) struct Stream {
    pub(crate) pieces: PieceStore,
    pub(crate) partition: Partition,
    pub(crate) pieced: Arc<PiecedTable>,
}

impl Stream {
    pub(crate) async fn new(direction: Direction) -> Self {
        let environment = environment();
        let store = memory(&environment);
        Self::on(Arc::new(store), environment, direction).await
    }

    pub(crate) async fn on(store: Arc<dyn Store>, environment: Environment, direction: Direction) -> Self {
        Self::of(store, environment, pieced(direction)).await
    }

    pub(crate) async fn of(
        store: Arc<dyn Store>,
        environment: Environment,
        pieced: Arc<PiecedTable>,
    ) -> Self {
        let stamps = stamps(&environment);
        store.create_table(&pieced.table).await.expect("it is made");
        let pieces = PieceStore::open(store, environment, stamps)
            .await
            .expect("it is opened");
        let partition = pieces
            .partition(&pieced, cells(&[Some(b"s")]))
            .expect("it is one");
        Self {
            pieces,
            partition,
            pieced,
        }
    }

    pub(crate) async fn put(&self, at: i64, name: &str, text: &str) -> crate::Result<Stamp> {
        let change = Change::Put {
            cells: cells(&[None, None, Some(text.as_bytes())]),
            replace: true,
            ttl_seconds: None,
        };
        self.write(at, name, change).await
    }

    pub(crate) async fn write(&self, at: i64, name: &str, change: Change) -> crate::Result<Stamp> {
        let clustering = clustering(at, name);
        self.partition
            .write(&RowChange { clustering, change }, TIME)
            .await
    }

    pub(crate) fn slice(&self, direction: ReadDirection, limit: u32) -> Slice {
        Slice {
            table: Arc::clone(&self.pieced.table),
            partition: cells(&[Some(b"s")]),
            from: Bound::start(),
            to: Bound::end(),
            direction,
            limit,
        }
    }

    pub(crate) async fn read(&self, slice: &Slice) -> RowsRead {
        let snapshot = self.pieces.store.snapshot().expect("it is open");
        let options = ReadOptions {
            stamps: true,
            ..ReadOptions::default()
        };
        let read = self.pieces.slice(&self.pieced, &*snapshot, slice, &options).await;
        read.expect("it is read")
    }

    /// Returns the times and texts of all rows.
    pub(crate) async fn all(&self) -> Vec<(i64, String)> {
        let read = self.read(&self.slice(ReadDirection::Forward, 100_000)).await;
        assert!(read.exhausted);
        said(&read)
    }
}

/// Returns the times and texts of rows.
pub(crate) fn said(read: &RowsRead) -> Vec<(i64, String)> {
    let row = |row: recto_model::RowRef<'_>| {
        let at = row
            .get(row.len() - 6)
            .and_then(|at| at.try_into().ok())
            .map(i64::from_be_bytes);
        let text = row
            .get(row.len() - 1)
            .map(|text| String::from_utf8_lossy(text).into_owned());
        (at.expect("it is whole"), text.unwrap_or_default())
    };
    read.rows.iter().map(row).collect()
}
