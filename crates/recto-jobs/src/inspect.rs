//! What there is in a queue, seen without receiving it; and single messages taken out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::future::join_all;
use recto_protocol::queues::limits::MAX_CLAIMED_BYTES;
use recto_protocol::queues::{
    Chunk, Entry, Head, Live, MessageId, Micros, Pending, Segment, Seq, Shard as ShardNumber, Standing,
    StateAnswer, StateWish,
};

use crate::bodies::{Content, Unread};
use crate::error::{QueueError, QueueErrorKind, Result};
use crate::message::MAX_BATCH;
use crate::segment::LiveSegment;
use crate::shard::Shard;
use crate::shards::Shards;
use crate::totals::Totals;

/// Segments whose messages are counted one by one. Of those behind them all that were sent are.
const MAX_COUNTED_SEGMENTS: usize = 64;

/// How much there is in a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Messages that are not done with.
    pub messages: u64,
    /// Of those, the ones that somebody has received.
    pub in_flight: u64,
    /// Of those, the ones that are not due yet.
    pub delayed: u64,
    /// Time since which the oldest message is due, by its sender's clock: when it was sent, plus its delay. `None` if no message is
    /// due. A message that was given back counts from its first due time.
    pub oldest_due_at: Option<Micros>,
    /// How many segments they are in.
    pub segments: usize,
    /// Whether that is so, or what is done with was not looked at everywhere.
    pub is_exact: bool,
    /// How many wait for a message in this process now.
    pub receivers_waiting: u64,
    /// What this process did here since it opened the store.
    pub totals: Totals,
}

/// A message that was looked at, and not received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peeked {
    /// What it is known by.
    pub id: MessageId,
    /// Where it stands.
    pub position: Position,
    /// How it stands.
    pub standing: PeekedStanding,
    /// How often it was received.
    pub attempts: u16,
    /// When it was sent, by its sender's clock.
    pub sent_at: Micros,
    /// What it says; or why that cannot be read.
    pub content: std::result::Result<PeekedContent, String>,
}

/// What a message says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeekedContent {
    /// As it was sent.
    pub body: Vec<u8>,
    /// As they were sent.
    pub attributes: BTreeMap<String, String>,
    /// As it was sent.
    pub group: Option<String>,
    /// As it was sent.
    pub deduplication_id: Option<String>,
}

/// How a message stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeekedStanding {
    /// It may be received.
    Ready,
    /// It may be received from then on.
    Delayed(Micros),
    /// Somebody has received it, until then by that one's clock.
    InFlight(Micros),
    /// It is on its way to another queue.
    Leaving,
}

/// Where a message stands in its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// In which shard.
    pub shard: ShardNumber,
    /// In which segment.
    pub segment: Segment,
    /// Which message of that.
    pub seq: Seq,
}

/// A message that is not done with, as log and state have it.
pub(crate) struct Seen {
    pub(crate) seq: Seq,
    chunk: Chunk,
    pub(crate) entry: Entry,
    pub(crate) pending: Option<Pending>,
}

/// The live segments of all shards: of each the first, then of each the next.
fn in_turn<'s>(heads: &[(&'s Arc<Shard>, Head)]) -> Vec<LiveOf<'s>> {
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

/// So many messages of several shards, each of which keeps its order: always the oldest of those that are next, and no more than
/// there is room for.
fn merged(first: Vec<Vec<Found>>, most: usize) -> Vec<Found> {
    let mut left: Vec<_> = first
        .into_iter()
        .map(|found| found.into_iter().peekable())
        .collect();
    let (mut merged, mut bytes) = (Vec::new(), 0);
    while merged.len() < most {
        let next = left
            .iter_mut()
            .filter_map(|left| Some((left.peek()?.seen.entry.sent, left)))
            .min_by_key(|(sent, _)| *sent);
        let Some(found) = next.and_then(|(_, left)| left.next()) else {
            break;
        };
        bytes += u64::from(found.seen.entry.size);
        if bytes > MAX_CLAIMED_BYTES && !merged.is_empty() {
            break;
        }
        merged.push(found);
    }
    merged
}

/// The same, and where it stands.
struct Found {
    shard: Arc<Shard>,
    segment: Segment,
    live: Live,
    seen: Seen,
}

