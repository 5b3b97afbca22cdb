//! Tests that a check finds and repairs rows and samples in wrong shards.

use recto_protocol::buckets::{Bucket, Shard};
use recto_store::Stamp;

use super::checks::{FaultReport, row_of};
use super::*;
use crate::check::{FaultKind, FaultOutcome};
use crate::samples::{Became, change};
use crate::tables::Tables;

/// Returns a text of 200 bytes.
fn text(at: i64) -> String {
    format!("{at:0>200}")
}

impl Shown {
    /// Returns a shard that does not have the row with the key `at`.
    fn other_shard(&self, at: i64) -> Shard {
        Shard((self.shard_of(at).0 + 1) % u32::from(SHARDS))
    }

    async fn plant_beside(&self, bucket: u64, at: i64, stamp: i64, text: &str) {
        let lies = (bucket, self.other_shard(at));
        self.plant_in("s", lies, row_of(at, text), stamp).await;
    }

    /// Writes a sample of a row, whether or not the row must be sampled.
    async fn plant_sample(&self, stream: &str, bucket: u64, at: i64, stamp: i64) {
        let place = self.place(stream);
        let key = place.key(&cells(&[Some(&at.to_be_bytes())]));
        let all = recto_protocol::buckets::Sampling { unit: 1, mean: 1 };
        let put = Became::Put(300);
        let sample = change(&key.expect("it is one"), put, all, Stamp(stamp), None);
        let write = PartitionWrite {
            table: Tables::new().samples,
            partition: place.samples_partition(Bucket(bucket)),
            mutations: sample.into_iter().collect(),
        };
        let written = self.inner.write(write, WriteOptions::default()).await;
        assert!(matches!(written, Ok(WriteOutcome::Done)));
    }
}

fn all_of(kinds: &[(FaultKind, Option<i64>)], outcome: &FaultOutcome) -> Vec<FaultReport> {
    let kinds = kinds.iter();
    kinds.map(|(kind, at)| (*kind, *at, outcome.clone())).collect()
}

#[tokio::test(start_paused = true)]
async fn a_row_in_another_shard_is_taken_to_its_own() {
    let shown = Shown::sharded().await;
    shown.cut().await;
    let mut all: std::collections::BTreeSet<i64> = (0..ROWS).collect();
    let now = (shown.stamps)().0;
    let (first, last) = (shown.bucket_of(0).await, shown.bucket_of(ROWS - 1).await);
    shown.plant_beside(first, -5, now, "astray").await;
    shown.plant_beside(last, -6, now, "in another bucket, too").await;
    shown.plant_beside(first, 3, 1, "of before").await;
    shown.plant_beside(last, ROWS - 3, now + 5_000_000, "newer").await;
    let none = (first, Shard(77));
    shown.plant_in("s", none, row_of(-7, "in none"), now).await;
    let negative = (first, Shard(u32::MAX));
    shown.plant_in("s", negative, row_of(-8, "in none"), now).await;
    let found = [
        (FaultKind::Stray, Some(-8)),
        (FaultKind::Stray, Some(-7)),
        (FaultKind::Stray, Some(-6)),
        (FaultKind::Stray, Some(-5)),
        (FaultKind::Double, Some(3)),
        (FaultKind::Double, Some(ROWS - 3)),
    ];
    assert_eq!(shown.told(false).await, all_of(&found, &FaultOutcome::Left));
    // Pages also show misplaced rows, if their shard number is valid.
    let seen = shown.slice("s", ReadDirection::Forward).await;
    assert_eq!(seen.len(), all.len() + 3);
    assert_eq!(shown.text_of("s", -5).await, None);
    assert_eq!(shown.told(true).await, all_of(&found, &FaultOutcome::Mended));
    shown.is_well().await;
    all.extend(-8..=-5);
    shown.has("s", &all).await;
    assert_eq!(shown.text_of("s", -5).await.as_deref(), Some("astray"));
    assert_eq!(shown.text_of("s", 3).await, Some(text(3)));
    assert_eq!(shown.text_of("s", ROWS - 3).await.as_deref(), Some("newer"));
    // A deleted row stays deleted if an older copy of the row appears in another shard.
    let before = (shown.stamps)().0;
    shown.delete("s", 40).await;
    let bucket = shown.bucket_of(40).await;
    shown.plant_beside(bucket, 40, before, "deleted").await;
    let found = [(FaultKind::Stray, Some(40))];
    assert_eq!(shown.told(true).await.len(), found.len());
    assert_eq!(shown.text_of("s", 40).await, None);
}

