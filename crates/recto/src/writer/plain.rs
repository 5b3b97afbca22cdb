//! Plain writes: writes without conditions. A process that adds a view waits until all plain writes
//! that do not maintain the view have ended.

use std::sync::Arc;
use std::time::Duration;

use recto_protocol::views::Generation;

use super::common::Common;
use super::process::Process;
use super::{Joining, closed, no_lease};
use crate::error::Result;

/// Plain write (write without conditions) that is running. It uses the schema that was cached when
/// it began, or a newer one. If it is dropped before [`ended`](Self::ended) is called, its outcome
/// is unknown, and it counts as running for some time.
pub(crate) struct PlainWriting {
    common: Arc<Common>,
    process: Arc<Process>,
    generation: Generation,
    has_ended: bool,
}

impl PlainWriting {
    /// Waits until this process is registered and has its lease, and begins a plain write.
    ///
    /// # Errors
    /// The process does not get a lease in time, or the store is closed.
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

    /// Checks that this process has a lease (a permission to write), before a write is sent or
    /// after it was applied. A lease after the write proves that no other process had declared this
    /// process dead before. A process that adds a view has therefore waited for the write.
    ///
    /// # Errors
    /// The process has no lease.
    pub(crate) fn check_lease(&self) -> Result<()> {
        if self.process.has_lease(&self.common) {
            return Ok(());
        }
        Err(no_lease())
    }

    /// Waits at most `time` until this process has its lease, the permission to write. Returns the
    /// remaining time.
    ///
    /// # Errors
    /// The process does not get a lease in time, or can no longer get one.
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

    /// Returns whether the writes of `earlier` remain valid for `self`, which began after the lease
    /// of `earlier` ended. They remain valid if the registration or the generation of the schema
    /// has not changed.
    pub(crate) fn goes_on(&self, earlier: &Self) -> bool {
        Arc::ptr_eq(&self.process, &earlier.process) || self.generation == earlier.generation
    }

    /// Reports that the outcome of the write is known, so that it no longer counts as running.
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
