//! Tests that a check finds and repairs faults of buckets. The tests create the faults in the underlying
//! store.

use std::collections::BTreeSet;

use recto_protocol::buckets::{Bucket, Roles, Shard};
use recto_store::{Cas, CasCondition, CasOutcome, RowAddress, RowsRead, Stamp};

use super::*;
use crate::check::{Fault, FaultKind, FaultOutcome};
use crate::directory::{COMPARED, REGULAR, START, STATICS, undated};
use crate::place::Place;
use crate::tables::Tables;

/// Number of rows that one step of a check reads.
const STEP: u32 = 130;
/// Indexes of regular columns of the table of range maps: the bucket that is read, and the further buckets.
const READ: u16 = 0;
const FURTHER: u16 = 3;
const NEXT_BUCKET: u16 = 3;

pub(super) type FaultReport = (FaultKind, Option<i64>, FaultOutcome);

pub(super) fn number(cell: Option<&[u8]>) -> i64 {
    i64::from_be_bytes(
        cell.and_then(|cell| cell.try_into().ok())
            .expect("it is a number"),
    )
}

impl Shown {
    /// Creates a stream whose partition is split many times, and other streams without a split.
    pub(super) async fn cut(&self) {
        for first in (0..ROWS).step_by(20) {
            self.put("s", first..first + 20).await;
            self.pass().await;
        }
        for stream in ["a", "b", "z"] {
            self.put(stream, 0..9).await;
        }
        self.settle().await;
        // Wait until old buckets are removed. A removal that begins during another removal takes
        // place an hour after the other one.
        tokio::time::sleep(Duration::from_secs(4 * 3_600)).await;
        assert!(self.directory("s").await.rows.len() > 5, "it is cut");
    }

    /// Returns the same store, opened without cached range maps.
    pub(super) fn opened_anew(&self) -> Self {
        let (inner, environment) = (Arc::clone(&self.inner), self.environment.clone());
        Self {
            store: BucketedStore::over(inner, environment, Arc::clone(&self.stamps)),
            ..self.clone()
        }
    }

    /// Returns the faults that a check finds. After each step with a position, a new check continues from
    /// there.
    pub(super) async fn checked(&self, mends: bool) -> Vec<Fault> {
        let (mut faults, mut position): (Vec<Fault>, Option<Vec<u8>>) = (Vec::new(), None);
        let begin = async |position: &Option<Vec<u8>>| {
            let check = self.store.check_buckets(&self.table, mends, position.as_deref());
            check.await.expect("it is begun")
        };
        let mut check = begin(&position).await;
        for _ in 0..10_000 {
            let step = check.step(STEP).await.expect("it is checked");
            faults.extend(step.faults);
            if step.is_over {
                faults.retain(|fault| fault.kind.is_wrong());
                return faults;
            }
            if step.position.is_some() {
                position = step.position;
                check = begin(&position).await;
            }
        }
        panic!("it comes to no end");
    }

    pub(super) async fn told(&self, mends: bool) -> Vec<FaultReport> {
        let told = self.checked(mends).await.into_iter().map(|fault| {
            let at = fault.clustering.map(|cells| number(cells.get(0)));
            (fault.kind, at, fault.outcome)
        });
        let mut told: Vec<FaultReport> = told.collect();
        told.sort_by_key(|(kind, at, _)| (*kind, *at));
        told
    }

    pub(super) async fn is_well(&self) {
        assert_eq!(self.checked(false).await, Vec::new());
    }

    pub(super) fn place(&self, stream: &str) -> Arc<Place> {
        let bucketed = self.store.in_buckets(&self.table).expect("it is in buckets");
        let place = Place::new(&bucketed.pieced, cells(&[Some(stream.as_bytes())]));
        Arc::new(place.expect("it is one"))
    }

