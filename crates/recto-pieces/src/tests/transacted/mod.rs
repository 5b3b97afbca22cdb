//! Tests of the engine for stores with transactions, on the store in memory and on the embedded store.

#![expect(clippy::print_stderr, reason = "what tests print is shown when they fail")]

mod cuts;
mod doubt;
mod lists;
mod oracle;
mod sizes;
mod traps;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use recto_embedded::{EmbeddedOptions, EmbeddedStore};
use recto_model::table::{ColumnKind, Direction, ReadDirection, TableOptions, WriteKind};
use recto_model::{Cells, Column, Environment, Slice, Table, Type};
use recto_protocol::buckets::{Bucket, Directory, Span};
use recto_store::memory::MemoryStore;
use recto_store::{
    Mutation, Operation, PartitionCount, PartitionWrite, ReadOptions, Stamp, Store, WriteOptions,
    WriteOutcome,
};

use crate::place::Place;
use crate::tables::{BucketSize, PiecedTable, counted};
use crate::transacted::{Arrived, Moment, Seek, Transacted};

const TIME: Duration = Duration::from_secs(20);

/// Order of rows.
#[derive(Debug, Clone)]
struct Order {
    ty: Type,
    direction: Direction,
}

impl Order {
    fn of_numbers(direction: Direction) -> Self {
        let ty = Type::BigInt;
        Self { ty, direction }
    }

    /// Returns the cell of a number. Numbers have the order of their cells, except for uuids.
    fn cell(&self, number: i64) -> Vec<u8> {
        match self.ty {
            Type::Text => format!("{number:020}").into_bytes(),
            Type::Uuid | Type::TimeUuid => {
                let mut bytes = [0; 16];
                bytes[..4].copy_from_slice(&i32::try_from(number).expect("it is small").to_be_bytes());
                bytes[6] = if self.ty == Type::Uuid { 0x40 } else { 0x10 };
                bytes[8] = 0x80;
                bytes.to_vec()
            }
            Type::Int => i32::try_from(number).expect("it is small").to_be_bytes().to_vec(),
            _ => number.to_be_bytes().to_vec(),
        }
    }
}

/// Returns a table of events of streams.
fn table(order: &Order, size: BucketSize) -> Arc<PiecedTable> {
    let plain = ColumnKind::Regular(WriteKind::Plain);
    let column = |name: &str, ty: Type, kind: ColumnKind| Column {
        name: name.to_owned(),
        ty,
        kind,
    };
    let columns = vec![
        column("stream", Type::Text, ColumnKind::Partition),
        column("recto_bucket", Type::BigInt, ColumnKind::Partition),
        column("at", order.ty.clone(), ColumnKind::Clustering(order.direction)),
        column("name", Type::Text, ColumnKind::Clustering(Direction::Ascending)),
        column("recto_root", Type::Boolean, ColumnKind::Static(WriteKind::Plain)),
        column("note", Type::Text, plain),
        column("recto_row", Type::Blob, plain),
        column("text", Type::Text, plain),
    ];
    let options = TableOptions {
        counts_partitions: true,
        ..TableOptions::default()
    };
    let table = Table::new("events", columns, options).expect("these columns are a table");
    Arc::new(PiecedTable::counted(Arc::new(table), size).expect("it has the columns"))
}

/// Stream whose rows are in a store.
#[derive(Clone)]
struct Stream {
    engine: Transacted,
    store: Arc<dyn Store>,
    place: Arc<Place>,
    order: Order,
    /// Last timestamp that was used.
    stamp: Arc<AtomicI64>,
    /// Total counted size of the rows that ordinary writes put, in bytes.
    put: Arc<AtomicU64>,
}

fn in_memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new(Environment::system()))
}

fn on_disk(directory: &tempfile::TempDir) -> Arc<dyn Store> {
    let opened = EmbeddedStore::open(
        directory.path(),
        EmbeddedOptions::default(),
        Environment::system(),
    );
    opened.expect("it is opened")
}

impl Stream {
    async fn new(store: Arc<dyn Store>, order: Order, size: BucketSize) -> Self {
        let pieced = table(&order, size);
        store.create_table(&pieced.table).await.expect("it is made");
        let engine = Transacted::open(Arc::clone(&store), Environment::system())
            .await
            .expect("it is opened");
        let name = [Some(&b"s"[..])].into_iter().collect();
        let last = store.newest_stamp().map_or(1_000, |stamp| stamp.0);
        Self {
            engine,
            store,
            place: Arc::new(Place::new(&pieced, name).expect("it is one")),
            order,
            stamp: Arc::new(AtomicI64::new(last)),
            put: Arc::default(),
        }
    }

    fn works(&self) -> tokio::task::JoinHandle<()> {
        let engine = self.engine.clone();
        tokio::spawn(async move { engine.work().await })
    }

    fn clustering(&self, at: i64, name: &str) -> Cells {
        [Some(self.order.cell(at).as_slice()), Some(name.as_bytes())]
            .into_iter()
            .collect()
    }

