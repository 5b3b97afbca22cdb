//! Plain writes, which nothing decides: whoever adds a view waits until those are over that do not know it.

use std::sync::Arc;
use std::time::Duration;

use recto_protocol::views::Generation;

use super::common::Common;
use super::process::Process;
use super::{Joining, closed, no_lease};
use crate::error::Result;

/// A plain write under way, by the schema that was held when it began or by a newer one. Dropped before it is said that it
/// [ended](Self::ended), it may still be on its way, and counts as under way for a while.
pub(crate) struct PlainWriting {
    common: Arc<Common>,
    process: Arc<Process>,
    generation: Generation,
    has_ended: bool,
}

impl PlainWriting {
    /// Begins one as soon as this process is registered and has its lease.
    ///
    /// # Errors
    /// It has none in time, or the store is closed.
    pub(super) async fn begin(joining: &Joining, time: Duration) -> Result<Self> {
        let common = &joining.common;
        let process = joining.leased(common.deadline(time)).await?;
        Ok(Self {
            common: Arc::clone(common),
            generation: process.began(common).ok_or_else(closed)?,
            process,
            has_ended: false,
        })
    }

    /// Refuses to have it sent when this process has no lease. If it has one after it was applied, nobody took this process
    /// for dead until then: whoever adds a view has waited for it.
    ///
    /// # Errors
    /// It has none.
    pub(crate) fn check_lease(&self) -> Result<()> {
        if self.process.has_lease(&self.common) {
            return Ok(());
        }
        Err(no_lease())
    }

    /// Waits for the lease, for so long at most: how much of that is left.
    ///
    /// # Errors
    /// It has none in time, or cannot hope for one.
    pub(crate) async fn leased(&self, time: Duration) -> Result<Duration> {
        let deadline = self.common.deadline(time);
        tokio::select! {
            biased;
            () = self.process.lost() => Err(no_lease()),
            leased = self.process.leased_soon(&self.common) => leased,
            () = tokio::time::sleep(time) => Err(no_lease()),
        }?;
        Ok(self.common.left(deadline))
    }

    /// Whether `self`, which begins after the lease of `earlier` was over, needs not do again what that one did.
    pub(crate) fn goes_on(&self, earlier: &Self) -> bool {
        Arc::ptr_eq(&self.process, &earlier.process) || self.generation == earlier.generation
    }

    /// What became of it is known.
    pub(crate) fn ended(mut self) {
        self.has_ended = true;
    }
}

impl Drop for PlainWriting {
    fn drop(&mut self) {
        if self.has_ended {
            self.process.ended(self.generation);
        } else {
            self.process
                .doubted(self.generation, self.common.continuous_micros());
        }
    }
}
