//! Dead-lettering: moves messages that were received the maximum number of times to the dead-letter
//! queue, and completes interrupted moves. A poll starts the moves out of each segment that it
//! reads. The maintenance (periodic task) moves messages out of segments that no receiver polls.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use recto_protocol::queues::{Live, QueueName, Segment, Seq, Shard as ShardNumber};

use crate::error::{QueueError, QueueErrorKind, Result};
use crate::queue::Queue;
use crate::shard::Shard;
use crate::shard::segment::LiveSegment;
use crate::transfer::RunLimits;

/// Error text of a dead letter whose last receiver let its visibility timeout end.
pub(crate) const NOT_ACKNOWLEDGED: &str =
    "it was received as often as it may be, and not acknowledged in time";

/// Progress of dead-lettering by the maintenance: where the next run starts. Each run continues
/// where the previous run stopped, over all queues.
#[derive(Default)]
pub(crate) struct DeadLetteringProgress {
    /// Shard and segment at which the next run starts. `None`: it starts at the first queue.
    next: Option<ResumePoint>,
}

struct ResumePoint {
    queue: QueueName,
    unit: Option<QueueName>,
    shard: ShardNumber,
    segment: Segment,
}

/// Sort key of a shard in the order of the maintenance runs: name of the queue, name of its work
/// unit (temporary queue), and number of the shard.
type ShardKey<'q> = (&'q QueueName, Option<&'q QueueName>, ShardNumber);

/// Messages that one task moves out of a segment: the index and the number of attempts of each.
/// While this value exists, no other task of this process moves messages out of the segment.
struct SegmentTransfers {
    segment: Arc<LiveSegment>,
    leaving: Vec<(Seq, u16)>,
}

impl DeadLetteringProgress {
    /// Moves dead letters once in `queues`, which are sorted by name. Moves that fail are tried
    /// again by the next run.
    pub(crate) async fn run(&mut self, queues: &[Queue]) {
        let mut limits = RunLimits::default();
        let next = self.next.take();
        let all: Vec<_> = queues.iter().flat_map(shards).collect();
        let first = next
            .as_ref()
            .map_or(0, |next| all.partition_point(|(names, _)| *names < next.names()));
        let (before, behind) = all.split_at(first);
        for (names, shard) in behind.iter().chain(before) {
            let resumed = next.as_ref().filter(|next| next.names() == *names);
            let from = resumed.map(|next| next.segment);
            let ended = shard
                .dead_letter_from(from.unwrap_or_default(), &mut limits)
                .await;
            if let Ok(Some(segment)) = ended {
                let (queue, unit, shard) = *names;
                self.next = Some(ResumePoint {
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

fn shards(queue: &Queue) -> impl Iterator<Item = (ShardKey<'_>, &Arc<Shard>)> {
    let (name, unit) = queue.names();
    let shards = queue.shards.all().iter();
    shards.map(move |shard| ((name, unit, shard.address.shard), shard))
}

impl ResumePoint {
    fn names(&self) -> ShardKey<'_> {
        (&self.queue, self.unit.as_ref(), self.shard)
    }
}

impl Shard {
    /// Starts a task that moves the exhausted messages of the segment to the dead-letter queue, and
    /// completes interrupted moves. A message is exhausted when it was received the maximum number
    /// of times. After a failure, the next poll of the segment or the maintenance tries again.
    pub(crate) fn start_dead_lettering(self: &Arc<Self>, segment: &Arc<LiveSegment>, live: Live) {
        let Some(transfers) = SegmentTransfers::new(segment) else {
            return;
        };
        let shard = Arc::clone(self);
        tokio::spawn(async move { shard.dead_letter_all(&transfers, live).await });
    }

    /// Moves exhausted messages to the dead-letter queue and completes interrupted moves, in the
    /// segments of the shard from `from` on. `limits` has the remaining limits of the maintenance
    /// run. Returns the segment at which a limit stopped the moves, or `None` if no segments
    /// remain.
    ///
    /// # Errors
    /// The store is unreachable.
    async fn dead_letter_from(
        self: &Arc<Self>,
        from: Segment,
        limits: &mut RunLimits,
    ) -> Result<Option<Segment>> {
        let attempts = match self.queue.options.get().dead_letters {
            Some(dead_letters) => dead_letters.attempts,
            // Without a dead-letter queue, unfinished moves belong to a redrive (a move of dead
            // letters back to a queue). Another process may still be executing that redrive, so
            // leave its moves alone.
            None if self.is_shared() => return Ok(None),
            None => u16::MAX,
        };
        let head = self.serving().await?;
        for (number, live) in head.live().range(from..) {
            if self.idle_segments.is_without_moves(*number, attempts) {
                continue;
            }
            if limits.is_reached() {
                return Ok(Some(*number));
            }
            match self.dead_letter_in(*number, *live, attempts, limits).await {
                Err(error) if is_unreachable(&error) => return Err(error),
                // Continue with the other segments, even if the data of one segment is damaged: a
                // receive reports the damage.
                _ => {}
            }
        }
        Ok(None)
    }

    async fn dead_letter_in(
        self: &Arc<Self>,
        number: Segment,
        live: Live,
        attempts: u16,
        limits: &mut RunLimits,
    ) -> Result<()> {
        limits.segments -= 1;
        let segment = self.segment(number, live);
        // The state of the segment shows whether there are messages to move, so do not read the log
        // yet.
        segment.load_claims(self.is_shared()).await?;
        if !self.is_shared() {
            segment.record_without_moves(attempts);
        }
        if segment.leaving().is_empty() {
            return Ok(());
        }
        self.load(&segment).await?;
        let Some(transfers) = SegmentTransfers::new(&segment) else {
            return Ok(());
        };
        limits.messages = limits.messages.saturating_sub(transfers.leaving.len());
        self.dead_letter_all(&transfers, live).await
    }

    /// Moves the messages one after another to the dead-letter queue. If a message cannot be moved, continues
    /// with the next, unless the store is unreachable.
    async fn dead_letter_all(self: &Arc<Self>, transfers: &SegmentTransfers, live: Live) -> Result<()> {
        for (seq, attempts) in &transfers.leaving {
            let dead_lettered =
                self.dead_letter(&transfers.segment, live, *seq, *attempts, None, NOT_ACKNOWLEDGED);
            match dead_lettered.await {
                Err(error) if is_unreachable(&error) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

impl SegmentTransfers {
    /// Collects the messages to move, and reserves the segment for the calling task. Returns `None`
    /// if there are no messages to move, or if another task moves them already.
    fn new(segment: &Arc<LiveSegment>) -> Option<Self> {
        let leaving = segment.leaving();
        if leaving.is_empty() || segment.has_transfers.swap(true, Ordering::AcqRel) {
            return None;
        }
        let segment = Arc::clone(segment);
        Some(Self { segment, leaving })
    }
}

impl Drop for SegmentTransfers {
    fn drop(&mut self) {
        self.segment.has_transfers.store(false, Ordering::Release);
    }
}

/// Returns whether the error shows that the store is unreachable, so that further requests would probably
/// fail, too.
pub(crate) fn is_unreachable(error: &QueueError) -> bool {
    use QueueErrorKind::{Closed, OutcomeUnknown, Timeout, Unavailable};
    matches!(error.kind(), Unavailable | Timeout | OutcomeUnknown | Closed)
}
