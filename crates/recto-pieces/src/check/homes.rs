//! Where the rows of a partition belong: where its directory says; or, of buckets by time that a registry says there are, where arithmetic does.

use std::sync::Arc;

use recto_protocol::buckets::{Bucket, Directory, Floor, Key, Shard};

use super::Engine;
use super::fault::FaultKind;
use super::judge::{Lies, SeenRow, is_named, judge};
use super::look::Known;
use crate::error::{PiecesErrorKind, Result};
use crate::limits::MAX_STEP_TIME;
use crate::place::{PieceStore, Place};
use crate::samples::Dated;
use crate::times::{TimeBucket, Times};

/// What says of the rows that lie in a shard of a bucket where they belong.
pub(super) struct Homes<'c> {
    place: Arc<Place>,
    lies: (Bucket, Shard),
    says: Says<'c>,
    has_samples: bool,
}

enum Says<'c> {
    /// The directory.
    Listed(Arc<Directory>),
    /// The calendar.
    ByTime(&'c PieceStore, Arc<Times>, Low),
}

/// What is not kept of buckets by time.
struct Low {
    floor: Option<Floor>,
    /// Whether the registry has the bucket; of one that is kept it does not matter here.
    is_known: bool,
}

impl<'c> Homes<'c> {
    /// By what is known; `is_fresh`: by what is read now, and known then. None: the directory is damaged, which is told where directories are
    /// looked at.
    pub(super) async fn of(
        engine: &'c Engine,
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
            has_samples: matches!(engine, Engine::Pieces(_)),
        }))
    }

    /// By what is read now.
    pub(super) async fn now(
        engine: &'c Engine,
        place: &Arc<Place>,
        lies: (Bucket, Shard),
    ) -> Result<Option<Self>> {
        Self::of(engine, &Known::default(), place, lies, true).await
    }

    /// What says where a key belongs.
    pub(super) fn directory(&self, key: &[u8]) -> Arc<Directory> {
        match &self.says {
            Says::Listed(directory) => Arc::clone(directory),
            Says::ByTime(pieces, times, low) => {
                // What is none of the table's keys belongs nowhere: bucket 0 has no rows.
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

    /// Where a key is read.
    pub(super) fn home(&self, key: &[u8]) -> Option<(Bucket, Shard)> {
        let directory = self.directory(key);
        let piece = directory.piece_of(key)?;
        Some((piece.roles.read, self.place.pieced.shards.of(key)))
    }

    /// Whether a key may have something here.
    pub(super) fn is_named(&self, key: &[u8]) -> bool {
        let is_named = |piece| is_named(piece, self.lies.0);
        self.is_in_its_shard(key) && self.directory(key).piece_of(key).is_none_or(is_named)
    }

    /// Whether a key is in the shard that is for it.
    pub(super) fn is_in_its_shard(&self, key: &[u8]) -> bool {
        self.place.pieced.shards.of(key) == self.lies.1
    }

    /// Whether a key is not kept any more.
    pub(super) fn is_below(&self, key: &[u8]) -> bool {
        let directory = self.directory(key);
        directory.floor.as_ref().is_some_and(|floor| floor.hides(key))
    }

    /// What is wrong with a row of a key that lies here, or with its sample.
    pub(super) fn judge(
        &self,
        key: &[u8],
        row: Option<SeenRow>,
        sample: Option<&Dated>,
    ) -> Option<FaultKind> {
        let lies = Lies {
            directory: &self.directory(key),
            bucket: self.lies.0,
            is_in_its_shard: self.is_in_its_shard(key),
            is_known: match &self.says {
                Says::Listed(_) => true,
                Says::ByTime(_, _, low) => low.is_known,
            },
            has_samples: self.has_samples,
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

/// What has the registry, if one says which buckets there are.
fn by_time<'c>(engine: &'c Engine, place: &Place) -> Option<(&'c PieceStore, Arc<Times>)> {
    match engine {
        Engine::Pieces(pieces) => Some((pieces, place.pieced.times.clone()?)),
        Engine::Transacted(_) => None,
    }
}

impl PieceStore {
    /// What is not kept of buckets by time.
    pub(super) async fn floor_beside(&self, place: &Place, is_serial: bool) -> Result<Option<Floor>> {
        if place.pieced.keep.is_none() {
            return Ok(None);
        }
        let deadline = self.deadline(MAX_STEP_TIME);
        Ok(self.directory_beside(place, is_serial, deadline).await?.floor)
    }
}
