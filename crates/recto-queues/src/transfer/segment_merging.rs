//! Segment merging: moves the last unresolved messages of old segments to newer segments, so that
//! the old segments can be released. A queue with few messages that wait for a long time therefore
//! has few segments.
//!
//! Merging applies only to unordered queues, and only if a shard has many live segments. It moves
//! either all unresolved messages of a segment or none. Each of them must have been given back, or
//! must not be due yet and never received. Merging therefore skips two kinds of segments: those
//! with a message that can be received for the first time, which must keep its position, and those
//! with a message that a receiver has.

use std::sync::Arc;

use futures::future::join_all;
use recto_protocol::queues::limits::FAR_MICROS;
use recto_protocol::queues::{Address, Live, Micros, Moved, Reach, Segment, Seq, Standing};

use crate::error::Result;
use crate::queue::Queue;
use crate::shard::Shard;
use crate::shard::segment::LiveSegment;
use crate::shard::segment::UnresolvedMessage;
use crate::transfer::RunLimits;
use crate::transfer::dead_lettering::is_unreachable;
use crate::transfer::redrive::CONCURRENT_TRANSFERS;

/// Maximum number of unresolved messages in a segment whose messages are moved: a sixteenth of the capacity
/// of the target segment.
const MAX_LEFT_MESSAGES: u32 = 256;
/// Maximum total size of the unresolved messages in a segment whose messages are moved, in bytes: a sixteenth
/// of the capacity of the target segment.
const MAX_LEFT_BYTES: u64 = 1 << 20;

/// Unresolved message of an old segment, by its index, and the kind of segment that it moves to
/// (due soon or much later).
type Straggler = (Seq, Reach);

/// Merges segments of the queues `queues` once. A later maintenance run, or another process,
/// retries moves that fail.
pub(crate) async fn run(queues: &[Queue]) {
    let mut limits = RunLimits::default();
    let shards: Vec<_> = queues.iter().flat_map(|queue| queue.shards.all()).collect();
    let Some(first) = shards.first() else { return };
    // Start at a random shard, so that no shard waits forever for the shards before it.
    let start = first.context.random_below(shards.len());
    for shard in shards.iter().cycle().skip(start).take(shards.len()) {
        let _ = shard.merge_segments(&mut limits).await;
    }
}

impl Shard {
    /// Moves the unresolved messages of the shard's old segments to newer segments, within the limits of this
    /// run.
    ///
    /// # Errors
    /// The store is unreachable.
    async fn merge_segments(self: &Arc<Self>, limits: &mut RunLimits) -> Result<()> {
        let most = self.context.protocol.scattered_segments;
        // The cached head suffices to decide: a process that opens many segments has them in its
        // cached head.
        if self.queue.options.get().is_ordered || self.head(false).await?.live().len() <= most {
            return Ok(());
        }
        let head = self.serving().await?;
        let sealed = head.live().iter().filter(|(_, live)| live.count.is_some());
        let sealed: Vec<_> = sealed.map(|(number, live)| (*number, *live)).collect();
        let mut surplus = head.live().len().saturating_sub(most);
        let start = self.context.random_below(sealed.len());
        for (number, live) in sealed.iter().cycle().skip(start).take(sealed.len()) {
            if surplus == 0 || limits.is_reached() {
                break;
            }
            match self.merge_segment(*number, *live, limits).await {
                Ok(is_done) => surplus -= usize::from(is_done),
                Err(error) if is_unreachable(&error) => return Err(error),
                // Continue with the other segments, even if the data of one segment is damaged: a
                // receive reports the damage.
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Moves the unresolved messages of a segment to newer segments. Returns whether no unresolved
    /// message remains.
    async fn merge_segment(
        self: &Arc<Self>,
        number: Segment,
        live: Live,
        limits: &mut RunLimits,
    ) -> Result<bool> {
        limits.segments -= 1;
        let segment = self.segment(number, live);
        segment.load_claims(self.is_shared()).await?;
        // If too many messages are unresolved, do not read the log, which is larger than the state.
        if segment.count_left(live.count) > Some(MAX_LEFT_MESSAGES) {
            return Ok(false);
        }
        self.load(&segment).await?;
        let now = self.context.environment.now_micros();
        let Some(stragglers) = segment.stragglers(self.address, now) else {
            return Ok(false);
        };
        limits.messages = limits.messages.saturating_sub(stragglers.len());
        for some in stragglers.chunks(CONCURRENT_TRANSFERS) {
            let moves = some
                .iter()
                .map(|(seq, reach)| self.transfer_within_shard(&segment, live, *seq, *reach));
            for moved in join_all(moves).await {
                match moved? {
                    Some(Moved::Done | Moved::AlreadyResolved) => {}
                    // One remaining message keeps the whole segment alive, so do not move the other messages.
                    _ => return Ok(false),
                }
            }
        }
        self.release_if_done(&segment).await;
        Ok(segment.is_done())
    }
}

impl LiveSegment {
    /// Returns the number of unresolved messages in a segment that contains `count` messages,
    /// according to the cached state. `None`: `count` is not known, because the segment is open.
    fn count_left(&self, count: Option<Seq>) -> Option<u32> {
        Some(u32::from(count?).saturating_sub(self.count_resolved()))
    }

    /// Returns the unresolved messages of the segment, each with the kind of its target segment
    /// (near or far, by the due time of the message). `None`: one of the messages may not be moved,
    /// or the messages are too large.
    fn stragglers(&self, address: Address, now: Micros) -> Option<Vec<Straggler>> {
        let exhausted = self.leaving();
        let unresolved = self.unresolved()?;
        let bytes: u64 = unresolved
            .iter()
            .map(|message| u64::from(message.entry.size))
            .sum();
        if bytes > MAX_LEFT_BYTES {
            return None;
        }
        let straggler = |message: UnresolvedMessage| {
            let until = message.pending.map_or(0, |pending| pending.until);
            let due = message.entry.not_before.max(until);
            let may_go = match message.pending.map(|pending| pending.standing) {
                None => due > now,
                Some(Standing::Waiting) => !exhausted.iter().any(|(seq, _)| *seq == message.seq),
                Some(Standing::Leaving(target)) => target.address == address,
                Some(Standing::Claimed) => false,
            };
            let is_far = due.saturating_sub(now) > FAR_MICROS;
            may_go.then_some((message.seq, if is_far { Reach::Far } else { Reach::Near }))
        };
        unresolved.into_iter().map(straggler).collect()
    }
}
