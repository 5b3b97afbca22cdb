//! Retention: resolves messages that are older than the retention of their queue, so that no
//! receiver gets them.

use std::sync::{Arc, MutexGuard, PoisonError};

use recto_protocol::queues::{
    HeadCommand, Live, LogCommand, LogResponse, Micros, Segment, StateCommand, expired_by, is_expired,
};

use crate::error::{QueueErrorKind, Result};
use crate::shard::segment::LiveSegment;
use crate::shard::{FirstDue, Shard};

impl Shard {
    /// Resolves the messages of the shard that exceed the retention of the queue. Messages that a receiver
    /// has or that are being moved stay. A segment without other messages is sealed and released.
    ///
    /// # Errors
    /// The store is unreachable. Another call continues the work.
    pub(crate) async fn expire(self: &Arc<Self>) -> Result<()> {
        self.compare_clocks().await;
        let Some(by) = self.expired_by() else {
            return Ok(());
        };
        let head = self.serving().await?;
        self.first_due()
            .retain(|number, _| head.live().contains_key(number));
        for (number, live) in head.live() {
            let is_younger = self.first_due().get(number).is_some_and(|first| *first > by);
            if is_younger {
                continue;
            }
            match self.expire_in(*number, *live, by).await {
                // Continue with the other segments if the data of one segment is damaged: a receive
                // reports the damage.
                Err(error) if error.kind() != QueueErrorKind::Corrupt => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Compares the local clock with the store's clocks if the queue has a retention.
    async fn compare_clocks(&self) {
        if self.queue.options.get().retention_seconds.is_some() {
            self.context.compare_clocks().await;
        }
    }

    /// Returns the retention bound: messages whose due time is at or before the bound have expired.
    /// `None`: the queue has no retention, or the local clock is not trusted.
    fn expired_by(&self) -> Option<Micros> {
        let retention = self.queue.options.get().retention_seconds?;
        if !self.context.may_expire(retention) {
            return None;
        }
        Some(expired_by(retention, self.context.environment.now_micros()))
    }

    /// Resolves the expired messages of a segment during a poll. Polls do this because single
    /// commands run no maintenance, and because an expired message would block its group in an
    /// ordered queue.
    pub(crate) async fn expire_polled(
        self: &Arc<Self>,
        segment: &Arc<LiveSegment>,
        live: Live,
    ) -> Result<()> {
        self.compare_clocks().await;
        match self.expired_by() {
            Some(by) if segment.may_have_expired(by) => self.expire_all(segment, live, by).await,
            _ => Ok(()),
        }
    }

    async fn expire_in(self: &Arc<Self>, number: Segment, live: Live, by: Micros) -> Result<()> {
        let segment = self.segment(number, live);
        self.load(&segment).await?;
        self.expire_all(&segment, live, by).await
    }

    async fn expire_all(self: &Arc<Self>, segment: &Arc<LiveSegment>, live: Live, by: Micros) -> Result<()> {
        let number = segment.number;
        let may_go = segment.with_log(|log| is_expired(log, number, by));
        if live.count.is_none() && may_go == Some(true) {
            self.seal(segment).await?;
        }
        let expired = segment.count_expired(by);
        if expired > 0 {
            segment.claims.call(StateCommand::Expire { by }).await?;
            self.queue.counters.expired.add(expired);
            // Notify receivers, because later messages of the expired messages' groups may be
            // available now.
            self.notify_receivers();
        }
        self.release_if_done(segment).await;
        self.learn_first_due(segment);
        Ok(())
    }

    /// Seals the segment and records the seal in the head (manifest of the shard), so that further
    /// messages go to the next segment.
    pub(crate) async fn seal(&self, segment: &LiveSegment) -> Result<()> {
        if let LogResponse::Sealed(count) = segment.log.call(LogCommand::Seal).await? {
            let segment = segment.number;
            self.head.call(HeadCommand::Sealed { segment, count }).await?;
        }
        Ok(())
    }

    /// Records when the first message of a sealed segment can expire. The maintenance does not
    /// check the segment before that time.
    fn learn_first_due(&self, segment: &LiveSegment) {
        if segment.with_log(|log| log.sealed().is_some()) == Some(true) {
            let first = segment.first_due().unwrap_or(Micros::MAX);
            self.first_due().insert(segment.number, first);
        }
    }

    fn first_due(&self) -> MutexGuard<'_, FirstDue> {
        self.first_due.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
