//! Removal of all messages of a shard, resolved or not: purge of a queue, and clearing of a deleted queue.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::future::join_all;
use recto_protocol::queues::{
    ClearAction, ClearEvent, Clearing, LogCommand, Purging, Released, StateResponse, Tenure,
};

use crate::error::{QueueError, QueueErrorKind, RESTORE_ALL, Result};
use crate::shard::Shard;
use crate::shards::Shards;

impl Shards {
    /// Purges the queue: its current messages can no longer be received. Returns the number of segments that
    /// contained messages.
    ///
    /// # Errors
    /// The store is unreachable, or stored data is damaged. Some messages may be purged; another call continues.
    pub async fn purge(&self) -> Result<usize> {
        let shards = self.clone();
        let purged = tokio::spawn(async move {
            let purges = shards.all().iter().map(Shard::purge);
            let purged: Vec<Result<usize>> = join_all(purges).await;
            purged.into_iter().sum()
        });
        purged.await.unwrap_or_else(|_| Err(QueueError::ended()))
    }
}

/// State machine of the protocol that this module executes: the purge of a segment, or the clearing of a
/// shard.
enum ClearingSteps {
    Purging(Purging),
    Clearing(Clearing),
}

impl Shard {
    async fn purge(self: &Arc<Self>) -> Result<usize> {
        self.serving().await?;
        let head = self.head.read().await?;
        for (number, live) in head.live() {
            let purging = Purging::new(self.address, *number, *live, self.context.protocol);
            self.run_clearing(ClearingSteps::Purging(purging)).await?;
        }
        Ok(head.live().len())
    }

    /// Removes the segments of a deleted queue's shard, so that another queue can use its registry
    /// slot. `deletion` is the epoch (version of the registry) at which the queue was deleted.
    pub(crate) async fn clear(self: &Arc<Self>, deletion: Tenure) -> Result<()> {
        for shard in self.all_shards.cached_at(self.address) {
            if shard.tenure < deletion {
                shard.queue.is_deleted.store(true, Ordering::Release);
                shard.queue.news.notify_waiters();
            }
        }
        let clearing = Clearing::new(self.address, deletion, self.context.protocol);
        self.run_clearing(ClearingSteps::Clearing(clearing)).await
    }

    async fn run_clearing(self: &Arc<Self>, mut machine: ClearingSteps) -> Result<()> {
        let mut event = ClearEvent::Begin;
        loop {
            let action = match &mut machine {
                ClearingSteps::Purging(purging) => purging.step(event),
                ClearingSteps::Clearing(clearing) => clearing.step(event),
            };
            event = match action {
                ClearAction::Head(command) => {
                    let response = self.head.call(command).await?;
                    ClearEvent::Head(response, self.head.read().await?)
                }
                ClearAction::Seal(number, live) => {
                    let segment = self.segment(number, live);
                    ClearEvent::Log(segment.log.call(LogCommand::Seal).await?)
                }
                ClearAction::Read(number, live) => {
                    let segment = self.segment(number, live);
                    let log = segment.log.read().await?;
                    ClearEvent::Read(log, segment.claims.read().await?)
                }
                ClearAction::Source(origin, command) => {
                    ClearEvent::Source(self.call_source(origin, command).await?)
                }
                ClearAction::State(number, live, command) => {
                    let segment = self.segment(number, live);
                    let response = segment.claims.call(command).await?;
                    if let StateResponse::Leaving(..) = response {
                        // A purge does not resolve a message whose move has begun. Complete the move in a
                        // separate task.
                        self.start_dead_lettering(&segment, live);
                    }
                    ClearEvent::State(response)
                }
                ClearAction::Find(number) => ClearEvent::Found(self.find(number).await?),
                ClearAction::Over(released) => return clearing_result(released),
            };
        }
    }
}

fn clearing_result(released: Released) -> Result<()> {
    match released {
        Released::Damaged => Err(QueueError::new(
            QueueErrorKind::Corrupt,
            "the tables of the queue are from different points in time: a segment was not purged",
        )
        .with_hint(RESTORE_ALL)),
        _ => Ok(()),
    }
}
