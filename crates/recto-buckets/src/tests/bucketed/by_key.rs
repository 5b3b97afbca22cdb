//! Tests that rows stay correct if they are put, patched, deleted or expire at each step of the splits of
//! their key ranges.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::list::{Seek, Stage};
use tokio::time::Instant;

/// Number of rows at the start of a test: several times the maximum of a bucket.
const FIRST: i64 = 600;
/// Number of consecutive changes, and the duration of each.
const CHANGES: i64 = 240;
const EACH: Duration = Duration::from_millis(250);
const LIVES: Duration = Duration::from_secs(5);
/// Additional time for which an expiring row may exist. A copy of the row lives for whole seconds, and a
/// part of its first second may have passed.
const LONGER: Duration = Duration::from_secs(2);

/// Source of the timestamps of a write.
#[derive(Clone, Copy, PartialEq)]
enum Stamped {
    /// The timestamps are created for this write.
    Now,
    /// The timestamps are those of an earlier read.
    AsRead,
}

struct StoredRow {
    text: String,
    ends: Option<Instant>,
}

#[derive(Default)]
struct Oracle(BTreeMap<i64, StoredRow>);

impl Oracle {
    fn put(&mut self, at: i64, text: String, lives: Option<Duration>) {
        let ends = lives.map(|lives| Instant::now() + lives);
        self.0.insert(at, StoredRow { text, ends });
    }

    /// Asserts that `found` has the expected rows. A row that is about to expire may be missing.
    fn check(&self, found: &BTreeMap<i64, String>, what: &str) {
        let now = Instant::now();
        for (at, there) in &self.0 {
            let must = there.ends.is_none_or(|ends| now + EACH < ends);
            let may = there.ends.is_none_or(|ends| now < ends + LONGER);
            let is_so = match found.get(at) {
                Some(text) => may && *text == there.text,
                None => !must,
            };
            assert!(is_so, "{what}: {at}, {:?} of {:?}", found.get(at), there.text);
        }
        let beyond: Vec<_> = found.keys().filter(|at| !self.0.contains_key(at)).collect();
        assert!(beyond.is_empty(), "{what}: {beyond:?}");
    }
}

impl Shown {
    /// Sends changes of a partition. If their timestamps come from an earlier read and rows moved to other
    /// buckets, reads again and repeats the changes.
    async fn change(&self, stamped: Stamped, operations: &[(Operation, Option<u32>)]) {
        let mut stamps: Vec<_> = operations.iter().map(|_| (self.stamps)()).collect();
        for _ in 0..10 {
            let looked_nanos = self.environment.monotonic_nanos();
            tokio::time::sleep(EACH / 2).await;
            if stamped == Stamped::Now {
                stamps = operations.iter().map(|_| (self.stamps)()).collect();
            }
            let all = operations.iter().zip(&stamps);
            let mutations = all.map(|((operation, ttl_seconds), stamp)| Mutation {
                operation: operation.clone(),
                stamp: Some(*stamp),
                ttl_seconds: *ttl_seconds,
            });
            let write = PartitionWrite {
                table: Arc::clone(&self.table),
                partition: cells(&[Some(b"s")]),
                mutations: mutations.collect(),
            };
            let options = WriteOptions {
                looked_nanos: (stamped == Stamped::AsRead).then_some(looked_nanos),
                ..WriteOptions::default()
            };
            match self.store.write(write, options).await {
                Ok(WriteOutcome::Done) => return,
                Ok(WriteOutcome::Unknown(error)) | Err(error) if error.kind() == StoreErrorKind::Moved => {}
                other => panic!("{other:?}"),
            }
        }
        panic!("rows always come to lie elsewhere");
    }

