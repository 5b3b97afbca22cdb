//! Consistency check of buckets: each row is in the bucket that the range map names, range maps are undamaged, and
//! samples match their rows.
//!
//! A check goes through a table in stages and steps, so that an interrupted check can continue from its position. The
//! stages are:
//!
//! 1. the range maps
//! 2. the registry of time buckets
//! 3. the existing buckets: rebuilds range maps that are damaged or lost, and restores missing entries of the registry
//! 4. all stored rows, in the store's own order, with their samples
//! 5. samples of buckets without rows
//!
//! Because other processes write during the check, each suspected fault is examined again some time later, by the range
//! map at that time. A confirmed fault is reported, and repaired if the caller requested repairs.
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
use crate::transacted::Transacted;

/// Engine of the buckets of a store.
#[derive(Clone)]
pub(crate) enum Engine {
    /// Engine with samples.
    Pieces(PieceStore),
    /// Engine with transactions.
    Transacted(Transacted),
}

/// Check of the buckets of a table under way.
pub struct BucketCheck {
    inner: Arc<dyn Store>,
    bucketed: Arc<Bucketed>,
    engine: Engine,
    /// True if faults are repaired.
    mends: bool,
    position: Position,
    /// Range maps that were read.
    known: Known,
    /// Partitions without a usable range map, with their buckets.
    ruins: BTreeMap<Vec<u8>, Ruin>,
    /// Suspected faults, which are examined again.
    suspects: Vec<Suspect>,
    faults: Vec<Fault>,
}

/// Suspected fault.
#[derive(Debug, Clone)]
struct Suspect {
    place: Arc<Place>,
    bucket: Bucket,
    shard: Shard,
    key: Key,
    clustering: Cells,
    /// True if the fault is a sample without a visible row.
    is_sample: bool,
    /// Time of the suspicion, by the monotonic clock.
    seen_nanos: u64,
}

/// Result of one step of a check.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CheckStep {
    /// Number of rows of the table that were read.
    pub rows: u64,
    /// Number of rows and partitions of all tables that were read.
    pub read: u64,
    /// Number of partitions of the store that begin among these rows.
    pub buckets: u64,
    /// Faults that were found.
    pub faults: Vec<Fault>,
    /// Position from which another check can continue, or `None` if faults before it are not reported yet.
    pub position: Option<Vec<u8>>,
    /// True if the check is complete.
    pub is_over: bool,
}

impl BucketCheck {
    /// Begins a check, or continues an interrupted one.
    ///
    /// # Errors
    /// The position is invalid.
    pub(crate) fn new(
        inner: Arc<dyn Store>,
        bucketed: Arc<Bucketed>,
        engine: Engine,
        mends: bool,
        position: Option<&[u8]>,
    ) -> std::result::Result<Self, StoreError> {
        let position = match position {
            None => Position::default(),
            Some(bytes) => Position::read(bytes).ok_or_else(position::damaged)?,
        };
        if let Engine::Pieces(pieces) = &engine
            && mends
        {
            // Forget the registry entries that this process remembers: some may no longer exist,
            // and the process would not write them again.
            pieces.registered.forget(bucketed.pieced.table().name());
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

    /// Checks up to `rows` further rows or partitions.
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
            self.position = self.position.stage.next(self.samples_there()).begun();
        }
        step.is_over = self.position.stage == Stage::Over;
        let is_told = self.suspects.is_empty() && self.ruins.is_empty();
        step.position = is_told.then(|| self.position.written());
        step.faults = std::mem::take(&mut self.faults);
        Ok(step)
    }

    /// Returns whether the engine has samples.
    fn samples_there(&self) -> bool {
        matches!(self.engine, Engine::Pieces(_))
    }

    fn deadline(&self) -> Deadline {
        match &self.engine {
            Engine::Pieces(pieces) => pieces.deadline(MAX_STEP_TIME),
            Engine::Transacted(engine) => engine.deadline(MAX_STEP_TIME),
        }
    }

    fn monotonic_nanos(&self) -> u64 {
        match &self.engine {
            Engine::Pieces(pieces) => pieces.environment.monotonic_nanos(),
            Engine::Transacted(engine) => engine.monotonic_nanos(),
        }
    }

    /// Returns whether a registry lists the existing buckets.
    fn registers(&self) -> bool {
        matches!(self.engine, Engine::Pieces(_)) && self.bucketed.pieced.times.is_some()
    }

    fn table(&self) -> &Arc<Table> {
        self.bucketed.pieced.table()
    }

    /// Sends a request to the store, and retries it if the store does not answer.
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

    /// Returns whether to examine suspected faults before the stage ends: to limit their number, and to report a
    /// position from time to time.
    fn is_to_settle(&self) -> bool {
        let Some(oldest) = self.suspects.first() else {
            return false;
        };
        let age = Duration::from_nanos(self.monotonic_nanos().saturating_sub(oldest.seen_nanos));
        let is_ripe = !self.samples_there() || age > 2 * SUSPECT_AGE;
        is_ripe || self.suspects.len() >= MAX_SUSPECTS
    }

    /// Examines suspected faults after concurrent writers have finished. Reports confirmed faults, and repairs them if
    /// requested.
    async fn settle(&mut self) -> Result<()> {
        let suspects = std::mem::take(&mut self.suspects);
        let Some(newest) = suspects.iter().map(|one| one.seen_nanos).max() else {
            return Ok(());
        };
        if self.samples_there() {
            let age = Duration::from_nanos(self.monotonic_nanos().saturating_sub(newest));
            tokio::time::sleep(SUSPECT_AGE.saturating_sub(age)).await;
        }
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