    pub(super) async fn directory(&self, stream: &str) -> RowsRead {
        let partition = self.place(stream).directory_partition();
        let slice = Slice::from_start(&Tables::new().directories, partition, 10_000);
        let snapshot = self.inner.snapshot().expect("it is open");
        let read = snapshot.slice(&slice, &ReadOptions::default()).await;
        read.expect("it is read")
    }

    /// Changes a stored range map directly, as another program could.
    pub(super) async fn tamper(&self, stream: &str, operations: Vec<Operation>) {
        let there = self.directory(stream).await;
        let version = there
            .rows
            .iter()
            .next()
            .and_then(|row| row.get(STATICS + usize::from(COMPARED)));
        let cas = Cas {
            table: Arc::clone(&Tables::new().directories),
            partition: self.place(stream).directory_partition(),
            conditions: vec![CasCondition {
                row: RowAddress::Static,
                column: COMPARED,
                expected: version.map(<[u8]>::to_vec),
            }],
            mutations: operations.into_iter().map(undated).collect(),
        };
        let decided = self.inner.cas(cas, WriteOptions::default()).await;
        assert!(matches!(decided, Ok(CasOutcome::Applied)), "{decided:?}");
    }

    /// Writes directly to a bucket of the underlying store, in the right shard of the row.
    pub(super) async fn plant(&self, stream: &str, bucket: u64, operation: Operation, stamp: i64) {
        let shard = match &operation {
            Operation::Put { clustering, .. } => self.shard_of(number(clustering.get(0))),
            _ => Shard(0),
        };
        self.plant_in(stream, (bucket, shard), operation, stamp).await;
    }

    pub(super) fn shard_of(&self, at: i64) -> Shard {
        let place = self.place("s");
        let key = place.key(&cells(&[Some(&at.to_be_bytes())]));
        place.pieced.shards.of(&key.expect("it is one"))
    }

    pub(super) async fn plant_in(
        &self,
        stream: &str,
        (bucket, shard): (u64, Shard),
        operation: Operation,
        stamp: i64,
    ) {
        let (table, _) = self.partitions().await;
        let write = PartitionWrite {
            table,
            partition: self.place(stream).shard_partition(Bucket(bucket), shard),
            mutations: vec![Mutation {
                operation,
                stamp: Some(Stamp(stamp)),
                ttl_seconds: None,
            }],
        };
        let written = self.inner.write(write, WriteOptions::default()).await;
        assert!(matches!(written, Ok(WriteOutcome::Done)), "{written:?}");
    }

    pub(super) async fn plant_row(&self, stream: &str, bucket: u64, at: i64, stamp: i64, text: &str) {
        let row = row_of(at, text);
        self.plant(stream, bucket, row, stamp).await;
    }

    /// Returns the bucket of a row of the stream that is split.
    pub(super) async fn bucket_of(&self, at: i64) -> u64 {
        let key = self.store.key_of(&self.table, &cells(&[Some(&at.to_be_bytes())]));
        let key = key.expect("it is one");
        let directory = self.directory("s").await;
        let mut found = 0;
        for row in directory.rows.iter() {
            if row.get(START).is_some_and(|start| start <= key.as_slice()) {
                found = number(row.get(REGULAR)).unsigned_abs();
            }
        }
        found
    }

    pub(super) async fn text_of(&self, stream: &str, at: i64) -> Option<String> {
        let read = PointRead {
            table: Arc::clone(&self.table),
            partition: cells(&[Some(stream.as_bytes())]),
            clustering: cells(&[Some(&at.to_be_bytes())]),
        };
        let snapshot = self.store.snapshot().expect("it is open");
        let read = snapshot.get(&read, &ReadOptions::default()).await;
        let rows = read.expect("it is read").rows;
        let text = rows.iter().next().and_then(|row| row.get(2).map(<[u8]>::to_vec));
        text.map(|text| String::from_utf8(text).expect("it is text"))
    }

