//! Inspection of queues: counts and lists messages without receiving them, and removes single
//! messages.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::join_all;
use recto_protocol::queues::limits::MAX_CLAIMED_BYTES;
use recto_protocol::queues::{
    Head, Live, MessageId, Micros, Segment, Seq, Shard as ShardNumber, Standing, StateCommand, StateResponse,
};

use crate::body_format::{Content, UnreadableBody};
use crate::error::{QueueError, QueueErrorKind, Result};
use crate::message::MAX_BATCH;
use crate::shard::Shard;
use crate::shard::segment::UnresolvedMessage;
use crate::shards::Shards;
use crate::totals::Totals;

/// Maximum number of segments of which `Shards::stats` counts the messages one by one. In a further
/// segment, it counts all messages if the segment is sealed, and none if the segment is open.
const MAX_COUNTED_SEGMENTS: usize = 64;

/// Numbers of messages in a queue, and counters of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Number of unresolved messages.
    pub messages: u64,
    /// Number of unresolved messages that receivers have.
    pub in_flight: u64,
    /// Number of unresolved messages that are not due yet.
    pub delayed: u64,
    /// Earliest time at which an unresolved message was due, by its sender's clock: the time at which it was
    /// sent, plus its delay. A message that was given back counts from its first due time. `None`: no message
    /// is due.
    pub oldest_due_at: Option<Micros>,
    /// Number of live segments (runs of consecutive messages of a shard), which contain the
    /// unresolved messages.
    pub segments: usize,
    /// True if the numbers are exact. Otherwise, some segments were not read: the resolved messages of
    /// further sealed segments count, too, and the messages of further open segments do not.
    pub is_exact: bool,
    /// Number of receivers of this process that wait for a message now.
    pub receivers_waiting: u64,
    /// Counters of this process since it opened the store.
    pub totals: Totals,
}

/// Message that was listed without being received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peeked {
    /// Identifier of the message. It is unique, and stays if the message moves to another queue.
    pub id: MessageId,
    /// Position of the message in the queue.
    pub position: Position,
    /// Status of the message.
    pub standing: PeekedStanding,
    /// Number of times the message was received.
    pub attempts: u16,
    /// Time at which the message was sent, by the sender's clock.
    pub sent_at: Micros,
    /// Content of the message, or the reason why it cannot be read.
    pub content: std::result::Result<PeekedContent, String>,
}

/// Content of a listed message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeekedContent {
    /// Body, as it was sent.
    pub body: Vec<u8>,
    /// Attributes, as they were sent.
    pub attributes: BTreeMap<String, String>,
    /// Name of the group, as it was sent.
    pub group: Option<String>,
    /// Deduplication id, as it was sent.
    pub deduplication_id: Option<String>,
}

/// Status of a listed message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeekedStanding {
    /// The message can be received.
    Ready,
    /// The message can be received from the contained time on.
    Delayed(Micros),
    /// A receiver has the message until the contained time, by the clock of the receiver's process.
    InFlight(Micros),
    /// The message is being moved to another queue or segment.
    Leaving,
}

/// Position of a message in its queue. It identifies the message for [`Shards::remove`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Index (from 0) of the shard (part of the queue) that contains the message.
    pub shard: ShardNumber,
    /// Id of the segment (run of consecutive messages of the shard) that contains the message.
    pub segment: Segment,
    /// Index of the message in the segment.
    pub seq: Seq,
}

/// Returns the live segments of all shards: the first segment of each shard, then the second of each, and so on.
fn interleaved<'s>(heads: &[(&'s Arc<Shard>, Head)]) -> Vec<ShardSegment<'s>> {
    let mut segments: Vec<_> = heads
        .iter()
        .flat_map(|(shard, head)| {
            let live = head.live().iter().enumerate();
            live.map(|(turn, (number, live))| (turn, (*shard, *number, *live)))
        })
        .collect();
    segments.sort_by_key(|(turn, _)| *turn);
    segments.into_iter().map(|(_, segment)| segment).collect()
}

