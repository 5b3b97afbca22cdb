//! Reads of range maps, and of the row and the sample of one key.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use recto_model::Cells;
use recto_protocol::buckets::{Bucket, Directory, Key, Shard};
use recto_store::{PointRead, ReadOptions, RowsRead, Snapshot, Store, StoreError};

use super::homes::Homes;
use super::judge::SeenRow;
use crate::directory::Seek;
use crate::error::{PiecesError, PiecesErrorKind, Result};
use crate::limits::{MAX_COPIED_PIECES, MAX_STEP_TIME, MAX_TORN_READS};
use crate::place::{PieceStore, Place, PlaceId};
use crate::samples::Dated;

/// Cache of the complete range maps that a check has read.
#[derive(Default)]
pub(super) struct Known {
    inner: Mutex<BTreeMap<PlaceId, Arc<Directory>>>,
}

/// Row with a key in a bucket, its sample (stored key and size), and the bucket where the key
/// belongs.
pub(super) struct Look<'c> {
    pub(super) homes: Homes<'c>,
    pub(super) row: Option<SeenRow>,
    pub(super) sample: Option<Dated>,
    /// True if the key belongs to another bucket or shard, and a row with the key is there.
    pub(super) is_at_home: bool,
}

/// Sends a read to the store, and retries it if the store does not answer.
pub(super) async fn asked<T, F>(
    engine: &PieceStore,
    inner: &Arc<dyn Store>,
    ask: impl Fn(Arc<dyn Snapshot>, ReadOptions) -> F,
) -> Result<T>
where
    F: Future<Output = std::result::Result<T, StoreError>>,
{
    let options = ReadOptions {
        stamps: true,
        ..ReadOptions::default()
    };
    let ask = &ask;
    let again = |timeout| async move {
        let options = ReadOptions { timeout, ..options };
        Ok(ask(inner.snapshot()?, options).await?)
    };
    engine.again(engine.deadline(MAX_STEP_TIME), again).await
}

impl Known {
    /// Returns the range map of a partition: any version since the start of the check, or the current
    /// version if `is_fresh` is true. Returns `None` if the range map is damaged: the stage of range maps
    /// reports that.
    pub(super) async fn of(
        &self,
        engine: &PieceStore,
        place: &Place,
        is_fresh: bool,
    ) -> Result<Option<Arc<Directory>>> {
        let known = self.lock().get(&place.id).cloned();
        if let Some(known) = known.filter(|_| !is_fresh) {
            return Ok(Some(known));
        }
        let directory = match engine.whole_directory(place, is_fresh).await {
            Ok(directory) => Arc::new(directory),
            Err(error) if error.kind() == PiecesErrorKind::Corrupt => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut inner = self.lock();
        let pieces: usize = inner.values().map(|known| known.pieces.len()).sum();
        if pieces + directory.pieces.len() > MAX_COPIED_PIECES {
            inner.clear();
        }
        inner.insert(Arc::clone(&place.id), Arc::clone(&directory));
        Ok(Some(directory))
    }

    /// Clears the cache, because the check has changed range maps.
    pub(super) fn forget(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<PlaceId, Arc<Directory>>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PieceStore {
    /// Reads the complete range map of a partition, window by window.
    pub(super) async fn whole_directory(&self, place: &Place, is_serial: bool) -> Result<Directory> {
        let deadline = self.deadline(MAX_STEP_TIME);
        for _ in 0..MAX_TORN_READS {
            let (mut whole, mut next): (Option<Directory>, _) = (None, Some(Key::new()));
            while let Some(key) = next.take() {
                let seek = Seek::At(key.clone());
                let window = self.read_directory(place, &seek, is_serial, deadline).await?;
                next.clone_from(&window.end);
                match &mut whole {
                    None => whole = Some(window),
                    Some(whole) if whole.version != window.version => {
                        whole.end = Some(key);
                        break;
                    }
                    Some(whole) => {
                        let others = window.pieces.into_iter().filter(|piece| piece.start >= key);
                        whole.pieces.extend(others);
                        whole.end = window.end;
                    }
                }
            }
            if let Some(whole) = whole.filter(|whole| whole.end.is_none()) {
                return Ok(whole);
            }
        }
        let message = "a range map of buckets changed during each read";
        Err(PiecesError::new(PiecesErrorKind::Unavailable, message))
    }

    /// Reads the row with a key, and its sample (stored key and size), from a shard of a bucket.
    /// Returns `None` if the range map is damaged.
    pub(super) async fn examine(
        &self,
        inner: &Arc<dyn Store>,
        place: &Arc<Place>,
        lies: (Bucket, Shard),
        (key, clustering): (&Key, &Cells),
    ) -> Result<Option<Look<'_>>> {
        let get = |(bucket, shard): (Bucket, Shard)| {
            asked(self, inner, move |snapshot, options| {
                let read = PointRead {
                    table: Arc::clone(&place.pieced.table),
                    partition: place.shard_partition(bucket, shard),
                    clustering: clustering.clone(),
                };
                async move { snapshot.get(&read, &options).await }
            })
        };
        let is_whole = clustering.len() == place.pieced.table.clustering().len();
        let row = if is_whole {
            get(lies).await?
        } else {
            RowsRead::default()
        };
        let sample = self.sample_of(place, lies.0, key).await?;
        // Read the range map after the row, so that it includes any change that moved the row.
        let Some(homes) = Homes::now(self, place, lies).await? else {
            return Ok(None);
        };
        let is_at_home = match homes.home(key).filter(|home| *home != lies && is_whole) {
            Some(home) => !get(home).await?.rows.is_empty(),
            None => false,
        };
        Ok(Some(Look {
            row: seen(place, &row),
            homes,
            sample,
            is_at_home,
        }))
    }
}

/// Returns the first row of the result, if there is one.
fn seen(place: &Place, read: &RowsRead) -> Option<SeenRow> {
    let row = read.rows.iter().next()?;
    let stamp = read.stamps.first().copied().unwrap_or_default();
    Some(SeenRow::new(&place.pieced, row, stamp))
}
