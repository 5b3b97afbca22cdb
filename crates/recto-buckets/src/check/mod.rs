//! Consistency check of buckets: each row is where a write of the row would go, range maps are undamaged, and
//! samples match their rows.
//!
//! A check has several stages. Each stage scans one table in steps. An interrupted check can continue from
//! the position after a step. The stages are:
//!
//! 1. the range maps
//! 2. the registry of time buckets
//! 3. the existing buckets, which show lost range maps; then damaged and lost range maps are rebuilt
//! 4. all stored rows, in the store's own order, with their samples
//! 5. samples of buckets without rows
//!
//! Other processes write during the check. A suspected fault may therefore be a write under way, and the
//! check examines it again some time later by the range map of that time. It reports a confirmed fault,
//! and repairs the fault if the caller requested repairs.
//!
//! | module | content |
//! |---|---|
//! | `fault` | [`Fault`]: fault of buckets |
//! | `routes` | destination of a write of a row, and the fault of a row or sample elsewhere |
//! | `directories` | stage of range maps |
//! | `registry` | stage of the registry, and repair of its entries |
//! | `rebuilding` | stage of existing buckets, and reconstruction of range maps |
//! | `remains` | stored form of a range map, damaged or not |
//! | `rows` | stage of rows |
//! | `orphans` | stage of samples without rows |
//! | `mending` | second examination of suspected faults of rows and samples, and their repair |
//! | `position` | encoding of positions |

mod directories;
mod fault;
mod mending;
mod orphans;
mod position;
mod rebuilding;
mod registry;
mod remains;
mod routes;
mod rows;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use recto_model::{Cells, Table};
use recto_protocol::buckets::{Bucket, Key, Shard};
use recto_store::{ReadOptions, ScanPosition, ScanRead, StoreError, TokenRange};

pub use self::fault::{Fault, FaultKind, FaultOutcome};
use self::position::{Next, Open, Position, Stage};
use self::rebuilding::Ruin;
use crate::bucketed::Bucketed;
use crate::error::Result;
use crate::limits::{
    MAX_CHECKED_BYTES, MAX_LISTED_PARTITIONS, MAX_LOOKS_AT_ONCE, MAX_STEP_TIME, MAX_SUSPECTS, SUSPECT_AGE,
};
use crate::place::{PieceStore, Place};

/// Consistency check of the buckets of a table, in progress.
pub struct BucketCheck {
    bucketed: Arc<Bucketed>,
    engine: PieceStore,
    /// True if the check repairs the faults that it finds.
    mends: bool,
    position: Position,
    /// Partitions whose range map is damaged or lost, with the buckets that the check found.
    ruins: BTreeMap<Vec<u8>, Ruin>,
    /// Suspected faults, which the check examines again when concurrent writes have ended.
    suspects: Vec<Suspect>,
    faults: Vec<Fault>,
}

/// Row, sample or registry entry that may have a fault.
#[derive(Debug, Clone)]
struct Suspect {
    kind: SuspectKind,
    place: Arc<Place>,
    /// Bucket and shard in which the check found the row, the sample, or rows without a registry entry.
    lies: (Bucket, Shard),
    /// Key of the row or of the sample. For a registry entry, the start of its bucket.
    key: Key,
    /// Clustering cells of the row. Empty if the key is not a key of the table.
    clustering: Cells,
    /// Time when the check first saw the suspected fault, in nanoseconds of the monotonic clock.
    seen_nanos: u64,
}

/// Kinds of suspects, in the order in which the check examines them. Rows come first, because a misplaced row may
/// belong to a sample that seems to have no row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum SuspectKind {
    /// Bucket that may have no entry in the registry of time buckets.
    Entry,
    Row,
    /// Sample (stored key and size) without a visible row.
    Sample,
}

/// Result of one step of a check of buckets.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CheckStep {
    /// Number of rows of the checked table that this step read.
    pub rows: u64,
    /// Number of rows and partitions of all tables, including the engine's own, that this step read.
    pub read: u64,
    /// Number of shards of buckets whose first row is among the rows that this step read.
    pub buckets: u64,
    /// Faults that the step found.
    pub faults: Vec<Fault>,
    /// Position from which another check can continue. `None` if suspected faults before it are not
    /// examined yet.
    pub position: Option<Vec<u8>>,
    /// True if the check is complete after the step.
    pub is_over: bool,
}

impl BucketCheck {
    /// Begins a check, or continues an interrupted check from a position.
    ///
    /// # Errors
    /// The position is invalid.
    pub(crate) fn new(
        bucketed: Arc<Bucketed>,
        engine: PieceStore,
        mends: bool,
        position: Option<&[u8]>,
    ) -> std::result::Result<Self, StoreError> {
        let position = match position {
            None => Position::default(),
            Some(bytes) => Position::read(bytes).ok_or_else(position::damaged)?,
        };
        if mends {
            // Forget the cached entries of the registry, because some of them may no longer exist
            // in the store.
            engine.registered.forget(bucketed.pieced.table().name());
        }
        Ok(Self {
            bucketed,
            engine,
            mends,
            position,
            ruins: BTreeMap::new(),
            suspects: Vec::new(),
            faults: Vec::new(),
        })
    }

    /// Checks up to `rows` further rows, or partitions in stages that do not read rows.
    ///
    /// # Errors
    /// The store cannot be read or written in time. Completed repairs stay.
    pub async fn step(&mut self, rows: u32) -> std::result::Result<CheckStep, StoreError> {
        Ok(self.scan_on(rows.max(1)).await?)
    }

