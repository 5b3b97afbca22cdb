//! Messages that were received as often as they may be go to the dead letters, and moves that were begun are gone on with: when
//! somebody looks at their segment, and by the upkeep where nobody does.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use recto_protocol::queues::{Live, QueueName, Segment, Seq, Shard as ShardNumber};

use crate::error::{QueueError, QueueErrorKind, Result};
use crate::queues::Queue;
use crate::segment::LiveSegment;
use crate::shard::Shard;

/// Segments that the upkeep looks at in a turn, of all queues; the turn that follows goes on behind them.
const MAX_LOOKS: usize = 512;
/// Number of messages after which it looks at no more segments in a turn. Those of one segment go together, so that more may be moved.
const MAX_BURIED: usize = 1_024;
/// What is said of a message that nobody gave back.
pub(crate) const NOT_GIVEN_BACK: &str = "it was received as often as it may be, and not acknowledged in time";

/// The upkeep's turns, which go round all queues.
#[derive(Default)]
pub(crate) struct Burials {
    /// Where the next one begins; none: at the first queue.
    next: Option<Next>,
}

struct Next {
    queue: QueueName,
    unit: Option<QueueName>,
    shard: ShardNumber,
    segment: Segment,
}

/// A queue's name, its unit's, and which of its shards: turns go in that order.
type Names<'q> = (&'q QueueName, Option<&'q QueueName>, ShardNumber);

/// What a turn may do yet.
struct Left {
    looks: usize,
    moves: usize,
}

/// Messages of a segment that one task moves away, and no other of this process meanwhile: with the attempts of each.
struct Burying {
    segment: Arc<LiveSegment>,
    leaving: Vec<(Seq, u16)>,
}

impl Burials {
    /// Does that in these queues, which are sorted by their names. What cannot be moved now is next time.
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
    /// Has what was received too often moved, and what somebody else began to move, by a task of its own. What cannot be moved
    /// now is by who next looks at it, or by the upkeep.
    pub(crate) fn bury(self: &Arc<Self>, segment: &Arc<LiveSegment>, live: Live) {
        let Some(burying) = Burying::new(segment) else {
            return;
        };
        let shard = Arc::clone(self);
        tokio::spawn(async move { shard.bury_all(&burying, live).await });
    }

    /// The same in all segments from this one on, as far as this turn goes: where it ended, if that was before the last one.
    ///
    /// # Errors
    /// The store cannot be reached.
    async fn bury_from(self: &Arc<Self>, from: Segment, left: &mut Left) -> Result<Option<Segment>> {
        let attempts = match self.common.options.get().dead_letters {
            Some(dead_letters) => dead_letters.attempts,
            // What leaves goes back by somebody, who may be at it.
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
                // What is damaged says so to who receives. The others go on.
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
        // The state alone says whether there is anything to do.
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

    /// Moves them one after the other. One that cannot be moved holds up none of the others, unless the store cannot be reached.
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
    /// None: nothing is to be moved, or another task does that.
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

/// Whether whatever else is asked now would fare no better.
pub(crate) fn is_out_of_reach(error: &QueueError) -> bool {
    use QueueErrorKind::{Closed, OutcomeUnknown, Timeout, Unavailable};
    matches!(error.kind(), Unavailable | Timeout | OutcomeUnknown | Closed)
}
