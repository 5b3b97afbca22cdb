//! Tests of retention on stores without transactions: whole buckets are removed, with their rows and
//! samples.

use std::collections::BTreeMap;

use recto_model::width::{Width, WidthUnit};
use recto_protocol::buckets::Bucket;

use super::*;
use crate::tables::Tables;

pub(super) const HOUR: Duration = Duration::from_secs(3_600);
pub(super) const HOUR_MS: i64 = 3_600_000;
/// Number of rows that arrive each hour.
const EACH: i64 = 6;
/// Retention time in hours.
pub(super) const KEPT: u32 = 8;

pub(super) const fn hours(count: u32) -> Width {
    Width {
        count,
        unit: WidthUnit::Hour,
    }
}

pub(super) fn kept(bound: BucketBound, direction: Direction, shards: u8) -> Table {
    let plain = ColumnKind::Regular(WriteKind::Plain);
    let columns = vec![
        column("stream", Type::Text, ColumnKind::Partition),
        column("at", Type::Timestamp, ColumnKind::Clustering(direction)),
        column("text", Type::Text, plain),
        column("note", Type::Text, plain),
    ];
    let buckets = Buckets {
        shards,
        keep: Some(hours(KEPT)),
        ..Buckets::from(bound)
    };
    let options = TableOptions {
        buckets: Some(buckets),
        ..TableOptions::default()
    };
    Table::new("events", columns, options).expect("these columns are a table")
}

impl Shown {
    pub(super) fn now_ms(&self) -> i64 {
        self.environment.now_micros() / 1_000
    }

    /// Returns the rows of the current hour.
    pub(super) fn of_this_hour(&self) -> impl Iterator<Item = i64> + Clone + use<> {
        let hour = self.now_ms() / HOUR_MS * HOUR_MS;
        (0..EACH).map(move |number| hour + number * 1_000)
    }

    /// Returns the outcome of a put of a row with the time `at`.
    async fn ends(&self, at: i64) -> WriteOutcome {
        let put = Operation::Put {
            clustering: cells(&[Some(&at.to_be_bytes())]),
            cells: cells(&[Some(b"late"), None]),
            replace: true,
        };
        let write = self.write("s", put);
        let written = self.store.write(write, WriteOptions::default()).await;
        written.expect("it is known how it ends")
    }

    /// Returns the number of rows of each hour.
    async fn by_hours(&self, limit: u32) -> BTreeMap<i64, i64> {
        let mut found: BTreeMap<i64, i64> = BTreeMap::new();
        let snapshot = self.store.snapshot().expect("it is open");
        let slice = Slice::from_start(&self.table, cells(&[Some(b"s")]), limit);
        let read = snapshot.slice(&slice, &ReadOptions::default()).await;
        for row in read.expect("it is read").rows.iter() {
            *found.entry(at(row) / HOUR_MS).or_default() += 1;
        }
        found
    }

    /// Returns the number of stored rows in all buckets, including rows that reads hide.
    pub(super) async fn lying(&self) -> usize {
        let (table, _) = self.partitions().await;
        self.count_of(&table).await
    }

    pub(super) async fn count_of(&self, table: &Arc<Table>) -> usize {
        let snapshot = self.inner.snapshot().expect("it is open");
        let (range, options) = (TokenRange::whole(), ReadOptions::default());
        let read = snapshot.scan(table, &range, None, 100_000, &options).await;
        let keys = table.partition().len();
        let rows = read.expect("it is scanned").rows;
        rows.iter().filter(|row| row.get(keys).is_some()).count()
    }
}

/// Checks that each read returns all rows of an hour that has ended, or none of them. One process writes
/// rows continuously while another process reads.
async fn goes_by_whole_buckets(table: Table, slack_hours: i64) {
    let environment = environment();
    let inner: Arc<dyn Store> = Arc::new(memory(&environment));
    let shown = Shown::over(inner, environment, table).await;
    // Open the store a second time, as another process that works concurrently.
    let other = shown.opened_anew();
    for hour in 0..30 {
        shown.put("s", shown.of_this_hour()).await;
        let this = shown.now_ms() / HOUR_MS;
        for _ in 0..60 {
            tokio::time::sleep(HOUR / 60).await;
            for (hour, rows) in other.by_hours(100_000).await {
                assert_eq!(rows, EACH, "of hour {hour}");
            }
        }
        let found = shown.by_hours(100_000).await;
        let first = *found.keys().next().expect("there are some");
        let kept = i64::from(KEPT);
        let from = (this + 1 - kept).max(this - hour);
        assert!(first <= from, "hour {hour}: {found:?}");
        assert!(first >= this - kept - slack_hours, "hour {hour}: {found:?}");
        assert_eq!(
            i64::try_from(found.len()),
            Ok(this - first + 1),
            "hour {hour}: {found:?}"
        );
        let late = shown.ends((this - kept - 1) * HOUR_MS).await;
        let WriteOutcome::Refused(error) = late else {
            panic!("{late:?}")
        };
        assert!(
            error.to_string().contains("older than the retention time"),
            "{error}"
        );
        assert_eq!(
            error.hint(),
            Some("write only rows within the retention time, or raise `keep`")
        );
    }
    let found: i64 = shown.by_hours(100_000).await.values().sum();
    // The store may still contain rows that reads no longer show, because their removal is about to
    // happen.
    let lying = i64::try_from(shown.lying().await).expect("they are few");
    assert!(found <= lying && lying <= found + 2 * EACH, "{found} of {lying}");
    assert!(shown.store.bucket_metrics().dropped + other.store.bucket_metrics().dropped >= 15);
    shown.is_well().await;
    // Write no more rows, so that all rows expire and are removed.
    tokio::time::sleep(HOUR * (KEPT + 8)).await;
    assert_eq!(shown.by_hours(100_000).await, BTreeMap::new());
    assert_eq!(shown.lying().await, 0);
    let tables = Tables::new();
    assert_eq!(shown.count_of(&tables.samples).await, 0);
    assert_eq!(shown.count_of(&tables.times).await, 0);
    assert!(shown.count_of(&tables.directories).await <= 2);
    // The partition still exists after its rows were removed, and accepts new rows.
    shown.put("s", shown.of_this_hour()).await;
    assert_eq!(other.by_hours(100_000).await.len(), 1);
    assert_eq!(shown.scan(10).await.len(), EACH as usize);
}

