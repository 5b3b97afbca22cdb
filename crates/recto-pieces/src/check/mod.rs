//! Consistency check of buckets: each row is in the bucket that the range map names, range maps are undamaged, and
//! samples match their rows.
//!
//! A check goes through a table in stages, and each stage in steps. An interrupted check can continue from
//! the position after a step. The stages are:
//!
//! 1. the range maps
//! 2. the registry of time buckets
//! 3. the existing buckets: rebuilds range maps that are damaged or lost, and restores missing entries of the registry
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
//! | `judge` | decision whether a stored row or sample is right |
//! | `look` | reads of range maps, and of all data of one key |
//! | `homes` | buckets to which the rows of a partition belong |
//! | `directories` | stages of range maps and of existing buckets |
//! | `registry` | stage of the registry, and buckets that are missing in it |
//! | `remains` | stored form of a range map, damaged or not |
//! | `rows` | stage of rows |
//! | `orphans` | stage of samples without rows |
//! | `mending` | repair of faults |
//! | `position` | encoding of positions |

mod directories;
mod fault;
mod homes;
mod judge;
mod look;
mod mending;
mod orphans;
mod position;
mod registry;
mod remains;
mod rows;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use recto_model::{Cells, Table};
use recto_protocol::buckets::{Bucket, Key, Shard};
use recto_store::{ReadOptions, Snapshot, Store, StoreError};

use self::directories::Ruin;
pub use self::fault::{Fault, FaultKind, FaultOutcome};
use self::look::Known;
use self::position::{Position, Stage};
use crate::bucketed::Bucketed;
use crate::error::Result;
use crate::limits::{MAX_LOOKS_AT_ONCE, MAX_STEP_TIME, MAX_SUSPECTS, SUSPECT_AGE};
use crate::place::{Deadline, PieceStore, Place};

/// Consistency check of the buckets of a table, in progress.
pub struct BucketCheck {
    inner: Arc<dyn Store>,
    bucketed: Arc<Bucketed>,
    engine: PieceStore,
    /// True if the check repairs the faults that it finds.
    mends: bool,
    position: Position,
    /// Cache of the range maps that the check has read.
    known: Known,
    /// Partitions whose range map is damaged or lost, with the buckets that the check found.
    ruins: BTreeMap<Vec<u8>, Ruin>,
    /// Suspected faults, which the check examines again when concurrent writes have ended.
    suspects: Vec<Suspect>,
    faults: Vec<Fault>,
}

/// Suspected fault of a row, or of its sample (stored key and size).
#[derive(Debug, Clone)]
struct Suspect {
    place: Arc<Place>,
    bucket: Bucket,
    shard: Shard,
    key: Key,
    clustering: Cells,
    /// True if the fault is a sample (stored key and size) without a visible row.
    is_sample: bool,
    /// Time when the check first saw the suspected fault, in nanoseconds of the monotonic clock.
    seen_nanos: u64,
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
        inner: Arc<dyn Store>,
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
            inner,
            bucketed,
            engine,
            mends,
            position,
            known: Known::default(),
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
        Ok(self.stepped(rows.max(1)).await?)
    }

    async fn stepped(&mut self, rows: u32) -> Result<CheckStep> {
        let mut step = CheckStep::default();
        let next = match self.position.stage {
            Stage::Directories => self.directories(rows, &mut step).await?,
            Stage::Registry => self.registry(rows, &mut step).await?,
            Stage::Buckets => self.buckets(rows, &mut step).await?,
            Stage::Rows => self.rows(rows, &mut step).await?,
            Stage::Samples => self.samples(rows, &mut step).await?,
            Stage::Over => None,
        };
        let is_stage_over = next.is_none();
        if is_stage_over || self.is_to_settle() {
            self.settle().await?;
        }
        if let Some(next) = next {
            self.position.after = Some(next);
        } else {
            if self.position.stage == Stage::Buckets {
                self.rebuild_all().await?;
            }
            self.position = self.position.stage.next().begun();
        }
        step.is_over = self.position.stage == Stage::Over;
        let is_told = self.suspects.is_empty() && self.ruins.is_empty();
        step.position = is_told.then(|| self.position.written());
        step.faults = std::mem::take(&mut self.faults);
        Ok(step)
    }

    fn deadline(&self) -> Deadline {
        self.engine.deadline(MAX_STEP_TIME)
    }

    fn monotonic_nanos(&self) -> u64 {
        self.engine.environment.monotonic_nanos()
    }

    /// Returns whether the table has time buckets. A registry lists the existing ones.
    fn registers(&self) -> bool {
        self.bucketed.pieced.times.is_some()
    }

    fn table(&self) -> &Arc<Table> {
        self.bucketed.pieced.table()
    }

    /// Sends a read to the store, and retries it if the store does not answer.
    async fn ask<T, F>(&self, ask: impl Fn(Arc<dyn Snapshot>, ReadOptions) -> F) -> Result<T>
    where
        F: Future<Output = std::result::Result<T, StoreError>>,
    {
        look::asked(&self.engine, &self.inner, ask).await
    }

    fn suspect(
        &mut self,
        place: &Arc<Place>,
        (bucket, shard): (Bucket, Shard),
        (key, clustering): (Key, Cells),
        is_sample: bool,
    ) {
        let seen_nanos = self.monotonic_nanos();
        self.suspects.push(Suspect {
            place: Arc::clone(place),
            bucket,
            shard,
            key,
            clustering,
            is_sample,
            seen_nanos,
        });
    }

    fn fault(&mut self, fault: Fault) {
        self.faults.push(fault);
    }

    /// Returns whether to examine suspected faults now instead of at the end of the stage.
    /// Examining them early limits their number, and lets the check report a position from time to
    /// time.
    fn is_to_settle(&self) -> bool {
        let Some(oldest) = self.suspects.first() else {
            return false;
        };
        let age = Duration::from_nanos(self.monotonic_nanos().saturating_sub(oldest.seen_nanos));
        age > 2 * SUSPECT_AGE || self.suspects.len() >= MAX_SUSPECTS
    }

    /// Examines suspected faults again, after the writers that may have caused them have finished.
    /// Reports confirmed faults, and repairs these faults if requested.
    async fn settle(&mut self) -> Result<()> {
        let suspects = std::mem::take(&mut self.suspects);
        let Some(newest) = suspects.iter().map(|one| one.seen_nanos).max() else {
            return Ok(());
        };
        let age = Duration::from_nanos(self.monotonic_nanos().saturating_sub(newest));
        tokio::time::sleep(SUSPECT_AGE.saturating_sub(age)).await;
        let mender = self.mender();
        // Repair rows before samples are examined, because a misplaced row may belong to a sample
        // that seems to have no row.
        let (samples, rows): (Vec<_>, Vec<_>) = suspects.into_iter().partition(|one| one.is_sample);
        for some in [rows, samples]
            .iter()
            .flat_map(|all| all.chunks(MAX_LOOKS_AT_ONCE))
        {
            let looks = some.iter().map(|suspect| mender.settle(suspect, self.mends));
            for fault in futures::future::try_join_all(looks).await? {
                self.faults.extend(fault);
            }
        }
        Ok(())
    }

    fn mender(&self) -> mending::Mender {
        mending::Mender {
            inner: Arc::clone(&self.inner),
            engine: self.engine.clone(),
        }
    }
}
