//! Log of a segment (batch of consecutive messages): the list of its messages. Messages are
//! appended until it is sealed.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::queues::cas_loop::Register;
use crate::queues::limits::{MESSAGE_OVERHEAD_BYTES, Protocol, WINDOW_MICROS};
use crate::queues::names::{Address, Chunk, Fingerprint, MessageId, Micros, Segment, Seq, Version};
use crate::queues::rows::Rows;
use crate::queues::rules::Rule;

/// Entry of one message in the log of its segment (message batch). The body is stored elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Identifier by which users know the message.
    pub id: MessageId,
    /// Index (from 0) of the message's body in its chunk: the bodies that were written together.
    pub index: u16,
    /// Size of the body and the attributes, in bytes.
    pub size: u32,
    /// Time when the message was sent, by the sender's clock, in microseconds since 1970.
    pub sent: Micros,
    /// Earliest time when the message can be received, in microseconds since 1970.
    pub not_before: Micros,
    /// Hash of the name of the message's group; `None`: the message has no group.
    pub group: Option<Fingerprint>,
    /// Hash of the deduplication id; `None`: the message has no such id.
    pub deduplication: Option<Fingerprint>,
    /// Location of the message before it was moved to this segment; `None`: it was sent here.
    pub origin: Option<Origin>,
    /// Receives of the message before it was moved here within its shard; `None`: it was never
    /// received, or came from elsewhere.
    pub received: Option<Received>,
    /// Time when the message came from another queue, by the clock of the process that moved it;
    /// `None`: it did not. Later moves within the shard keep this time.
    pub arrived: Option<Micros>,
}

impl Entry {
    /// Returns the time from which the retention of the message counts: its arrival in this queue,
    /// or its first due time, whichever is later.
    pub fn due(&self) -> Micros {
        self.arrived.unwrap_or(self.sent).max(self.not_before)
    }

    /// Returns the time from which the message can be received for the first time in this segment.
    pub fn free_from(&self) -> Micros {
        let until = self.received.map_or(Micros::MIN, |received| received.until);
        self.not_before.max(until)
    }

    /// Returns the approximate stored size of the message with its body, in bytes.
    fn stored_bytes(&self) -> u64 {
        u64::from(self.size) + MESSAGE_OVERHEAD_BYTES
    }
}

/// Location of a message before it was moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// Shard (part of a queue) that had the message before the move.
    pub address: Address,
    /// Segment (message batch) that had the message before the move.
    pub segment: Segment,
    /// Position of the message in `segment`, from 0.
    pub seq: Seq,
}

/// Receives of a message in segments before it was moved. Its number of attempts continues from
/// there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Received {
    /// Number of receives before the move, at least 1.
    pub attempts: u16,
    /// Time of the first receive, in microseconds since 1970.
    pub first: Micros,
    /// Time from which the message can be received again.
    pub until: Micros,
}

/// Row of a log: the messages that one append added.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LogRow {
    /// Random id under which the bodies of these messages are stored.
    pub chunk: Chunk,
    /// Entries of the messages, in the order of their positions.
    pub entries: Arc<[Entry]>,
}

/// Log of a segment (message batch): the list of its messages. Later segments reuse the log's cell.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Log {
    pub(crate) version: Version,
    pub(crate) segment: Segment,
    pub(crate) bytes: u64,
    pub(crate) is_sealed: bool,
    pub(crate) rows: Rows,
}

/// Deduplication ids in earlier, sealed segments. Each id has its message, and the time when the
/// message was sent.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Recent {
    ids: BTreeMap<Fingerprint, (MessageId, Micros)>,
}

impl Recent {
    /// Creates an empty set of ids.
    pub fn new() -> Self {
        Self::default()
    }
}

/// Adds deduplication ids in any order. If several messages have one id, the message that was sent
/// last counts.
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

/// Command to the log of a segment (list of its messages).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LogCommand {
    /// Append messages whose bodies are stored under `chunk` in the segment's table for message
    /// bodies.
    Append {
        /// Random id under which the bodies are stored.
        chunk: Chunk,
        /// Entries of the messages to append, at least one.
        entries: Arc<[Entry]>,
    },
    /// Seal the log, so that no more messages can be appended.
    Seal,
}

/// Response of the log of a segment (message batch) to a command.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LogResponse {
    /// The append is done. The value has the outcome for each message.
    Appended(Vec<Placed>),
    /// The log is sealed, with this number of messages. No message was appended, and none will be.
    Sealed(Seq),
    /// The messages are too large for any segment (message batch).
    TooLarge,
    /// The segment was released, and another segment uses the cell. No message was appended, and
    /// none will be.
    Gone,
    /// Another segment uses the cell, so it is no longer possible to find out whether the messages
    /// were appended.
    Unknown,
}

/// Outcome of appending one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Placed {
    /// The message is in the log at this position.
    At(Seq),
    /// The message was not appended, because this message already has the deduplication id.
    Duplicate(MessageId),
}

/// Inputs for the evaluation of commands to a log.
#[derive(Debug, Clone, Copy)]
pub struct LogContext<'a> {
    /// Segment that uses this cell, according to the shard's manifest (list of live segments).
    pub segment: Segment,
    /// Deduplication ids of the earlier segments (message batches).
    pub recent: &'a Recent,
    /// Limits and rules of the protocol.
    pub protocol: Protocol,
}

impl Log {
    /// Returns the log of a cell that was never written.
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

