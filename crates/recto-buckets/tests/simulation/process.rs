//! One simulated process: the engine, its writers and readers, and its splitter.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use recto_buckets::{Change, Partition, PieceStore, PiecedTable, PiecesErrorKind, RowChange};
use recto_model::table::{ColumnKind, Direction, ReadDirection, TableOptions, WriteKind};
use recto_model::{Bound, Cells, Column, Environment, Slice, Table, Type, key};
use recto_protocol::buckets::sizing::Sizing;
use recto_protocol::buckets::{Bucket, Directory, Shards};
use recto_store::{ReadOptions, Stamp, Store};
use tokio::task::JoinHandle;

use crate::clock::Random;
use crate::history::{History, Number, Page};

/// Number of samples at which a bucket is split. The number is small, so that there are many
/// buckets.
pub(crate) const SAMPLES: u32 = 4;
const TARGET: u64 = 64 << 10;
const LARGEST: u64 = 5_000;
/// Minimum size of a row in bytes. At this size, about one row in three is sampled.
const MIN_ROW: u64 = 1_500;
/// Number of keys that are written in random order.
const KEYS: u64 = 60;
/// Positions of columns of a row, counted from its end.
const AT: usize = 4;
const TEXT: usize = 1;
/// Time limit of a request.
const TIME: Duration = Duration::from_secs(8);

/// Settings that all processes of a simulation run share.
pub(crate) struct Setting {
    pub(crate) pieced: Pieced,
    direction: Direction,
    /// Number of writes in ten whose keys increase with time. The other keys are random.
    in_order: u64,
    /// Maximum pause of a writer between two writes, in milliseconds.
    rest_millis: u64,
    next_key: AtomicI64,
}

/// The table whose rows the processes write, for the engine and as the store has it.
pub(crate) struct Pieced(Arc<PiecedTable>, Arc<Table>);

impl Pieced {
    pub(crate) fn table(&self) -> Table {
        Table::clone(&self.1)
    }
}

/// Tasks that a process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    All,
    Cuts,
    Uses,
}

impl Setting {
    pub(crate) fn drawn(random: &Random) -> Self {
        let direction = if random.one_in(2) {
            Direction::Ascending
        } else {
            Direction::Descending
        };
        let plain = ColumnKind::Regular(WriteKind::Plain);
        let column = |name: &str, ty, kind| Column {
            name: name.to_owned(),
            ty,
            kind,
        };
        let shards = if random.one_in(3) { 2 + random.below(4) } else { 1 };
        let shards = Shards::new(u8::try_from(shards).unwrap()).unwrap();
        let mut columns = vec![
            column("stream", Type::Text, ColumnKind::Partition),
            column("recto_bucket", Type::BigInt, ColumnKind::Partition),
            column("at", Type::BigInt, ColumnKind::Clustering(direction)),
            column("recto_root", Type::Boolean, ColumnKind::Static(WriteKind::Plain)),
            column("recto_row", Type::Blob, plain),
            column("text", Type::Text, plain),
        ];
        if shards.are_several() {
            columns.push(column("recto_shard", Type::Int, ColumnKind::Partition));
        }
        let table = Arc::new(Table::new("events", columns, TableOptions::default()).unwrap());
        let sizing = Sizing::with_samples(TARGET, LARGEST, 0.1, SAMPLES).unwrap();
        let pieced = Arc::new(PiecedTable::sharded(Arc::clone(&table), sizing, shards).unwrap());
        Self {
            pieced: Pieced(pieced, table),
            direction,
            in_order: random.below(11),
            rest_millis: 200 + random.below(2_000),
            next_key: AtomicI64::new(1_000),
        }
    }
}

/// Returns the encoded key of a row.
pub(crate) fn key_of(setting: &Setting, at: i64) -> Vec<u8> {
    let mut encoded = Vec::new();
    key::encode(&Type::BigInt, setting.direction, &at.to_be_bytes(), &mut encoded).unwrap();
    encoded
}

#[derive(Clone)]
struct Parts {
    store: Arc<dyn Store>,
    pieces: PieceStore,
    partition: Partition,
    setting: Rc<Setting>,
    history: Rc<History>,
    random: Rc<Random>,
    newest_stamp: Arc<AtomicI64>,
}

pub(crate) struct Process {
    parts: Parts,
    role: Role,
    tasks: Vec<JoinHandle<()>>,
}

