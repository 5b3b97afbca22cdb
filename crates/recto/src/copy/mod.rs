//! Copies of one store into another: schema, records with their versions, and cursor keys.
//!
//! Ranges of a collection's base table are read concurrently, and written in steps. The target store keeps
//! the progress of each range, so that an interrupted copy can continue. At the end, the copy reads both
//! stores again and counts their records.
//!
//! | module | content |
//! |---|---|
//! | `begin` | selected collections, and the check that the target store accepts them |
//! | `record` | records as they are read |
//! | `room` | splits of buckets in advance |
//! | `write` | writes of records to the target store |
//! | `sum` | counts and digests of the records |

mod begin;
mod record;
mod room;
mod sum;
mod write;

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt, TryStreamExt};
use recto_store::{ReadOptions, ScanPosition, ScanRead, TokenRange};
use tokio::sync::Mutex;

use crate::core::CollectionCore;
use crate::covered::{Covered, MAX_PIECES, Piece};
use crate::error::{Error, Result};
use crate::pace::Pace;
use crate::recto::Recto;
use crate::session::{CopiedCollection, CopyProgress, CopyReport, CopyRequest, Progress, RecoveryPass};
use begin::Begun;
use record::Records;
use write::Target;

/// Maximum number of records of one step.
const STEP_ROWS: u32 = 1_000;
/// Maximum size in bytes of the records of one step, unless a single record is larger.
const STEP_BYTES: u64 = 2 << 20;
/// Number of ranges that are copied concurrently.
const PIECES_AT_ONCE: usize = 4;

impl Recto {
    /// Copies collections into another store, which may be of another kind. Copies the schema, and all records with
    /// their versions and their remaining time to live. If the other store has no other collections, also copies the
    /// keys that encrypt cursors. The other store creates views and buckets as for any write. Queues are not copied.
    ///
    /// Do not write to either store during the copy. It is undefined whether the copy contains records that
    /// are written to this store during the copy. The report shows whether the stores differ in the end.
    ///
    /// Records that do not fit a view or a unique constraint of the other store are copied, but have no entry
    /// in the view or constraint. The report lists these records.
    ///
    /// If a copy was interrupted, another call continues it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> recto::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// use recto::session::CopyRequest;
    /// use recto::{OpenOptions, Record, Recto};
    ///
    /// #[derive(Record)]
    /// #[record(collection = "users", key = ["id"])]
    /// struct User {
    ///     id: i64,
    ///     name: String,
    /// }
    ///
    /// let store = Recto::open_with(folder.path().join("shop"), OpenOptions::new().create()).await?;
    /// store.apply(&recto::schema_of([User::collection()])).await?;
    /// let users = store.collection::<User>()?;
    /// let version = users.put(&User { id: 1, name: "Ada".into() }).await?.version;
    ///
    /// // Or "cassandra://host/keyspace".
    /// let other = Recto::open_with(folder.path().join("other"), OpenOptions::new().create()).await?;
    /// let report = store.copy_to(&other, &CopyRequest::default(), &|_| {}).await?;
    /// assert!(report.is_equal() && report.cursors_go_on);
    /// assert_eq!(report.collections[0].target.records, 1);
    /// let users = other.collection::<User>()?;
    /// users.put(&User { id: 1, name: "Ada L.".into() }).if_version(version).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// - [`ErrorKind::NotFound`](crate::ErrorKind::NotFound): a collection does not exist. Nothing is changed.
    /// - [`ErrorKind::Exists`](crate::ErrorKind::Exists): the other store has records of a collection that this copy
    ///   did not put there. Nothing is changed.
    /// - [`ErrorKind::SchemaMismatch`](crate::ErrorKind::SchemaMismatch): the other store declares a collection
    ///   differently. Nothing is changed.
    /// - A store cannot be read or written. Copied records remain, and another call continues the copy.
    pub async fn copy_to(
        &self,
        target: &Self,
        request: &CopyRequest,
        progress: Progress<'_, CopyProgress>,
    ) -> Result<CopyReport> {
        Box::pin(copy(self, target, request, progress)).await
    }
}

async fn copy(
    source: &Recto,
    target: &Recto,
    request: &CopyRequest,
    progress: Progress<'_, CopyProgress>,
) -> Result<CopyReport> {
    let begun = Begun::look(source, target, &request.collections).await?;
    let left_out = begin::left_out(source).await?;
    let cursors_go_on = begun.take_cursor_keys(source, target).await?;
    target.apply(&begun.schema).await?;
    let misfits = begun
        .mark_misfits(source, target, request.rows_per_second)
        .await?;
    let pace = Pace::new(request.rows_per_second, &source.shared().environment);
    let telling = Mutex::new(Telling {
        pace,
        progress: CopyProgress::default(),
    });
    let (mut collections, mut all, mut is_resumed) = (Vec::new(), Vec::new(), false);
    for (definition, id) in begun.schema.collections.iter().zip(&begun.ids) {
        let copying = Copying {
            source: source.core(&definition.name)?,
            target: target.core(&definition.name)?,
            covered: Covered::new(target.shared(), begin::WORK, &definition.name, id.clone()),
            telling: &telling,
            progress,
        };
        let (copied, was_begun) = copying.run().await.map_err(stopped)?;
        is_resumed |= was_begun;
        collections.push(copied);
        all.push(copying.covered);
    }
    if is_resumed {
        recover(target, progress).await.map_err(stopped)?;
    }
    for copied in &mut collections {
        let cores = (source.core(&copied.name)?, target.core(&copied.name)?);
        let rows_per_second = request.rows_per_second;
        let summing = sum::Summing::new(&cores.0, 2 * copied.rows_read, rows_per_second, progress);
        (copied.source, copied.target) = summing.both(&cores.0, &cores.1).await.map_err(stopped)?;
    }
    let report = CopyReport {
        collections,
        cursors_go_on,
        left_out,
        misfits,
    };
    if report.is_equal() {
        Covered::forget_all(&all).await?;
    }
    Ok(report)
}

