//! Run of a flow of rows through the engine.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use recto_buckets::{Change, Partition, PieceStore, PiecedTable, RowChange};
use recto_model::table::{ColumnKind, Direction, ReadDirection, TableOptions, WriteKind};
use recto_model::{Bound, Cells, Column, Slice, Table, Type, key};
use recto_protocol::buckets::Directory;
use recto_protocol::buckets::sizing::{DEFAULT_EPSILON, Sizing};
use recto_store::{ReadOptions, Snapshot, Store};
use tokio::time::Instant;

use crate::flows::{Coming, Flow, Random};
use crate::measured::{Measured, Pages};
use crate::store::{Counting, Noting, RequestCounts, environment, key_cells, stamps};

const PROCESSES: usize = 8;
/// Time limit of a call of the engine.
const TIME: Duration = Duration::from_secs(30);
/// Rows of a page, plus one row that shows whether there are more.
const PAGE_ROWS: u32 = 51;
/// Number of pages that are read while rows arrive, and number of pages that are read after each burst.
/// One page in ten has the newest rows. The others are at rows of the burst.
const PAGES: usize = 3_000;
const PAGES_AFTER_A_BURST: usize = 400;
/// Number of times that the sizes of buckets are measured.
const LOOKS: usize = 40;
/// Duration without load at the end, in which buckets that became too large in a burst are split.
const CALM: Duration = Duration::from_secs(600);

/// Minimum ratio of the target size of a bucket to the size of a row.
const ROW_PART: u64 = 160;

/// Keys, each with the counted bytes of its row.
type Keys = Vec<(Vec<u8>, u64)>;

struct All {
    store: Arc<dyn Store>,
    pieced: Arc<PiecedTable>,
    table: Arc<Table>,
    processes: Vec<PieceStore>,
    /// For each partition, the keys of all rows that arrived, with their counted bytes.
    rows: RefCell<BTreeMap<u32, Keys>>,
}

pub(crate) async fn run(flow: &Rc<Flow>) -> Measured {
    let asked = Arc::new(RequestCounts::default());
    let all = Rc::new(All::start(flow, &asked).await);
    let working: Vec<_> = all
        .processes
        .iter()
        .cloned()
        .map(|pieces| tokio::spawn(async move { pieces.work().await }))
        .collect();
    let (mut random, start) = (Random::new(1), Instant::now());
    let (mut measured, mut bursts) = (Measured::new(flow), flow.bursts.iter().peekable());
    let mut written = Vec::new();
    for (number, row) in flow.rows.iter().enumerate() {
        while let Some((end, rows)) = bursts.next_if(|(end, _)| *end <= row.after_ms) {
            tokio::time::sleep_until(start + Duration::from_millis(*end as u64)).await;
            all.look(&mut measured).await;
            for page in 0..PAGES_AFTER_A_BURST {
                let from = (page % 10 > 0).then(|| &flow.rows[number - rows..number]);
                all.page(row.partition, &mut random, from, &mut measured.after_bursts)
                    .await;
            }
        }
        tokio::time::sleep_until(start + Duration::from_millis(row.after_ms as u64)).await;
        written.push(tokio::task::spawn_local(all.write(
            number,
            *row,
            random.below(PROCESSES as u64),
        )));
        if written.len() >= 1_000 {
            for one in written.drain(..500) {
                one.await.unwrap();
            }
        }
        if number % (flow.rows.len() / PAGES).max(1) == 0 {
            let from = (random.below(2) > 0).then(|| &flow.rows[..=number]);
            all.page(row.partition, &mut random, from, &mut measured.pages)
                .await;
        }
        if number % (flow.rows.len() / LOOKS).max(1) == 0 {
            all.look(&mut measured).await;
        }
    }
    for one in written {
        one.await.unwrap();
    }
    all.look(&mut measured).await;
    tokio::time::sleep(CALM).await;
    all.settle(&mut measured).await;
    measured.take(
        &asked,
        all.processes
            .iter()
            .map(|pieces| pieces.metrics().moved_bytes)
            .sum(),
    );
    working.iter().for_each(tokio::task::JoinHandle::abort);
    measured
}

fn table() -> Table {
    let plain = ColumnKind::Regular(WriteKind::Plain);
    let column = |name: &str, ty, kind| Column {
        name: name.to_owned(),
        ty,
        kind,
    };
    let columns = vec![
        column("stream", Type::Int, ColumnKind::Partition),
        column("recto_bucket", Type::BigInt, ColumnKind::Partition),
        column("at", Type::BigInt, ColumnKind::Clustering(Direction::Descending)),
        column("id", Type::BigInt, ColumnKind::Clustering(Direction::Ascending)),
        column("recto_root", Type::Boolean, ColumnKind::Static(WriteKind::Plain)),
        column("recto_row", Type::Blob, plain),
        column("text", Type::Text, plain),
    ];
    Table::new("rows", columns, TableOptions::default()).unwrap()
}

fn edge(order: i64) -> Cells {
    std::iter::once(Some(&order.to_be_bytes()[..])).collect()
}

