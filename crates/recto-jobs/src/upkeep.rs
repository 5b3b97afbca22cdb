//! What is done for all queues without anybody asking: what has expired goes, what was received too often is a dead letter, what is
//! left of very many segments comes together, and what was not done to the end is done.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::watch;

use crate::burying::Burials;
use crate::gathering;
use crate::queues::{Inner, Queues};

/// How long it is between two times. A message may stay for so much longer than its queue keeps it, or has it received again.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(30);

/// Ends the upkeep when it is dropped.
pub(crate) struct Upkeep {
    _open: watch::Sender<()>,
}

impl Upkeep {
    /// What ends it, and what hears of that.
    pub(crate) fn new() -> (Self, watch::Receiver<()>) {
        let (open, ended) = watch::channel(());
        (Self { _open: open }, ended)
    }
}

/// Does that until nobody has these queues any more: it does not keep them open itself.
pub(crate) fn begin(queues: &Arc<Inner>, mut ended: watch::Receiver<()>) {
    let queues: Weak<Inner> = Arc::downgrade(queues);
    let mut burials = Burials::default();
    tokio::spawn(async move {
        while tokio::time::timeout(UPKEEP_INTERVAL, ended.changed())
            .await
            .is_err()
        {
            let Some(queues) = queues.upgrade() else { return };
            Queues(queues).keep_up(&mut burials).await;
        }
    });
}

impl Queues {
    /// Does it once. What cannot be done now is next time.
    async fn keep_up(&self, burials: &mut Burials) {
        let _ = self.clear_deleted().await;
        let Ok(all) = self.list_with_units().await else {
            return;
        };
        self.record_time().await;
        for queue in &all {
            for shard in queue.shards.all() {
                let _ = shard.expire().await;
                shard.forget_idle();
            }
        }
        burials.turn(&all).await;
        gathering::turn(&all).await;
    }

    /// Does once what the upkeep does at intervals.
    #[cfg(feature = "testing")]
    pub async fn keep_up_now(&self) {
        self.keep_up(&mut Burials::default()).await;
    }
}
