//! Measures the cost of buckets in the embedded store: loads of the flights in three orders, and pages. The program
//! does the same with a table without buckets, through the same store.
//!
//! ```text
//! unzip -p crates/recto-cli/data/flights.csv.zip > /tmp/flights.csv
//! cargo run --release -p recto-pieces --example buckets_speed -- /tmp/flights.csv
//! ```
//! For a profile, run one load of one order into buckets of the given size in KB (0: no buckets), optionally followed
//! by pages:
//!
//! ```text
//! valgrind --tool=callgrind …/buckets_speed /tmp/flights.csv "a tenth" file 100 [pages]
//! ```
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::cast_possible_wrap
)]

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt};
use recto_embedded::{EmbeddedOptions, EmbeddedStore};
use recto_model::table::{BucketBound, ColumnKind, Direction, TableOptions, WriteKind};
use recto_model::{Bound, Cells, Column, Environment, Slice, Table, Type};
use recto_pieces::BucketedStore;
use recto_store::{
    Atomicity, Mutation, Operation, PartitionWrite, ReadOptions, Stamp, Store, TokenRange, WriteOptions,
    WriteOutcome,
};

/// Number of rounds. Each combination takes a turn in each round.
const ROUNDS: usize = 3;
/// Number of concurrent calls, as in a load.
const CALLS_IN_FLIGHT: usize = 3;
const PAGE_ROWS: u32 = 21;
const PAGES: usize = 20_000;

/// Flight: its carrier, its hour, its number, and the rest of its row.
type Flight = (String, i64, i32, String);

/// Order and sizes of a load.
struct Load {
    name: &'static str,
    /// Number of rows that are sorted before they are written, and number of rows per call.
    buffer: usize,
    call: usize,
    /// True if the load announces the rows before it writes them, and writes each buffer before the
    /// next one, as `load` does.
    by_buffers: bool,
}

/// Interval of the announced rows: one row in 16.
const ROOM_EACH: usize = 16;

/// Rows that are sorted before they are written: the announced sample, and the calls that write them.
struct Buffer {
    sample: Vec<PartitionWrite>,
    calls: Vec<Vec<PartitionWrite>>,
}

/// All flights sorted, in calls of the size that `load` uses; a tenth of the flights sorted; and 100 rows at a time.
const LOADS: [Load; 3] = [
    Load {
        name: "all sorted",
        buffer: usize::MAX,
        call: 30_000,
        by_buffers: true,
    },
    Load {
        name: "a tenth sorted",
        buffer: 33_678,
        call: 7_500,
        by_buffers: true,
    },
    Load {
        name: "100 rows a call",
        buffer: 100,
        call: 100,
        by_buffers: false,
    },
];

fn table(buckets: Option<BucketBound>) -> Arc<Table> {
    let column = |name: &str, ty, kind| Column {
        name: name.to_owned(),
        ty,
        kind,
    };
    let columns = vec![
        column("carrier", Type::Text, ColumnKind::Partition),
        column(
            "time_hour",
            Type::Timestamp,
            ColumnKind::Clustering(Direction::Descending),
        ),
        column("flight", Type::Int, ColumnKind::Clustering(Direction::Ascending)),
        column("rest", Type::Text, ColumnKind::Regular(WriteKind::Plain)),
    ];
    let options = TableOptions {
        buckets: buckets.map(Into::into),
        ..TableOptions::default()
    };
    Arc::new(Table::new("flights", columns, options).unwrap())
}

/// Returns the days since 1970 of a day of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    year * 365 + year / 4 - year / 100 + year / 400 + (month * 306 + 5) / 10 + day - 1 - 719_468
}

fn flights(path: &str) -> Vec<Flight> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    let of = |name: &str| names.iter().position(|other| *other == name).unwrap();
    let (carrier, flight, hour) = (of("carrier"), of("flight"), of("time_hour"));
    let flight_of = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let time = cells[hour];
        let number = |from: usize, to: usize| time[from..to].parse::<i64>().unwrap();
        let days = days(number(0, 4), number(5, 7), number(8, 10));
        let millis = (days * 24 + number(11, 13)) * 3_600_000;
        let rest: Vec<&str> = cells[..hour].to_vec();
        (
            cells[carrier].to_owned(),
            millis,
            cells[flight].parse().unwrap(),
            rest.join(","),
        )
    };
    lines.map(flight_of).collect()
}

