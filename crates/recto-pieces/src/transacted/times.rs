//! Buckets by time, where transactions move rows: one is made before its first row comes.
//!
//! A piece begins where its bucket does, and has no row of another one: between two pieces that are there lies nothing. So a bucket is cut off at
//! its edge whenever it is made, early or late, and nothing moves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use recto_protocol::buckets::{Bucket, Key};

use super::arrivals::End;
use super::{Guard, Transacted};
use crate::error::Result;
use crate::limits::{MAX_STEP_TIME, MAX_TIMES_AT_ONCE};
use crate::place::Place;
use crate::times::Times;

/// Buckets that are not there: where each begins, by the pieces that they are cut off.
pub(crate) type Missing = BTreeMap<(Key, Bucket), BTreeSet<Key>>;

impl Guard {
    /// Adds to those that are missing the bucket of a row, if it is not there.
    ///
    /// # Errors
    /// It is none of the table's keys.
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
    /// Makes buckets that are missing. If others made some meanwhile, it is to be looked again.
    ///
    /// # Errors
    /// They cannot be made in time: some may be there.
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
                // The next ones lie behind the last of them.
                let entry = self.known_bucket_at(place, &some[some.len() - 1]);
                let Some(last) = entry else { return Ok(()) };
                (start, bucket) = last;
            }
        }
        Ok(())
    }

    /// Makes the bucket of a key, if it is by time, kept, and not there.
    ///
    /// # Errors
    /// It cannot be made in time.
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
