//! Segment merging: the messages that are left in old segments are moved to newer segments, so that the old ones can be
//! released. A queue with few messages that wait for a long time therefore has few segments.
//!
//! Merging applies only to unordered queues, and only if a shard has many live segments. It moves a segment's messages
//! only if all messages that are left are waiting: they were never received and are not due yet, or they were given
//! back. A new message that can be received now stays where it is, and so keeps its turn. A message that a receiver has
//! stays, too.

use std::sync::Arc;

use futures::future::join_all;
use recto_protocol::queues::limits::FAR_MICROS;
use recto_protocol::queues::{Address, Live, Micros, Moved, Reach, Segment, Seq, Standing};

use crate::burying::is_out_of_reach;
use crate::error::Result;
use crate::inspect::Seen;
use crate::queues::Queue;
use crate::redriving::MOVES_AT_ONCE;
use crate::segment::LiveSegment;
use crate::shard::Shard;

/// Maximum number of segments whose states one maintenance run inspects, in all queues.
const MAX_LOOKS: usize = 512;
/// Number of messages after which a run inspects no more segments. The messages of a segment are moved together, so a
/// run may move more.
const MAX_MOVED: usize = 1_024;
/// Maximum number of messages that are left in a segment whose messages are moved: a sixteenth of the capacity of the
/// target segment.
const MAX_LEFT_MESSAGES: u32 = 256;
/// Maximum number of bytes of these messages, also a sixteenth of the capacity.
const MAX_LEFT_BYTES: u64 = 1 << 20;

/// Work that is left for a run.
struct Left {
    looks: usize,
    moves: usize,
}

/// Message that is left in a segment, and the reach of the segment that takes it.
type Straggler = (Seq, Reach);

/// Merges segments of these queues once. The next run, or another process, retries moves that fail now.
pub(crate) async fn turn(queues: &[Queue]) {
    let mut left = Left {
        looks: MAX_LOOKS,
        moves: MAX_MOVED,
    };
    let shards: Vec<_> = queues.iter().flat_map(|queue| queue.shards.all()).collect();
    let Some(first) = shards.first() else { return };
    // Start at a random shard, so that no shard waits forever for the shards before it.
    let start = first.queues.drawn_below(shards.len());
    for shard in shards.iter().cycle().skip(start).take(shards.len()) {
        let _ = shard.gather(&mut left).await;
    }
}

impl Shard {
    /// Moves the messages that are left in old segments, as far as the limits of this run allow.
    ///
    /// # Errors
    /// The store is unreachable.
    async fn gather(self: &Arc<Self>, left: &mut Left) -> Result<()> {
        let most = self.queues.protocol.scattered_segments;
        // The cached head suffices here: a process that opens many segments knows them, and merges
        // them.
        if self.common.options.get().is_ordered || self.head(false).await?.live().len() <= most {
            return Ok(());
        }
        let head = self.serving().await?;
        let sealed = head.live().iter().filter(|(_, live)| live.count.is_some());
        let sealed: Vec<_> = sealed.map(|(number, live)| (*number, *live)).collect();
        let mut surplus = head.live().len().saturating_sub(most);
        let start = self.queues.drawn_below(sealed.len());
        for (number, live) in sealed.iter().cycle().skip(start).take(sealed.len()) {
            if surplus == 0 || left.looks == 0 || left.moves == 0 {
                break;
            }
            match self.gather_from(*number, *live, left).await {
                Ok(is_done) => surplus -= usize::from(is_done),
                Err(error) if is_out_of_reach(&error) => return Err(error),
                // Continue with the other segments, even if the data of this segment is damaged: a
                // receive reports the damage.
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Moves the messages that are left in a segment. Returns whether no message is left there.
    async fn gather_from(self: &Arc<Self>, number: Segment, live: Live, left: &mut Left) -> Result<bool> {
        left.looks -= 1;
        let segment = self.segment(number, live);
        segment.load_state(self.is_shared()).await?;
        // If too many messages are left to move, do not read the log, which is larger than the
        // state.
        if segment.count_left(live.count) > Some(MAX_LEFT_MESSAGES) {
            return Ok(false);
        }
        self.load(&segment).await?;
        let now = self.queues.environment.now_micros();
        let Some(stragglers) = segment.stragglers(self.address, now) else {
            return Ok(false);
        };
        left.moves = left.moves.saturating_sub(stragglers.len());
        for some in stragglers.chunks(MOVES_AT_ONCE) {
            let moves = some
                .iter()
                .map(|(seq, reach)| self.move_on(&segment, live, *seq, *reach));
            for moved in join_all(moves).await {
                match moved? {
                    Some(Moved::Done) => {}
                    // One message that stays keeps the whole segment alive, so do not move the
                    // others.
                    _ => return Ok(false),
                }
            }
        }
        self.release_if_done(&segment).await;
        Ok(segment.is_done())
    }
}

impl LiveSegment {
    /// Returns the number of unresolved messages by the state, for a segment of `count` messages.
    fn count_left(&self, count: Option<Seq>) -> Option<u32> {
        let resolved = self.state.with_copy(|state| {
            let state = state.filter(|state| state.segment() == self.number);
            state.map_or(0, |state| state.resolved().count())
        });
        Some(u32::from(count?).saturating_sub(resolved))
    }

    /// Returns all messages that are left, if all of them may be moved.
    fn stragglers(&self, address: Address, now: Micros) -> Option<Vec<Straggler>> {
        let exhausted = self.leaving();
        let seen = self.seen()?;
        let bytes: u64 = seen.iter().map(|seen| u64::from(seen.entry.size)).sum();
        if bytes > MAX_LEFT_BYTES {
            return None;
        }
        let straggler = |seen: Seen| {
            let until = seen.pending.map_or(0, |pending| pending.until);
            let due = seen.entry.not_before.max(until);
            let may_go = match seen.pending.map(|pending| pending.standing) {
                None => due > now,
                Some(Standing::Waiting) => !exhausted.iter().any(|(seq, _)| *seq == seen.seq),
                Some(Standing::Leaving(target)) => target.address == address,
                Some(Standing::Claimed) => false,
            };
            let is_far = due.saturating_sub(now) > FAR_MICROS;
            may_go.then_some((seen.seq, if is_far { Reach::Far } else { Reach::Near }))
        };
        seen.into_iter().map(straggler).collect()
    }
}