/// Completes changes in the target store that an interrupted run of the copy left unfinished. Waits, because
/// a process counts as dead only after half a minute.
async fn recover(target: &Recto, progress: Progress<'_, CopyProgress>) -> Result<()> {
    let told = |pass: &RecoveryPass| {
        progress(CopyProgress {
            step: "recovering".to_owned(),
            ..CopyProgress::default()
        });
        !pass.is_done()
    };
    target.recover(told).await.map(drop)
}

/// Returns the error for a copy that stopped. Its hint says that the same copy can continue.
#[cold]
fn stopped(error: Error) -> Error {
    let hint = error.hint().map(|hint| format!("{hint}; ")).unwrap_or_default();
    Error::new(error.kind(), format!("the copy stopped: {}", error.message()))
        .with_hint(format!("{hint}run the same copy again to continue"))
        .with_source(error)
}

/// Progress of the copy of one collection, over all ranges that are copied concurrently.
struct Telling {
    pace: Pace,
    progress: CopyProgress,
}

struct Copying<'a> {
    source: Arc<CollectionCore>,
    target: Arc<CollectionCore>,
    covered: Covered<'a>,
    telling: &'a Mutex<Telling>,
    progress: Progress<'a, CopyProgress>,
}

impl Copying<'_> {
    /// Copies the uncopied ranges of the collection. Also returns whether an earlier call had begun the copy.
    async fn run(&self) -> Result<(CopiedCollection, bool)> {
        let (pieces, is_resumed) = self.pieces().await?;
        let rows = |pieces: &[Piece]| pieces.iter().map(|piece| piece.rows).sum::<u64>();
        let rows_resumed = rows(&pieces);
        self.telling.lock().await.progress = CopyProgress {
            collection: self.source.definition.name.clone(),
            step: "looking".to_owned(),
            rows: rows_resumed,
            rows_resumed,
            done: pieces.iter().filter(|piece| piece.is_done).count() as u64,
            total: pieces.len() as u64,
        };
        self.make_room(&pieces).await?;
        "copying".clone_into(&mut self.telling.lock().await.progress.step);
        let left = pieces.into_iter().filter(|piece| !piece.is_done);
        let copied: Vec<BoxFuture<'_, Result<()>>> = left.map(|piece| self.copy(piece).boxed()).collect();
        stream::iter(copied)
            .buffer_unordered(PIECES_AT_ONCE)
            .try_collect::<()>()
            .await?;
        let copied = CopiedCollection {
            name: self.source.definition.name.clone(),
            rows_read: self.telling.lock().await.progress.rows,
            rows_resumed,
            ..CopiedCollection::default()
        };
        Ok((copied, is_resumed))
    }

    /// Returns the ranges of the collection, and whether an earlier call had begun the copy.
    async fn pieces(&self) -> Result<(Vec<Piece>, bool)> {
        self.covered.prepare().await?;
        let pieces = self.covered.read().await?;
        if !pieces.is_empty() {
            return Ok((pieces, true));
        }
        let snapshot = self.source.shared.store.snapshot()?;
        let pieces = Covered::split(&*snapshot, &self.source.base().table, MAX_PIECES / 2).await?;
        self.covered.begin(&pieces).await?;
        Ok((pieces, false))
    }

    async fn copy(&self, mut piece: Piece) -> Result<()> {
        while !piece.is_done {
            let rows = self.step(&mut piece).await?;
            let is_done = piece.is_done;
            self.tell(rows, |progress| {
                progress.rows += rows;
                progress.done += u64::from(is_done);
            })
            .await;
        }
        Ok(())
    }

    /// Reports the progress after `rows` rows were read. Then waits as long as the limit of rows per second
    /// requires.
    async fn tell(&self, rows: u64, change: impl FnOnce(&mut CopyProgress)) {
        let wait = {
            let mut telling = self.telling.lock().await;
            change(&mut telling.progress);
            (self.progress)(telling.progress.clone());
            telling.pace.after(rows, &self.source.shared.environment)
        };
        tokio::time::sleep(wait).await;
    }

    /// Reads the next rows of a range of the source table, after the position `after`.
    async fn read(&self, range: &TokenRange, after: Option<&ScanPosition>) -> Result<ScanRead> {
        let shared = &self.source.shared;
        let options = ReadOptions {
            stamps: true,
            max_bytes: STEP_BYTES,
            ..shared.read_options()
        };
        let rows = self.telling.lock().await.pace.step_rows(STEP_ROWS);
        let table = &self.source.base().table;
        let snapshot = shared.store.snapshot()?;
        Ok(snapshot.scan(table, range, after, rows, &options).await?)
    }

    /// Copies the next records of a range. Returns the number of rows that were read.
    async fn step(&self, piece: &mut Piece) -> Result<u64> {
        let read = self.read(&piece.range, piece.after.as_ref()).await?;
        let records = Records::of(&self.source, &read)?;
        Target(&self.target).write(records).await?;
        let rows = read.rows.len() as u64;
        piece.rows += rows;
        piece.is_done = read.next.is_none();
        piece.after = read.next.or_else(|| piece.after.take());
        // The durable write of the progress also makes the records of this step durable.
        self.covered.put(std::slice::from_ref(piece)).await?;
        Ok(rows)
    }
}