impl Process {
    pub(crate) async fn start(
        store: Arc<dyn Store>,
        environment: Environment,
        setting: &Rc<Setting>,
        history: &Rc<History>,
        seed: u64,
        role: Role,
    ) -> Option<Self> {
        let newest_stamp = Arc::new(AtomicI64::new(0));
        let stamps: recto_buckets::Stamps = {
            let (environment, newest) = (environment.clone(), Arc::clone(&newest_stamp));
            Arc::new(move || {
                let stamp = environment.now_micros().max(newest.load(Ordering::Relaxed) + 1);
                newest.store(stamp, Ordering::Relaxed);
                Stamp(stamp)
            })
        };
        let pieces = PieceStore::open(Arc::clone(&store), environment, stamps)
            .await
            .ok()?;
        let partition = std::iter::once(Some(&b"s"[..])).collect();
        let partition = pieces.partition(&setting.pieced.0, partition).unwrap();
        let parts = Parts {
            store,
            pieces,
            partition,
            setting: Rc::clone(setting),
            history: Rc::clone(history),
            random: Rc::new(Random::new(seed)),
            newest_stamp,
        };
        Some(Self {
            parts,
            role,
            tasks: Vec::new(),
        })
    }

    /// Starts the tasks of the process's role. The tasks run until the process ends.
    pub(crate) fn work(&mut self) {
        if self.role != Role::Uses {
            self.cuts();
        }
        if self.role == Role::Cuts {
            let parts = self.parts.clone();
            self.spawn(async move {
                loop {
                    let _ = parts.partition.look(TIME).await;
                    tokio::time::sleep(parts.random.millis(5_000)).await;
                }
            });
            return;
        }
        let parts = self.parts.clone();
        self.spawn(async move {
            loop {
                tokio::time::sleep(parts.random.millis(4_000)).await;
                let (first, count) = (parts.random.below(100), parts.random.below(4));
                let joined = parts.partition.join_any(first as usize, count as usize);
                let _ = joined.await;
            }
        });
        for _ in 0..2 {
            let parts = self.parts.clone();
            self.spawn(async move {
                loop {
                    parts.write().await;
                    tokio::time::sleep(parts.random.millis(parts.setting.rest_millis)).await;
                }
            });
        }
        let parts = self.parts.clone();
        self.spawn(async move {
            loop {
                parts
                    .page_through(parts.random.one_in(2), 1 + parts.random.below(60))
                    .await;
                tokio::time::sleep(parts.random.millis(3_000)).await;
            }
        });
    }

    pub(crate) fn cuts(&mut self) {
        let parts = self.parts.clone();
        self.spawn(async move { parts.pieces.work().await });
    }

    fn spawn(&mut self, task: impl Future<Output = ()> + 'static) {
        self.tasks.push(tokio::task::spawn_local(task));
    }

    /// Stops all tasks of the process. Requests that it has sent to the store remain under way.
    pub(crate) fn crash(&mut self) {
        for task in self.tasks.drain(..) {
            task.abort();
        }
    }

    pub(crate) async fn page_through(&self, is_backward: bool) {
        self.parts.page_through(is_backward, 7).await;
    }

    pub(crate) async fn look(&self) -> Result<usize, String> {
        self.parts
            .partition
            .look(TIME)
            .await
            .map_err(|error| error.to_string())
    }

    pub(crate) async fn directory(&self) -> Result<Directory, String> {
        self.parts
            .partition
            .directory(TIME)
            .await
            .map_err(|error| error.to_string())
    }

    /// Returns the keys of all rows, and the lengths of their texts in bytes.
    pub(crate) async fn rows(&self) -> Result<Vec<(i64, u64)>, String> {
        let slice = self.parts.slice(ReadDirection::Forward, None, 100_000);
        let read = self.parts.read(&slice).await.map_err(|error| error.to_string())?;
        let rows = read.rows.iter().map(|row| {
            (
                at_of(row.get(row.len() - AT)),
                row.get(row.len() - TEXT).map_or(0, <[u8]>::len) as u64,
            )
        });
        Ok(rows.collect())
    }
}

impl Process {
    /// Returns the keys of a bucket's samples.
    pub(crate) async fn sampled(&self, bucket: Bucket) -> Result<BTreeSet<Vec<u8>>, String> {
        let (table, mut partition) = (Arc::new(samples_table(&self.parts.store).await?), Vec::new());
        key::encode(&Type::Text, Direction::Ascending, b"s", &mut partition).unwrap();
        let cells = [&b"events"[..], &partition, &bucket.0.to_be_bytes()];
        let slice = Slice::from_start(&table, cells.into_iter().map(Some).collect(), 100_000);
        let snapshot = self.parts.store.snapshot().map_err(|error| error.to_string())?;
        let read = snapshot.slice(&slice, &ReadOptions::default()).await;
        let read = read.map_err(|error| error.to_string())?;
        let is_there = |row: &recto_model::RowRef<'_>| row.get(4).is_some() && row.get(5) != Some(&[1]);
        let there = read.rows.iter().filter(is_there);
        Ok(there.map(|row| row.get(3).unwrap().to_vec()).collect())
    }
}

async fn samples_table(store: &Arc<dyn Store>) -> Result<Table, String> {
    let tables = store.list_tables().await.map_err(|error| error.to_string())?;
    let samples = tables.into_iter().find(|table| table.name() == "recto_samples");
    samples.ok_or_else(|| "there are no samples".to_owned())
}