    async fn scan_on(&mut self, rows: u32) -> Result<CheckStep> {
        let mut step = CheckStep::default();
        let next = self.scan_stage(rows, &mut step).await?;
        if next.is_none() || self.is_to_settle() {
            self.settle().await?;
        }
        if next.is_some() {
            self.position.after = next;
        } else {
            if self.position.stage == Stage::Buckets {
                self.rebuild_all().await?;
            }
            self.position = self.position.stage.next().begun();
        }
        step.is_over = self.position.stage == Stage::Over;
        let is_settled = self.suspects.is_empty() && self.ruins.is_empty();
        step.position = is_settled.then(|| self.position.written());
        step.faults = std::mem::take(&mut self.faults);
        Ok(step)
    }

    /// Scans the next part of the table of the current stage. Returns the position behind it, or `None` if the
    /// stage is complete.
    async fn scan_stage(&mut self, rows: u32, step: &mut CheckStep) -> Result<Option<Next>> {
        let (stage, tables) = (self.position.stage, &self.engine.tables);
        let (is_by_time, after) = (self.bucketed.pieced.times.is_some(), self.position.after.take());
        let table = match stage {
            Stage::Directories => &tables.directories,
            Stage::Registry if is_by_time => &tables.times,
            Stage::Buckets if !is_by_time => self.table(),
            Stage::Rows => self.table(),
            Stage::Samples => &tables.samples,
            Stage::Registry | Stage::Buckets | Stage::Over => return Ok(None),
        };
        let (after, open) = after.map_or((None, None), |next| (Some(next.scan), next.open));
        let is_of_rows = matches!(stage, Stage::Registry | Stage::Rows);
        let read = self.scan(table, is_of_rows, after.as_ref(), rows).await?;
        step.read = read.rows.len() as u64;
        let mut still_open: Option<Open> = None;
        match stage {
            Stage::Directories => self.check_directories(&read).await?,
            Stage::Registry => self.check_entries(&read).await?,
            Stage::Buckets => self.check_buckets(&read).await?,
            Stage::Rows => still_open = self.check_rows(&read, open, step).await?,
            Stage::Samples => self.check_samples(&read).await?,
            Stage::Over => {}
        }
        let open = still_open;
        Ok(read.next.map(|scan| Next { scan, open }))
    }

    /// Reads up to `rows` rows of a table, or partitions if `is_of_rows` is false.
    async fn scan(
        &self,
        table: &Arc<Table>,
        is_of_rows: bool,
        after: Option<&ScanPosition>,
        rows: u32,
    ) -> Result<ScanRead> {
        let engine = &self.engine;
        let scan = |timeout| async move {
            let (snapshot, range) = (engine.store.snapshot()?, TokenRange::whole());
            let options = ReadOptions {
                timeout,
                stamps: true,
                max_bytes: MAX_CHECKED_BYTES,
                ..ReadOptions::default()
            };
            Ok(if is_of_rows {
                snapshot.scan(table, &range, after, rows, &options).await?
            } else {
                let rows = rows.min(MAX_LISTED_PARTITIONS as u32);
                let read = snapshot.scan_partitions(table, &range, after, rows, &options);
                read.await?
            })
        };
        engine.again(engine.deadline(MAX_STEP_TIME), scan).await
    }

    fn table(&self) -> &Arc<Table> {
        self.bucketed.pieced.table()
    }

    fn place(&self, partition: Cells) -> Result<Arc<Place>> {
        Ok(Arc::new(Place::new(&self.bucketed.pieced, partition)?))
    }

    fn suspect(
        &mut self,
        kind: SuspectKind,
        place: &Arc<Place>,
        lies: (Bucket, Shard),
        (key, clustering): (Key, Cells),
    ) {
        self.suspects.push(Suspect {
            kind,
            place: Arc::clone(place),
            lies,
            key,
            clustering,
            seen_nanos: self.engine.environment.monotonic_nanos(),
        });
    }

    fn age_of(&self, suspect: &Suspect) -> Duration {
        let now_nanos = self.engine.environment.monotonic_nanos();
        Duration::from_nanos(now_nanos.saturating_sub(suspect.seen_nanos))
    }

    /// Returns whether to examine suspected faults now instead of at the end of the stage.
    /// Examining them early limits their number, and lets the check report a position from time to
    /// time.
    fn is_to_settle(&self) -> bool {
        let is_old = |oldest: &Suspect| self.age_of(oldest) > 2 * SUSPECT_AGE;
        self.suspects.first().is_some_and(is_old) || self.suspects.len() >= MAX_SUSPECTS
    }

    /// Examines suspected faults again, after the writers that may have caused them have finished.
    /// Reports confirmed faults, and repairs these faults if requested.
    async fn settle(&mut self) -> Result<()> {
        let Some(newest) = self.suspects.last() else {
            return Ok(());
        };
        tokio::time::sleep(SUSPECT_AGE.saturating_sub(self.age_of(newest))).await;
        let mut suspects = std::mem::take(&mut self.suspects);
        suspects.sort_by_key(|suspect| suspect.kind);
        for of_kind in suspects.chunk_by(|one, other| one.kind == other.kind) {
            for some in of_kind.chunks(MAX_LOOKS_AT_ONCE) {
                let settled = some
                    .iter()
                    .map(|suspect| self.engine.settle_suspect(suspect, self.mends));
                let settled = futures::future::try_join_all(settled).await?;
                self.faults.extend(settled.into_iter().flatten());
            }
        }
        Ok(())
    }
}
