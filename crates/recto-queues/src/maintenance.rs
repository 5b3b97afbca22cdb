//! Periodic maintenance of all queues. It deletes expired messages, moves messages that were received too often to the
//! dead-letter queue, merges segments in shards that have very many, and completes interrupted work.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::watch;

use crate::queues::{Queues, QueuesInner};
use crate::transfer::dead_lettering::DeadLetteringProgress;
use crate::transfer::segment_merging;

/// Interval of the periodic maintenance of queues. An expired message may stay this much longer. So
/// may a message whose last attempt has ended.
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(30);

/// Starts the maintenance, which runs until the last handle of the queues is dropped. The maintenance has
/// only a weak reference to the queues, so that it does not keep them open.
pub(crate) fn begin(queues: &Arc<QueuesInner>, mut ended: watch::Receiver<()>) {
    let queues: Weak<QueuesInner> = Arc::downgrade(queues);
    let mut dead_lettering = DeadLetteringProgress::default();
    tokio::spawn(async move {
        while tokio::time::timeout(MAINTENANCE_INTERVAL, ended.changed())
            .await
            .is_err()
        {
            let Some(queues) = queues.upgrade() else { return };
            Queues(queues).run_maintenance(&mut dead_lettering).await;
        }
    });
}

impl Queues {
    /// Runs the maintenance of all queues once. A later run retries work that fails.
    async fn run_maintenance(&self, dead_lettering: &mut DeadLetteringProgress) {
        let _ = self.clear_deleted().await;
        let Ok(all) = self.list_with_units().await else {
            return;
        };
        self.record_time().await;
        for queue in &all {
            for shard in queue.shards.all() {
                let _ = shard.expire().await;
                shard.evict_idle();
            }
        }
        dead_lettering.run(&all).await;
        segment_merging::run(&all).await;
    }

    /// Runs the periodic maintenance once, immediately, for tests.
    #[cfg(feature = "testing")]
    pub async fn run_maintenance_now(&self) {
        self.run_maintenance(&mut DeadLetteringProgress::default()).await;
    }
}