fn at_of(cell: Option<&[u8]>) -> i64 {
    i64::from_be_bytes(cell.unwrap().try_into().unwrap())
}

impl Parts {
    async fn write(&self) {
        let random = &self.random;
        let at = if random.below(10) < self.setting.in_order {
            // Let some rows arrive late.
            self.setting.next_key.fetch_add(1, Ordering::Relaxed) - i64::try_from(random.below(3)).unwrap()
        } else {
            i64::try_from(random.below(KEYS)).unwrap()
        };
        let is_put = !random.one_in(5);
        let number = self.history.tries(at, is_put);
        let mut running = Running(Some((number, self)));
        let text = said(number, random);
        let change = match (is_put, random.one_in(3)) {
            (false, _) => Change::Delete,
            (true, false) => Change::Put {
                cells: [None, Some(&text[..])].into_iter().collect(),
                replace: true,
                ttl_seconds: None,
            },
            (true, true) => Change::Patch {
                columns: vec![1],
                cells: std::iter::once(Some(&text[..])).collect(),
                ttl_seconds: None,
            },
        };
        let clustering: Cells = std::iter::once(Some(&at.to_be_bytes()[..])).collect();
        match self
            .partition
            .write(&RowChange { clustering, change }, TIME)
            .await
        {
            Ok(stamp) => {
                running.0 = None;
                self.history.acknowledges(number, stamp.0);
            }
            Err(error) => {
                if matches!(
                    error.kind(),
                    PiecesErrorKind::Corrupt | PiecesErrorKind::InvalidArgument
                ) {
                    self.history.fails(format!("{at} was refused: {error}"));
                }
            }
        }
    }

    /// Reads pages from one end to the other, or until a page fails.
    async fn page_through(&self, is_backward: bool, limit: u64) {
        let mut after = None;
        loop {
            let begun = self.history.now();
            let direction = if is_backward {
                ReadDirection::Backward
            } else {
                ReadDirection::Forward
            };
            let slice = self.slice(direction, after, u32::try_from(limit).unwrap());
            let read = match self.read(&slice).await {
                Ok(read) => read,
                Err(error) => {
                    if matches!(
                        error.kind(),
                        PiecesErrorKind::Corrupt | PiecesErrorKind::InvalidArgument
                    ) {
                        self.history.fails(format!("a page was refused: {error}"));
                    }
                    return;
                }
            };
            let rows = read.rows.iter().map(|row| {
                (
                    at_of(row.get(row.len() - AT)),
                    number_of(row.get(row.len() - TEXT)),
                )
            });
            let rows: Vec<_> = rows.collect();
            let last = rows.last().map(|(at, _)| *at);
            let falls = is_backward == (self.setting.direction == Direction::Ascending);
            self.history.reads(&Page {
                begun,
                is_backward: falls,
                after,
                to: last.filter(|_| !read.exhausted),
                rows,
            });
            after = last;
            if read.exhausted || last.is_none() {
                return;
            }
        }
    }

    fn slice(&self, direction: ReadDirection, after: Option<i64>, limit: u32) -> Slice {
        let edge = |at: i64| std::iter::once(Some(&at.to_be_bytes()[..])).collect();
        let (mut from, mut to) = (Bound::start(), Bound::end());
        match (after, direction) {
            (None, _) => {}
            (Some(at), ReadDirection::Forward) => from = Bound::After(edge(at)),
            (Some(at), ReadDirection::Backward) => to = Bound::Before(edge(at)),
        }
        Slice {
            table: Arc::clone(&self.setting.pieced.1),
            partition: std::iter::once(Some(&b"s"[..])).collect(),
            from,
            to,
            direction,
            limit,
        }
    }

    async fn read(&self, slice: &Slice) -> recto_buckets::Result<recto_store::RowsRead> {
        let snapshot = self.store.snapshot()?;
        let options = ReadOptions {
            timeout: TIME,
            ..ReadOptions::default()
        };
        self.pieces
            .slice(&self.setting.pieced.0, &*snapshot, slice, &options)
            .await
    }
}

/// Write that has begun and has no outcome yet.
struct Running<'p>(Option<(Number, &'p Parts)>);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some((number, parts)) = self.0 {
            parts
                .history
                .gives_up(number, parts.newest_stamp.load(Ordering::Relaxed));
        }
    }
}

/// Returns the text of a row, which contains the number of the write.
fn said(number: Number, random: &Random) -> Vec<u8> {
    let length = usize::try_from(MIN_ROW + random.below(LARGEST - MIN_ROW - 200)).unwrap();
    let mut text = format!("{number} ").into_bytes();
    text.resize(length, b'x');
    text
}

fn number_of(text: Option<&[u8]>) -> Number {
    let text = std::str::from_utf8(text.unwrap()).unwrap();
    text.split_once(' ').unwrap().0.parse().unwrap()
}
