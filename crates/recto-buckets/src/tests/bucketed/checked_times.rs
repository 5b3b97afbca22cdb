//! Tests that a check finds and repairs faults of time buckets: wrong registry entries, and rows in wrong
//! buckets.

use recto_store::{RowsRead, Stamp};

use super::checks::{FaultReport, number};
use super::kept::{HOUR, HOUR_MS, KEPT, hours, kept};
use super::times::{DAY_MS, DAYS, by_day, noons};
use super::*;
use crate::check::{FaultKind, FaultOutcome};
use crate::tables::Tables;
use crate::times::TimeBucket;

/// Indexes of two columns in the registry of time buckets: the start of a bucket, and its id.
const START: usize = 2;
const BUCKET: usize = 3;

impl Shown {
    fn day_of(&self, at: i64) -> TimeBucket {
        let place = self.place("s");
        let key = place.key(&cells(&[Some(&at.to_be_bytes())])).expect("it is one");
        let times = place.pieced.times.as_ref().expect("it is by time");
        times.bucket_of(&key).expect("it is one")
    }

    async fn entries(&self, stream: &str) -> RowsRead {
        let partition = self.place(stream).directory_partition();
        let slice = Slice::from_start(&Tables::new().times, partition, 10_000);
        let snapshot = self.inner.snapshot().expect("it is open");
        let read = snapshot.slice(&slice, &ReadOptions::default()).await;
        read.expect("it is read")
    }

    /// Writes to the registry directly, as another program could.
    async fn register(&self, partition: Cells, operation: Operation, stamp: i64) {
        let write = PartitionWrite {
            table: Tables::new().times,
            partition,
            mutations: vec![Mutation {
                operation,
                stamp: Some(Stamp(stamp)),
                ttl_seconds: None,
            }],
        };
        let written = self.inner.write(write, WriteOptions::default()).await;
        assert!(matches!(written, Ok(WriteOutcome::Done)), "{written:?}");
    }

    async fn unregister(&self, stream: &str, start: &[u8], stamp: i64) {
        let clustering = cells(&[Some(start)]);
        let partition = self.place(stream).directory_partition();
        self.register(partition, Operation::DeleteRow { clustering }, stamp)
            .await;
    }

    async fn enter(&self, stream: &str, start: &[u8], bucket: u64, stamp: i64) {
        let entry = Operation::Patch {
            clustering: cells(&[Some(start)]),
            columns: vec![0],
            cells: cells(&[Some(&bucket.to_be_bytes())]),
        };
        let partition = self.place(stream).directory_partition();
        self.register(partition, entry, stamp).await;
    }

    async fn unmark(&self, stream: &str, stamp: i64) {
        let unmark = Operation::PatchStatic {
            columns: vec![0],
            cells: cells(&[None]),
        };
        self.plant(stream, 0, unmark, stamp).await;
    }

    async fn sorted(&self, stream: &str) -> Vec<i64> {
        let mut found = self.slice(stream, ReadDirection::Forward).await;
        found.sort_unstable();
        found
    }
}

fn all_of(kinds: Vec<(FaultKind, Option<i64>)>, outcome: &FaultOutcome) -> Vec<FaultReport> {
    let mut all: Vec<FaultReport> = kinds
        .into_iter()
        .map(|(kind, at)| (kind, at, outcome.clone()))
        .collect();
    all.sort_by_key(|(kind, at, _)| (*kind, *at));
    all
}

async fn by_days(direction: Direction, shards: u8) -> Shown {
    let environment = environment();
    let inner = Arc::new(memory(&environment));
    let shown = Shown::over(inner, environment, by_day(direction, shards)).await;
    for some in noons().chunks(60) {
        shown.put("s", some.iter().copied()).await;
    }
    for stream in ["gone", "small"] {
        shown.put(stream, noons().into_iter().take(9)).await;
    }
    shown
}

const EACH_WAY: [(Direction, u8); 3] = [
    (Direction::Ascending, 1),
    (Direction::Descending, 1),
    (Direction::Descending, SHARDS),
];

#[tokio::test(start_paused = true)]
async fn ordinary_writes_leave_no_faults() {
    for (direction, shards) in EACH_WAY {
        let shown = by_days(direction, shards).await;
        shown.is_well().await;
        for at in noons().into_iter().step_by(7) {
            shown.delete("s", at).await;
        }
        let now = (shown.stamps)().0;
        // A registry entry of a bucket without rows is no fault.
        let later = shown.day_of(DAY_MS * 10_000);
        shown.enter("s", &later.start, later.bucket.0, now).await;
        shown.is_well().await;
    }
}

