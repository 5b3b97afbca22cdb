//! Tests of retention and of computed buckets, on stores that keep partitions whole: in memory and
//! embedded.

use recto_embedded::{EmbeddedOptions, EmbeddedStore};
use recto_model::table::{BucketBound, Buckets};
use recto_model::width::{Width, WidthUnit};
use recto_store::{Atomicity, Mutation, Operation, PartitionWrite, TokenRange, WriteOptions, WriteOutcome};

use super::*;
use crate::list::{Listing, Seek};
use crate::{RetainedStore, Stamps};

const HOUR_MS: i64 = 3_600_000;
const HOUR: Duration = Duration::from_secs(3_600);
/// Retention time in hours.
const KEPT: u32 = 8;

const fn hours(count: u32) -> Width {
    Width {
        count,
        unit: WidthUnit::Hour,
    }
}

fn events(buckets: Buckets, direction: Direction) -> Arc<Table> {
    let columns = vec![
        column("stream", Type::Text, ColumnKind::Partition),
        column("at", Type::Timestamp, ColumnKind::Clustering(direction)),
        column("text", Type::Text, ColumnKind::Regular(WriteKind::Plain)),
    ];
    let options = TableOptions {
        buckets: Some(buckets),
        counts_rows: true,
        ..TableOptions::default()
    };
    Arc::new(Table::new("events", columns, options).expect("these columns are a table"))
}

fn kept(direction: Direction, leaves_out_late: bool) -> Arc<Table> {
    let buckets = Buckets {
        keep: Some(hours(KEPT)),
        leaves_out_late,
        ..Buckets::from(BucketBound::Bytes(64 << 10))
    };
    events(buckets, direction)
}

struct Opened {
    inner: Arc<dyn Store>,
    store: RetainedStore,
    table: Arc<Table>,
    environment: Environment,
    stamps: Stamps,
}

impl Opened {
    async fn over(inner: Arc<dyn Store>, environment: Environment, table: Arc<Table>) -> Self {
        let stamps = stamps(&environment);
        let store = RetainedStore::open(Arc::clone(&inner), environment.clone(), Arc::clone(&stamps));
        let store = store.await.expect("it opens");
        store.create_table(&table).await.expect("it is made");
        Self {
            inner,
            store,
            table,
            environment,
            stamps,
        }
    }

    /// Opens the same store again, as another process would.
    async fn again(&self) -> Self {
        let (inner, environment) = (Arc::clone(&self.inner), self.environment.clone());
        Self::over(inner, environment, Arc::clone(&self.table)).await
    }

    fn now_ms(&self) -> i64 {
        self.environment.now_micros() / 1_000
    }

    fn write(&self, stream: &str, ats: &[i64]) -> PartitionWrite {
        let put = |at: &i64| Mutation {
            operation: Operation::Put {
                clustering: cells(&[Some(&at.to_be_bytes())]),
                cells: cells(&[Some(b"text")]),
                replace: true,
            },
            stamp: Some((self.stamps)()),
            ttl_seconds: None,
        };
        PartitionWrite {
            table: Arc::clone(&self.table),
            partition: cells(&[Some(stream.as_bytes())]),
            mutations: ats.iter().map(put).collect(),
        }
    }

    async fn put(&self, stream: &str, ats: &[i64]) -> WriteOutcome {
        let written = self.store.write(self.write(stream, ats), WriteOptions::default());
        written.await.expect("the outcome is known")
    }

    /// Returns the times of all rows of a stream that reads show.
    async fn times(&self, store: &dyn Store, stream: &str) -> Vec<i64> {
        let snapshot = store.snapshot().expect("it is open");
        let slice = Slice::from_start(&self.table, cells(&[Some(stream.as_bytes())]), 100_000);
        let read = snapshot.slice(&slice, &ReadOptions::default()).await;
        let mut times: Vec<i64> = read.expect("it is read").rows.iter().map(at_of).collect();
        times.sort_unstable();
        times
    }

    async fn scanned(&self) -> usize {
        let snapshot = self.store.snapshot().expect("it is open");
        let (range, options) = (TokenRange::whole(), ReadOptions::default());
        let read = snapshot.scan(&self.table, &range, None, 100_000, &options);
        read.await.expect("it is scanned").rows.len()
    }
}

fn at_of(row: recto_model::RowRef<'_>) -> i64 {
    let cell = row.get(1).and_then(|cell| cell.try_into().ok());
    i64::from_be_bytes(cell.expect("it is a time"))
}

