//! Measures the cost of buckets on Cassandra, for buckets that are never split. The program writes single rows and
//! reads pages, and does the same with a table without buckets, through the same stores. It reports the latency, the
//! processor time of this process and of the node, and the number of requests.
//!
//! ```text
//! recto-rig start
//! cargo run --release -p recto-buckets --example buckets_on_cassandra -- 127.0.0.1:9042 PID
//! ```
//! PID is the process of the node. For a profile, add `puts` or `pages`, and the number of concurrent calls, as in
//! `… PID puts 64`.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::cast_precision_loss)]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use recto_buckets::BucketedStore;
use recto_cassandra::{CassandraConfig, CassandraStore, create_keyspace, drop_keyspace};
use recto_model::table::{BucketBound, ColumnKind, Direction, TableOptions, WriteKind};
use recto_model::{Bound, Cells, Column, Environment, Slice, Table, Type};
use recto_store::{
    Mutation, Operation, PartitionWrite, ReadOptions, Stamp, Store, WriteOptions, WriteOutcome,
};

/// Number of rounds. In each round, both tables are measured once. The first round does not count.
const ROUNDS: usize = 9;
const TURN: Duration = Duration::from_secs(1);
const AT_ONCE: [usize; 3] = [1, 16, 64];
const PAGE_ROWS: u32 = 51;
/// Number of rows that are written before the measurement. A page begins after one of these rows.
const ROWS: i64 = 20_000;
const BODY: &[u8] =
    b"a hundred bytes or so of what each row of the list says beside when it came - as short messages do.";

struct Side {
    name: &'static str,
    table: Arc<Table>,
}

/// Cost of one operation in one turn of a measurement.
#[derive(Clone, Copy)]
struct Turn {
    micros: f64,
    /// Processor time of this process and of the node, in microseconds.
    processor: [f64; 2],
    requests: f64,
}

fn table(name: &str, buckets: Option<BucketBound>) -> Arc<Table> {
    let column = |name: &str, ty, kind| Column {
        name: name.to_owned(),
        ty,
        kind,
    };
    let columns = vec![
        column("list", Type::Text, ColumnKind::Partition),
        column("at", Type::BigInt, ColumnKind::Clustering(Direction::Descending)),
        column("body", Type::Text, ColumnKind::Regular(WriteKind::Plain)),
    ];
    let options = TableOptions {
        buckets: buckets.map(Into::into),
        ..TableOptions::default()
    };
    Arc::new(Table::new(name, columns, options).unwrap())
}

fn cells(cells: &[&[u8]]) -> Cells {
    cells.iter().copied().map(Some).collect()
}

/// The store on Cassandra, and the layers of stores over it.
struct Stores {
    cassandra: Arc<CassandraStore>,
    bucketed: BucketedStore,
    last: Arc<AtomicI64>,
}

impl Stores {
    async fn open(address: &str, keyspace: &str) -> Self {
        let config = || CassandraConfig::new([address], keyspace);
        create_keyspace(config(), Environment::system(), None)
            .await
            .unwrap();
        let environment = Environment::system();
        let cassandra = Arc::new(
            CassandraStore::connect(config(), environment.clone())
                .await
                .unwrap(),
        );
        let last = Arc::new(AtomicI64::new(environment.now_micros()));
        let given = Arc::clone(&last);
        let stamps = Arc::new(move || Stamp(given.fetch_add(1, Ordering::Relaxed)));
        Self {
            bucketed: BucketedStore::over(Arc::clone(&cassandra) as Arc<dyn Store>, environment, stamps),
            cassandra,
            last,
        }
    }

    async fn put(&self, table: &Arc<Table>, at: i64) {
        let put = Operation::Put {
            clustering: cells(&[&at.to_be_bytes()]),
            cells: cells(&[BODY]),
            replace: false,
        };
        // Retry with a newer timestamp, because a concurrent read may have cached a newer range
        // map.
        for _ in 0..3 {
            let write = PartitionWrite {
                table: Arc::clone(table),
                partition: cells(&[b"all"]),
                mutations: vec![Mutation {
                    operation: put.clone(),
                    stamp: Some(Stamp(self.last.fetch_add(1, Ordering::Relaxed))),
                    ttl_seconds: None,
                }],
            };
            let written = self.bucketed.write(write, WriteOptions::default()).await;
            if matches!(written, Ok(WriteOutcome::Done)) {
                return;
            }
        }
        panic!("a row was not written");
    }

    async fn page(&self, table: &Arc<Table>, behind: i64) {
        let slice = Slice {
            from: Bound::After(cells(&[&behind.to_be_bytes()])),
            ..Slice::from_start(table, cells(&[b"all"]), PAGE_ROWS)
        };
        let snapshot = self.bucketed.snapshot().unwrap();
        let read = snapshot.slice(&slice, &ReadOptions::default()).await.unwrap();
        assert_eq!(read.rows.len(), PAGE_ROWS as usize);
    }

