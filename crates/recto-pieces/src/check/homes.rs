//! Buckets to which the rows of a partition belong: by its range map, or, for time buckets with a registry, by the
//! calendar.

use std::sync::Arc;

use recto_protocol::buckets::{Bucket, Directory, Floor, Key, Shard};

use super::fault::FaultKind;
use super::judge::{KeyPosition, SeenRow, is_named, judge};
use super::look::Known;
use crate::error::{PiecesErrorKind, Result};
use crate::limits::MAX_STEP_TIME;
use crate::place::{PieceStore, Place};
use crate::samples::Dated;
use crate::times::{TimeBucket, Times};

/// Source that says where the rows of one shard of a bucket belong: to this shard, or elsewhere.
pub(super) struct Homes<'c> {
    place: Arc<Place>,
    lies: (Bucket, Shard),
    says: Says<'c>,
}

enum Says<'c> {
    /// The range map of the partition says which bucket a key belongs to.
    Listed(Arc<Directory>),
    /// The calendar says which bucket a key belongs to, because the table has time buckets.
    ByTime(&'c PieceStore, Arc<Times>, Low),
}

/// Retention bound (rows beyond it are deleted) of a partition with time buckets.
struct Low {
    floor: Option<Floor>,
    /// True if the registry has the bucket. The value matters only if the bucket is below the retention
    /// bound.
    is_known: bool,
}

impl<'c> Homes<'c> {
    /// Returns the source that says where the rows of a bucket belong, by a cached range map. If
    /// `is_fresh` is true, reads the range map now and caches it. Returns `None` if the range map
    /// is damaged: the stage of range maps reports that.
    pub(super) async fn of(
        engine: &'c PieceStore,
        known: &Known,
        place: &Arc<Place>,
        lies: (Bucket, Shard),
        is_fresh: bool,
    ) -> Result<Option<Self>> {
        let says = match by_time(engine, place) {
            Some((pieces, times)) => Low::read(pieces, place, &times, lies.0, is_fresh)
                .await
                .map(|low| Some(Says::ByTime(pieces, times, low))),
            None => known
                .of(engine, place, is_fresh)
                .await
                .map(|known| known.map(Says::Listed)),
        };
        let says = match says {
            Err(error) if error.kind() == PiecesErrorKind::Corrupt => None,
            says => says?,
        };
        Ok(says.map(|says| Self {
            place: Arc::clone(place),
            lies,
            says,
        }))
    }

    /// Returns the source that says where the rows of a bucket belong, by a read of the current
    /// range map.
    pub(super) async fn now(
        engine: &'c PieceStore,
        place: &Arc<Place>,
        lies: (Bucket, Shard),
    ) -> Result<Option<Self>> {
        Self::of(engine, &Known::default(), place, lies, true).await
    }

    /// Returns a range map that contains the bucket to which a key belongs.
    pub(super) fn directory(&self, key: &[u8]) -> Arc<Directory> {
        match &self.says {
            Says::Listed(directory) => Arc::clone(directory),
            Says::ByTime(pieces, times, low) => {
                // An invalid key belongs to no bucket. Use bucket 0, because in a table with time
                // buckets it has no rows.
                let nowhere = || TimeBucket {
                    start: Key::new(),
                    end: None,
                    bucket: Bucket(0),
                };
                let bucket = times.bucket_of(key).unwrap_or_else(|_| nowhere());
                Arc::new(pieces.window_at(&self.place, bucket, low.floor.clone()))
            }
        }
    }

    /// Returns the bucket and the shard from which a key is read.
    pub(super) fn home(&self, key: &[u8]) -> Option<(Bucket, Shard)> {
        let directory = self.directory(key);
        let piece = directory.piece_of(key)?;
        Some((piece.roles.read, self.place.pieced.shards.of(key)))
    }

    /// Returns whether a row with the key may be in the bucket and the shard of this source.
    pub(super) fn is_named(&self, key: &[u8]) -> bool {
        let is_named = |piece| is_named(piece, self.lies.0);
        self.is_in_its_shard(key) && self.directory(key).piece_of(key).is_none_or(is_named)
    }

    /// Returns whether rows with the key belong to the shard of this source.
    pub(super) fn is_in_its_shard(&self, key: &[u8]) -> bool {
        self.place.pieced.shards.of(key) == self.lies.1
    }

    /// Returns whether a key is below the retention bound, so that its row is too old to be kept.
    pub(super) fn is_below(&self, key: &[u8]) -> bool {
        let directory = self.directory(key);
        directory.floor.as_ref().is_some_and(|floor| floor.hides(key))
    }

    /// Returns the fault of a row that is stored in the bucket and shard of this source, or the
    /// fault of its sample. Returns `None` if neither has a fault.
    pub(super) fn judge(
        &self,
        key: &[u8],
        row: Option<SeenRow>,
        sample: Option<&Dated>,
    ) -> Option<FaultKind> {
        let lies = KeyPosition {
            directory: &self.directory(key),
            bucket: self.lies.0,
            is_in_its_shard: self.is_in_its_shard(key),
            is_known: match &self.says {
                Says::Listed(_) => true,
                Says::ByTime(_, _, low) => low.is_known,
            },
        };
        judge(lies, key, row, sample)
    }
}

impl Low {
    async fn read(
        pieces: &PieceStore,
        place: &Place,
        times: &Times,
        bucket: Bucket,
        is_serial: bool,
    ) -> Result<Self> {
        let floor = pieces.floor_beside(place, is_serial).await?;
        let hidden = times.numbered(bucket).filter(|bucket| {
            let floor = floor.as_ref();
            floor.is_some_and(|floor| floor.hides_all(&bucket.span()))
        });
        let is_known = match hidden {
            Some(bucket) => pieces.entry_at(place, &bucket.start).await?.is_some(),
            None => true,
        };
        Ok(Self { floor, is_known })
    }
}

/// Returns the engine and the time buckets of a table that has time buckets.
fn by_time<'c>(engine: &'c PieceStore, place: &Place) -> Option<(&'c PieceStore, Arc<Times>)> {
    Some((engine, place.pieced.times.clone()?))
}

impl PieceStore {
    /// Returns the retention bound of a partition with time buckets.
    pub(super) async fn floor_beside(&self, place: &Place, is_serial: bool) -> Result<Option<Floor>> {
        if place.pieced.keep.is_none() {
            return Ok(None);
        }
        let deadline = self.deadline(MAX_STEP_TIME);
        Ok(self.directory_beside(place, is_serial, deadline).await?.floor)
    }
}