    /// Asserts that each kind of read returns all rows `ats` once.
    pub(super) async fn has(&self, stream: &str, ats: &BTreeSet<i64>) {
        let ats: Vec<i64> = ats.iter().copied().collect();
        assert_eq!(self.slice(stream, ReadDirection::Forward).await, ats);
        let scanned = self.scan(97).await.into_iter().filter(|(of, _)| of == stream);
        assert_eq!(scanned.map(|(_, at)| at).collect::<Vec<_>>(), ats);
    }
}

fn patch(start: &[u8], column: u16, cell: Option<&[u8]>) -> Operation {
    Operation::Patch {
        clustering: cells(&[Some(start)]),
        columns: vec![column],
        cells: cells(&[cell]),
    }
}

fn without(start: &[u8]) -> Operation {
    Operation::DeleteRow {
        clustering: cells(&[Some(start)]),
    }
}

pub(super) async fn ordinary_writes_leave_no_faults(shown: Shown) {
    shown.is_well().await;
    shown.cut().await;
    // Replace some rows by smaller ones, patch and delete others, and write some again.
    for at in (0..ROWS).step_by(7) {
        let clustering = cells(&[Some(&at.to_be_bytes())]);
        shown
            .send(|| {
                let small = Operation::Put {
                    clustering: clustering.clone(),
                    cells: cells(&[Some(b"x"), None]),
                    replace: true,
                };
                vec![shown.write("s", small)]
            })
            .await;
        shown
            .send(|| {
                let patch = Operation::Patch {
                    clustering: clustering.clone(),
                    columns: vec![1],
                    cells: cells(&[Some(&[b'n'; 300])]),
                };
                vec![shown.write("s", patch)]
            })
            .await;
    }
    for at in (0..ROWS).step_by(11) {
        shown.delete("s", at).await;
    }
    shown.put("s", (0..ROWS).step_by(22)).await;
    shown.is_well().await;
    shown.settle().await;
    shown.is_well().await;
}

/// Checks that repairs find no fault, and lose no row, beside writers and deleters, and while splits are made and old
/// buckets are cleared.
pub(super) async fn repairs_nothing_beside_splits(shown: Shown) {
    let writer = tokio::spawn({
        let shown = shown.clone();
        async move {
            for first in (0..ROWS).step_by(20) {
                shown.put("s", first..first + 20).await;
                shown.delete("s", first).await;
                shown.pass().await;
            }
        }
    });
    // Splits take minutes, and old buckets are cleared after an hour.
    let pauses_seconds = [7; 40].into_iter().chain([600; 20]);
    while !writer.is_finished() {
        assert_eq!(shown.checked(true).await, Vec::new());
        shown.pass().await;
    }
    for seconds in pauses_seconds {
        assert_eq!(shown.checked(true).await, Vec::new());
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }
    assert!(shown.directory("s").await.rows.len() > 5, "it is cut");
    shown
        .has("s", &(0..ROWS).filter(|at| at % 20 != 0).collect())
        .await;
}

/// Checks that a rejected batch writes no samples. The batch is within the limits as the caller writes it,
/// but exceeds them with the bucket numbers of its rows.
#[tokio::test(start_paused = true)]
async fn rejected_batch_leaves_no_sample() {
    for shown in [Shown::sampled().await, Shown::sharded().await] {
        let limits = shown.store.limits();
        let put = |at: i64, text: &[u8]| Operation::Put {
            clustering: cells(&[Some(&at.to_be_bytes())]),
            cells: cells(&[Some(text), None]),
            replace: true,
        };
        let batch = || {
            let (mut writes, mut bytes) = (Vec::new(), 0);
            for (at, stream) in (0..).zip(["s", "t"].into_iter().cycle()) {
                let write = shown.write(stream, put(at, &[b'x'; 900]));
                if bytes + 2 * write.byte_len() > limits.batch_bytes {
                    break;
                }
                bytes += write.byte_len();
                writes.push(write);
            }
            let empty = shown.write("s", put(-1, b"")).byte_len();
            let text = vec![b'x'; limits.batch_bytes - bytes - empty];
            writes.push(shown.write("s", put(-1, &text)));
            limits
                .check_writes(&writes, true)
                .expect("it is just within the limit");
            writes
        };
        let send = || {
            shown
                .store
                .write_many(batch(), Atomicity::Logged, WriteOptions::default())
        };
        let mut sent = send().await;
        while matches!(&sent, Err(error) if error.kind() == StoreErrorKind::Moved) {
            sent = send().await;
        }
        assert!(matches!(sent, Ok(WriteOutcome::Refused(_))), "{sent:?}");
        shown.is_well().await;
        assert_eq!(shown.scan(10).await, []);
    }
}

