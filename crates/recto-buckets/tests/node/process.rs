//! One process from the engine's point of view: its own connection, its own clocks, and its own cached range maps.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use recto_buckets::{Change, Partition, PieceStore, PiecedTable, RowChange};
use recto_model::environment::Source;
use recto_model::table::{ColumnKind, Direction, ReadDirection, TableOptions, WriteKind};
use recto_model::{Bound, Cells, Column, Environment, Slice, Table, Type, key};
use recto_protocol::buckets::sizing::Sizing;
use recto_protocol::buckets::{Directory, Protocol, Shards};
use recto_store::{ReadOptions, RowsRead, Stamp, Store};
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;

use crate::calls::{Calls, Counted};
use crate::keyspace;

/// Time limit of a request.
pub(crate) const TIME: Duration = Duration::from_secs(10);
/// Positions of the order column and the text column, counted from the last column, and the position of
/// the text column among the regular columns.
const AT_FROM_END: usize = 5;
const TEXT_FROM_END: usize = 1;
const TEXT: u16 = 2;

/// Returns the product's protocol with waits of at most a fifth. The longer waits cover stopped clocks,
/// and the clocks of one machine do not stop.
pub(crate) fn short_protocol() -> Protocol {
    let mut protocol = Protocol::default();
    protocol.short_life_ms = 400;
    protocol.long_life_ms = 4_000;
    protocol.standstill_ms = 200;
    protocol.clearing_ms = 3_000;
    protocol.clearing_looks = 1;
    protocol
}

/// Clocks of the machine. The wall clock is off by this duration.
struct Clocks {
    environment: Environment,
    off_micros: i64,
}

impl Source for Clocks {
    fn now_micros(&self) -> i64 {
        self.environment.now_micros() + self.off_micros
    }

    fn monotonic_nanos(&self) -> u64 {
        self.environment.monotonic_nanos()
    }

    fn continuous_nanos(&self) -> u64 {
        self.environment.continuous_nanos()
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let drawn: [u8; 8] = self.environment.random();
            chunk.copy_from_slice(&drawn[..chunk.len()]);
        }
    }
}

/// Partition of a table of events, with the sizes of its buckets.
#[derive(Clone)]
pub(crate) struct Setting {
    pub(crate) direction: Direction,
    pub(crate) sizing: Sizing,
    pub(crate) stream: String,
    pub(crate) protocol: Protocol,
    pub(crate) shards: Shards,
}

pub(crate) struct Process {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) calls: Arc<Calls>,
    pub(crate) pieces: PieceStore,
    pub(crate) pieced: Arc<PiecedTable>,
    pub(crate) partition: Partition,
    pub(crate) table: Arc<Table>,
    pub(crate) setting: Setting,
    pub(crate) newest_stamp: Arc<AtomicI64>,
}

/// Environment variable that passes the keyspace to a child process.
pub(crate) const KEYSPACE: &str = "RECTO_TEST_KEYSPACE";

/// Returns the keyspace of all tests of this program.
pub(crate) async fn keyspace() -> &'static str {
    static MADE: OnceCell<String> = OnceCell::const_new();
    let name = async || match std::env::var(KEYSPACE) {
        Ok(name) => name,
        Err(_) => keyspace::made().await,
    };
    MADE.get_or_init(name).await
}

fn table(direction: Direction, shards: Shards) -> Table {
    let plain = ColumnKind::Regular(WriteKind::Plain);
    let column = |name: &str, ty, kind| Column {
        name: name.to_owned(),
        ty,
        kind,
    };
    let mut columns = vec![
        column("stream", Type::Text, ColumnKind::Partition),
        column("recto_bucket", Type::BigInt, ColumnKind::Partition),
        column("at", Type::BigInt, ColumnKind::Clustering(direction)),
        column("recto_root", Type::Boolean, ColumnKind::Static(WriteKind::Plain)),
        column("note", Type::Text, plain),
        column("recto_row", Type::Blob, plain),
        column("text", Type::Text, plain),
    ];
    let mut name = match direction {
        Direction::Ascending => "rising".to_owned(),
        Direction::Descending => "falling".to_owned(),
    };
    if shards.are_several() {
        columns.push(column("recto_shard", Type::Int, ColumnKind::Partition));
        name += "_sharded";
    }
    Table::new(name, columns, TableOptions::default()).unwrap()
}

impl Process {
    /// Starts a process whose wall clock is off by `off_micros`.
    pub(crate) async fn start(setting: &Setting, off_micros: i64) -> Self {
        Box::pin(Self::start_over(setting, off_micros, |store| store)).await
    }