impl Found {
    fn peeked(&self, content: std::result::Result<Content, Unread>, now: Micros) -> Peeked {
        let Seen {
            seq, entry, pending, ..
        } = &self.seen;
        Peeked {
            id: entry.id,
            position: Position {
                shard: self.shard.address.shard,
                segment: self.segment,
                seq: *seq,
            },
            standing: self.seen.standing(now),
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

/// A live segment of a shard.
type LiveOf<'s> = (&'s Arc<Shard>, Segment, Live);

impl Shards {
    /// How much there is.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn stats(&self) -> Result<Stats> {
        let heads = self.serving().await?;
        let now = self.queues().environment.now_micros();
        let segments = in_turn(&heads);
        let mut stats = Stats {
            segments: segments.len(),
            is_exact: segments.len() <= MAX_COUNTED_SEGMENTS,
            receivers_waiting: self.receivers_waiting(),
            totals: self.totals(),
            ..Stats::default()
        };
        let (counted, behind) = segments.split_at(segments.len().min(MAX_COUNTED_SEGMENTS));
        for (shard, number, live) in counted {
            for seen in shard.seen(*number, *live).await?.1 {
                let standing = seen.standing(now);
                stats.messages += 1;
                stats.in_flight += u64::from(matches!(standing, PeekedStanding::InFlight(_)));
                stats.delayed += u64::from(matches!(standing, PeekedStanding::Delayed(_)));
                let due_at = seen.entry.sent.max(seen.entry.not_before);
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

    /// The first messages of each shard that are not done with, the oldest first of those that are next in theirs, at most so many,
    /// and fewer where they have many bytes, as they stand: nobody receives them by that. They are about in the order in which
    /// they were sent, but that what is due much later is in segments of its own.
    ///
    /// # Errors
    /// A number is not right; the store cannot be read.
    pub async fn peek(&self, most: usize) -> Result<Vec<Peeked>> {
        if most == 0 || most > MAX_BATCH {
            let message = format!("most: {most} messages: 1 to {MAX_BATCH} are looked at at once");
            return Err(QueueError::new(QueueErrorKind::InvalidArgument, message));
        }
        let mut first = Vec::new();
        for (shard, head) in self.serving().await? {
            first.push(shard.first_seen(&head, most).await?);
        }
        let first = merged(first, most);
        // Those of a segment are read at once.
        let mut by_segment: BTreeMap<(ShardNumber, Segment), Vec<usize>> = BTreeMap::new();
        for (index, found) in first.iter().enumerate() {
            let segment = (found.shard.address.shard, found.segment);
            by_segment.entry(segment).or_default().push(index);
        }
        let now = self.queues().environment.now_micros();
        let mut peeked: Vec<Option<Peeked>> = vec![None; first.len()];
        for indexes in by_segment.into_values() {
            let entries: Vec<_> = indexes
                .iter()
                .map(|index| (first[*index].seen.chunk, first[*index].seen.entry))
                .collect();
            let found = &first[indexes[0]];
            let contents = found.shard.contents(found.segment, found.live, &entries).await?;
            for (index, content) in indexes.into_iter().zip(contents) {
                peeked[index] = Some(first[index].peeked(content, now));
            }
        }
        Ok(peeked.into_iter().flatten().collect())
    }

    /// The heads of all shards, if the queue has its place still.
    async fn serving(&self) -> Result<Vec<(&Arc<Shard>, Head)>> {
        let heads = self
            .all()
            .iter()
            .map(|shard| async move { Ok((shard, shard.serving().await?)) });
        join_all(heads).await.into_iter().collect()
    }

    /// Takes a message out, whoever has it: a receipt that is out finds it done with. Whether it was there, and not on its way
    /// elsewhere.
    ///
    /// # Errors
    /// The store cannot be reached, or it is not known whether it was done; doing it again settles that.
    pub async fn remove(&self, position: Position) -> Result<bool> {
        let Some(shard) = self.all().get(usize::from(position.shard.0)).cloned() else {
            return Ok(false);
        };
        let removed = tokio::spawn(async move { shard.remove(position).await }).await;
        removed.unwrap_or_else(|_| Err(QueueError::ended()))
    }
}

impl Seen {
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
    /// The head, if the queue has its place still.
    pub(crate) async fn serving(&self) -> Result<Head> {
        // Whether the store is open, though nothing may be asked of it.
        self.queues.store.snapshot()?;
        let head = self.head(true).await?;
        if head.serves(self.tenure) && !self.common.is_deleted.load(Ordering::Acquire) {
            Ok(head)
        } else {
            Err(QueueError::deleted())
        }
    }

    /// The first messages that are not done with, at most so many.
    async fn first_seen(self: &Arc<Self>, head: &Head, most: usize) -> Result<Vec<Found>> {
        let mut found = Vec::new();
        for (number, live) in head.live() {
            if found.len() == most {
                break;
            }
            let (_, seen) = self.seen(*number, *live).await?;
            found.extend(seen.into_iter().take(most - found.len()).map(|seen| Found {
                shard: Arc::clone(self),
                segment: *number,
                live: *live,
                seen,
            }));
        }
        Ok(found)
    }

    /// The messages of a segment that are not done with.
    pub(crate) async fn seen(&self, number: Segment, live: Live) -> Result<(Arc<LiveSegment>, Vec<Seen>)> {
        let segment = self.segment(number, live);
        self.load(&segment).await?;
        let seen = segment.seen().unwrap_or_default();
        Ok((segment, seen))
    }

    async fn remove(self: &Arc<Self>, position: Position) -> Result<bool> {
        let Some(live) = self.find(position.segment).await? else {
            return Ok(false);
        };
        let (segment, seen) = self.seen(position.segment, live).await?;
        if !seen.iter().any(|seen| seen.seq == position.seq) {
            return Ok(false);
        }
        let wish = StateWish::Remove(position.seq);
        let answer = segment.state.ask_one(wish, self.queues.request_timeout).await?;
        self.tells();
        self.release_if_done(&segment).await;
        Ok(answer == StateAnswer::Done)
    }
}

impl LiveSegment {
    /// The messages that are not done with, as far as that is known; none: of another segment, or nothing.
    pub(crate) fn seen(&self) -> Option<Vec<Seen>> {
        self.state.with_copy(|state| {
            let state = state.filter(|state| state.segment() == self.number);
            self.with_log(|log| {
                let open = log
                    .messages()
                    .filter(|(seq, ..)| state.is_none_or(|state| !state.resolved().has(*seq)));
                open.map(|(seq, chunk, entry)| Seen {
                    seq,
                    chunk,
                    entry: *entry,
                    pending: state
                        .and_then(|state| state.pending().get(&seq).copied())
                        .or(entry.received.map(Pending::from)),
                })
                .collect()
            })
        })
    }
}
