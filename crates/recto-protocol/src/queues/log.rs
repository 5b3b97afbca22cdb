//! What was sent into a segment: only ever added to, until it is sealed.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::queues::limits::{MESSAGE_OVERHEAD_BYTES, Protocol, WINDOW_MICROS};
use crate::queues::names::{Address, Chunk, Fingerprint, MessageId, Micros, Segment, Seq, Version};
use crate::queues::round::Register;
use crate::queues::rows::Rows;
use crate::queues::rules::Rule;

/// One message, as the log has it. The body lies elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Entry {
    /// What users know it by.
    pub id: MessageId,
    /// Which of its chunk's bodies is its own.
    pub index: u16,
    /// Bytes of body and attributes.
    pub size: u32,
    /// When it was sent, by its sender's clock.
    pub sent: Micros,
    /// When it may be received first.
    pub not_before: Micros,
    /// Of its group's name.
    pub group: Option<Fingerprint>,
    /// Of its deduplication id.
    pub deduplication: Option<Fingerprint>,
    /// Where it was before it was moved here.
    pub origin: Option<Origin>,
    /// What became of it there, if it was moved within its shard, and somebody had received it.
    pub received: Option<Received>,
    /// Time at which it was moved here from another queue, by the mover's clock. It keeps that in moves within its shard.
    pub arrived: Option<Micros>,
}

impl Entry {
    /// Returns the time from which its queue counts how long it keeps the message: when it came to this queue, or when it was
    /// due first, whichever is later.
    pub fn due(&self) -> Micros {
        self.arrived.unwrap_or(self.sent).max(self.not_before)
    }

    /// From when on it may be received, if nobody here has received it.
    pub fn free_from(&self) -> Micros {
        let until = self.received.map_or(Micros::MIN, |received| received.until);
        self.not_before.max(until)
    }

    /// About how many bytes are stored of it, body and all.
    fn stored_bytes(&self) -> u64 {
        u64::from(self.size) + MESSAGE_OVERHEAD_BYTES
    }
}

/// Where a message was that was moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// In which shard.
    pub address: Address,
    /// Which segment.
    pub segment: Segment,
    /// Where in that.
    pub seq: Seq,
}

/// How often a message was received, and given back, in the segments where it was before: what its attempts go on from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Received {
    /// How often, once at least.
    pub attempts: u16,
    /// When it was for the first time.
    pub first: Micros,
    /// When it may be received again.
    pub until: Micros,
}

/// What one append put.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LogRow {
    /// Where the bodies are.
    pub chunk: Chunk,
    /// At this place and those that follow.
    pub entries: Arc<[Entry]>,
}

/// The log of a register's newest segment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Log {
    pub(crate) version: Version,
    pub(crate) segment: Segment,
    pub(crate) bytes: u64,
    pub(crate) is_sealed: bool,
    pub(crate) rows: Rows,
}

/// Deduplication ids of the window in the segments before, which are sealed: with each the message that has it and when it
/// was sent.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Recent {
    ids: BTreeMap<Fingerprint, (MessageId, Micros)>,
}

impl Recent {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }
}

/// Of messages that have the same one that counts which was sent last, in whichever order they come.
impl Extend<(Fingerprint, (MessageId, Micros))> for Recent {
    fn extend<I: IntoIterator<Item = (Fingerprint, (MessageId, Micros))>>(&mut self, ids: I) {
        for (id, (message, sent)) in ids {
            let newest = self.ids.entry(id).or_insert((message, sent));
            if newest.1 < sent {
                *newest = (message, sent);
            }
        }
    }
}

/// What a log is asked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LogWish {
    /// Add these, whose bodies lie in the segment's table under this chunk.
    Append {
        /// Where the bodies are.
        chunk: Chunk,
        /// One at least.
        entries: Arc<[Entry]>,
    },
    /// Let nothing be added any more.
    Seal,
}

/// What is said of that.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LogAnswer {
    /// Each entry has its place.
    Appended(Vec<Placed>),
    /// The segment is sealed, with so many messages. Nothing was appended, nor will be.
    Sealed(Seq),
    /// No segment holds as much.
    TooLarge,
    /// Another segment has the register: this one was released. Nothing was appended, nor will be.
    Gone,
    /// The same, and it cannot be told any more whether it was appended.
    Unknown,
}

