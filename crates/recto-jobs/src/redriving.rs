//! Messages go back to the queue that they came from, or anywhere else.

use std::sync::Arc;

use futures::future::join_all;
use recto_protocol::queues::{Live, Moved};

use crate::burying::NOT_GIVEN_BACK;
use crate::error::{QueueError, QueueErrorKind, RESTORE_ALL, Result};
use crate::inspect::Seen;
use crate::moving::{Goes, as_it_was_sent};
use crate::segment::LiveSegment;
use crate::shard::Shard;
use crate::shards::Shards;

/// Messages that are moved side by side, so that they share commits; to an ordered queue one goes after the other.
pub(crate) const MOVES_AT_ONCE: usize = 32;

impl Shards {
    /// Moves messages that nobody has received to another queue, the oldest of a shard first, at most so many, or all that there are:
    /// what was said of them as dead letters is left out. To one that is ordered only those go that have a group. What somebody began
    /// to move gets there first, wherever that is: who did may be gone. How many were moved. Messages that are larger than the other
    /// queue takes stay, and the others are moved.
    ///
    /// # Errors
    /// The store cannot be reached, a body is damaged or missing, or the other queue takes no more, no messages that large, or was deleted. What was moved
    /// before stays so, and the error [says how many](QueueError::moved).
    pub async fn redrive(&self, to: &Self, most: Option<usize>) -> Result<usize> {
        let (from, to) = (self.clone(), to.clone());
        let moved = tokio::spawn(async move {
            let (mut count, mut too_large) = (0, 0);
            for shard in from.all() {
                let redriven = shard.redrive(&to, most, &mut count, &mut too_large).await;
                redriven.map_err(|error| error.after_moving(count))?;
            }
            if too_large > 0 && most.is_none_or(|most| count < most) {
                return Err(too_large_for(&to, too_large).after_moving(count));
            }
            Ok(count)
        });
        moved.await.unwrap_or_else(|_| Err(QueueError::ended()))
    }
}

impl Shard {
    /// The same with those of one shard, when so many were moved before; those that it moves are added, whatever it ends with.
    async fn redrive(
        self: &Arc<Self>,
        to: &Shards,
        most: Option<usize>,
        moved: &mut usize,
        too_large: &mut usize,
    ) -> Result<()> {
        let (head, options) = (self.serving().await?, to.options());
        let is_ordered = options.is_ordered;
        let at_once = if is_ordered { 1 } else { MOVES_AT_ONCE };
        for (number, live) in head.live() {
            let (segment, seen) = self.seen(*number, *live).await?;
            let most_begun = most.map_or(usize::MAX, |most| most - *moved);
            self.end_moves(&segment, *live, most_begun, moved).await?;
            let goes = |seen: &&Seen| seen.pending.is_none() && (!is_ordered || seen.entry.group.is_some());
            let fits = |seen: &&Seen| seen.entry.size <= options.body_bytes;
            *too_large += seen.iter().filter(goes).filter(|seen| !fits(seen)).count();
            let mut left = seen.iter().filter(goes).filter(fits);
            loop {
                let room = most.map_or(at_once, |most| at_once.min(most - *moved));
                let some: Vec<_> = left.by_ref().take(room).collect();
                if some.is_empty() {
                    break;
                }
                self.redrive_some(&segment, *live, &some, to, moved).await?;
            }
        }
        Ok(())
    }

    /// Moves these.
    async fn redrive_some(
        self: &Arc<Self>,
        segment: &LiveSegment,
        live: Live,
        some: &[&Seen],
        to: &Shards,
        moved: &mut usize,
    ) -> Result<()> {
        let goes = Goes::To(to, None);
        let moves = some
            .iter()
            .map(|seen| self.move_one(segment, live, seen.seq, goes, as_it_was_sent));
        count_moved(join_all(moves).await, moved)
    }

    /// Goes on with at most so many messages of a segment that somebody began to move.
    async fn end_moves(
        self: &Arc<Self>,
        segment: &LiveSegment,
        live: Live,
        most: usize,
        moved: &mut usize,
    ) -> Result<()> {
        let leaving = segment.leaving().into_iter();
        let begun = leaving
            .filter(|(seq, _)| segment.target(*seq).is_some())
            .take(most);
        let moves =
            begun.map(|(seq, attempts)| self.bury_one(segment, live, seq, attempts, None, NOT_GIVEN_BACK));
        count_moved(join_all(moves).await, moved)
    }
}

/// Counts those that were moved; whether anything keeps the rest from it.
fn count_moved(moves: Vec<Result<Option<Moved>>>, moved: &mut usize) -> Result<()> {
    let is_done = |one: &&Result<Option<Moved>>| matches!(one, Ok(Some(Moved::Done)));
    *moved += moves.iter().filter(is_done).count();
    for one in moves {
        match one.map_err(QueueError::in_part)? {
            // One was received meanwhile, or somebody else moves it.
            Some(Moved::Done | Moved::NotNow) | None => {}
            Some(other) => return Err(not_taken(other)),
        }
    }
    Ok(())
}

/// The error of messages that stay because the other queue takes only smaller ones.
fn too_large_for(to: &Shards, count: usize) -> QueueError {
    let most = to.options().body_bytes;
    let message = format!(
        "to: messages of more than {most} bytes stay ({count}): the other queue takes no larger ones"
    );
    QueueError::new(QueueErrorKind::InvalidArgument, message)
        .with_hint("raise `body_bytes` of the other queue, or name a queue that takes larger messages")
        .with_field("to")
}

/// Why a redrive ended early.
fn not_taken(moved: Moved) -> QueueError {
    let (kind, why, hint) = match moved {
        Moved::Full => (
            QueueErrorKind::Full,
            "the other queue holds as much as it may",
            "receive and acknowledge messages there, and move the rest again",
        ),
        Moved::NoQueue => (
            QueueErrorKind::NotFound,
            "the other queue was deleted",
            "name another queue, or create it again",
        ),
        _ => (
            QueueErrorKind::Corrupt,
            "what is stored of the other queue is not of one time",
            RESTORE_ALL,
        ),
    };
    QueueError::new(kind, why).with_hint(hint)
}