    async fn texts(&self) -> BTreeMap<i64, String> {
        let slice = Slice::from_start(&self.table, cells(&[Some(b"s")]), 100_000);
        let options = ReadOptions {
            max_bytes: u64::MAX,
            ..ReadOptions::default()
        };
        let snapshot = self.store.snapshot().expect("it is open");
        let read = snapshot.slice(&slice, &options).await.expect("it is read");
        let text = |row: recto_model::RowRef<'_>| {
            let text = row.get(2).unwrap_or_default();
            (at(row), String::from_utf8_lossy(text).into_owned())
        };
        let texts: BTreeMap<_, _> = read.rows.iter().map(text).collect();
        assert_eq!(texts.len(), read.rows.len(), "no row is there twice");
        texts
    }

    async fn text(&self, at: i64) -> Option<String> {
        let read = PointRead {
            table: Arc::clone(&self.table),
            partition: cells(&[Some(b"s")]),
            clustering: cells(&[Some(&at.to_be_bytes())]),
        };
        let snapshot = self.store.snapshot().expect("it is open");
        let found = snapshot.get(&read, &ReadOptions::default()).await;
        let found = found.expect("it is read");
        let row = found.rows.iter().next()?;
        Some(String::from_utf8_lossy(row.get(2).unwrap_or_default()).into_owned())
    }

    async fn stages(&self) -> BTreeSet<String> {
        let s = cells(&[Some(b"s")]);
        let listed = self
            .store
            .list_buckets(&self.table, &s, Seek::At(Vec::new()), 256);
        let pieces = listed.await.expect("they are listed").pieces;
        pieces.iter().map(|piece| format!("{:?}", piece.stage)).collect()
    }
}

fn put(at: i64, text: &str) -> Operation {
    Operation::Put {
        clustering: cells(&[Some(&at.to_be_bytes())]),
        cells: cells(&[Some(text.as_bytes()), None]),
        replace: true,
    }
}

/// Makes one change, of a kind that depends on `number`.
async fn change(shown: &Shown, oracle: &mut Oracle, stamped: Stamped, number: i64) -> i64 {
    let at = number * 7_919 % (FIRST + 100);
    let text = format!("{number:0>200}");
    let clustering = cells(&[Some(&at.to_be_bytes())]);
    match number % 6 {
        0 => {
            shown
                .change(stamped, &[(Operation::DeleteRow { clustering }, None)])
                .await;
            oracle.0.remove(&at);
        }
        1 => {
            let patch = Operation::Patch {
                clustering,
                columns: vec![0],
                cells: cells(&[Some(text.as_bytes())]),
            };
            shown.change(stamped, &[(patch, None)]).await;
            oracle.put(at, text, None);
        }
        2 => {
            let seconds = u32::try_from(LIVES.as_secs()).expect("it is short");
            shown.change(stamped, &[(put(at, &text), Some(seconds))]).await;
            oracle.put(at, text, Some(LIVES));
        }
        3 => {
            // Delete some rows and put others in one write.
            let mut all: Vec<_> = (at + 1..at + 5).map(|at| (put(at, &text), None)).collect();
            all.push((Operation::DeleteRow { clustering }, None));
            shown.change(stamped, &all).await;
            oracle.0.remove(&at);
            (at + 1..at + 5).for_each(|at| oracle.put(at, text.clone(), None));
        }
        _ => {
            shown.change(stamped, &[(put(at, &text), None)]).await;
            oracle.put(at, text, None);
        }
    }
    at
}

async fn changed_in_each_step(stamped: Stamped) {
    let shown = Shown::sampled().await;
    let mut oracle = Oracle::default();
    shown.put("s", (0..FIRST).map(|at| at * 7_919 % FIRST)).await;
    (0..FIRST).for_each(|at| oracle.put(at, format!("{at:0>200}"), None));
    let mut stages = BTreeSet::new();
    for number in 0..CHANGES {
        stages.extend(shown.stages().await);
        let at = change(&shown, &mut oracle, stamped, number).await;
        let one = shown.text(at).await.map(|text| (at, text));
        let of_it = oracle.0.remove_entry(&at);
        let alone = Oracle(of_it.into_iter().collect());
        alone.check(&one.into_iter().collect(), "by its key");
        oracle.0.extend(alone.0);
        oracle.check(&shown.texts().await, "by a page");
        tokio::time::sleep(EACH / 2).await;
    }
    for stage in [Stage::Announced, Stage::Copying, Stage::Switched, Stage::Left] {
        assert!(
            stages.contains(&format!("{stage:?}")),
            "{stage:?} is none of {stages:?}"
        );
    }
    shown.settle().await;
    oracle.check(&shown.texts().await, "when all is over");
}

#[tokio::test(start_paused = true)]
async fn rows_are_changed_in_each_step_of_a_cut() {
    changed_in_each_step(Stamped::Now).await;
}

#[tokio::test(start_paused = true)]
async fn changes_rows_at_read_timestamps_during_a_split() {
    changed_in_each_step(Stamped::AsRead).await;
}
