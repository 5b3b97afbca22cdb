//! Time buckets on stores where transactions move rows: a bucket is created before its first row arrives.
//!
//! A key range begins at the start of its time bucket, and has only rows of this bucket: there are no rows between two
//! existing buckets. So a bucket can be split off at its edge at any time without moving rows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use recto_protocol::buckets::{Bucket, Key};

use super::arrivals::End;
use super::{Guard, Transacted};
use crate::error::Result;
use crate::limits::{MAX_STEP_TIME, MAX_TIMES_AT_ONCE};
use crate::place::Place;
use crate::times::Times;

/// Starts of missing time buckets, by the existing key range and bucket from which they are split off.
pub(crate) type Missing = BTreeMap<(Key, Bucket), BTreeSet<Key>>;

impl Guard {
    /// Adds the time bucket of a row to `missing`, if the bucket does not exist.
    ///
    /// # Errors
    /// The key is not a key of the table.
    pub(crate) fn look_for(
        &self,
        place: &Place,
        times: &Times,
        key: &[u8],
        missing: &mut Missing,
    ) -> Result<()> {
        let start = times.bucket_of(key)?.start;
        let Some((span, piece)) = self.whole(place).and_then(|whole| whole.piece_at(key)) else {
            return Ok(());
        };
        if span.start != start {
            missing
                .entry((span.start, piece.roles.read))
                .or_default()
                .insert(start);
        }
        Ok(())
    }
}

impl Transacted {
    /// Creates missing time buckets. If another task created some meanwhile, stops early, and the caller must check
    /// again.
    ///
    /// # Errors
    /// The buckets cannot be created in time. Some may exist.
    pub(crate) async fn make_missing(
        &self,
        place: &Arc<Place>,
        missing: &Missing,
        relaxed: bool,
    ) -> Result<()> {
        for ((start, bucket), edges) in missing {
            let edges: Vec<Key> = edges.iter().cloned().collect();
            let (mut start, mut bucket) = (start.clone(), *bucket);
            for some in edges.chunks(MAX_TIMES_AT_ONCE) {
                if !self
                    .cut_ahead(place, bucket, &mut start, some, (End::Last, relaxed))
                    .await?
                {
                    return Ok(());
                }
                // The next buckets are behind the last of these.
                let entry = self.known_bucket_at(place, &some[some.len() - 1]);
                let Some(last) = entry else { return Ok(()) };
                (start, bucket) = last;
            }
        }
        Ok(())
    }

    /// Creates the time bucket of a key, if it does not exist. Does nothing if the table has no time buckets, or if the
    /// key is below the retention bound.
    ///
    /// # Errors
    /// The bucket cannot be created in time.
    pub(super) async fn make_bucket_of(&self, place: &Arc<Place>, key: &[u8]) -> Result<()> {
        let Some(times) = &place.pieced.times else {
            return Ok(());
        };
        let guard = self.route(std::slice::from_ref(place), MAX_STEP_TIME).await?;
        let mut missing = Missing::new();
        let looked = match guard.check_kept(place, key) {
            Ok(()) => guard.look_for(place, times, key, &mut missing),
            Err(_) => Ok(()),
        };
        guard.done();
        looked?;
        self.make_missing(place, &missing, false).await
    }

    fn known_bucket_at(&self, place: &Place, key: &[u8]) -> Option<(Key, Bucket)> {
        let entry = self.known.find(&place.id)?;
        let (span, piece) = entry.whole.piece_at(key)?;
        Some((span.start, piece.roles.read))
    }
}