    fn requests(&self) -> u64 {
        let nodes = self.cassandra.metrics().nodes;
        nodes.iter().map(|node| node.requests).sum()
    }
}

/// Returns the processor time of a process in seconds; 0 if the process does not exist.
fn processor_of(process: &str) -> f64 {
    const TICKS_A_SECOND: f64 = 100.0;
    let told = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // Look for the fields after the process name, because the name may contain any character.
    let behind = told.rsplit_once(") ").map_or("", |(_, behind)| behind);
    let fields = behind.split(' ').skip(11).take(2);
    fields.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / TICKS_A_SECOND
}

/// Runs `at_once` concurrent tasks for one turn.
async fn turn(stores: &Arc<Stores>, side: &Side, (what, at_once): (&str, usize), node: &str) -> Turn {
    static NEXT: AtomicI64 = AtomicI64::new(1_000_000_000);
    let processor = || ["self", node].map(processor_of);
    let (processor_before, requests, begun) = (processor(), stores.requests(), Instant::now());
    let tasks: Vec<_> = (0..at_once)
        .map(|_| {
            let (stores, table, puts) = (Arc::clone(stores), Arc::clone(&side.table), what == "puts");
            tokio::spawn(async move {
                let mut count = 0_u64;
                while begun.elapsed() < TURN {
                    let next = NEXT.fetch_add(1, Ordering::Relaxed);
                    if puts {
                        stores.put(&table, next).await;
                    } else {
                        stores.page(&table, ROWS - next % (ROWS / 2)).await;
                    }
                    count += 1;
                }
                count
            })
        })
        .collect();
    let mut count = 0;
    for task in tasks {
        count += task.await.unwrap();
    }
    let each = |seconds: f64| seconds * 1e6 / count as f64;
    let now = processor();
    Turn {
        micros: each(begun.elapsed().as_secs_f64()),
        processor: [0, 1].map(|of| each(now[of] - processor_before[of])),
        requests: (stores.requests() - requests) as f64 / count as f64,
    }
}

fn median(turns: &[Turn], figure: impl Fn(&Turn) -> f64) -> f64 {
    let mut figures: Vec<f64> = turns.iter().map(figure).collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

async fn measure(stores: &Arc<Stores>, sides: &[Side], what: (&str, usize), node: &str) {
    let mut turns = vec![Vec::new(); sides.len()];
    for round in 0..=ROUNDS {
        for (side, turns) in sides.iter().zip(&mut turns) {
            let turn = turn(stores, side, what, node).await;
            if round > 0 {
                turns.push(turn);
            }
        }
    }
    println!("{}, {} at once:", what.0, what.1);
    for (side, of) in sides.iter().zip(&turns) {
        let figures: [&dyn Fn(&Turn) -> f64; 4] = [
            &|turn| turn.micros,
            &|turn| turn.processor[0],
            &|turn| turn.processor[1],
            &|turn| turn.requests,
        ];
        let told = |figure: &&dyn Fn(&Turn) -> f64| (median(of, figure), median(&turns[0], figure));
        let [all, here, node, requests] = [0, 1, 2, 3].map(|number| told(&figures[number]));
        println!(
            "    {}: {:.1} µs ({:.2}), processor {:.1} µs here ({:.2}), {:.1} µs of the node ({:.2}), {:.3} requests",
            side.name,
            all.0,
            all.0 / all.1,
            here.0,
            here.0 / here.1,
            node.0,
            node.0 / node.1,
            requests.0,
        );
    }
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let address = arguments
        .first()
        .expect("the first argument is the address of a Cassandra");
    let node = arguments.get(1).map_or("", String::as_str);
    let keyspace = format!("recto_buckets_speed_{}", std::process::id());
    let stores = Arc::new(Stores::open(address, &keyspace).await);
    let sides = [("plain", None), ("bucketed", Some(BucketBound::Bytes(1 << 30)))];
    let sides = sides.map(|(name, buckets)| Side {
        name,
        table: table(name, buckets),
    });
    for side in &sides {
        stores.bucketed.create_table(&side.table).await.unwrap();
        for at in 0..ROWS {
            stores.put(&side.table, at).await;
        }
    }
    let asked = arguments
        .get(2)
        .zip(arguments.get(3).and_then(|number| number.parse().ok()));
    match asked {
        Some((what, at_once)) => measure(&stores, &sides, (what, at_once), node).await,
        None => {
            for what in ["puts", "pages"] {
                for at_once in AT_ONCE {
                    measure(&stores, &sides, (what, at_once), node).await;
                }
            }
        }
    }
    let config = CassandraConfig::new([address.as_str()], &keyspace);
    drop_keyspace(config, Environment::system()).await.unwrap();
}