pub(super) async fn rows_that_lie_astray_are_taken_home(shown: Shown) {
    shown.cut().await;
    let mut all: BTreeSet<i64> = (0..ROWS).collect();
    let now = (shown.stamps)().0;
    let (first, last) = (shown.bucket_of(0).await, shown.bucket_of(ROWS - 1).await);
    assert_ne!(first, last);
    // Plant rows that exist only in a wrong bucket, an older copy, a newer copy, and a row in a
    // bucket that does not exist.
    shown.plant_row("s", last, -5, now, "astray").await;
    shown.plant_row("s", 77_777, -6, now, "astray").await;
    shown.plant_row("s", last, 30, 1, "of before").await;
    shown
        .plant_row("s", first, ROWS - 3, now + 5_000_000, "newer")
        .await;
    shown.plant_row("a", 3, 4, now, "of one that was never cut").await;
    shown.plant_row("a", 3, 100, now, "more of it").await;
    let expected = |outcome: FaultOutcome, lost: FaultOutcome| {
        let mut expected = vec![
            (FaultKind::Lost, None, lost),
            (FaultKind::Stray, Some(-6), outcome.clone()),
            (FaultKind::Stray, Some(-5), outcome.clone()),
        ];
        expected.extend([30, ROWS - 3].map(|at| (FaultKind::Double, Some(at), outcome.clone())));
        expected
    };
    let mut found = shown.told(false).await;
    // Ignore rows of the partition without a range map, because its rebuild decides the right
    // buckets of its rows.
    found.retain(|(_, at, _)| ![Some(4), Some(100)].contains(at));
    assert_eq!(found, expected(FaultOutcome::Left, FaultOutcome::Left));
    has_changed_nothing(&shown, &all).await;
    let mut mended = shown.told(true).await;
    mended.retain(|(_, at, _)| ![Some(4), Some(5), Some(6), Some(7), Some(8), Some(100)].contains(at));
    assert_eq!(mended, expected(FaultOutcome::Mended, FaultOutcome::Mended));
    shown.is_well().await;
    all.extend([-5, -6]);
    shown.has("s", &all).await;
    shown.has("a", &(0..9).chain([100]).collect()).await;
    assert_eq!(shown.text_of("s", -6).await.as_deref(), Some("astray"));
    assert_eq!(shown.text_of("s", ROWS - 3).await.as_deref(), Some("newer"));
    assert_eq!(shown.text_of("s", 30).await, Some(format!("{:0>200}", 30)));
}

async fn has_changed_nothing(shown: &Shown, all: &BTreeSet<i64>) {
    shown.has("s", all).await;
    assert_eq!(shown.text_of("s", -5).await, None);
}

