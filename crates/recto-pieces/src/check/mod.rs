//! Whether buckets are as they should be: each row where its directory says, directories whole, samples as their rows.
//!
//! A table is looked at in stages, step by step, so that who goes on with it later does so where it was stopped: its directories; the
//! registry of buckets by time; the buckets that there are, of which directories are made anew where they are damaged or gone, and entries of the
//! registry; all rows as they lie, in the store's own order, beside their samples; and samples of buckets without rows. What seems wrong is
//! looked at once more, some time later, by the directory as it is then, since others write meanwhile; what is wrong then is told, and mended if that
//! is asked for.
//!
//! | module | holds |
//! |---|---|
//! | `fault` | [`Fault`]: what is wrong |
//! | `judge` | whether a row, or a sample, is right where it lies |
//! | `look` | what there is of one key, read at once |
//! | `homes` | where the rows of a partition belong |
//! | `directories` | the stages of directories and buckets |
//! | `registry` | the stage of the registry, and buckets that it does not have |
//! | `remains` | a directory as it is stored, damaged or not |
//! | `rows` | the stage of rows |
//! | `orphans` | the stage of samples without rows |
//! | `mending` | what is wrong is mended |
//! | `position` | how far it is, as bytes |

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

/// What runs buckets of a store.
#[derive(Clone)]
pub(crate) enum Engine {
    /// By samples.
    Pieces(PieceStore),
    /// By transactions.
    Transacted(Transacted),
}

/// A table whose buckets are being checked.
pub struct BucketCheck {
    inner: Arc<dyn Store>,
    bucketed: Arc<Bucketed>,
    engine: Engine,
    /// Whether what is wrong is mended.
    mends: bool,
    position: Position,
    /// Directories that were read.
    known: Known,
    /// Partitions without a directory that can be gone by, and the buckets they have.
    ruins: BTreeMap<Vec<u8>, Ruin>,
    /// What seems wrong, and is looked at once more.
    suspects: Vec<Suspect>,
    faults: Vec<Fault>,
}

/// Something that seems wrong.
#[derive(Debug, Clone)]
struct Suspect {
    place: Arc<Place>,
    bucket: Bucket,
    shard: Shard,
    key: Key,
    clustering: Cells,
    /// Whether there is a sample, and no row was seen.
    is_sample: bool,
    /// By the clock that never goes back.
    seen_nanos: u64,
}

/// What a step of a check did.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CheckStep {
    /// Rows of the table that were read.
    pub rows: u64,
    /// Rows and partitions of all tables that were.
    pub read: u64,
    /// Partitions that begin among them.
    pub buckets: u64,
    /// What is wrong.
    pub faults: Vec<Fault>,
    /// Where who is stopped goes on, if all before that is told.
    pub position: Option<Vec<u8>>,
    /// Whether all was looked at.
    pub is_over: bool,
}

impl BucketCheck {
    /// From the beginning, or from where another was stopped.
    ///
    /// # Errors
    /// The position is none.
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
            // What this process knows may be of entries that are gone.
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

    /// Looks at so many rows more, or as many partitions.
    ///
    /// # Errors
    /// The store cannot be read, or written, in time: what was mended stays so.
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

    /// Whether there are samples beside rows.
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

    /// Whether a registry says which buckets there are.
    fn registers(&self) -> bool {
        matches!(self.engine, Engine::Pieces(_)) && self.bucketed.pieced.times.is_some()
    }

    fn table(&self) -> &Arc<Table> {
        self.bucketed.pieced.table()
    }

    /// Asks the store, once more if it does not answer.
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

    /// Whether what seems wrong is looked at before the stage is over: so that it is not too much, and it is told now and then where to go
    /// on.
    fn is_to_settle(&self) -> bool {
        let Some(oldest) = self.suspects.first() else {
            return false;
        };
        let age = Duration::from_nanos(self.monotonic_nanos().saturating_sub(oldest.seen_nanos));
        let is_ripe = !self.samples_there() || age > 2 * SUSPECT_AGE;
        is_ripe || self.suspects.len() >= MAX_SUSPECTS
    }

    /// Looks at what seems wrong, when whoever was writing it is done with that: tells what is wrong, and mends it.
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
        // A row that lies astray may be the one that a sample is of.
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