    /// Starts a process whose store `over` wraps, for example to count requests.
    pub(crate) async fn start_over(
        setting: &Setting,
        off_micros: i64,
        over: impl FnOnce(Arc<dyn Store>) -> Arc<dyn Store>,
    ) -> Self {
        let environment = Environment::new(Clocks {
            environment: Environment::system(),
            off_micros,
        });
        let calls = Arc::new(Calls::default());
        let store: Arc<dyn Store> = Arc::new(Counted {
            inner: over(keyspace::store(keyspace().await, environment.clone()).await),
            calls: Arc::clone(&calls),
        });
        let table = Arc::new(table(setting.direction, setting.shards));
        store.create_tables_once(&[Table::clone(&table)]).await.unwrap();
        let newest_stamp = Arc::new(AtomicI64::new(0));
        let stamps: recto_buckets::Stamps = {
            let (environment, newest) = (environment.clone(), Arc::clone(&newest_stamp));
            Arc::new(move || {
                let now = environment.now_micros();
                let rise = |last| Some(now.max(last + 1));
                let last = newest.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rise);
                Stamp(now.max(last.unwrap() + 1))
            })
        };
        let open = PieceStore::open(Arc::clone(&store), environment, stamps)
            .await
            .unwrap();
        let pieces = open.with_protocol(setting.protocol);
        let pieced =
            Arc::new(PiecedTable::sharded(Arc::clone(&table), setting.sizing, setting.shards).unwrap());
        let partition = pieces.partition(&pieced, stream(setting)).unwrap();
        Self {
            store,
            calls,
            pieces,
            pieced,
            partition,
            table,
            setting: setting.clone(),
            newest_stamp,
        }
    }

    /// Starts the splitter, which runs until the result is dropped.
    pub(crate) fn works(&self) -> Working {
        let pieces = self.pieces.clone();
        Working(tokio::spawn(async move { pieces.work().await }))
    }

    pub(crate) async fn change(&self, at: i64, change: Change) -> recto_buckets::Result<Stamp> {
        let clustering = std::iter::once(Some(&at.to_be_bytes()[..])).collect();
        self.partition
            .write(&RowChange { clustering, change }, TIME)
            .await
    }

    /// Puts a row with this text, which does not expire.
    pub(crate) async fn put(&self, at: i64, text: &[u8]) -> recto_buckets::Result<Stamp> {
        self.change(at, put(None, Some(text), None)).await
    }

    pub(crate) fn slice(&self, direction: ReadDirection, after: Option<i64>, limit: u32) -> Slice {
        let edge = |at: i64| std::iter::once(Some(&at.to_be_bytes()[..])).collect();
        let (mut from, mut to) = (Bound::start(), Bound::end());
        match (after, direction) {
            (None, _) => {}
            (Some(at), ReadDirection::Forward) => from = Bound::After(edge(at)),
            (Some(at), ReadDirection::Backward) => to = Bound::Before(edge(at)),
        }
        Slice {
            table: Arc::clone(&self.table),
            partition: stream(&self.setting),
            from,
            to,
            direction,
            limit,
        }
    }

    pub(crate) async fn read(&self, slice: &Slice) -> recto_buckets::Result<RowsRead> {
        let snapshot = self.store.snapshot()?;
        let options = ReadOptions {
            timeout: TIME,
            stamps: true,
            ..ReadOptions::default()
        };
        self.pieces.slice(&self.pieced, &*snapshot, slice, &options).await
    }

    /// Returns all visible rows, read page by page.
    pub(crate) async fn rows(&self, direction: ReadDirection, limit: u32) -> Vec<(i64, Vec<u8>)> {
        let (mut rows, mut after) = (Vec::new(), None);
        loop {
            let read = self.read(&self.slice(direction, after, limit)).await.unwrap();
            rows.extend(said(&read));
            after = rows.last().map(|(at, _)| *at);
            if read.exhausted {
                return rows;
            }
        }
    }

    /// Returns all rows of a bucket without shards, including invisible rows.
    pub(crate) async fn in_bucket(&self, bucket: u64) -> Vec<(i64, Vec<u8>)> {
        let number = bucket.to_be_bytes();
        let cells = [self.setting.stream.as_bytes(), &number];
        let mut slice = self.slice(ReadDirection::Forward, None, u32::MAX >> 1);
        slice.partition = cells.into_iter().map(Some).collect();
        let options = ReadOptions {
            timeout: TIME,
            max_bytes: u64::MAX,
            ..ReadOptions::default()
        };
        said(
            &self
                .store
                .snapshot()
                .unwrap()
                .slice(&slice, &options)
                .await
                .unwrap(),
        )
    }

    /// Returns the range map, window (part) by window.
    pub(crate) async fn directory(&self) -> Vec<Directory> {
        let mut windows = vec![self.partition.directory(TIME).await.unwrap()];
        while let Some(end) = windows.last().and_then(|window| window.end.clone()) {
            windows.push(self.partition.window(end, TIME).await.unwrap());
        }
        windows
    }

    /// Returns the encoded key of a row.
    pub(crate) fn key_of(&self, at: i64) -> Vec<u8> {
        let mut encoded = Vec::new();
        key::encode(
            &Type::BigInt,
            self.setting.direction,
            &at.to_be_bytes(),
            &mut encoded,
        )
        .unwrap();
        encoded
    }
}

fn stream(setting: &Setting) -> Cells {
    std::iter::once(Some(setting.stream.as_bytes())).collect()
}

/// Returns a change that puts a row, with null in each cell that is not given.
pub(crate) fn put(note: Option<&[u8]>, text: Option<&[u8]>, ttl_seconds: Option<u32>) -> Change {
    Change::Put {
        cells: [note, None, text].into_iter().collect(),
        replace: true,
        ttl_seconds,
    }
}

/// Returns a change that overwrites only the text of a row.
pub(crate) fn patch(text: &[u8]) -> Change {
    Change::Patch {
        columns: vec![TEXT],
        cells: std::iter::once(Some(text)).collect(),
        ttl_seconds: None,
    }
}

pub(crate) fn at_of(cell: Option<&[u8]>) -> i64 {
    i64::from_be_bytes(cell.unwrap().try_into().unwrap())
}

/// Returns the keys and texts of rows.
pub(crate) fn said(read: &RowsRead) -> Vec<(i64, Vec<u8>)> {
    let row = |row: recto_model::RowRef<'_>| {
        (
            at_of(row.get(row.len() - AT_FROM_END)),
            row.get(row.len() - TEXT_FROM_END).unwrap_or_default().to_vec(),
        )
    };
    read.rows.iter().map(row).collect()
}

/// Running splitter. Dropping this value stops the splitter.
pub(crate) struct Working(JoinHandle<()>);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.abort();
    }
}