pub(super) async fn a_directory_that_is_damaged_is_made_anew(shown: Shown) {
    shown.cut().await;
    let all: BTreeSet<i64> = (0..ROWS).collect();
    let directory = shown.directory("s").await;
    let starts: Vec<Vec<u8>> = directory
        .rows
        .iter()
        .filter_map(|row| Some(row.get(START)?.to_vec()))
        .collect();
    let far = (starts[1].clone(), starts[2].clone(), starts[3].clone());
    let damages: Vec<(FaultKind, Vec<Operation>)> = vec![
        (
            FaultKind::Damaged,
            vec![patch(&far.0, FURTHER, Some(b"\x01what"))],
        ),
        (FaultKind::Damaged, vec![patch(&far.1, READ, None)]),
        (FaultKind::Damaged, vec![without(&[])]),
        (
            FaultKind::Damaged,
            vec![Operation::PatchStatic {
                columns: vec![NEXT_BUCKET],
                cells: cells(&[Some(&1_i64.to_be_bytes())]),
            }],
        ),
        (
            FaultKind::Damaged,
            vec![patch(&starts[0], READ, Some(&(-3_i64).to_be_bytes()))],
        ),
        (
            FaultKind::Lost,
            starts
                .iter()
                .map(|start| without(start))
                .chain([Operation::PatchStatic {
                    columns: (0..5).collect(),
                    cells: cells(&[None; 5]),
                }])
                .collect(),
        ),
    ];
    let mut shown = shown;
    for (kind, damage) in damages {
        let what = format!("{damage:?}");
        shown.tamper("s", damage).await;
        shown = shown.opened_anew();
        let found = shown.told(false).await;
        assert!(
            found.contains(&(kind, None, FaultOutcome::Left)),
            "{found:?} of {what}"
        );
        let mended = shown.told(true).await;
        assert!(
            mended.contains(&(kind, None, FaultOutcome::Mended)),
            "{mended:?} of {what}"
        );
        assert!(
            mended
                .iter()
                .all(|(_, _, outcome)| *outcome == FaultOutcome::Mended),
            "{mended:?} of {what}"
        );
        shown.is_well().await;
        shown.has("s", &all).await;
        // Writes and splits still work after the repair.
        shown.put("s", 0..20).await;
    }
    // Remove a key range: the neighbor does not cover its keys.
    shown.tamper("s", vec![without(&far.2)]).await;
    shown = shown.opened_anew();
    let found = shown.told(false).await;
    assert!(
        found.contains(&(FaultKind::Damaged, None, FaultOutcome::Left)),
        "{found:?}"
    );
    let mended = shown.told(true).await;
    assert!(
        mended
            .iter()
            .all(|(.., outcome)| *outcome == FaultOutcome::Mended),
        "{mended:?}"
    );
    shown.is_well().await;
    shown.has("s", &all).await;
}

pub(super) async fn a_partition_that_no_scan_meets_is_marked(shown: Shown) {
    shown.cut().await;
    let unmark = Operation::PatchStatic {
        columns: vec![0],
        cells: cells(&[None]),
    };
    let now = (shown.stamps)().0;
    shown.plant("s", 0, unmark, now).await;
    assert_eq!(
        shown.told(false).await,
        [(FaultKind::Unmarked, None, FaultOutcome::Left)]
    );
    assert_eq!(
        shown.told(true).await,
        [(FaultKind::Unmarked, None, FaultOutcome::Mended)]
    );
    shown.is_well().await;
    shown.has("s", &(0..ROWS).collect()).await;
}

/// Checks that a repair deletes the row of a key range that a join removed and a node returned.
#[tokio::test(start_paused = true)]
async fn finds_and_deletes_returned_ranges() {
    let shown = Shown::sampled().await;
    shown.cut().await;
    let before = shown.directory("s").await;
    let row = before.rows.iter().nth(2).expect("it is cut");
    let start = row.get(START).expect("it is whole");
    let within = number(Some(start)) + 1;
    let returned = Operation::Put {
        clustering: cells(&[Some(&within.to_be_bytes())]),
        cells: (REGULAR..REGULAR + 10).map(|column| row.get(column)).collect(),
        replace: true,
    };
    shown.tamper("s", vec![returned]).await;
    let found = |outcome| [(FaultKind::Returned, None, outcome)];
    assert_eq!(shown.told(false).await, found(FaultOutcome::Left));
    assert_eq!(shown.told(true).await, found(FaultOutcome::Mended));
    shown.is_well().await;
    let starts = |read: &RowsRead| -> Vec<Vec<u8>> {
        let starts = read.rows.iter().filter_map(|row| row.get(START));
        starts.map(<[u8]>::to_vec).collect()
    };
    assert_eq!(starts(&shown.directory("s").await), starts(&before));
    shown.has("s", &(0..ROWS).collect()).await;
}