impl All {
    async fn start(flow: &Rc<Flow>, asked: &Arc<RequestCounts>) -> Self {
        let store: Arc<dyn Store> = Arc::new(Counting::new(&environment(0), asked));
        let table = Arc::new(table());
        store.create_table(&table).await.unwrap();
        let sizing = Sizing::new(flow.target, flow.target / ROW_PART, DEFAULT_EPSILON).unwrap();
        let mut processes = Vec::new();
        for number in 1..=PROCESSES {
            let environment = environment(number as u64);
            let stamps = stamps(&environment);
            processes.push(
                PieceStore::open(Arc::clone(&store), environment, stamps)
                    .await
                    .unwrap(),
            );
        }
        Self {
            store,
            pieced: Arc::new(PiecedTable::new(Arc::clone(&table), sizing).unwrap()),
            table,
            processes,
            rows: RefCell::default(),
        }
    }

    fn partition(&self, process: usize, number: u32) -> Partition {
        let cells = std::iter::once(Some(&number.to_be_bytes()[..])).collect();
        self.processes[process].partition(&self.pieced, cells).unwrap()
    }

    /// Writes a row. The row is recorded as stored after the write is done.
    fn write(self: &Rc<Self>, number: usize, row: Coming, process: u64) -> impl Future<Output = ()> + use<> {
        let partition = self.partition(process as usize, row.partition);
        let clustering = key_cells(row.order, number as u64);
        let mut encoded = Vec::new();
        key::encode_clustering(&self.table, clustering.as_row(), &mut encoded).unwrap();
        let mut rows = self.rows.borrow_mut();
        rows.entry(row.partition)
            .or_default()
            .push((encoded, row.counted()));
        async move {
            let text = "x".repeat(row.text);
            let change = Change::Put {
                cells: [None, Some(text.as_bytes())].into_iter().collect(),
                replace: false,
                ttl_seconds: None,
            };
            partition
                .write(&RowChange { clustering, change }, TIME)
                .await
                .unwrap();
        }
    }

    /// Reads a page of a partition: the newest rows, or the rows before or after a random row of `some`.
    async fn page(&self, partition: u32, random: &mut Random, some: Option<&[Coming]>, pages: &mut Pages) {
        let process = random.below(PROCESSES as u64) as usize;
        let cells = std::iter::once(Some(&partition.to_be_bytes()[..])).collect();
        let mut slice = Slice::from_start(&self.table, cells, PAGE_ROWS);
        if let Some(rows) = some {
            let of_it = || rows.iter().filter(|row| row.partition == partition);
            let count = of_it().count() as u64;
            let Some(row) = of_it().nth(random.below(count) as usize) else {
                return;
            };
            if random.below(2) == 0 {
                slice.from = Bound::Before(edge(row.order));
            } else {
                slice.to = Bound::After(edge(row.order));
                slice.direction = ReadDirection::Backward;
            }
        }
        let snapshot: Arc<dyn Snapshot> = self.store.snapshot().unwrap();
        let noting = Noting {
            inner: snapshot,
            buckets: Mutex::default(),
        };
        let options = ReadOptions {
            timeout: TIME,
            ..ReadOptions::default()
        };
        let read = self.processes[process]
            .slice(&self.pieced, &noting, &slice, &options)
            .await;
        // Count only full pages, because at first a partition has fewer rows than a page.
        if read.unwrap().rows.len() as u32 == PAGE_ROWS {
            pages.add(noting.buckets.lock().unwrap().len());
        }
    }

    async fn directories(&self, number: u32) -> Vec<Directory> {
        let partition = self.partition(0, number);
        let mut windows = vec![partition.directory(TIME).await.unwrap()];
        while let Some(end) = windows.last().and_then(|window| window.end.clone()) {
            windows.push(partition.window(end, TIME).await.unwrap());
        }
        windows
    }

    /// Returns the size of each bucket in bytes, computed from the rows that arrived.
    async fn sizes(&self) -> BTreeMap<(u32, u64), u64> {
        let numbers: Vec<u32> = self.rows.borrow().keys().copied().collect();
        let mut sizes = BTreeMap::new();
        for number in numbers {
            let windows = self.directories(number).await;
            let mut rows = self.rows.borrow_mut();
            let rows = rows.get_mut(&number).unwrap();
            rows.sort();
            for (span, piece) in windows.iter().flat_map(Directory::spans) {
                let from = rows.partition_point(|(key, _)| *key < span.start);
                let to = span
                    .end
                    .as_ref()
                    .map_or(rows.len(), |end| rows.partition_point(|(key, _)| key < end));
                let bytes: u64 = rows[from..to.max(from)].iter().map(|(_, bytes)| bytes).sum();
                *sizes.entry((number, piece.roles.read.0)).or_default() += bytes;
            }
        }
        sizes
    }

    async fn look(&self, measured: &mut Measured) {
        if self.rows.borrow().len() < 1_000 {
            measured.before(self.sizes().await);
        }
    }

    /// Lets the splitter check all partitions and waits, so that no split is unfinished.
    async fn settle(&self, measured: &mut Measured) {
        let numbers: Vec<u32> = self.rows.borrow().keys().copied().collect();
        for number in &numbers {
            self.partition(0, *number).look(TIME).await.unwrap();
        }
        tokio::time::sleep(CALM).await;
        measured.after(self.sizes().await);
    }
}
