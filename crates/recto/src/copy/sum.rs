//! Counts and digests of the records of a collection, independent of the order of reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::TryStreamExt;
use futures::future::try_join;
use recto_model::schema::WriteMode;
use recto_protocol::views::Micros;
use recto_store::ReadOptions;

use super::record::{Record, Records};
use super::{STEP_BYTES, STEP_ROWS};
use crate::core::CollectionCore;
use crate::error::Result;
use crate::pace::Pace;
use crate::session::{CopyProgress, Progress, RecordSum};
use crate::verify::Steps;

/// One day in microseconds. A record that expires within a day may expire while the stores are compared.
const ENDS_SOON_MICROS: Micros = 24 * 3_600 * 1_000_000;

/// Comparison of the records of both stores of a copy, by counts and digests.
pub(super) struct Summing<'a> {
    /// Records that expire by this time, in a collection with `writes = "update"`, are counted
    /// separately, without a digest.
    until: Micros,
    /// Number of rows that were read from both stores.
    rows: AtomicU64,
    /// Approximate number of rows of both stores together, for reports of progress.
    rows_total: u64,
    rows_per_second: Option<u32>,
    progress: Progress<'a, CopyProgress>,
}

impl<'a> Summing<'a> {
    pub(super) fn new(
        source: &CollectionCore,
        rows_total: u64,
        rows_per_second: Option<u32>,
        progress: Progress<'a, CopyProgress>,
    ) -> Self {
        Self {
            until: source.shared.environment.now_micros() + ENDS_SOON_MICROS,
            rows: AtomicU64::new(0),
            rows_total,
            rows_per_second,
            progress,
        }
    }

    /// Reads a collection in both stores concurrently. Returns the counts and digest of its records in
    /// `source`, and those in `target`.
    ///
    /// # Errors
    /// A store cannot be read, or a row is damaged.
    pub(super) async fn both(
        &self,
        source: &Arc<CollectionCore>,
        target: &Arc<CollectionCore>,
    ) -> Result<(RecordSum, RecordSum)> {
        try_join(self.of(source), self.of(target)).await
    }

    async fn of(&self, core: &Arc<CollectionCore>) -> Result<RecordSum> {
        let shared = &core.shared;
        let mut pace = Pace::new(self.rows_per_second, &shared.environment);
        let steps = Steps {
            snapshot: shared.store.snapshot()?,
            table: Arc::clone(&core.base().table),
            options: ReadOptions {
                stamps: true,
                max_bytes: STEP_BYTES,
                ..shared.read_options()
            },
            rows: pace.step_rows(STEP_ROWS),
            is_remote: shared.store.limits().remote,
            environment: shared.environment.clone(),
        };
        let changes = core.definition.writes == WriteMode::Update;
        let mut sum = RecordSum::default();
        let mut all = steps.all().await?;
        while let Some((_, read)) = all.try_next().await? {
            for record in &Records::of(core, &read)?.0 {
                self.add(&mut sum, record, changes);
            }
            let rows = read.rows.len() as u64;
            self.tell(core, rows);
            tokio::time::sleep(pace.after(rows, &shared.environment)).await;
        }
        Ok(sum)
    }

    fn add(&self, sum: &mut RecordSum, record: &Record, changes: bool) {
        // The digest omits records that may differ between the stores without a fault. If the collection has
        // `writes = "update"` (`changes`), these are the records that expire within a day. Otherwise, these
        // are all records that expire, because stores report only approximate times of their expiry.
        let ends = record.expires_at.is_some_and(|at| !changes || at <= self.until);
        if ends {
            sum.ending += 1;
        } else {
            sum.records += 1;
            sum.digest = sum.digest.wrapping_add(digest(record, changes));
        }
    }

    fn tell(&self, core: &CollectionCore, rows: u64) {
        let rows = self.rows.fetch_add(rows, Ordering::Relaxed) + rows;
        (self.progress)(CopyProgress {
            collection: core.definition.name.clone(),
            step: "comparing".to_owned(),
            rows,
            rows_resumed: 0,
            done: rows,
            total: rows.max(self.rows_total),
        });
    }
}

/// Returns the digest of one record. The digest covers the version, the values of the fields, each after its
/// length, and the time of expiry if the collection's records change.
fn digest(record: &Record, changes: bool) -> u128 {
    let mut hasher = blake3::Hasher::new();
    // Cassandra reports no write timestamp for a row without values outside the key, so the digest omits its
    // version.
    let version = if record.has_values { record.version.0 } else { 0 };
    let ends = record.expires_at.filter(|_| changes).unwrap_or(i64::MAX);
    hasher.update(&version.to_be_bytes()).update(&ends.to_be_bytes());
    for cell in record.fields.iter() {
        // A null gets a length that no cell has, so that it differs from an empty cell.
        let length = cell.map_or(u64::MAX, |cell| cell.len() as u64);
        hasher
            .update(&length.to_be_bytes())
            .update(cell.unwrap_or_default());
    }
    let (digest, _) = hasher
        .finalize()
        .as_bytes()
        .split_first_chunk::<16>()
        .map(|(first, rest)| (u128::from_be_bytes(*first), rest.len()))
        .expect("a digest has 32 bytes");
    digest
}

#[cfg(test)]
mod tests {
    use recto_model::Cells;
    use recto_protocol::views::Version;

    use super::*;

    fn record(version: i64, fields: [Option<&[u8]>; 2], expires_at: Option<Micros>) -> Record {
        Record {
            cells: Cells::new(),
            fields: fields.into_iter().collect(),
            version: Version(version),
            ends_in_seconds: None,
            expires_at,
            has_values: true,
        }
    }

    #[test]
    fn differs_for_different_records() {
        let one = record(1, [Some(b"a"), None], None);
        assert_eq!(digest(&one, true), digest(&one.clone(), true));
        for other in [
            record(2, [Some(b"a"), None], None),
            record(1, [None, Some(b"a")], None),
            record(1, [Some(b"a"), Some(b"")], None),
            record(1, [Some(b"a"), None], Some(7)),
        ] {
            assert_ne!(digest(&one, true), digest(&other, true));
        }
        let without_values = |version| Record {
            has_values: false,
            ..record(version, [Some(b"a"), None], None)
        };
        assert_eq!(
            digest(&without_values(1), false),
            digest(&without_values(2), false)
        );
    }

    #[test]
    fn counts_duplicates_and_ignores_the_order() {
        let summing = Summing {
            until: 100,
            rows: AtomicU64::new(0),
            rows_total: 0,
            rows_per_second: None,
            progress: &|_| {},
        };
        let (one, two) = (
            record(1, [Some(b"a"), None], None),
            record(1, [Some(b"b"), None], None),
        );
        let of = |records: &[&Record]| {
            let mut sum = RecordSum::default();
            for record in records {
                summing.add(&mut sum, record, true);
            }
            sum
        };
        assert_eq!(of(&[&one, &two]), of(&[&two, &one]));
        assert_ne!(of(&[&one, &one]), of(&[&two, &two]));
        assert_ne!(of(&[&one]).digest, of(&[&one, &one, &one]).digest);
        let (soon, later) = (
            record(1, [None, None], Some(100)),
            record(1, [None, None], Some(101)),
        );
        let sum = of(&[&soon, &later]);
        assert_eq!((sum.records, sum.ending), (1, 1));
    }
}