#[tokio::test(start_paused = true)]
async fn samples_are_as_their_rows() {
    let shown = Shown::sampled().await;
    shown.cut().await;
    let pieces = shown.store.pieces().await.expect("it is open").clone();
    let place = shown.place("s");
    let own = Arc::clone(&pieces.tables.samples);
    let bucket = Bucket(shown.bucket_of(ROWS - 1).await);
    let all = (Bound::start(), Bound::end());
    let samples = pieces.samples_between(&place, bucket, all, pieces.deadline(super::super::TIME));
    let samples = samples.await.expect("they are read");
    assert!(samples.len() > 3, "{samples:?}");
    let at = |index: usize| number(Some(&samples[index].sample.key[..]).map(|key| &key[..8])) ^ i64::MIN;
    let write = async |bucket: Bucket, key: &[u8], stamp: i64, bytes: Option<i32>| {
        let clustering = cells(&[Some(key)]);
        let operation = match bytes {
            None => Operation::DeleteRow { clustering },
            Some(bytes) => Operation::Patch {
                clustering,
                columns: vec![0, 1],
                cells: cells(&[Some(&bytes.to_be_bytes()), Some(&[0])]),
            },
        };
        let write = PartitionWrite {
            table: Arc::clone(&own),
            partition: place.samples_partition(bucket),
            mutations: vec![Mutation {
                operation,
                stamp: Some(Stamp(stamp)),
                ttl_seconds: None,
            }],
        };
        let written = shown.inner.write(write, WriteOptions::default()).await;
        assert!(matches!(written, Ok(WriteOutcome::Done)));
    };
    let now = (shown.stamps)().0;
    write(bucket, &samples[0].sample.key, now, None).await;
    write(bucket, &samples[1].sample.key, now, Some(5_000)).await;
    write(bucket, &samples[2].sample.key, now, Some(-1)).await;
    let nobodys = shown
        .store
        .key_of(&shown.table, &cells(&[Some(&(ROWS + 9).to_be_bytes())]));
    write(bucket, &nobodys.expect("it is one"), now, Some(250)).await;
    write(bucket, b"no key of any row", now, Some(250)).await;
    write(Bucket(4_444), &samples[3].sample.key, now, Some(250)).await;
    let expected = |outcome: FaultOutcome| {
        let mut expected = vec![
            (FaultKind::SampleMissing, Some(at(0)), outcome.clone()),
            (FaultKind::SampleMissing, Some(at(2)), outcome.clone()),
            (FaultKind::SampleWrong, Some(at(1)), outcome.clone()),
            (FaultKind::SampleOrphan, None, outcome.clone()),
            (FaultKind::SampleOrphan, Some(at(3)), outcome.clone()),
            (FaultKind::SampleOrphan, Some(ROWS + 9), outcome),
        ];
        expected.sort_by_key(|(kind, at, _)| (*kind, *at));
        expected
    };
    assert_eq!(shown.told(false).await, expected(FaultOutcome::Left));
    assert_eq!(shown.told(true).await, expected(FaultOutcome::Mended));
    shown.is_well().await;
    let all = (Bound::start(), Bound::end());
    let after = pieces.samples_between(&place, bucket, all, pieces.deadline(super::super::TIME));
    let mut after = after.await.expect("they are read");
    after
        .iter_mut()
        .zip(&samples)
        .for_each(|(after, before)| after.stamp = before.stamp);
    assert_eq!(after, samples, "but for their stamps");
}

