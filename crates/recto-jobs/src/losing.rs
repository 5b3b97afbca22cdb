//! Messages whose bodies are lost: what else would come again and again is done with.

use std::sync::Arc;

use recto_protocol::queues::{Delivery, Live, StateAnswer, StateWish};

use crate::error::Result;
use crate::moving::BODY_LOST;
use crate::segment::LiveSegment;
use crate::shard::Shard;

impl Shard {
    /// Is done with messages whose bodies are lost, by a task of its own: they are dead letters that say so, or gone. What cannot
    /// be done now is when they are received again.
    pub(crate) fn lose(self: &Arc<Self>, segment: &Arc<LiveSegment>, live: Live, lost: Vec<Delivery>) {
        let (shard, segment) = (Arc::clone(self), Arc::clone(segment));
        tokio::spawn(async move {
            for delivery in lost {
                let _ = shard.lose_one(&segment, live, delivery).await;
            }
            shard.release_if_done(&segment).await;
        });
    }

    async fn lose_one(self: &Arc<Self>, segment: &LiveSegment, live: Live, delivery: Delivery) -> Result<()> {
        let Delivery {
            seq, claim, attempts, ..
        } = delivery;
        if self.common.options.get().dead_letters.is_some() {
            let moving = self.bury_one(segment, live, seq, attempts, Some(claim), BODY_LOST);
            return moving.await.map(drop);
        }
        let time = self.queues.request_timeout;
        let removed = segment.state.ask_one(StateWish::Remove(seq), time).await?;
        self.common
            .counters
            .bodies_lost
            .add(usize::from(removed == StateAnswer::Done));
        self.tells();
        Ok(())
    }
}