/// Merges the messages of several shards. Returns at most `most` messages, and fewer beyond the byte limit.
/// Each shard keeps its order, and each next message is the oldest of the shards' next messages.
fn merged(first: Vec<Vec<LocatedMessage>>, most: usize) -> Vec<LocatedMessage> {
    let mut left: Vec<_> = first
        .into_iter()
        .map(|found| found.into_iter().peekable())
        .collect();
    let (mut merged, mut bytes) = (Vec::new(), 0);
    while merged.len() < most {
        let next = left
            .iter_mut()
            .filter_map(|left| Some((left.peek()?.message.entry.sent, left)))
            .min_by_key(|(sent, _)| *sent);
        let Some(found) = next.and_then(|(_, left)| left.next()) else {
            break;
        };
        bytes += u64::from(found.message.entry.size);
        if bytes > MAX_CLAIMED_BYTES && !merged.is_empty() {
            break;
        }
        merged.push(found);
    }
    merged
}

/// Unresolved message of a queue, with its shard and segment.
struct LocatedMessage {
    shard: Arc<Shard>,
    segment: Segment,
    live: Live,
    message: UnresolvedMessage,
}

impl LocatedMessage {
    fn peeked(&self, content: std::result::Result<Content, UnreadableBody>, now: Micros) -> Peeked {
        let UnresolvedMessage {
            seq, entry, pending, ..
        } = &self.message;
        Peeked {
            id: entry.id,
            position: Position {
                shard: self.shard.address.shard,
                segment: self.segment,
                seq: *seq,
            },
            standing: self.message.standing(now),
            attempts: pending.map_or(0, |pending| pending.attempts),
            sent_at: entry.sent,
            content: content
                .map_err(|unread| unread.of(entry.id).to_string())
                .map(|content| PeekedContent {
                    body: content.body,
                    attributes: content.attributes,
                    group: content.group,
                    deduplication_id: content.deduplication_id,
                }),
        }
    }
}

/// Live segment, with its shard and its data from the head (shard manifest).
type ShardSegment<'s> = (&'s Arc<Shard>, Segment, Live);