/// What became of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Placed {
    /// It stands there.
    At(Seq),
    /// This message has its deduplication id, and it was not sent.
    Duplicate(MessageId),
}

/// What appends are worked out by.
#[derive(Debug, Clone, Copy)]
pub struct LogContext<'a> {
    /// The segment that the head says has this register.
    pub segment: Segment,
    /// Of the segments before.
    pub recent: &'a Recent,
    /// Limits and rules.
    pub protocol: Protocol,
}

impl Log {
    /// The one of a register that nobody ever wrote to.
    pub fn absent() -> Self {
        Self::empty(Segment::default(), 0)
    }

    fn empty(segment: Segment, version: Version) -> Self {
        Self {
            version,
            segment,
            bytes: 0,
            is_sealed: false,
            rows: Rows::default(),
        }
    }

    /// Which segment's log it is.
    pub fn segment(&self) -> Segment {
        self.segment
    }

    /// How many messages it has, if nothing can be added.
    pub fn sealed(&self) -> Option<Seq> {
        self.is_sealed.then(|| self.next())
    }

    /// The place of the next message.
    pub fn next(&self) -> Seq {
        let last = self.rows.last();
        last.map_or(0, |(first, row)| first + row.entries.len() as Seq)
    }

    /// All messages, with their chunks and places.
    pub fn messages(&self) -> impl Iterator<Item = (Seq, Chunk, &Entry)> {
        self.rows.iter().flat_map(|(first, row)| {
            let places = first..;
            places
                .zip(row.entries.iter())
                .map(|(seq, entry)| (seq, row.chunk, entry))
        })
    }

    /// Returns the messages that were received before they were moved on to this segment, by place.
    pub(crate) fn moved_on(&self) -> impl Iterator<Item = (Seq, Received)> {
        let moved_on = self.rows.moved_on();
        moved_on.filter_map(|seq| Some((seq, self.message(seq)?.1.received?)))
    }

    /// Returns the earliest time from which the retention of a message counts, of the messages at this place and behind it.
    pub fn first_due_from(&self, seq: Seq) -> Option<Micros> {
        let rows = self.rows.iter().rev();
        let rows = rows.take_while(|(first, row)| usize::from(*first) + row.entries.len() > usize::from(seq));
        rows.flat_map(|(_, row)| &*row.entries).map(Entry::due).min()
    }

    /// The message at a place.
    pub fn message(&self, seq: Seq) -> Option<(Chunk, &Entry)> {
        #[cfg(test)]
        crate::queues::tests::LOOKED_AT.set(crate::queues::tests::LOOKED_AT.get() + 1);
        let (first, row) = self.rows.at(seq)?;
        let entry = row.entries.get(usize::from(seq - first))?;
        Some((row.chunk, entry))
    }

    /// The rows that a conditional write puts beside the static column, by number, given the [copy](crate::queues::Round::copy) that it
    /// was worked out on: what was added, or all where it sets the register up for another segment. They take the place of those
    /// that segments before had there.
    pub fn rows_since(&self, before: &Self) -> impl Iterator<Item = (Seq, &LogRow)> {
        let first = if before.segment == self.segment {
            before.rows.count()
        } else {
            0
        };
        (first..).zip(self.rows.from(first))
    }

    /// The deduplication ids that it has, for [`LogContext::recent`] of the segments behind it.
    pub fn fingerprints(&self) -> impl Iterator<Item = (Fingerprint, (MessageId, Micros))> {
        let entries = self.messages().map(|(_, _, entry)| entry);
        entries.filter_map(|entry| Some((entry.deduplication?, (entry.id, entry.sent))))
    }

