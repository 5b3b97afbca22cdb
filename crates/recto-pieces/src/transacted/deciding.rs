//! Commits a change of a range map together with the rows concerned, after all earlier requests are decided.

use std::sync::Arc;

use recto_store::{Cas, PartitionWrite, TransactionOutcome, WriteOptions};

use super::Transacted;
use super::locks::Alone;
use super::whole::Whole;
use crate::error::{PiecesError, PiecesErrorKind, Result};
use crate::place::{Deadline, Place};

impl Transacted {
    /// Returns the exclusive lock of a partition after all earlier requests are decided.
    pub(super) async fn alone(&self, place: &Place, deadline: Deadline) -> Result<Alone> {
        let mut alone = self.locks.alone(place, &self.environment, deadline).await?;
        if alone.is_in_doubt() {
            self.settle(&mut alone, place, deadline).await?;
        }
        Ok(alone)
    }

    /// Sends a request without effect. The store executes requests one after the other, so all earlier requests are
    /// decided when it ends.
    async fn settle(&self, alone: &mut Alone, place: &Place, deadline: Deadline) -> Result<()> {
        self.make().await?;
        let behind = self.tables.only_if(place, 0, Vec::new());
        let options = WriteOptions {
            timeout: self.request_time(deadline)?,
            ..WriteOptions::default()
        };
        match self.store.transact(vec![behind], Vec::new(), options).await? {
            TransactionOutcome::Applied | TransactionOutcome::NotApplied { .. } => {}
            TransactionOutcome::Unknown(error) | TransactionOutcome::Refused(error) => {
                return Err(error.into());
            }
            TransactionOutcome::Conflict(_) => return Err(conflict()),
        }
        if let Some(torn) = &*alone.torn {
            self.known.forget(&torn.id);
        }
        alone.settle();
        Ok(())
    }

    /// Returns the number of relaxed splits that will be durable after a write with these options, if it is sent from
    /// now on. Returns `None` if the write itself is relaxed, or if all splits are durable already.
    pub(crate) fn relaxed_cuts(&self, options: &WriteOptions) -> Option<u64> {
        self.known.relaxed().filter(|_| !options.relaxed)
    }

    /// Records that this number of relaxed splits is durable.
    pub(crate) fn are_durable(&self, cuts: Option<u64>) {
        if let Some(cuts) = cuts {
            self.known.durable(cuts);
        }
    }

    /// Commits a change of a range map together with the rows concerned. A relaxed change becomes durable with the next
    /// write that is not relaxed. Until then, reads use the range map that they read together with the rows.
    pub(super) async fn commit(
        &self,
        alone: &mut Alone,
        place: &Arc<Place>,
        whole: Whole,
        cas: Cas,
        plain: Vec<PartitionWrite>,
        (deadline, relaxed): (Deadline, bool),
    ) -> Result<()> {
        let id = &place.id;
        let options = WriteOptions {
            timeout: self.request_time(deadline)?,
            relaxed,
            ..WriteOptions::default()
        };
        let durable = self.relaxed_cuts(&options);
        // If the caller is canceled meanwhile, the next task finds this mark.
        *alone.torn = Some(Arc::clone(place));
        let before = self.known.find(id).map_or(1, |entry| entry.whole.next_bucket.0);
        self.known.begin(id);
        let outcome = self.store.transact(vec![cas], plain, options).await;
        let error = match outcome {
            Ok(TransactionOutcome::Applied) => {
                self.counters.made(whole.next_bucket.0.saturating_sub(before));
                self.known.changed(id, whole, relaxed);
                self.are_durable(durable);
                *alone.torn = None;
                return Ok(());
            }
            Ok(TransactionOutcome::Unknown(error)) => {
                self.settle(alone, place, deadline).await?;
                return Err(error.into());
            }
            Ok(TransactionOutcome::Refused(error)) | Err(error) => error.into(),
            Ok(TransactionOutcome::Conflict(_)) => conflict(),
            Ok(TransactionOutcome::NotApplied { .. }) => {
                self.known.forget(id);
                *alone.torn = None;
                return Err(conflict());
            }
        };
        self.known.unchanged(id);
        *alone.torn = None;
        Err(error)
    }

    /// Commits writes with any effect on the range map, which is then read again. Returns whether they were applied.
    /// They are not applied if a condition does not hold.
    pub(super) async fn commit_as_is(
        &self,
        alone: &mut Alone,
        place: &Arc<Place>,
        conditional: Vec<Cas>,
        plain: Vec<PartitionWrite>,
        deadline: Deadline,
    ) -> Result<bool> {
        let options = WriteOptions {
            timeout: self.request_time(deadline)?,
            ..WriteOptions::default()
        };
        let durable = self.relaxed_cuts(&options);
        *alone.torn = Some(Arc::clone(place));
        self.known.begin(&place.id);
        let outcome = self.store.transact(conditional, plain, options).await;
        if let Ok(TransactionOutcome::Unknown(error)) = outcome {
            self.settle(alone, place, deadline).await?;
            return Err(error.into());
        }
        self.known.forget(&place.id);
        *alone.torn = None;
        match outcome? {
            TransactionOutcome::Applied => {
                self.are_durable(durable);
                Ok(true)
            }
            TransactionOutcome::NotApplied { .. } | TransactionOutcome::Conflict(_) => Ok(false),
            TransactionOutcome::Unknown(error) | TransactionOutcome::Refused(error) => Err(error.into()),
        }
    }
}

fn conflict() -> PiecesError {
    let message = "another process changed a range map of buckets: nothing was done";
    PiecesError::new(PiecesErrorKind::Conflict, message).with_hint("let only one process write to this store")
}