async fn in_memory(table: Arc<Table>) -> Opened {
    let environment = environment();
    let inner = Arc::new(MemoryStore::new(environment.clone()));
    Opened::over(inner, environment, table).await
}

/// Checks that rows older than the retention time are rejected, hidden and deleted, in both sort
/// directions.
#[tokio::test(start_paused = true)]
async fn rows_disappear_after_their_retention_time() {
    for direction in [Direction::Ascending, Direction::Descending] {
        let opened = in_memory(kept(direction, false)).await;
        let first = opened.now_ms();
        for hour in 0..24 {
            let now = first + hour * HOUR_MS;
            let written = opened.put("s", &[now, now + 1]).await;
            assert!(matches!(written, WriteOutcome::Done), "{written:?}");
            tokio::time::sleep(HOUR).await;
            let shown = opened.times(&opened.store, "s").await;
            let oldest = opened.now_ms() - i64::from(KEPT) * HOUR_MS;
            // The retention bound rises in steps of an eighth of the retention time, and is checked four
            // times in each step.
            let least = shown[0];
            assert!(least >= oldest - 2 * HOUR_MS, "hour {hour}: {least} of {oldest}");
            let newer = shown.iter().filter(|at| **at >= oldest).count();
            let due = usize::try_from((hour + 1).min(7)).expect("it is at most 7");
            assert!(newer >= 2 * due);
            assert_eq!(opened.scanned().await, shown.len());
        }
        assert_eq!(
            opened.times(&*opened.inner, "s").await,
            opened.times(&opened.store, "s").await,
            "hidden rows are deleted"
        );
        assert!(opened.store.deleted_rows() > 20);
        let late = opened.put("s", &[opened.now_ms() - 20 * HOUR_MS]).await;
        assert!(matches!(late, WriteOutcome::Refused(_)), "{late:?}");
    }
}

/// Checks that a write to a table of view entries skips late rows (rows that are too old to be
/// kept). A conflict is reported with the index of the row in the caller's call, which includes the
/// skipped rows.
#[tokio::test(start_paused = true)]
async fn leaves_out_late_rows_of_views() {
    let opened = in_memory(kept(Direction::Descending, true)).await;
    let now = opened.now_ms();
    let late = now - 20 * HOUR_MS;
    let written = opened.put("s", &[late, now, late + 1, now + 1]).await;
    assert!(matches!(written, WriteOutcome::Done), "{written:?}");
    assert_eq!(opened.times(&*opened.inner, "s").await, [now, now + 1]);
    assert!(matches!(opened.put("s", &[late]).await, WriteOutcome::Done));
    // An insert of an existing key conflicts. The outcome has the index of the insert in the call,
    // skipped rows included.
    let mut write = opened.write("s", &[late, now]);
    for mutation in &mut write.mutations {
        if let Operation::Put {
            replace,
            cells: values,
            ..
        } = &mut mutation.operation
        {
            *replace = false;
            *values = cells(&[Some(b"other")]);
        }
    }
    let outcome = opened
        .store
        .write_many(vec![write], Atomicity::Logged, WriteOptions::default())
        .await;
    assert!(matches!(outcome, Ok(WriteOutcome::Conflict(1))), "{outcome:?}");
}

/// Checks that the retention bound is recorded. A later process whose clock was set back neither shows nor
/// accepts older rows. A table that is dropped and created again has no bound.
#[tokio::test(start_paused = true)]
async fn remembers_the_bound() {
    let opened = in_memory(kept(Direction::Ascending, false)).await;
    let (now, table) = (opened.now_ms(), Arc::clone(&opened.table));
    opened.put("s", &[now]).await;
    tokio::time::sleep(30 * HOUR).await;
    opened.put("s", &[now + 30 * HOUR_MS]).await;
    tokio::time::sleep(2 * HOUR).await;
    let other = Opened {
        environment: environment(),
        ..opened.again().await
    };
    let store = RetainedStore::open(
        Arc::clone(&other.inner),
        other.environment.clone(),
        Arc::clone(&other.stamps),
    );
    let other = Opened {
        store: store.await.expect("it opens"),
        ..other
    };
    assert_eq!(other.now_ms() / 1_000, now / 1_000, "its clock is late");
    assert_eq!(other.times(&other.store, "s").await, [now + 30 * HOUR_MS]);
    let late = other.put("s", &[now]).await;
    assert!(matches!(late, WriteOutcome::Refused(_)), "{late:?}");
    other.store.drop_table("events").await.expect("it is dropped");
    other.store.create_table(&table).await.expect("it is made");
    assert!(matches!(other.put("s", &[now]).await, WriteOutcome::Done));
    assert_eq!(other.again().await.times(&other.store, "s").await, [now]);
}

