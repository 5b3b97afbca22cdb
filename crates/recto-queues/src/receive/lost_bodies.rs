//! Removal of messages whose bodies are missing or damaged. Otherwise, receivers would get such
//! messages again and again.

use std::sync::Arc;

use recto_protocol::queues::{Delivery, Live, StateCommand, StateResponse};

use crate::error::Result;
use crate::shard::Shard;
use crate::shard::segment::LiveSegment;
use crate::transfer::BODY_LOST;

impl Shard {
    /// Starts a task that resolves messages whose bodies are lost. They move to the dead-letter queue, with
    /// the lost body as the reason, or are deleted if the queue has none. After a failure, the next receive
    /// of the message tries again.
    ///
    /// A message that another process resolved meanwhile is not lost: a rehoming copies the bodies of
    /// unresolved messages only. The state must be read after the bodies. A message that is unresolved then
    /// was unresolved during each earlier rehoming.
    pub(crate) fn resolve_lost(
        self: &Arc<Self>,
        segment: &Arc<LiveSegment>,
        live: Live,
        mut lost: Vec<Delivery>,
    ) {
        let (shard, segment) = (Arc::clone(self), Arc::clone(segment));
        tokio::spawn(async move {
            let Ok(state) = segment.claims.read().await else {
                return;
            };
            lost.retain(|delivery| state.segment() == segment.number && !state.resolved().has(delivery.seq));
            for delivery in lost {
                let _ = shard.resolve_lost_message(&segment, live, delivery).await;
            }
            shard.release_if_done(&segment).await;
        });
    }

    async fn resolve_lost_message(
        self: &Arc<Self>,
        segment: &LiveSegment,
        live: Live,
        delivery: Delivery,
    ) -> Result<()> {
        let Delivery {
            seq, claim, attempts, ..
        } = delivery;
        if self.queue.options.get().dead_letters.is_some() {
            let moving = self.dead_letter(segment, live, seq, attempts, Some(claim), BODY_LOST);
            return moving.await.map(drop);
        }
        let removed = segment.claims.call(StateCommand::Remove(seq)).await?;
        self.queue
            .counters
            .bodies_lost
            .add(usize::from(removed == StateResponse::Done));
        self.notify_receivers();
        Ok(())
    }
}