    /// Returns the segment (message batch) whose messages are in the log.
    pub fn segment(&self) -> Segment {
        self.segment
    }

    /// Returns the number of messages if the log is sealed; `None` if it is open.
    pub fn sealed(&self) -> Option<Seq> {
        self.is_sealed.then(|| self.next())
    }

    /// Returns the position of the next message, which is also the number of messages.
    pub fn next(&self) -> Seq {
        let last = self.rows.last();
        last.map_or(0, |(first, row)| first + row.entries.len() as Seq)
    }

    /// Returns all messages, each with its position and the id under which its body is stored.
    pub fn messages(&self) -> impl Iterator<Item = (Seq, Chunk, &Entry)> {
        self.rows.iter().flat_map(|(first, row)| {
            let places = first..;
            places
                .zip(row.entries.iter())
                .map(|(seq, entry)| (seq, row.chunk, entry))
        })
    }

    /// Returns the messages, by position, that were received in an earlier segment before segment
    /// merging moved them to this one.
    pub(crate) fn moved_on(&self) -> impl Iterator<Item = (Seq, Received)> {
        let moved_on = self.rows.moved_on();
        moved_on.filter_map(|seq| Some((seq, self.message(seq)?.1.received?)))
    }

    /// Returns the earliest time from which a retention counts, among the messages at `seq` or
    /// later positions; `None` if there are no such messages.
    pub fn first_due_from(&self, seq: Seq) -> Option<Micros> {
        let rows = self.rows.iter().rev();
        let rows = rows.take_while(|(first, row)| usize::from(*first) + row.entries.len() > usize::from(seq));
        rows.flat_map(|(_, row)| &*row.entries).map(Entry::due).min()
    }

    /// Returns the message at a position, and the id under which its body is stored.
    pub fn message(&self, seq: Seq) -> Option<(Chunk, &Entry)> {
        #[cfg(test)]
        crate::queues::tests::LOOKED_AT.set(crate::queues::tests::LOOKED_AT.get() + 1);
        let (first, row) = self.rows.at(seq)?;
        let entry = row.entries.get(usize::from(seq - first))?;
        Some((row.chunk, entry))
    }

    /// Returns the rows, by index from 0, that the conditional write of this log puts together with
    /// the static column. `before` is the [copy](crate::queues::Round::copy) from which this log
    /// was computed. The result is the added rows, or all rows if another segment used the cell
    /// before.
    pub fn rows_since(&self, before: &Self) -> impl Iterator<Item = (Seq, &LogRow)> {
        let first = if before.segment == self.segment {
            before.rows.count()
        } else {
            0
        };
        (first..).zip(self.rows.from(first))
    }

    /// Returns the deduplication ids of this log, to be used as [`LogContext::recent`] of later
    /// segments (message batches).
    pub fn fingerprints(&self) -> impl Iterator<Item = (Fingerprint, (MessageId, Micros))> {
        let entries = self.messages().map(|(_, _, entry)| entry);
        entries.filter_map(|entry| Some((entry.deduplication?, (entry.id, entry.sent))))
    }

    fn append(&mut self, chunk: Chunk, entries: &[Entry], context: &LogContext<'_>) -> LogResponse {
        let rules = context.protocol.rules;
        if rules.keeps(Rule::SettledByChunk)
            && let Some((first, row)) = self.rows.of_chunk(chunk)
        {
            let row = (first, row.clone());
            return LogResponse::Appended(self.placed(entries, row, context));
        }
        if self.is_sealed && rules.keeps(Rule::SealedIsFinal) {
            return LogResponse::Sealed(self.next());
        }
        let bytes = |entries: &[Entry]| entries.iter().map(|entry| u64::from(entry.size)).sum::<u64>();
        let (most_messages, most_bytes) = (context.protocol.segment_messages, context.protocol.segment_bytes);
        if entries.len() > usize::from(most_messages) || bytes(entries) > most_bytes {
            return LogResponse::TooLarge;
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
            return LogResponse::Sealed(self.next());
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
        LogResponse::Appended(placed)
    }

    /// Returns the outcome for each message of an append. `row` has the messages that were
    /// appended.
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

    /// Returns the message that already has the deduplication id of `entry`: in this log, in `new`,
    /// or in an earlier segment.
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
    type Command = LogCommand;
    type Response = LogResponse;
    type Context<'a> = LogContext<'a>;

    fn bytes(command: &LogCommand) -> u64 {
        match command {
            LogCommand::Append { entries, .. } => entries.iter().map(Entry::stored_bytes).sum(),
            LogCommand::Seal => 0,
        }
    }

    fn version(&self) -> Version {
        self.version
    }

    fn raise(&mut self) {
        self.version += 1;
    }

    fn work_out(&mut self, command: &LogCommand, was_sent: bool, context: &LogContext<'_>) -> LogResponse {
        if self.segment > context.segment {
            let is_in_doubt = was_sent && matches!(command, LogCommand::Append { .. });
            return if is_in_doubt && context.protocol.rules.keeps(Rule::GoneIsUnknown) {
                LogResponse::Unknown
            } else {
                LogResponse::Gone
            };
        }
        if self.segment < context.segment {
            *self = Self::empty(context.segment, self.version);
        }
        match command {
            LogCommand::Append { chunk, entries } => self.append(*chunk, entries, context),
            LogCommand::Seal => {
                self.is_sealed = true;
                LogResponse::Sealed(self.next())
            }
        }
    }
}
