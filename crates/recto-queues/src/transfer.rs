//! Moves of messages: to the dead-letter queue, to another queue, or to a later segment of the same shard.
//!
//! | module | content |
//! |---|---|
//! | this module | move of one message |
//! | `dead_lettering` | moves of messages that were received too often |
//! | `redrive` | moves of messages out of a dead-letter queue |
//! | `segment_merging` | moves of the last messages of old segments |

pub(crate) mod dead_lettering;
mod redrive;
pub(crate) mod segment_merging;

use std::sync::{Arc, PoisonError};

use recto_protocol::queues::{
    Chunk, ClaimId, Entry, Live, MoveAction, MoveEvent, Moved, Moving, Origin, Reach, Segment, Seq,
    StateResponse,
};

use crate::body_format::Content;
use crate::error::Result;
use crate::shard::Shard;
use crate::shard::append::ChunkBodies;
use crate::shard::segment::LiveSegment;
use crate::shards::Shards;

/// Name of the attribute that holds the reason why a message is a dead letter.
pub const ERROR_ATTRIBUTE: &str = "recto.error";
/// Name of the attribute of a dead letter that holds the number of times it was received in its original
/// queue.
pub const ATTEMPTS_ATTRIBUTE: &str = "recto.attempts";
/// Maximum length in bytes of the error with which a receiver gives a message back.
pub(crate) const MAX_ERROR_BYTES: usize = 4_096;
/// Error text of a dead letter whose body is missing or damaged.
pub(crate) const BODY_LOST: &str = "body lost: it is missing in the store, or damaged";

/// Maximum number of segments, of all queues together, that one maintenance run inspects for messages
/// to move.
const MAX_INSPECTED_SEGMENTS: usize = 512;
/// Number of moved messages after which a maintenance run inspects no more segments. The run may exceed it,
/// because the messages of a segment are moved together.
const MAX_MOVED: usize = 1_024;

/// Remaining limits of one maintenance run: segments to inspect, and messages to move.
pub(crate) struct RunLimits {
    pub(crate) segments: usize,
    pub(crate) messages: usize,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self {
            segments: MAX_INSPECTED_SEGMENTS,
            messages: MAX_MOVED,
        }
    }
}

impl RunLimits {
    pub(crate) fn is_reached(&self) -> bool {
        self.segments == 0 || self.messages == 0
    }
}

/// Target of a moved message.
#[derive(Clone, Copy)]
pub(crate) enum TransferTarget<'t> {
    /// Another queue. The second field is the claim by which the message was received, if it was received.
    Queue(&'t Shards, Option<ClaimId>),
    /// A later segment of the same shard, for messages that are due soon (near) or much later (far).
    Shard(Reach),
}

impl Shard {
    /// Moves one message to the dead-letter queue. In two cases, the function only completes a move
    /// that was begun: if the queue has no dead-letter queue, and if the message is being moved
    /// within its shard.
    ///
    /// Returns `None` if there is no move to complete, this process moves the message already, or
    /// it does not know the message.
    pub(crate) async fn dead_letter(
        self: &Arc<Self>,
        segment: &LiveSegment,
        live: Live,
        seq: Seq,
        attempts: u16,
        claim: Option<ClaimId>,
        error: &str,
    ) -> Result<Option<Moved>> {
        let is_within_shard = segment
            .target(seq)
            .is_some_and(|target| target.address == self.address);
        let dead_letters = self.queue.options.get().dead_letters;
        let Some(dead_letters) = dead_letters.filter(|_| !is_within_shard) else {
            return self.complete_transfer(segment, live, seq).await;
        };
        let attributes = [
            (ERROR_ATTRIBUTE, shortened(error).to_owned()),
            (ATTEMPTS_ATTRIBUTE, attempts.to_string()),
        ];
        let change = |content: &mut Content| {
            let attributes = attributes.map(|(name, value)| (name.to_owned(), value));
            content.attributes.extend(attributes);
        };
        let to = Shards::of_destination(&self.all_shards, dead_letters.to);
        let target = TransferTarget::Queue(&to, claim);
        let moved = self.transfer(segment, live, seq, target, change).await?;
        self.queue
            .counters
            .dead_lettered
            .add(usize::from(moved == Some(Moved::Done)));
        Ok(moved)
    }

    /// Completes a move that was begun, to another queue or within the shard. Returns `None` if no move was
    /// begun, or this process moves the message already.
    async fn complete_transfer(
        self: &Arc<Self>,
        segment: &LiveSegment,
        live: Live,
        seq: Seq,
    ) -> Result<Option<Moved>> {
        let Some(target) = segment.target(seq) else {
            return Ok(None);
        };
        if target.address == self.address {
            return self.transfer_within_shard(segment, live, seq, Reach::Near).await;
        }
        let to = Shards::only(self.all_shards.shard_at(target.address));
        let target = TransferTarget::Queue(&to, None);
        self.transfer(segment, live, seq, target, remove_dead_letter_attributes)
            .await
    }

    /// Moves one message unchanged to a later segment of its shard, with the result of
    /// [`transfer`](Self::transfer).
    pub(crate) async fn transfer_within_shard(
        self: &Arc<Self>,
        segment: &LiveSegment,
        live: Live,
        seq: Seq,
        reach: Reach,
    ) -> Result<Option<Moved>> {
        self.transfer(segment, live, seq, TransferTarget::Shard(reach), |_| {})
            .await
    }

