//! Messages go back to the queue that they came from, or anywhere else.

use std::sync::Arc;

use futures::future::join_all;
use recto_queue::{Live, Moved};

use crate::burying::NOT_GIVEN_BACK;
use crate::error::{QueueError, QueueErrorKind, RESTORE_ALL, Result};
use crate::inspect::Seen;
use crate::moving::as_it_was_sent;
use crate::segment::LiveSegment;
use crate::shard::Shard;
use crate::shards::Shards;

/// Messages that are moved side by side, so that they share commits; to an ordered queue one goes after the other.
const MOVES_AT_ONCE: usize = 32;

impl Shards {
    /// Moves messages that nobody has received to another queue, the oldest of a shard first, at most so many, or all that there are:
    /// what was said of them as dead letters is left out. To one that is ordered only those go that have a group. What somebody began
    /// to move gets there first, wherever that is: who did may be gone. How many were moved.
    ///
    /// # Errors
    /// The store cannot be reached, a body is damaged or missing, or the other queue takes no more, or was deleted: some may be moved.
    pub async fn redrive(&self, to: &Self, most: Option<usize>) -> Result<usize> {
        let (from, to) = (self.clone(), to.clone());
        let moved = tokio::spawn(async move {
            let mut count = 0;
            for shard in from.all() {
                count += shard.redrive(&to, most, count).await?;
            }
            Ok(count)
        });
        moved.await.unwrap_or_else(|_| Err(QueueError::ended()))
    }
}

impl Shard {
    /// The same with those of one shard, when so many were moved before; how many were then.
    async fn redrive(self: &Arc<Self>, to: &Shards, most: Option<usize>, before: usize) -> Result<usize> {
        let (head, is_ordered) = (self.serving().await?, to.options().is_ordered);
        let at_once = if is_ordered { 1 } else { MOVES_AT_ONCE };
        let mut count = 0;
        for (number, live) in head.live() {
            let (segment, seen) = self.seen(*number, *live).await?;
            let most_begun = most.map_or(usize::MAX, |most| most - before - count);
            count += self
                .end_moves(&segment, *live, most_begun, before + count)
                .await?;
            let goes = |seen: &&Seen| seen.pending.is_none() && (!is_ordered || seen.entry.group.is_some());
            let mut left = seen.iter().filter(goes);
            loop {
                let room = most.map_or(at_once, |most| at_once.min(most - before - count));
                let some: Vec<_> = left.by_ref().take(room).collect();
                if some.is_empty() {
                    break;
                }
                count += self
                    .redrive_some(&segment, *live, &some, to, before + count)
                    .await?;
            }
        }
        Ok(count)
    }

    /// Moves these; how many were, beside those before.
    async fn redrive_some(
        self: &Arc<Self>,
        segment: &LiveSegment,
        live: Live,
        some: &[&Seen],
        to: &Shards,
        before: usize,
    ) -> Result<usize> {
        let moves = some
            .iter()
            .map(|seen| self.move_one(segment, live, seen.seq, None, to, as_it_was_sent));
        count_moved(join_all(moves).await, before)
    }

    /// Goes on with at most so many messages of a segment that somebody began to move; how many got there, beside those before.
    async fn end_moves(
        self: &Arc<Self>,
        segment: &LiveSegment,
        live: Live,
        most: usize,
        before: usize,
    ) -> Result<usize> {
        let leaving = segment.leaving().into_iter();
        let begun = leaving
            .filter(|(seq, _)| segment.target(*seq).is_some())
            .take(most);
        let moves =
            begun.map(|(seq, attempts)| self.bury_one(segment, live, seq, attempts, None, NOT_GIVEN_BACK));
        count_moved(join_all(moves).await, before)
    }
}

/// How many were moved, if nothing keeps the rest from it.
fn count_moved(moved: Vec<Result<Option<Moved>>>, before: usize) -> Result<usize> {
    let is_done = |moved: &&Result<Option<Moved>>| matches!(moved, Ok(Some(Moved::Done)));
    let count = moved.iter().filter(is_done).count();
    for moved in moved {
        match moved.map_err(QueueError::in_part)? {
            // One was received meanwhile, or somebody else moves it.
            Some(Moved::Done | Moved::NotNow) | None => {}
            Some(other) => return Err(not_taken(other, before + count)),
        }
    }
    Ok(count)
}

/// Why a redrive ended early.
fn not_taken(moved: Moved, count: usize) -> QueueError {
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
    QueueError::new(kind, format!("{why}: {count} messages were moved, and no more")).with_hint(hint)
}