#[tokio::test(start_paused = true)]
async fn of_a_size() {
    // The slack covers an eighth of the retention time until a bucket ends, and an hour until the
    // old bucket of a split is removed.
    for (direction, shards) in [(Direction::Ascending, 1), (Direction::Descending, 3)] {
        goes_by_whole_buckets(kept(BucketBound::Bytes(64 << 10), direction, shards), 4).await;
    }
}

#[tokio::test(start_paused = true)]
async fn of_times() {
    for (direction, shards) in [(Direction::Ascending, SHARDS), (Direction::Descending, 1)] {
        goes_by_whole_buckets(kept(BucketBound::Time(hours(1)), direction, shards), 2).await;
    }
}

/// Checks that rows which were all written at once are also split at each eighth of the retention length,
/// so that they expire step by step. Rows with timestamps of a fast clock are removed with the others.
#[tokio::test(start_paused = true)]
async fn splits_a_single_bucket_by_time() {
    let environment = environment();
    let inner: Arc<dyn Store> = Arc::new(memory(&environment));
    let table = kept(BucketBound::Bytes(1 << 20), Direction::Descending, 1);
    let ahead = Shown::over(inner, environment, table).await;
    let hour = ahead.now_ms() / HOUR_MS;
    let stamps = Arc::clone(&ahead.stamps);
    let shown = Shown {
        stamps: Arc::new(move || recto_store::Stamp((stamps)().0 + 40 * HOUR_MS * 1_000)),
        ..ahead.clone()
    };
    shown
        .put("s", (0..60).map(|number| hour * HOUR_MS - number * HOUR_MS / 10))
        .await;
    tokio::time::sleep(HOUR * 4).await;
    let found = ahead.by_hours(1_000).await;
    assert!(found.len() == 5 || found.len() == 6, "{found:?}");
    let place = ahead.place("s");
    let directory = ahead.directory("s").await;
    assert!(directory.rows.len() >= 5, "{}", directory.rows.len());
    tokio::time::sleep(HOUR * 14).await;
    assert_eq!(ahead.by_hours(1_000).await, BTreeMap::new());
    assert_eq!(ahead.lying().await, 0);
    assert_eq!(place.pieced.shards.count(), 1);
    assert!(
        ahead
            .directory("s")
            .await
            .rows
            .iter()
            .all(|row| row.get(8) != Some(&Bucket(0).0.to_be_bytes()[..]))
    );
}

/// Checks that a write skips rows below the retention bound and writes all other rows, if the table
/// has the option `leaves_out_late`. The stored retention bound does not matter.
#[tokio::test(start_paused = true)]
async fn skips_writes_below_the_retention_bound() {
    for bound in [BucketBound::Time(hours(1)), BucketBound::Bytes(64 << 10)] {
        let environment = environment();
        let inner: Arc<dyn Store> = Arc::new(memory(&environment));
        let whole = kept(bound, Direction::Descending, 1);
        let buckets = whole.options().buckets.map(|buckets| Buckets {
            leaves_out_late: true,
            ..buckets
        });
        let options = TableOptions {
            buckets,
            ..whole.options()
        };
        let table = Table::new("events", whole.columns().to_vec(), options).expect("it is one");
        let shown = Shown::over(inner, environment, table).await;
        for _ in 0..20 {
            let (now, limit) = (shown.now_ms(), 1_000);
            let late = now - i64::from(KEPT + 2) * HOUR_MS;
            assert!(matches!(shown.ends(late).await, WriteOutcome::Done));
            shown.put("s", [late, now, late + 1].into_iter()).await;
            let found = shown.by_hours(limit).await;
            assert_eq!(found.get(&(now / HOUR_MS)), Some(&1), "{found:?}");
            assert!(!found.contains_key(&(late / HOUR_MS)), "{found:?}");
            for (at, is_late) in [(late, true), (now, false)] {
                let (partition, clustering) = (cells(&[Some(b"s")]), cells(&[Some(&at.to_be_bytes())]));
                let hidden = shown
                    .store
                    .is_hidden(&shown.table, (partition, &clustering), HOUR);
                assert_eq!(hidden.await.expect("it is known"), is_late);
            }
            tokio::time::sleep(HOUR).await;
        }
        assert!(shown.store.bucket_metrics().dropped > 0);
    }
}