    /// Moves one message to another queue or segment, after `change` has changed its content. A message whose
    /// body is lost moves without its body, and gets an attribute that says so. Returns `None` if this
    /// process moves the message already, or does not know the message.
    pub(crate) async fn transfer(
        self: &Arc<Self>,
        segment: &LiveSegment,
        live: Live,
        seq: Seq,
        to: TransferTarget<'_>,
        change: impl FnOnce(&mut Content),
    ) -> Result<Option<Moved>> {
        let guard = TransferGuard::new(self, (segment.number, seq));
        let message = segment.with_log(|log| log.message(seq).map(|(chunk, entry)| (chunk, *entry)));
        let (Some(_guard), Some((chunk, entry))) = (guard, message.flatten()) else {
            return Ok(None);
        };
        let found = self.content(segment.number, live, chunk, entry).await?;
        let is_lost = found.is_none();
        if is_lost && self.find(segment.number).await?.is_none() {
            // The segment was released, and its bodies were deleted with it, so the message is
            // resolved.
            return Ok(Some(Moved::AlreadyResolved));
        }
        if is_lost && matches!(to, TransferTarget::Shard(_)) && segment.target(seq).is_none() {
            // Do not begin a move within the shard for a message without a body. The next receive
            // finds that the body is lost, and handles the message.
            return Ok(Some(Moved::NotNow));
        }
        let mut content = found.unwrap_or_default();
        change(&mut content);
        if is_lost {
            let said = (ERROR_ATTRIBUTE.to_owned(), BODY_LOST.to_owned());
            content.attributes.extend([said]);
        }
        let load = ChunkBodies {
            bodies: [content.encode()].into(),
            is_deduplicated: false,
        };
        let origin = Origin {
            address: self.address,
            segment: segment.number,
            seq,
        };
        let (chunk, protocol) = (Chunk(self.context.random()), self.context.protocol);
        let (target, claim, arrived) = match to {
            // The other queue counts its retention from the current time, regardless of the
            // message's age, so it keeps the message for the full retention.
            TransferTarget::Queue(shards, claim) => {
                let now = self.context.environment.now_micros();
                (shards.shard_for_transfer(entry.group), claim, Some(now))
            }
            TransferTarget::Shard(_) => (self, None, entry.arrived),
        };
        let entry = Entry { arrived, ..entry };
        let address = (target.address, target.tenure);
        let mut moving = Moving::new(origin, claim, address, chunk, entry, protocol);
        if let TransferTarget::Shard(reach) = to {
            moving = moving.on(reach);
        }
        if let Some(table) = target.own_table().await? {
            moving = moving.in_table(table);
        }
        let moved = self.run(moving, segment, target, &load).await?;
        if moved == Moved::Full {
            // Count a failed append, so that the next messages go to another shard of the target
            // queue, which may have room.
            target.conflicts.appends.add(1);
        }
        // A rehoming copies the bodies of unresolved messages only. So a message that another process
        // resolved is not lost.
        self.queue
            .counters
            .bodies_lost
            .add(usize::from(is_lost && moved == Moved::Done));
        Ok(Some(moved))
    }

    async fn run(
        self: &Arc<Self>,
        mut moving: Moving,
        segment: &LiveSegment,
        target: &Arc<Self>,
        load: &ChunkBodies,
    ) -> Result<Moved> {
        let time = self.context.request_timeout;
        // Keep a reference to the target shard, so that it stays in the cache while the message is moved
        // there.
        let mut target = Arc::clone(target);
        let mut event = MoveEvent::Begin;
        loop {
            event = match moving.step(event) {
                MoveAction::Source(_, command) => {
                    let response = match self.find(segment.number).await? {
                        Some(_) => segment.claims.call(command).await?,
                        None => StateResponse::Gone,
                    };
                    MoveEvent::Source(response)
                }
                MoveAction::Shard(address, action) => {
                    if target.address != address {
                        target = self.all_shards.shard_at(address);
                    }
                    let event = target.execute_append(action, load, time).await?;
                    target.notify_receivers();
                    MoveEvent::Shard(event)
                }
                MoveAction::Over(moved) => {
                    self.release_if_done(segment).await;
                    // Notify receivers, because later messages of the message's group may be
                    // available now.
                    self.notify_receivers();
                    return Ok(moved);
                }
            };
        }
    }
}

/// Removes the attributes that Recto added to a dead letter.
pub(crate) fn remove_dead_letter_attributes(content: &mut Content) {
    content.attributes.remove(ERROR_ATTRIBUTE);
    content.attributes.remove(ATTEMPTS_ATTRIBUTE);
}

/// Shortens an error to at most `MAX_ERROR_BYTES`, at the boundary of a character.
fn shortened(error: &str) -> &str {
    let mut end = error.len().min(MAX_ERROR_BYTES);
    while !error.is_char_boundary(end) {
        end -= 1;
    }
    &error[..end]
}

/// Guard of a message that is being moved. While it exists, no other task of this process moves the message.
struct TransferGuard {
    shard: Arc<Shard>,
    message: (Segment, Seq),
}

impl TransferGuard {
    /// Creates the guard. Returns `None` if another task of this process moves the message already.
    fn new(shard: &Arc<Shard>, message: (Segment, Seq)) -> Option<Self> {
        let mut moving = shard.transfers.lock().unwrap_or_else(PoisonError::into_inner);
        moving.insert(message).then(|| Self {
            shard: Arc::clone(shard),
            message,
        })
    }
}

impl Drop for TransferGuard {
    fn drop(&mut self) {
        let mut moving = self
            .shard
            .transfers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        moving.remove(&self.message);
    }
}