    fn put_of(&self, at: i64, name: &str, text: Option<&[u8]>) -> Operation {
        let clustering = self.clustering(at, name);
        let row = counted(&clustering, [text].into_iter()).1;
        Operation::Put {
            clustering,
            cells: [None, Some(row.as_slice()), text].into_iter().collect(),
            replace: true,
        }
    }

    async fn put(&self, at: i64, text: &[u8]) -> Stamp {
        self.write(self.put_of(at, "a", Some(text)), None).await
    }

    async fn write(&self, operation: Operation, ttl_seconds: Option<u32>) -> Stamp {
        self.write_all(vec![operation], ttl_seconds).await
    }

    /// Writes rows as `BucketedStore` does: all under one lock, and the rows of each bucket in one write.
    async fn write_all(&self, operations: Vec<Operation>, ttl_seconds: Option<u32>) -> Stamp {
        let guard = self
            .engine
            .route(std::slice::from_ref(&self.place), TIME)
            .await
            .expect("it is routed");
        // Take the timestamp under the lock, so that the timestamps of each row increase.
        let stamp = Stamp(self.stamp.fetch_add(1, Ordering::SeqCst) + 1);
        let mut buckets: BTreeMap<Bucket, Vec<(Vec<u8>, Mutation)>> = BTreeMap::new();
        for operation in operations {
            let (Operation::Put { clustering, .. }
            | Operation::Patch { clustering, .. }
            | Operation::DeleteRow { clustering }) = &operation
            else {
                panic!("it is of a row");
            };
            let key = self.place.key(clustering).expect("it is a key");
            let bucket = guard.bucket_of(&self.place, &key).expect("it has one");
            let mutation = Mutation {
                operation,
                stamp: Some(stamp),
                ttl_seconds,
            };
            buckets.entry(bucket).or_default().push((key, mutation));
        }
        for (bucket, some) in buckets {
            let least = some
                .iter()
                .map(|(key, _)| key.clone())
                .min()
                .expect("there are some");
            let most = some
                .iter()
                .map(|(key, _)| key.clone())
                .max()
                .expect("there are some");
            let bytes = some.iter().map(|(_, mutation)| row_bytes(mutation)).sum();
            let arrived = Arrived {
                least: &least,
                most: &most,
                rows: some.len() as u64,
                bytes,
            };
            self.put
                .fetch_add(bytes + 64 * some.len() as u64, Ordering::SeqCst);
            let write = PartitionWrite {
                table: Arc::clone(&self.place.pieced.table),
                partition: self.place.bucket_partition(bucket),
                mutations: some.into_iter().map(|(_, mutation)| mutation).collect(),
            };
            let outcome = self.store.write(write, WriteOptions::default()).await;
            assert!(matches!(outcome, Ok(WriteOutcome::Done)), "{outcome:?}");
            guard.written(&self.place, bucket, &arrived);
        }
        guard.done();
        stamp
    }

    /// Returns the rows of the stream as of a snapshot, in either direction and from all buckets. Each has its
    /// timestamp and its remaining lifetime.
    async fn rows_at(&self, moment: &Moment, direction: ReadDirection) -> Vec<(Cells, i64, Option<u32>)> {
        let is_backward = direction == ReadDirection::Backward;
        let (mut rest, mut rows) = (Some(Span::all()), Vec::new());
        while let Some(span) = rest {
            let seek = if is_backward {
                Seek::Before(span.end.clone())
            } else {
                Seek::At(span.start.clone())
            };
            let window = self
                .engine
                .directory(moment, &self.place, &seek, TIME)
                .await
                .expect("it is read");
            let mut slices = window.slices(&span);
            if is_backward {
                slices.reverse();
            }
            for slice in slices {
                rows.extend(self.rows_of(moment, &slice, direction).await);
            }
            rest = if is_backward {
                window.rest_before(&span)
            } else {
                window.rest(&span)
            };
        }
        rows
    }

