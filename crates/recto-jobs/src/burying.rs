//! Dead-lettering: messages that were received the maximum number of times go to the dead-letter queue. Moves that were
//! begun are completed, too. Polls do this in the segments that they read. The maintenance does it in segments that no
//! receiver polls.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use recto_protocol::queues::{Live, QueueName, Segment, Seq, Shard as ShardNumber};

use crate::error::{QueueError, QueueErrorKind, Result};
use crate::queues::Queue;
use crate::segment::LiveSegment;
use crate::shard::Shard;

/// Maximum number of segments that one maintenance run inspects, in all queues. The next run continues after them.
const MAX_LOOKS: usize = 512;
/// Number of messages after which a run inspects no more segments. The messages of a segment are moved together, so a
/// run may move more.
const MAX_BURIED: usize = 1_024;
/// Reason of a dead letter that no receiver gave back.
pub(crate) const NOT_GIVEN_BACK: &str = "it was received as often as it may be, and not acknowledged in time";

/// Progress of the maintenance runs, which go round all queues.
#[derive(Default)]
pub(crate) struct Burials {
    /// Start of the next run; `None`: the first queue.
    next: Option<Next>,
}

struct Next {
    queue: QueueName,
    unit: Option<QueueName>,
    shard: ShardNumber,
    segment: Segment,
}

/// Name of a queue, name of its work unit, and number of a shard. Runs go through the shards in this order.
type Names<'q> = (&'q QueueName, Option<&'q QueueName>, ShardNumber);

/// Work that is left for a run.
struct Left {
    looks: usize,
    moves: usize,
}

/// Messages that one task moves away from a segment, each with its number of attempts. No other task of this process
/// moves them at the same time.
struct Burying {
    segment: Arc<LiveSegment>,
    leaving: Vec<(Seq, u16)>,
}

impl Burials {
    /// Runs dead-lettering once in these queues, which are sorted by their names. The next run retries moves that fail
    /// now.
    pub(crate) async fn turn(&mut self, queues: &[Queue]) {
        let mut left = Left {
            looks: MAX_LOOKS,
            moves: MAX_BURIED,
        };
        let next = self.next.take();
        let all: Vec<_> = queues.iter().flat_map(shards).collect();
        let first = next
            .as_ref()
            .map_or(0, |next| all.partition_point(|(names, _)| *names < next.names()));
        let (before, behind) = all.split_at(first);
        for (names, shard) in behind.iter().chain(before) {
            let cut_off = next.as_ref().filter(|next| next.names() == *names);
            let from = cut_off.map(|next| next.segment);
            let ended = shard.bury_from(from.unwrap_or_default(), &mut left).await;
            if let Ok(Some(segment)) = ended {
                let (queue, unit, shard) = *names;
                self.next = Some(Next {
                    queue: queue.clone(),
                    unit: unit.cloned(),
                    shard,
                    segment,
                });
                return;
            }
        }
    }
}

fn shards(queue: &Queue) -> impl Iterator<Item = (Names<'_>, &Arc<Shard>)> {
    let (name, unit) = queue.names();
    let shards = queue.shards.all().iter();
    shards.map(move |shard| ((name, unit, shard.address.shard), shard))
}

impl Next {
    fn names(&self) -> Names<'_> {
        (&self.queue, self.unit.as_ref(), self.shard)
    }
}

impl Shard {
    /// Starts a task that moves the messages that were received the maximum number of times, and completes moves that
    /// were begun. After a failure, the next poll of the segment or the maintenance tries again.
    pub(crate) fn bury(self: &Arc<Self>, segment: &Arc<LiveSegment>, live: Live) {
        let Some(burying) = Burying::new(segment) else {
            return;
        };
        let shard = Arc::clone(self);
        tokio::spawn(async move { shard.bury_all(&burying, live).await });
    }

    /// Moves the messages that were received the maximum number of times, and completes moves that were begun. It does
    /// so in all segments from `from` on, as far as the limits of this run allow. Returns the segment at which the run
    /// stopped, if it did not reach the end.
    ///
    /// # Errors
    /// The store is unreachable.
    async fn bury_from(self: &Arc<Self>, from: Segment, left: &mut Left) -> Result<Option<Segment>> {
        let attempts = match self.common.options.get().dead_letters {
            Some(dead_letters) => dead_letters.attempts,
            // Without a dead-letter queue, the moves were begun by a redrive, and another process
            // may still be executing that redrive, so leave its moves alone.
            None if self.is_shared() => return Ok(None),
            None => u16::MAX,
        };
        let head = self.serving().await?;
        for (number, live) in head.live().range(from..) {
            if self.waits.keeps_all(*number, attempts) {
                continue;
            }
            if left.looks == 0 || left.moves == 0 {
                return Ok(Some(*number));
            }
            match self.bury_in(*number, *live, attempts, left).await {
                Err(error) if is_out_of_reach(&error) => return Err(error),
                // Continue with the other segments, even if the data of this segment is damaged: a
                // receive reports the damage.
                _ => {}
            }
        }
        Ok(None)
    }

    async fn bury_in(
        self: &Arc<Self>,
        number: Segment,
        live: Live,
        attempts: u16,
        left: &mut Left,
    ) -> Result<()> {
        left.looks -= 1;
        let segment = self.segment(number, live);
        // The state alone shows whether there is work, so do not read the log yet.
        segment.load_state(self.is_shared()).await?;
        if !self.is_shared() {
            segment.learn_keeps_all(attempts);
        }
        if segment.leaving().is_empty() {
            return Ok(());
        }
        self.load(&segment).await?;
        let Some(burying) = Burying::new(&segment) else {
            return Ok(());
        };
        left.moves = left.moves.saturating_sub(burying.leaving.len());
        self.bury_all(&burying, live).await
    }

    /// Moves the messages one after another. If a message cannot be moved, continues with the others, unless the store
    /// is unreachable.
    async fn bury_all(self: &Arc<Self>, burying: &Burying, live: Live) -> Result<()> {
        for (seq, attempts) in &burying.leaving {
            let buried = self.bury_one(&burying.segment, live, *seq, *attempts, None, NOT_GIVEN_BACK);
            match buried.await {
                Err(error) if is_out_of_reach(&error) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

impl Burying {
    /// Returns `None` if there is nothing to move, or if another task moves the messages.
    fn new(segment: &Arc<LiveSegment>) -> Option<Self> {
        let leaving = segment.leaving();
        if leaving.is_empty() || segment.is_burying.swap(true, Ordering::AcqRel) {
            return None;
        }
        let segment = Arc::clone(segment);
        Some(Self { segment, leaving })
    }
}

impl Drop for Burying {
    fn drop(&mut self) {
        self.segment.is_burying.store(false, Ordering::Release);
    }
}

/// Returns whether all further requests would probably fail, too.
pub(crate) fn is_out_of_reach(error: &QueueError) -> bool {
    use QueueErrorKind::{Closed, OutcomeUnknown, Timeout, Unavailable};
    matches!(error.kind(), Unavailable | Timeout | OutcomeUnknown | Closed)
}
