//! Redrive: moves dead letters back to the queue that they came from, or messages to any other queue.

use std::sync::Arc;

use futures::future::join_all;
use recto_protocol::queues::{Live, Moved};

use crate::error::{QueueError, QueueErrorKind, RESTORE_ALL, Result};
use crate::shard::Shard;
use crate::shard::segment::LiveSegment;
use crate::shard::segment::UnresolvedMessage;
use crate::shards::Shards;
use crate::transfer::dead_lettering::NOT_ACKNOWLEDGED;
use crate::transfer::{TransferTarget, remove_dead_letter_attributes};

/// Number of messages that a redrive moves concurrently, so that they share commits. Messages to an ordered
/// queue are moved one after another.
pub(crate) const CONCURRENT_TRANSFERS: usize = 32;

impl Shards {
    /// Moves messages that were never received to another queue, and returns the number of moved messages.
    ///
    /// - At most `most` messages are moved. `None`: no limit.
    /// - The oldest messages of a shard are moved first.
    /// - The attributes that Recto adds to dead letters are removed.
    /// - An ordered queue gets only messages that have a group.
    /// - Messages that are larger than the other queue allows stay.
    ///
    /// Interrupted moves are completed first, to the targets of those moves, because the process
    /// that began them may be gone. Completed moves count, too.
    ///
    /// # Errors
    /// The store is unreachable, stored data is damaged, or a newer release wrote it. The other queue is
    /// full, was deleted, or does not allow messages this large. Messages that were moved before the error
    /// stay moved, and the error [has their number](QueueError::moved).
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
    /// Moves the messages of one shard to another queue. Adds 1 to `moved` for each moved message, even if
    /// the call fails later. Adds 1 to `too_large` for each message that stays because of its size.
    async fn redrive(
        self: &Arc<Self>,
        to: &Shards,
        most: Option<usize>,
        moved: &mut usize,
        too_large: &mut usize,
    ) -> Result<()> {
        let (head, options) = (self.serving().await?, to.options());
        let is_ordered = options.is_ordered;
        let at_once = if is_ordered { 1 } else { CONCURRENT_TRANSFERS };
        for (number, live) in head.live() {
            let (segment, unresolved) = self.unresolved(*number, *live).await?;
            let most_begun = most.map_or(usize::MAX, |most| most - *moved);
            self.complete_transfers(&segment, *live, most_begun, moved)
                .await?;
            let may_move = |message: &&UnresolvedMessage| {
                message.pending.is_none() && (!is_ordered || message.entry.group.is_some())
            };
            let fits = |message: &&UnresolvedMessage| message.entry.size <= options.body_bytes;
            *too_large += unresolved
                .iter()
                .filter(may_move)
                .filter(|message| !fits(message))
                .count();
            let mut left = unresolved.iter().filter(may_move).filter(fits);
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

    async fn redrive_some(
        self: &Arc<Self>,
        segment: &LiveSegment,
        live: Live,
        some: &[&UnresolvedMessage],
        to: &Shards,
        moved: &mut usize,
    ) -> Result<()> {
        let target = TransferTarget::Queue(to, None);
        let moves = some
            .iter()
            .map(|message| self.transfer(segment, live, message.seq, target, remove_dead_letter_attributes));
        count_transferred(join_all(moves).await, moved)
    }

    /// Completes at most `most` interrupted moves of messages out of a segment, and adds the number
    /// of completed moves to `moved`.
    async fn complete_transfers(
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
        let moves = begun
            .map(|(seq, attempts)| self.dead_letter(segment, live, seq, attempts, None, NOT_ACKNOWLEDGED));
        count_transferred(join_all(moves).await, moved)
    }
}

/// Adds the number of successful moves to `moved`. Returns an error if further messages cannot be moved,
/// either.
fn count_transferred(moves: Vec<Result<Option<Moved>>>, moved: &mut usize) -> Result<()> {
    let is_done = |one: &&Result<Option<Moved>>| matches!(one, Ok(Some(Moved::Done)));
    *moved += moves.iter().filter(is_done).count();
    for one in moves {
        match one.map_err(QueueError::in_part)? {
            // The other outcomes are no errors: a receiver got the message in the meantime, or
            // another task or process moves or moved it.
            Some(Moved::Done | Moved::AlreadyResolved | Moved::NotNow) | None => {}
            Some(other) => return Err(not_accepted(other)),
        }
    }
    Ok(())
}

/// Returns the error of a redrive for `count` messages that the other queue rejects because of their size.
fn too_large_for(to: &Shards, count: usize) -> QueueError {
    let most = to.options().body_bytes;
    let message = format!(
        "to: {count} messages of more than {most} bytes were not moved, because the other queue does not \
         accept them"
    );
    QueueError::new(QueueErrorKind::InvalidArgument, message)
        .with_hint("raise `body_bytes` of the other queue, or name a queue that accepts larger messages")
        .with_field("to")
}

/// Returns the error of a redrive that the target queue stopped, with the reason.
fn not_accepted(moved: Moved) -> QueueError {
    let (kind, why, hint) = match moved {
        Moved::Full => (
            QueueErrorKind::Full,
            "the other queue is full",
            "receive and acknowledge messages there, then move the rest",
        ),
        Moved::NoQueue => (
            QueueErrorKind::NotFound,
            "the other queue was deleted",
            "name another queue, or create it again",
        ),
        _ => (
            QueueErrorKind::Corrupt,
            "the tables of the other queue are from different points in time",
            RESTORE_ALL,
        ),
    };
    QueueError::new(kind, why).with_hint(hint)
}