    async fn rows_of(
        &self,
        moment: &Moment,
        piece: &recto_protocol::buckets::Slice,
        direction: ReadDirection,
    ) -> Vec<(Cells, i64, Option<u32>)> {
        let (from, to) = self.place.pieced.bounds(&piece.span).expect("they are edges");
        let slice = Slice {
            table: Arc::clone(&self.place.pieced.table),
            partition: self.place.bucket_partition(piece.bucket),
            from,
            to,
            direction,
            limit: 1_000_000,
        };
        let options = ReadOptions {
            stamps: true,
            max_bytes: u64::MAX,
            ..ReadOptions::default()
        };
        let read = moment
            .snapshot()
            .slice(&slice, &options)
            .await
            .expect("it is read");
        let times = read.stamps.iter().zip(&read.ends_in_seconds);
        let each = read.rows.iter().zip(times);
        // Without the partition and the static column.
        let cells = |row: recto_model::RowRef<'_>| {
            [2, 3, 5, 6, 7]
                .map(|column| row.get(column))
                .into_iter()
                .collect()
        };
        each.map(|(row, (stamp, ends))| (cells(row), *stamp, *ends))
            .collect()
    }

    async fn all(&self) -> Vec<(Cells, i64, Option<u32>)> {
        let moment = self.engine.snapshot().expect("it is open");
        self.rows_at(&moment, ReadDirection::Forward).await
    }

    /// Returns the complete range map, by windows.
    async fn windows(&self) -> Vec<Arc<Directory>> {
        let moment = self.engine.snapshot().expect("it is open");
        self.windows_at(&moment).await
    }

    async fn windows_at(&self, moment: &Moment) -> Vec<Arc<Directory>> {
        let (mut windows, mut next) = (Vec::new(), Some(Seek::At(Vec::new())));
        while let Some(seek) = next {
            let window = self.engine.directory(moment, &self.place, &seek, TIME).await;
            let window = window.expect("it is read");
            next = window.end.clone().map(Seek::At);
            windows.push(window);
        }
        windows
    }

    /// Returns the buckets in their order, each with the store's count. Asserts that no row is misplaced, that the
    /// counts match the rows, and that the range map in a new engine equals the cached one. Uses one snapshot for all,
    /// since splits may be under way.
    async fn buckets(&self) -> Vec<(Bucket, PartitionCount)> {
        let (moment, mut buckets) = (self.engine.snapshot().expect("it is open"), Vec::new());
        let windows = self.windows_at(&moment).await;
        let anew = Transacted::open(Arc::clone(&self.store), Environment::system()).await;
        let again = Self {
            engine: anew.expect("it is opened"),
            ..self.clone()
        };
        let pieces = |windows: &[Arc<Directory>]| -> Vec<_> {
            let each = windows.iter().flat_map(|window| window.pieces.clone());
            let once: BTreeMap<_, _> = each.map(|piece| (piece.start.clone(), piece)).collect();
            once.into_values().collect()
        };
        assert_eq!(
            pieces(&windows),
            pieces(&again.windows_at(&moment).await),
            "what is known is what is there"
        );
        for (span, piece) in windows.iter().flat_map(|window| window.spans()) {
            let bucket = piece.roles.read;
            let partition = self.place.bucket_partition(bucket);
            let table = &self.place.pieced.table;
            let counts = moment
                .snapshot()
                .count_partitions(table, &[partition], &ReadOptions::default())
                .await;
            let count = counts.expect("it is counted")[0];
            let of = |span| recto_protocol::buckets::Slice { bucket, span };
            let shown = self.rows_of(&moment, &of(span), ReadDirection::Forward).await;
            let there = self
                .rows_of(&moment, &of(Span::all()), ReadDirection::Forward)
                .await;
            assert_eq!(shown, there, "all that lies in a bucket is shown of it");
            assert_eq!(count.rows, shown.len() as u64, "rows of bucket {bucket:?}");
            let bytes: usize = shown.iter().map(|(row, ..)| row.byte_len() + 64).sum();
            assert_eq!(count.bytes, bytes as u64, "bytes of bucket {bucket:?}");
            buckets.push((bucket, count));
        }
        buckets
    }

    /// Waits until no bucket exceeds its maximum size.
    async fn settled(&self) -> Vec<(Bucket, PartitionCount)> {
        for _ in 0..400 {
            let buckets = self.buckets().await;
            if buckets.iter().all(|(_, count)| !self.is_over(count)) {
                return buckets;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        panic!("some bucket stays too large: {:?}", self.buckets().await);
    }

    fn is_over(&self, count: &PartitionCount) -> bool {
        match self.place.pieced.size {
            BucketSize::Bytes(most) => count.bytes > most,
            BucketSize::Rows(most) => count.rows > most,
        }
    }

    /// Returns the number of bytes of rows that splits moved.
    fn moved(&self) -> u64 {
        self.engine.moved_bytes()
    }
}

/// Returns the number of bytes of the cells of a row that is put.
fn row_bytes(mutation: &Mutation) -> u64 {
    match &mutation.operation {
        Operation::Put {
            clustering, cells, ..
        }
        | Operation::Patch {
            clustering, cells, ..
        } => (clustering.byte_len() + cells.byte_len()) as u64,
        _ => 0,
    }
}

/// Returns the numbers from 0 on in no particular order, each once.
fn shuffled(count: i64) -> impl Iterator<Item = i64> {
    let bits = (64 - count.leading_zeros()).max(2);
    let mask = (1_i64 << bits) - 1;
    // Each step is a one-to-one mapping. It is repeated until the result is in the range.
    let step = move |number: i64| {
        let odd = (number.wrapping_mul(0x9E37_79B1) + 0x7F4A_7C15) & mask;
        odd ^ (odd >> (bits / 2))
    };
    let walk = move |number| {
        let steps = std::iter::successors(Some(step(step(step(number)))), move |at| {
            Some(step(step(step(*at))))
        });
        let mut within = steps.filter(move |at| *at < count);
        within.next().unwrap_or_default()
    };
    (0..count).map(walk)
}