/// Returns an embedded store with `rows` rows in one stream, one second apart.
async fn embedded(buckets: Buckets, rows: i64) -> (tempfile::TempDir, Opened) {
    let folder = tempfile::tempdir().expect("there is room");
    let environment = Environment::system();
    let inner = EmbeddedStore::open(folder.path(), EmbeddedOptions::default(), environment.clone());
    let inner: Arc<dyn Store> = inner.expect("it is opened");
    let opened = Opened::over(inner, environment, events(buckets, Direction::Descending)).await;
    let ats: Vec<i64> = (0..rows).map(|at| at * 1_000).collect();
    for some in ats.chunks(1_000) {
        assert!(matches!(opened.put("s", some).await, WriteOutcome::Done));
    }
    (folder, opened)
}

async fn list(opened: &Opened, seek: Seek, most: usize) -> Listing {
    let stream = cells(&[Some(b"s")]);
    let listed = opened.store.list_buckets(&opened.table, &stream, seek, most);
    listed.await.expect("they are listed")
}

/// Asserts that listings from both ends and around a key have the same buckets, and that the listed
/// buckets contain all rows.
async fn are_listed_alike(opened: &Opened, rows: u64) -> Listing {
    let all = list(opened, Seek::At(Vec::new()), 256).await;
    assert_eq!(
        all.pieces.iter().map(|piece| piece.figures.rows).sum::<u64>(),
        rows
    );
    assert_eq!((all.before.clone(), all.behind.clone()), (None, None));
    let (mut forward, mut next) = (Vec::new(), Some(Seek::At(Vec::new())));
    while let Some(seek) = next {
        let some = list(opened, seek, 3).await;
        next = some.behind.map(Seek::At);
        forward.extend(some.pieces);
    }
    assert_eq!(forward, all.pieces);
    let (mut backward, mut next) = (Vec::new(), Some(Seek::Before(None)));
    while let Some(seek) = next {
        let some = list(opened, seek, 3).await;
        next = some.before.map(|edge| Seek::Before(Some(edge)));
        backward.splice(0..0, some.pieces);
    }
    assert_eq!(backward, all.pieces);
    for piece in &all.pieces {
        let around = opened
            .store
            .list_buckets_around(&opened.table, &cells(&[Some(b"s")]), piece.edge.clone(), 3)
            .await
            .expect("they are listed");
        assert!(
            around.pieces.iter().any(|one| one.edge == piece.edge),
            "{around:?}"
        );
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn draws_buckets_by_size() {
    for (bound, least, most) in [
        (BucketBound::Rows(700), 15, 30),
        (BucketBound::Bytes(100_000), 3, 20),
        (BucketBound::Rows(1_000_000), 1, 1),
    ] {
        let (_folder, opened) = embedded(bound.into(), 10_000).await;
        let all = are_listed_alike(&opened, 10_000).await;
        assert!(
            (least..=most).contains(&all.pieces.len()),
            "{bound:?}: {}",
            all.pieces.len()
        );
        for piece in &all.pieces {
            let figures = piece.figures;
            match bound {
                BucketBound::Rows(most) => assert!(figures.rows <= most),
                BucketBound::Bytes(most) => assert!(figures.bytes <= most),
                BucketBound::Time(_) => {}
            }
        }
        let listed = opened
            .store
            .list_partitions(&opened.table, crate::PartitionsPosition::default(), 10)
            .await
            .expect("they are listed");
        let [(_, summary)] = &listed.partitions[..] else {
            panic!("{listed:?}");
        };
        assert_eq!(
            (summary.buckets, summary.figures.rows),
            (all.pieces.len() as u64, 10_000)
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn draws_buckets_by_time() {
    let (_folder, opened) = embedded(BucketBound::Time(hours(1)).into(), 10_000).await;
    // 10,000 seconds are two hours and a part of the third.
    let all = are_listed_alike(&opened, 10_000).await;
    let rows: Vec<u64> = all.pieces.iter().map(|piece| piece.figures.rows).collect();
    assert_eq!(rows, [2_800, 3_600, 3_600]);
}
