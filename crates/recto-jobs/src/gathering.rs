//! What is left of old segments is moved on, so that those can go: a queue of which a few messages wait for long has few segments.
//!
//! Only in queues that are not ordered, and only where a shard has many live segments. Taken are segments of which all that is left
//! waits: what was never received and is not due yet, and what was given back. What may be received now and never was keeps its turn, and
//! what somebody has is that one's.

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

/// Segments whose states are looked at in a turn, of all queues.
const MAX_LOOKS: usize = 512;
/// Messages after which no more segments are looked at in a turn. Those of one go together, so that a segment's more may be moved.
const MAX_MOVED: usize = 1_024;
/// Messages that are left of a segment from which they are moved: a sixteenth of what the one has that they come to.
const MAX_LEFT_MESSAGES: u32 = 256;
/// Bytes that they have: the same, of its bytes.
const MAX_LEFT_BYTES: u64 = 1 << 20;

/// What a turn may do yet.
struct Left {
    looks: usize,
    moves: usize,
}

/// A message that is left, and which segments take it.
type Straggler = (Seq, Reach);

/// Does that in these queues once. What cannot be moved now is next time, or by another process.
pub(crate) async fn turn(queues: &[Queue]) {
    let mut left = Left {
        looks: MAX_LOOKS,
        moves: MAX_MOVED,
    };
    let shards: Vec<_> = queues.iter().flat_map(|queue| queue.shards.all()).collect();
    let Some(first) = shards.first() else { return };
    // So that none waits for ever for those before.
    let start = first.queues.drawn_below(shards.len());
    for shard in shards.iter().cycle().skip(start).take(shards.len()) {
        let _ = shard.gather(&mut left).await;
    }
}

impl Shard {
    /// Moves on what is left in old segments, as far as this turn goes.
    ///
    /// # Errors
    /// The store cannot be reached.
    async fn gather(self: &Arc<Self>, left: &mut Left) -> Result<()> {
        let most = self.queues.protocol.scattered_segments;
        // Who makes them many knows that they are, without asking.
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
                // What is damaged says so to who receives. The others go on.
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Whether nothing is left in that segment.
    async fn gather_from(self: &Arc<Self>, number: Segment, live: Live, left: &mut Left) -> Result<bool> {
        left.looks -= 1;
        let segment = self.segment(number, live);
        segment.load_state(self.is_shared()).await?;
        // Where much is left the log, which is larger, need not be read.
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
                    // What keeps one from it keeps the segment.
                    _ => return Ok(false),
                }
            }
        }
        self.release_if_done(&segment).await;
        Ok(segment.is_done())
    }
}

impl LiveSegment {
    /// How many messages are not done with, if the segment has so many, by its state.
    fn count_left(&self, count: Option<Seq>) -> Option<u32> {
        let resolved = self.state.with_copy(|state| {
            let state = state.filter(|state| state.segment() == self.number);
            state.map_or(0, |state| state.resolved().count())
        });
        Some(u32::from(count?).saturating_sub(resolved))
    }

    /// All messages that are left, if all of them may be moved on.
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