impl Shards {
    /// Returns the numbers of messages in the queue, and the counters of this process.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn stats(&self) -> Result<Stats> {
        let heads = self.serving().await?;
        let now = self.context().environment.now_micros();
        let segments = interleaved(&heads);
        let mut stats = Stats {
            segments: segments.len(),
            is_exact: segments.len() <= MAX_COUNTED_SEGMENTS,
            receivers_waiting: self.receivers_waiting(),
            totals: self.totals(),
            ..Stats::default()
        };
        let (counted, behind) = segments.split_at(segments.len().min(MAX_COUNTED_SEGMENTS));
        for (shard, number, live) in counted {
            for message in shard.unresolved(*number, *live).await?.1 {
                let standing = message.standing(now);
                stats.messages += 1;
                stats.in_flight += u64::from(matches!(standing, PeekedStanding::InFlight(_)));
                stats.delayed += u64::from(matches!(standing, PeekedStanding::Delayed(_)));
                let due_at = message.entry.sent.max(message.entry.not_before);
                if due_at <= now {
                    let oldest = stats.oldest_due_at.unwrap_or(Micros::MAX);
                    stats.oldest_due_at = Some(oldest.min(due_at));
                }
            }
        }
        let behind = behind.iter().filter_map(|(.., live)| live.count.map(u64::from));
        stats.messages += behind.sum::<u64>();
        Ok(stats)
    }

    /// Returns the first unresolved messages of the queue without receiving them: at most `most`, and fewer
    /// if they are large. The messages come about in the order in which they were sent. Messages that are due
    /// much later are an exception, because they have segments of their own.
    ///
    /// # Errors
    /// `most` is out of range, or the store cannot be read.
    pub async fn peek(&self, most: usize) -> Result<Vec<Peeked>> {
        if most == 0 || most > MAX_BATCH {
            let message = format!("most: {most} messages; the range is 1 to {MAX_BATCH}");
            return Err(QueueError::new(QueueErrorKind::InvalidArgument, message));
        }
        let mut first = Vec::new();
        for (shard, head) in self.serving().await? {
            first.push(shard.first_unresolved(&head, most).await?);
        }
        let first = merged(first, most);
        // Group the messages by segment, so that the messages of one segment are read together.
        let mut by_segment: BTreeMap<(ShardNumber, Segment), Vec<usize>> = BTreeMap::new();
        for (index, found) in first.iter().enumerate() {
            let segment = (found.shard.address.shard, found.segment);
            by_segment.entry(segment).or_default().push(index);
        }
        let now = self.context().environment.now_micros();
        let mut peeked: Vec<Option<Peeked>> = vec![None; first.len()];
        for indexes in by_segment.into_values() {
            let entries: Vec<_> = indexes
                .iter()
                .map(|index| (first[*index].message.chunk, first[*index].message.entry))
                .collect();
            let found = &first[indexes[0]];
            let contents = found.shard.contents(found.segment, found.live, &entries).await?;
            for (index, content) in indexes.into_iter().zip(contents) {
                peeked[index] = Some(first[index].peeked(content, now));
            }
        }
        Ok(peeked.into_iter().flatten().collect())
    }

    /// Returns the heads (manifests) of all shards.
    ///
    /// # Errors
    /// The queue was deleted, so another queue may use its registry slot, or the store is
    /// unreachable.
    async fn serving(&self) -> Result<Vec<(&Arc<Shard>, Head)>> {
        let heads = self
            .all()
            .iter()
            .map(|shard| async move { Ok((shard, shard.serving().await?)) });
        join_all(heads).await.into_iter().collect()
    }

    /// Removes a message, even if a receiver has it: an outstanding receipt then finds the message resolved. Returns
    /// whether the message existed and was not being moved.
    ///
    /// # Errors
    /// The store is unreachable. Or the outcome is unknown; remove the message again to resolve it.
    pub async fn remove(&self, position: Position) -> Result<bool> {
        let Some(shard) = self.all().get(usize::from(position.shard.0)).cloned() else {
            return Ok(false);
        };
        let removed = tokio::spawn(async move { shard.remove(position).await }).await;
        removed.unwrap_or_else(|_| Err(QueueError::ended()))
    }
}

impl UnresolvedMessage {
    fn standing(&self, now: Micros) -> PeekedStanding {
        let until = self
            .pending
            .map_or(0, |pending| pending.until)
            .max(self.entry.not_before);
        match self.pending.map(|pending| pending.standing) {
            Some(Standing::Leaving(_)) => PeekedStanding::Leaving,
            _ if until <= now => PeekedStanding::Ready,
            Some(Standing::Claimed) => PeekedStanding::InFlight(until),
            Some(Standing::Waiting) | None => PeekedStanding::Delayed(until),
        }
    }
}

impl Shard {
    /// Returns the first unresolved messages of the shard, at most `most`, segment by segment.
    async fn first_unresolved(self: &Arc<Self>, head: &Head, most: usize) -> Result<Vec<LocatedMessage>> {
        let mut found = Vec::new();
        for (number, live) in head.live() {
            if found.len() == most {
                break;
            }
            let (_, unresolved) = self.unresolved(*number, *live).await?;
            found.extend(
                unresolved
                    .into_iter()
                    .take(most - found.len())
                    .map(|message| LocatedMessage {
                        shard: Arc::clone(self),
                        segment: *number,
                        live: *live,
                        message,
                    }),
            );
        }
        Ok(found)
    }

    async fn remove(self: &Arc<Self>, position: Position) -> Result<bool> {
        let Some(live) = self.find(position.segment).await? else {
            return Ok(false);
        };
        let (segment, unresolved) = self.unresolved(position.segment, live).await?;
        if !unresolved.iter().any(|message| message.seq == position.seq) {
            return Ok(false);
        }
        let command = StateCommand::Remove(position.seq);
        let response = segment.claims.call(command).await?;
        self.notify_receivers();
        self.release_if_done(&segment).await;
        Ok(response == StateResponse::Done)
    }
}