#[tokio::test(start_paused = true)]
async fn a_row_that_was_deleted_since_does_not_come_back() {
    let shown = Shown::sampled().await;
    shown.cut().await;
    let last = shown.bucket_of(ROWS - 1).await;
    let before = (shown.stamps)().0;
    shown.delete("s", 3).await;
    shown.plant_row("s", last, 3, before, "astray, and deleted").await;
    assert_eq!(
        shown.told(true).await,
        [(FaultKind::Stray, Some(3), FaultOutcome::Mended)]
    );
    shown.is_well().await;
    assert_eq!(shown.text_of("s", 3).await, None);
}

/// Checks that a repair keeps a misplaced row if a range deletion hides the row in its right bucket. The deletion may be
/// one of a split, so the misplaced row may be the only copy.
#[tokio::test(start_paused = true)]
async fn a_row_hidden_by_a_range_deletion_stays() {
    let shown = Shown::sampled().await;
    shown.cut().await;
    let (first, last) = (shown.bucket_of(0).await, shown.bucket_of(ROWS - 1).await);
    let now = (shown.stamps)().0;
    let edge = |at: i64| Bound::Before(cells(&[Some(&at.to_be_bytes())]));
    let range = Operation::DeleteRange {
        from: edge(-9),
        to: edge(0),
    };
    shown.plant("s", first, range, now + 1).await;
    shown.plant_row("s", last, -5, now, "astray, and hidden").await;
    for _ in 0..2 {
        let told = shown.told(true).await;
        let [(FaultKind::Stray, Some(-5), FaultOutcome::Stays(why))] = &told[..] else {
            panic!("{told:?}")
        };
        assert!(why.contains("it stays here"), "{why}");
    }
    shown.has("s", &(0..ROWS).collect()).await;
}

#[tokio::test(start_paused = true)]
async fn a_cut_that_nobody_goes_on_with_is_told_and_gone_on_with() {
    let shown = Shown::sampled().await;
    shown.cut().await;
    let directory = shown.directory("s").await;
    let starts: Vec<Vec<u8>> = directory
        .rows
        .iter()
        .filter_map(|row| Some(row.get(START)?.to_vec()))
        .collect();
    let next = directory
        .rows
        .iter()
        .next()
        .map(|row| number(row.get(STATICS + usize::from(NEXT_BUCKET))));
    let next = next.expect("it is there");
    let roles = Roles {
        deletes: [Bucket(next.unsigned_abs())].into(),
        ..Roles::of(Bucket(0))
    };
    let piece = recto_protocol::buckets::Piece {
        start: starts[2].clone(),
        roles,
        sampling: shown.place("s").pieced.sampling,
        next_sampling: None,
        figures: None,
    };
    let further = recto_protocol::buckets::stored::piece_columns(&piece, starts.get(3)).further;
    // Stop the background work, because it would continue the split.
    shown.store.shared.stop();
    shown
        .tamper(
            "s",
            vec![
                patch(&starts[2], FURTHER, further.as_deref()),
                Operation::PatchStatic {
                    columns: vec![NEXT_BUCKET],
                    cells: cells(&[Some(&(next + 1).to_be_bytes())]),
                },
            ],
        )
        .await;
    shown.is_well().await;
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert_eq!(
        shown.told(false).await,
        [(FaultKind::HalfDone, None, FaultOutcome::Left)]
    );
    assert_eq!(
        shown.told(true).await,
        [(FaultKind::HalfDone, None, FaultOutcome::Mended)]
    );
    shown.is_well().await;
    shown.has("s", &(0..ROWS).collect()).await;
}

pub(super) fn row_of(at: i64, text: &str) -> Operation {
    let clustering = cells(&[Some(&at.to_be_bytes())]);
    let counted = crate::tables::counted(&clustering, std::iter::once(Some(text.as_bytes()))).1;
    Operation::Put {
        cells: cells(&[Some(&counted), Some(text.as_bytes()), None]),
        clustering,
        replace: true,
    }
}
