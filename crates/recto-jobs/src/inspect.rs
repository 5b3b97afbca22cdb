//! What there is in a shard, seen without receiving it; and single messages taken out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use recto_queue::limits::MAX_CLAIMED_BYTES;
use recto_queue::{
    Chunk, Entry, Live, MessageId, Micros, Pending, Segment, Seq, Standing, StateAnswer, StateWish,
};

use crate::error::{QueueError, QueueErrorKind, Result};
use crate::message::MAX_BATCH;
use crate::segment::LiveSegment;
use crate::shard::{Inner, Shard};
use crate::totals::Totals;

/// Segments whose messages are counted one by one. Of those behind them all that were sent are.
const MAX_COUNTED_SEGMENTS: usize = 64;

/// How much there is in a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Messages that are not done with.
    pub messages: u64,
    /// Of those, the ones that somebody has received.
    pub in_flight: u64,
    /// Of those, the ones that are not due yet.
    pub delayed: u64,
    /// When the oldest of them was sent, by its sender's clock.
    pub oldest_sent_at: Option<Micros>,
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

/// Where a message stands in its shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
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

impl Shard {
    /// How much there is.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn stats(&self) -> Result<Stats> {
        let inner = &self.0;
        let head = inner.serving().await?;
        let now = inner.queues.environment.now_micros();
        let mut stats = Stats {
            segments: head.live().len(),
            is_exact: head.live().len() <= MAX_COUNTED_SEGMENTS,
            receivers_waiting: self.receivers_waiting(),
            totals: self.totals(),
            ..Stats::default()
        };
        for (number, live) in head.live().iter().take(MAX_COUNTED_SEGMENTS) {
            for seen in inner.seen(*number, *live).await?.1 {
                let standing = seen.standing(now);
                stats.messages += 1;
                stats.in_flight += u64::from(matches!(standing, PeekedStanding::InFlight(_)));
                stats.delayed += u64::from(matches!(standing, PeekedStanding::Delayed(_)));
                let oldest = stats.oldest_sent_at.unwrap_or(Micros::MAX);
                stats.oldest_sent_at = Some(oldest.min(seen.entry.sent));
            }
        }
        let behind = head.live().values().skip(MAX_COUNTED_SEGMENTS);
        stats.messages += behind.filter_map(|live| live.count.map(u64::from)).sum::<u64>();
        Ok(stats)
    }

    /// The first messages by position that are not done with, at most so many, and fewer where they have many bytes, as they
    /// stand: nobody receives them by that. They are about in the order in which they were sent, but that what is due much later
    /// is in segments of its own.
    ///
    /// # Errors
    /// A number is not right; the store cannot be read.
    pub async fn peek(&self, most: usize) -> Result<Vec<Peeked>> {
        if most == 0 || most > MAX_BATCH {
            let message = format!("most: {most} messages: 1 to {MAX_BATCH} are looked at at once");
            return Err(QueueError::new(QueueErrorKind::InvalidArgument, message));
        }
        let inner = &self.0;
        let head = inner.serving().await?;
        let now = inner.queues.environment.now_micros();
        let (mut peeked, mut bytes) = (Vec::new(), 0);
        for (number, live) in head.live() {
            let (_, mut seen) = inner.seen(*number, *live).await?;
            seen.truncate(most - peeked.len());
            let is_within = |seen: &&Seen| {
                bytes += u64::from(seen.entry.size);
                bytes <= MAX_CLAIMED_BYTES
            };
            let within = seen.iter().take_while(is_within).count();
            let is_cut = within < seen.len();
            seen.truncate(within.max(usize::from(peeked.is_empty())));
            let entries: Vec<_> = seen.iter().map(|seen| (seen.chunk, seen.entry)).collect();
            let contents = inner.contents(*number, *live, &entries).await?;
            for (seen, content) in seen.into_iter().zip(contents) {
                peeked.push(Peeked {
                    id: seen.entry.id,
                    position: Position {
                        segment: *number,
                        seq: seen.seq,
                    },
                    standing: seen.standing(now),
                    attempts: seen.pending.map_or(0, |pending| pending.attempts),
                    sent_at: seen.entry.sent,
                    content: content
                        .map_err(|unread| unread.of(seen.entry.id).to_string())
                        .map(|content| PeekedContent {
                            body: content.body,
                            attributes: content.attributes,
                            group: content.group,
                            deduplication_id: content.deduplication_id,
                        }),
                });
            }
            if peeked.len() == most || is_cut {
                break;
            }
        }
        Ok(peeked)
    }

    /// Takes a message out, whoever has it: a receipt that is out finds it done with. Whether it was there, and not on its way
    /// elsewhere.
    ///
    /// # Errors
    /// The store cannot be reached, or it is not known whether it was done; doing it again settles that.
    pub async fn remove(&self, position: Position) -> Result<bool> {
        let shard = self.clone();
        let removed = tokio::spawn(async move { shard.0.remove(position).await }).await;
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

impl Inner {
    /// The head, if the queue has its place still.
    pub(crate) async fn serving(&self) -> Result<recto_queue::Head> {
        // Whether the store is open, though nothing may be asked of it.
        self.queues.store.snapshot()?;
        let head = self.head(true).await?;
        if head.serves(self.tenure) && !self.is_deleted.load(Ordering::Acquire) {
            Ok(head)
        } else {
            Err(QueueError::deleted())
        }
    }

    /// The messages of a segment that are not done with.
    pub(crate) async fn seen(&self, number: Segment, live: Live) -> Result<(Arc<LiveSegment>, Vec<Seen>)> {
        let segment = self.segment(number, live);
        self.load(&segment).await?;
        let seen = segment.state.with_copy(|state| {
            let state = state.filter(|state| state.segment() == number);
            segment.with_log(|log| {
                let open = log
                    .messages()
                    .filter(|(seq, ..)| state.is_none_or(|state| !state.resolved().has(*seq)));
                open.map(|(seq, chunk, entry)| Seen {
                    seq,
                    chunk,
                    entry: *entry,
                    pending: state.and_then(|state| state.pending().get(&seq).copied()),
                })
                .collect()
            })
        });
        Ok((segment, seen.unwrap_or_default()))
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