/// Checks that the repair of a row in a wrong shard keeps the sample of the row, whether the check
/// finds the row or the sample first. Each bucket has the samples of all of its shards.
#[tokio::test(start_paused = true)]
async fn the_sample_of_a_row_in_another_shard_stays() {
    let shown = Shown::sharded().await;
    shown.cut().await;
    let now = (shown.stamps)().0;
    let (first, last) = (shown.bucket_of(0).await, shown.bucket_of(ROWS - 1).await);
    let long = "x".repeat(5_000);
    let ats = [-1, -2, -3, -4, -5, -6, ROWS, ROWS + 1, ROWS + 2, ROWS + 3];
    for at in ats {
        let bucket = if at < 0 { first } else { last };
        shown.plant_beside(bucket, at, now, &long).await;
        shown.plant_sample("s", bucket, at, now + 1_000).await;
    }
    // A sample whose row is missing is an orphan, even if its shard has no other rows.
    let lonely = (0..ROWS)
        .find(|at| shown.shard_of(*at) == Shard(2))
        .expect("there is one");
    let other = (0..ROWS)
        .find(|at| shown.shard_of(*at) == Shard(3))
        .expect("there is one");
    shown.put("lonely", std::iter::once(other)).await;
    shown.plant_sample("lonely", 0, lonely, now).await;
    let orphans = shown.told(false).await;
    let orphans = orphans
        .iter()
        .filter(|(kind, ..)| *kind == FaultKind::SampleOrphan);
    assert_eq!(orphans.count(), ats.len() + 1);
    let mended = shown.told(true).await;
    assert!(
        mended
            .iter()
            .all(|(_, _, outcome)| *outcome == FaultOutcome::Mended),
        "{mended:?}"
    );
    let strays = mended.iter().filter(|(kind, ..)| *kind == FaultKind::Stray);
    assert_eq!(strays.count(), ats.len());
    assert!(mended.contains(&(FaultKind::SampleOrphan, Some(lonely), FaultOutcome::Mended)));
    shown.is_well().await;
}

#[tokio::test(start_paused = true)]
async fn a_partition_whose_first_shard_is_empty_is_marked() {
    let shown = Shown::sharded().await;
    let ats: Vec<i64> = (0..40).filter(|at| shown.shard_of(*at) != Shard(0)).collect();
    shown.put("q", ats.iter().copied()).await;
    shown.put("r", ats.iter().copied()).await;
    shown.is_well().await;
    let unmark = Operation::PatchStatic {
        columns: vec![0],
        cells: cells(&[None]),
    };
    let now = (shown.stamps)().0;
    shown.plant("q", 0, unmark, now).await;
    assert_eq!(shown.scan(7).await.len(), ats.len());
    let found = [(FaultKind::Unmarked, None)];
    assert_eq!(shown.told(false).await, all_of(&found, &FaultOutcome::Left));
    assert_eq!(shown.told(true).await, all_of(&found, &FaultOutcome::Mended));
    shown.is_well().await;
    assert_eq!(shown.scan(7).await.len(), 2 * ats.len());
}

/// Checks that a bucket is reported as too large if only all of its shards together exceed the maximum.
#[tokio::test(start_paused = true)]
async fn shards_are_too_large_together() {
    let shown = Shown::sharded().await;
    let now = (shown.stamps)().0;
    for (stream, rows) in [("large", 400), ("small", 150)] {
        for at in 0..rows {
            shown.plant_row(stream, 0, at, now, &text(at)).await;
        }
    }
    let check = shown.store.check_buckets(&shown.table, false, None);
    let (mut check, mut large) = (check.await.expect("it is begun"), Vec::new());
    loop {
        let step = check.step(50).await.expect("it is checked");
        large.extend(step.faults.into_iter().filter(|fault| !fault.kind.is_wrong()));
        if step.is_over {
            break;
        }
    }
    let [large] = &large[..] else { panic!("{large:?}") };
    assert_eq!((large.kind, large.bucket), (FaultKind::TooLarge, Some(Bucket(0))));
    assert_eq!(large.partition, cells(&[Some(b"large")]));
}