fn shuffled(flights: &[Flight]) -> Vec<Flight> {
    let mut order: Vec<usize> = (0..flights.len()).collect();
    let mut seed = 1_u64;
    for index in (1..order.len()).rev() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        order.swap(index, (seed >> 33) as usize % (index + 1));
    }
    order.iter().map(|index| flights[*index].clone()).collect()
}

fn put(flight: &Flight, stamp: i64) -> Mutation {
    let (_, hour, number, rest) = flight;
    let clustering: [&[u8]; 2] = [&hour.to_be_bytes(), &number.to_be_bytes()];
    Mutation {
        operation: Operation::Put {
            clustering: clustering.into_iter().map(Some).collect(),
            cells: std::iter::once(Some(rest.as_bytes())).collect(),
            replace: false,
        },
        stamp: Some(Stamp(stamp)),
        ttl_seconds: None,
    }
}

fn partition(carrier: &str) -> Cells {
    std::iter::once(Some(carrier.as_bytes())).collect()
}

/// Returns the writes of some sorted flights, one per partition.
fn writes<'f>(table: &Arc<Table>, sorted: impl Iterator<Item = &'f Flight>) -> Vec<PartitionWrite> {
    let mut writes: Vec<PartitionWrite> = Vec::new();
    for (number, flight) in sorted.enumerate() {
        let mutation = put(flight, 1_000 + number as i64);
        let partition = partition(&flight.0);
        match writes.last_mut().filter(|write| write.partition == partition) {
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

/// Returns the buffers of a load.
fn buffers(table: &Arc<Table>, flights: &[Flight], load: &Load) -> Vec<Buffer> {
    let buffers = flights.chunks(load.buffer.min(flights.len()));
    let made = buffers.map(|buffer| {
        let mut sorted: Vec<&Flight> = buffer.iter().collect();
        sorted.sort_by(|one, other| (&one.0, other.1, one.2).cmp(&(&other.0, one.1, other.2)));
        let calls = sorted.chunks(load.call);
        Buffer {
            sample: writes(table, sorted.iter().copied().step_by(ROOM_EACH)),
            calls: calls.map(|some| writes(table, some.iter().copied())).collect(),
        }
    });
    made.collect()
}

/// Store over an embedded store in its own directory.
struct Open {
    store: Arc<BucketedStore>,
    inner: Arc<dyn Store>,
    table: Arc<Table>,
    _directory: tempfile::TempDir,
}

impl Open {
    async fn new(buckets: Option<BucketBound>) -> Self {
        let directory = tempfile::tempdir_in(".").unwrap();
        let environment = Environment::system();
        let options = EmbeddedOptions::default();
        let inner: Arc<dyn Store> =
            EmbeddedStore::open(directory.path(), options, environment.clone()).unwrap();
        let last = AtomicU64::new(1);
        let stamps = Arc::new(move || Stamp(last.fetch_add(1, Ordering::Relaxed).cast_signed()));
        let store = BucketedStore::over(Arc::clone(&inner), environment, stamps);
        let table = table(buckets);
        store.create_table(&table).await.unwrap();
        Self {
            store: Arc::new(store),
            inner,
            table,
            _directory: directory,
        }
    }

    /// Returns the size of the largest bucket, and the number of buckets.
    async fn largest(&self) -> (u64, usize) {
        let tables = self.inner.list_tables().await.unwrap();
        let table = tables
            .into_iter()
            .find(|table| table.name() == "flights")
            .unwrap();
        let table = Arc::new(table);
        let options = ReadOptions::default();
        let snapshot = self.inner.snapshot().unwrap();
        let range = TokenRange::whole();
        let read = snapshot.scan_partitions(&table, &range, None, 100_000, &options);
        let rows = read.await.unwrap().rows;
        let of_row = |row: recto_model::RowRef<'_>| (0..2).map(|column| row.get(column)).collect();
        let partitions: Vec<Cells> = rows.iter().map(of_row).collect();
        let mut largest = 0;
        for some in partitions.chunks(1_000) {
            let counts = snapshot.count_partitions(&table, some, &options).await.unwrap();
            largest = largest.max(counts.iter().map(|count| count.bytes).max().unwrap_or(0));
        }
        (largest, partitions.len())
    }
}

/// Measurements of a load.
struct Loaded {
    seconds: f64,
    largest: u64,
}

async fn send(open: &Open, calls: Vec<Vec<PartitionWrite>>) {
    let options = WriteOptions {
        relaxed: true,
        row_by_row: true,
        timeout: Duration::from_secs(60),
        ..WriteOptions::default()
    };
    let sent = stream::iter(calls).for_each_concurrent(CALLS_IN_FLIGHT, |call| {
        let store = Arc::clone(&open.store);
        async move {
            let written = tokio::spawn(async move { store.write_many(call, Atomicity::Each, options).await });
            let outcome = written.await.unwrap();
            assert!(matches!(outcome, Ok(WriteOutcome::Counted(_))), "{outcome:?}");
        }
    });
    sent.await;
}

async fn load(open: &Open, buffers: Vec<Buffer>, plan: &Load, watches: bool) -> Loaded {
    let is_over = Arc::new(AtomicBool::new(false));
    let began = Instant::now();
    let writes = async {
        if !plan.by_buffers {
            let calls = buffers.into_iter().flat_map(|buffer| buffer.calls);
            return send(open, calls.collect()).await;
        }
        for buffer in buffers {
            // A store without buckets makes no room, so this call returns at once.
            let room = open
                .store
                .make_room(buffer.sample, ROOM_EACH as u32, Duration::from_secs(60));
            room.await.unwrap();
            send(open, buffer.calls).await;
        }
    };
    let watch = async {
        let mut largest = 0;
        while watches && !is_over.load(Ordering::Relaxed) {
            largest = largest.max(open.largest().await.0);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        largest
    };
    let write = async {
        writes.await;
        // The last write is not relaxed, so it returns when all rows are on disk.
        let last = put(&("last".to_owned(), 0, 0, "last".to_owned()), 1);
        let write = PartitionWrite {
            table: Arc::clone(&open.table),
            partition: partition("last"),
            mutations: vec![last],
        };
        open.store.write(write, WriteOptions::default()).await.unwrap();
        let seconds = began.elapsed().as_secs_f64();
        is_over.store(true, Ordering::Relaxed);
        seconds
    };
    let (seconds, largest) = tokio::join!(write, watch);
    Loaded { seconds, largest }
}

/// Waits until no bucket is split any more. Returns the size of the largest bucket and the number of buckets.
async fn settle(open: &Open) -> (u64, usize) {
    let (mut last, mut same) = ((0, 0), 0);
    while same < 5 {
        tokio::time::sleep(Duration::from_millis(40)).await;
        let now = open.largest().await;
        same = if now == last { same + 1 } else { 0 };
        last = now;
    }
    last
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// Returns the mean time of a page, in microseconds, for pages that begin after some of the flights.
async fn page(open: &Open, flights: &[Flight]) -> f64 {
    let options = ReadOptions::default();
    let slice = |flight: &Flight| {
        let (carrier, hour, number, _) = flight;
        let row: [&[u8]; 2] = [&hour.to_be_bytes(), &number.to_be_bytes()];
        Slice {
            from: Bound::After(row.into_iter().map(Some).collect()),
            ..Slice::from_start(&open.table, partition(carrier), PAGE_ROWS)
        }
    };
    let slices: Vec<Slice> = flights.iter().step_by(flights.len() / PAGES).map(slice).collect();
    for slice in &slices {
        open.store
            .snapshot()
            .unwrap()
            .slice(slice, &options)
            .await
            .unwrap();
    }
    let began = Instant::now();
    for slice in &slices {
        let snapshot = open.store.snapshot().unwrap();
        let read = match snapshot.slice_now(slice, &options) {
            Some(read) => read,
            None => snapshot.slice(slice, &options).await,
        };
        black_box(read.unwrap());
    }
    began.elapsed().as_secs_f64() * 1e6 / slices.len() as f64
}

async fn measure(order: &str, flights: &[Flight], plan: &Load, buckets: BucketBound) {
    let (mut plain_rates, mut rates, mut pages, mut plain_pages) = (vec![], vec![], vec![], vec![]);
    let rows = flights.len() as f64;
    let (mut moved, mut most, mut end) = (0.0_f64, 0, (0, 0));
    for _ in 0..ROUNDS {
        let plain = Open::new(None).await;
        let seconds = load(&plain, buffers(&plain.table, flights, plan), plan, false)
            .await
            .seconds;
        plain_rates.push(rows / seconds);
        let open = Open::new(Some(buckets)).await;
        let seconds = load(&open, buffers(&open.table, flights, plan), plan, false)
            .await
            .seconds;
        rates.push(rows / seconds);
        let bytes: usize = flights.iter().map(|flight| flight.3.len() + 12 + 64).sum();
        end = settle(&open).await;
        moved = moved.max(open.store.moved_bytes() as f64 / bytes as f64);
        plain_pages.push(page(&plain, flights).await);
        pages.push(page(&open, flights).await);
        drop(open);
        let watched = Open::new(Some(buckets)).await;
        let buffers = buffers(&watched.table, flights, plan);
        most = most.max(load(&watched, buffers, plan, true).await.largest);
    }
    let ratios: Vec<f64> = rates
        .iter()
        .zip(&plain_rates)
        .map(|(one, other)| one / other)
        .collect();
    let page_ratios: Vec<f64> = pages
        .iter()
        .zip(&plain_pages)
        .map(|(one, other)| one / other)
        .collect();
    let (BucketBound::Bytes(target) | BucketBound::Rows(target)) = buckets else {
        panic!("buckets by time have no target");
    };
    println!(
        "| {order}, {} | {:.0} | {:.0} | {:.0} | {:.2} | {:.3} | {:.2} | {:.2} | {} | {:.2} | {:.2} |",
        plan.name,
        target / 1_000,
        median(plain_rates),
        median(rates),
        median(ratios),
        moved,
        most as f64 / target as f64,
        end.0 as f64 / target as f64,
        end.1,
        median(pages),
        median(page_ratios),
    );
}

/// Runs one load, and reads pages if `has_pages`.
async fn once(flights: &[Flight], plan: &Load, buckets: Option<BucketBound>, has_pages: bool) {
    let open = Open::new(buckets).await;
    let buffers = buffers(&open.table, flights, plan);
    let seconds = load(&open, buffers, plan, false).await.seconds;
    let rate = flights.len() as f64 / seconds;
    let page = if has_pages {
        page(&open, flights).await
    } else {
        0.0
    };
    println!(
        "{rate:.0} rows/s, {page:.2} µs a page, {:?}",
        open.store.bucket_metrics()
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let path = arguments.first().expect("the flights as CSV are named");
    let targets = [1_000_000, 100_000].map(BucketBound::Bytes);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let in_file = flights(path);
    let reversed: Vec<Flight> = in_file.iter().rev().cloned().collect();
    let shuffled = shuffled(&in_file);
    if let Some(order) = arguments.get(2) {
        let flights = match order.as_str() {
            "file" => &in_file,
            "reversed" => &reversed,
            _ => &shuffled,
        };
        let plan = LOADS
            .iter()
            .find(|load| load.name.contains(&arguments[1]))
            .unwrap();
        let target = arguments[3].parse::<u64>().unwrap() * 1_000;
        let buckets = (target > 0).then_some(BucketBound::Bytes(target));
        runtime.block_on(once(flights, plan, buckets, arguments.get(4).is_some()));
        return;
    }
    println!(
        "| order, and how it comes | target, KB | rows/s without | rows/s | ratio | bytes moved per byte | largest then / target | largest at last / target | buckets | page, µs | page / without |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    for (order, flights) in [
        ("file", &in_file),
        ("reversed", &reversed),
        ("shuffled", &shuffled),
    ] {
        for load in &LOADS {
            for target in targets {
                let wanted = arguments
                    .get(1)
                    .is_none_or(|wanted| load.name.contains(wanted.as_str()));
                if wanted {
                    runtime.block_on(measure(order, flights, load, target));
                }
            }
        }
    }
}