    fn append(&mut self, chunk: Chunk, entries: &[Entry], context: &LogContext<'_>) -> LogAnswer {
        let rules = context.protocol.rules;
        if rules.keeps(Rule::SettledByChunk)
            && let Some((first, row)) = self.rows.of_chunk(chunk)
        {
            let row = (first, row.clone());
            return LogAnswer::Appended(self.placed(entries, row, context));
        }
        if self.is_sealed && rules.keeps(Rule::SealedIsFinal) {
            return LogAnswer::Sealed(self.next());
        }
        let bytes = |entries: &[Entry]| entries.iter().map(|entry| u64::from(entry.size)).sum::<u64>();
        let (most_messages, most_bytes) = (context.protocol.segment_messages, context.protocol.segment_bytes);
        if entries.len() > usize::from(most_messages) || bytes(entries) > most_bytes {
            return LogAnswer::TooLarge;
        }
        let mut new: Vec<Entry> = Vec::with_capacity(entries.len());
        for entry in entries {
            if self.holder(entry, &new, context).is_none() {
                new.push(*entry);
            }
        }
        let is_full = usize::from(self.next()) + new.len() > usize::from(most_messages)
            || self.bytes + bytes(&new) > most_bytes;
        if is_full {
            self.is_sealed = true;
            return LogAnswer::Sealed(self.next());
        }
        self.bytes += bytes(&new);
        let row = LogRow {
            chunk,
            entries: new.into(),
        };
        let first = self.next();
        let placed = self.placed(entries, (first, row.clone()), context);
        if !row.entries.is_empty() {
            self.rows.push(first, row);
        }
        LogAnswer::Appended(placed)
    }

    /// What became of entries of which those in the row were put.
    fn placed(&self, entries: &[Entry], row: (Seq, LogRow), context: &LogContext<'_>) -> Vec<Placed> {
        let (first, row) = row;
        let place = |entry: &Entry| {
            let own = row.entries.iter().position(|put| put.id == entry.id);
            own.map_or_else(
                || {
                    let holder = self.holder(entry, &row.entries, context);
                    Placed::Duplicate(holder.unwrap_or(entry.id))
                },
                |index| Placed::At(first + index as Seq),
            )
        };
        entries.iter().map(place).collect()
    }

    /// Who has the entry's deduplication id already: here, among what is put with it, or in a segment before.
    fn holder(&self, entry: &Entry, new: &[Entry], context: &LogContext<'_>) -> Option<MessageId> {
        let fingerprint = entry.deduplication?;
        let is_recent = |sent: Micros| entry.sent.saturating_sub(sent) < WINDOW_MICROS;
        let here = self.messages().map(|(_, _, other)| other).chain(new);
        let here = here.filter(|other| other.deduplication == Some(fingerprint) && is_recent(other.sent));
        let before = context
            .recent
            .ids
            .get(&fingerprint)
            .filter(|(_, sent)| is_recent(*sent));
        let before = before.filter(|_| context.protocol.rules.keeps(Rule::EarlierLogsOfWindow));
        let here = here.map(|other| other.id).next();
        here.or(before.map(|(id, _)| *id))
    }
}

impl Register for Log {
    type Wish = LogWish;
    type Answer = LogAnswer;
    type Context<'a> = LogContext<'a>;

    fn bytes(wish: &LogWish) -> u64 {
        match wish {
            LogWish::Append { entries, .. } => entries.iter().map(Entry::stored_bytes).sum(),
            LogWish::Seal => 0,
        }
    }

    fn version(&self) -> Version {
        self.version
    }

    fn raise(&mut self) {
        self.version += 1;
    }

    fn work_out(&mut self, wish: &LogWish, was_sent: bool, context: &LogContext<'_>) -> LogAnswer {
        if self.segment > context.segment {
            let is_in_doubt = was_sent && matches!(wish, LogWish::Append { .. });
            return if is_in_doubt && context.protocol.rules.keeps(Rule::GoneIsUnknown) {
                LogAnswer::Unknown
            } else {
                LogAnswer::Gone
            };
        }
        if self.segment < context.segment {
            *self = Self::empty(context.segment, self.version);
        }
        match wish {
            LogWish::Append { chunk, entries } => self.append(*chunk, entries, context),
            LogWish::Seal => {
                self.is_sealed = true;
                LogAnswer::Sealed(self.next())
            }
        }
    }
}