#[tokio::test(start_paused = true)]
async fn finds_and_repairs_registry_faults() {
    for (direction, shards) in EACH_WAY {
        let shown = by_days(direction, shards).await;
        let now = (shown.stamps)().0;
        let mut all = noons();
        all.sort_unstable();
        // Damage the registry: remove one entry, and give one entry the number of another bucket.
        // Also add two entries that do not begin at the start of a bucket.
        let lacking = shown.day_of(all[5]);
        shown.unregister("s", &lacking.start, now).await;
        let wrong = shown.day_of(all[300]);
        shown
            .enter("s", &wrong.start, lacking.bucket.0, now + 3_000_000)
            .await;
        let mut within = wrong.start.clone();
        *within.last_mut().expect("it has a time") ^= 1;
        shown.enter("s", &within, wrong.bucket.0, now).await;
        shown.enter("s", b"none", 77, now).await;
        for stream in ["small", "s"] {
            shown.unmark(stream, now).await;
        }
        // Remove all registry entries of a partition, so that no read finds its rows.
        for row in shown.entries("gone").await.rows.iter() {
            let start = row.get(START).expect("it is whole").to_vec();
            shown.unregister("gone", &start, now).await;
        }
        shown.unmark("gone", now).await;
        assert!(shown.sorted("s").await.len() < all.len());
        let kinds = || {
            let mut kinds = vec![(FaultKind::Unregistered, None); 1 + 9];
            kinds.extend([(FaultKind::Damaged, None); 3]);
            kinds.extend([(FaultKind::Unmarked, None); 2]);
            kinds
        };
        let shown = shown.opened_anew();
        assert_eq!(shown.told(false).await, all_of(kinds(), &FaultOutcome::Left));
        assert!(shown.sorted("s").await.len() < all.len());
        assert_eq!(shown.told(true).await, all_of(kinds(), &FaultOutcome::Mended));
        shown.is_well().await;
        assert_eq!(shown.sorted("s").await, all);
        assert_eq!(shown.sorted("gone").await.len(), 9);
        assert_eq!(shown.scan(97).await.len(), all.len() + 2 * 9);
        assert_eq!(shown.entries("s").await.rows.len(), DAYS as usize);
        for row in shown.entries("s").await.rows.iter() {
            let start = row.get(START).expect("it is whole");
            let right = shown
                .place("s")
                .pieced
                .times
                .clone()
                .expect("it is by time")
                .bucket_of(start);
            let right = right.expect("it is an edge");
            assert_eq!(
                (&right.start[..], number(row.get(BUCKET))),
                (start, right.bucket.0.cast_signed())
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_entry_that_is_nobodys_or_ahead_of_the_clock_stays() {
    let shown = by_days(Direction::Ascending, 1).await;
    let now = (shown.stamps)().0;
    let entry = Operation::Patch {
        clustering: cells(&[Some(b"x")]),
        columns: vec![0],
        cells: cells(&[Some(&7_u64.to_be_bytes())]),
    };
    shown
        .register(cells(&[Some(b"events"), Some(b"\xff\xff")]), entry, now)
        .await;
    let lacking = shown.day_of(noons()[3]);
    shown.unregister("s", &lacking.start, now + 60_000_000_000).await;
    for mends in [false, true] {
        let told = shown.told(mends).await;
        let [(damaged, None, nobodys), (unregistered, None, ahead)] = &told[..] else {
            panic!("{told:?}")
        };
        assert_eq!(
            (*damaged, *unregistered),
            (FaultKind::Damaged, FaultKind::Unregistered)
        );
        let stays = |outcome: &FaultOutcome, what: &str| matches!(outcome, FaultOutcome::Stays(why) if why.contains(what));
        assert!(stays(nobodys, "delete it from recto_times"), "{told:?}");
        assert_eq!(stays(ahead, "in the future"), mends, "{told:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn rows_that_lie_in_another_bucket_are_taken_home() {
    for (direction, shards) in EACH_WAY {
        let shown = by_days(direction, shards).await;
        let now = (shown.stamps)().0;
        let mut all = noons();
        all.sort_unstable();
        let (first, last) = (all[0], all[DAYS as usize - 1]);
        let bucket = shown.day_of(first).bucket.0;
        // Plant misplaced rows: two rows of days without a bucket, a row in bucket 0, and a row in
        // the bucket without a time. Also plant an older and a newer copy. One of the days without
        // a bucket has its row in a bucket that does not exist.
        let [new, newer] = [last + DAY_MS, last + 2 * DAY_MS];
        shown.plant_row("s", bucket, new, now, "astray").await;
        shown.plant_row("s", bucket + 1, newer, now, "in none").await;
        shown.plant_row("s", 0, all[7] + 1, now, "in the root").await;
        shown.plant_row("s", 1, all[8] + 1, now, "without a time").await;
        shown.plant_row("s", bucket, all[9], 1, "of before").await;
        shown
            .plant_row("s", bucket, all[10], now + 5_000_000, "newer")
            .await;
        let kinds = || {
            let strays = [new, newer, all[7] + 1, all[8] + 1];
            let strays = strays.map(|at| (FaultKind::Stray, Some(at)));
            let doubles = [all[9], all[10]].map(|at| (FaultKind::Double, Some(at)));
            strays.into_iter().chain(doubles).collect()
        };
        assert_eq!(shown.told(false).await, all_of(kinds(), &FaultOutcome::Left));
        assert_eq!(shown.sorted("s").await, all);
        assert_eq!(shown.told(true).await, all_of(kinds(), &FaultOutcome::Mended));
        shown.is_well().await;
        assert_eq!(shown.text_of("s", new).await.as_deref(), Some("astray"));
        assert_eq!(
            shown.text_of("s", all[9]).await,
            Some(format!("{:0>200}", all[9]))
        );
        assert_eq!(shown.text_of("s", all[10]).await.as_deref(), Some("newer"));
        all.extend([new, newer, all[7] + 1, all[8] + 1]);
        all.sort_unstable();
        assert_eq!(shown.sorted("s").await, all);
    }
}

/// Checks that a repair deletes rows below the retention bound, and does not move them to the bucket of
/// their time. The repair also restores a damaged range map with its retention bound.
#[tokio::test(start_paused = true)]
async fn removes_rows_below_the_retention_bound() {
    for (direction, shards) in [(Direction::Ascending, SHARDS), (Direction::Descending, 1)] {
        let environment = environment();
        let inner: Arc<dyn Store> = Arc::new(memory(&environment));
        let table = kept(BucketBound::Time(hours(1)), direction, shards);
        let shown = Shown::over(inner, environment, table).await;
        for _ in 0..KEPT + 6 {
            shown.put("s", shown.of_this_hour()).await;
            tokio::time::sleep(HOUR).await;
        }
        shown.is_well().await;
        let lying = shown.lying().await;
        let now = (shown.stamps)().0;
        let long_ago = (shown.now_ms() / HOUR_MS - i64::from(KEPT) - 4) * HOUR_MS;
        let bucket = shown.day_of(long_ago).bucket.0;
        shown.plant_row("s", bucket, long_ago, now, "late").await;
        let elsewhere = shown.day_of(long_ago + 1_000 * HOUR_MS).bucket.0;
        shown
            .plant_row("s", elsewhere, long_ago + 1, now, "late, and astray")
            .await;
        let kinds = || {
            vec![
                (FaultKind::BelowFloor, Some(long_ago)),
                (FaultKind::Stray, Some(long_ago + 1)),
            ]
        };
        assert_eq!(shown.told(false).await, all_of(kinds(), &FaultOutcome::Left));
        assert_eq!(shown.told(true).await, all_of(kinds(), &FaultOutcome::Mended));
        shown.is_well().await;
        assert_eq!(shown.lying().await, lying);
        // A partition with retention has a range map of one key range, besides its registry. Damage
        // that range map.
        let before = shown.directory("s").await;
        let further = Operation::Patch {
            clustering: cells(&[Some(b"")]),
            columns: vec![3],
            cells: cells(&[Some(b"\x01what")]),
        };
        shown.tamper("s", vec![further]).await;
        let shown = shown.opened_anew();
        let damaged = || vec![(FaultKind::Damaged, None)];
        assert_eq!(shown.told(false).await, all_of(damaged(), &FaultOutcome::Left));
        assert_eq!(shown.told(true).await, all_of(damaged(), &FaultOutcome::Mended));
        shown.is_well().await;
        let after = shown.directory("s").await;
        let floor = |read: &RowsRead| {
            read.rows
                .iter()
                .next()
                .and_then(|row| row.get(3).map(<[u8]>::to_vec))
        };
        assert!(floor(&before).is_some());
        assert_eq!(floor(&after), floor(&before));
    }
}
