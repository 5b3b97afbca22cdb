//! Stored form of a segment's log (list of its messages): a header in a static column, and rows.

use super::{Reader, StoredError, push_address};
use crate::queues::limits::{MAX_SEGMENT_BYTES, MAX_SEGMENT_MESSAGES};
use crate::queues::log::{Entry, Log, LogRow, Origin, Received};
use crate::queues::names::{Chunk, Fingerprint, MessageId, Segment, Seq, Version};
use crate::queues::rows::Rows;

/// Version of the stored format of a log header, and of a log row without messages from other
/// queues.
pub const LOG_FORMAT_VERSION: u8 = 1;
/// Version of the stored format of a log row with a message that came from another queue. Earlier
/// releases must not read such a row: they would count its retention from the first send, and
/// delete the message too early.
pub const ARRIVALS_FORMAT_VERSION: u8 = 2;

const LOG: &str = "a segment log";
const ROW: &str = "a row of a segment log";

const GROUP: u8 = 1;
const DEDUPLICATION: u8 = 2;
const ORIGIN: u8 = 4;
const RECEIVED: u8 = 8;
const ARRIVED: u8 = 16;

/// Encodes the header of a log as the bytes of its static column, without the version of the log.
pub fn encode_log_header(log: &Log) -> Vec<u8> {
    let mut bytes = vec![LOG_FORMAT_VERSION];
    bytes.extend(log.segment.0.to_be_bytes());
    bytes.extend(log.next().to_be_bytes());
    bytes.extend(log.rows.count().to_be_bytes());
    bytes.extend(log.bytes.to_be_bytes());
    bytes.push(u8::from(log.is_sealed));
    bytes
}

/// Encodes a row (the messages of one append) of the log of this segment.
pub fn encode_log_row(segment: Segment, row: &LogRow) -> Vec<u8> {
    let has_arrivals = row.entries.iter().any(|entry| entry.arrived.is_some());
    let mut bytes = vec![if has_arrivals {
        ARRIVALS_FORMAT_VERSION
    } else {
        LOG_FORMAT_VERSION
    }];
    bytes.extend(segment.0.to_be_bytes());
    bytes.extend(row.chunk.0.to_be_bytes());
    bytes.extend((row.entries.len() as u16).to_be_bytes());
    for entry in &*row.entries {
        push_entry(&mut bytes, entry);
    }
    bytes
}

fn push_entry(bytes: &mut Vec<u8>, entry: &Entry) {
    bytes.extend(entry.id.0.to_be_bytes());
    bytes.extend(entry.index.to_be_bytes());
    bytes.extend(entry.size.to_be_bytes());
    bytes.extend(entry.sent.to_be_bytes());
    bytes.extend(entry.not_before.to_be_bytes());
    let has = |is_there: bool, flag: u8| if is_there { flag } else { 0 };
    bytes.push(
        has(entry.group.is_some(), GROUP)
            | has(entry.deduplication.is_some(), DEDUPLICATION)
            | has(entry.origin.is_some(), ORIGIN)
            | has(entry.received.is_some(), RECEIVED)
            | has(entry.arrived.is_some(), ARRIVED),
    );
    for fingerprint in [entry.group, entry.deduplication].into_iter().flatten() {
        bytes.extend(fingerprint.0.to_be_bytes());
    }
    if let Some(origin) = entry.origin {
        push_address(bytes, origin.address);
        bytes.extend(origin.segment.0.to_be_bytes());
        bytes.extend(origin.seq.to_be_bytes());
    }
    if let Some(received) = entry.received {
        bytes.extend(received.attempts.to_be_bytes());
        bytes.extend(received.first.to_be_bytes());
        bytes.extend(received.until.to_be_bytes());
    }
    if let Some(arrived) = entry.arrived {
        bytes.extend(arrived.to_be_bytes());
    }
}

/// Decodes a row of a log, and returns the row with its segment.
///
/// # Errors
/// The bytes have an unsupported format version, or are damaged.
pub fn decode_log_row(bytes: &[u8]) -> Result<(Segment, LogRow), StoredError> {
    let has_arrivals = bytes.first() == Some(&ARRIVALS_FORMAT_VERSION);
    let version = if has_arrivals {
        ARRIVALS_FORMAT_VERSION
    } else {
        LOG_FORMAT_VERSION
    };
    let mut reader = Reader::new(ROW, version, bytes)?;
    let segment = Segment(reader.u64()?);
    let chunk = Chunk(reader.u128()?);
    let count = reader.u16()?;
    let is_possible = (1..=MAX_SEGMENT_MESSAGES).contains(&count);
    reader.check(is_possible, "it has no messages, or more than a segment can have")?;
    let mut entries = Vec::new();
    for _ in 0..count {
        entries.push(read_entry(&mut reader, has_arrivals)?);
    }
    let is_needed = !has_arrivals || entries.iter().any(|entry| entry.arrived.is_some());
    reader.check(
        is_needed,
        "its version is for messages from another queue, and it has none",
    )?;
    reader.end()?;
    let entries = entries.into();
    Ok((segment, LogRow { chunk, entries }))
}

fn read_entry(reader: &mut Reader<'_>, may_have_arrived: bool) -> Result<Entry, StoredError> {
    let mut entry = Entry {
        id: MessageId(reader.u128()?),
        index: reader.u16()?,
        size: reader.u32()?,
        sent: reader.i64()?,
        not_before: reader.i64()?,
        group: None,
        deduplication: None,
        origin: None,
        received: None,
        arrived: None,
    };
    let flags = reader.u8()?;
    let arrived = if may_have_arrived { ARRIVED } else { 0 };
    let is_known = flags & !(GROUP | DEDUPLICATION | ORIGIN | RECEIVED | arrived) == 0;
    reader.check(is_known, "a message has unknown flags")?;
    if flags & GROUP != 0 {
        entry.group = Some(Fingerprint(reader.u128()?));
    }
    if flags & DEDUPLICATION != 0 {
        entry.deduplication = Some(Fingerprint(reader.u128()?));
    }
    if flags & ORIGIN != 0 {
        entry.origin = Some(Origin {
            address: reader.address()?,
            segment: Segment(reader.u64()?),
            seq: reader.u16()?,
        });
    }
    if flags & RECEIVED != 0 {
        let received = Received {
            attempts: reader.u16()?,
            first: reader.i64()?,
            until: reader.i64()?,
        };
        reader.check(received.attempts > 0, "a received message has 0 attempts")?;
        entry.received = Some(received);
    }
    if flags & ARRIVED != 0 {
        entry.arrived = Some(reader.i64()?);
    }
    Ok(entry)
}

/// Header of a log, from its static column: the segment (message batch) and the counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LogHeader {
    version: Version,
    segment: Segment,
    next: Seq,
    rows: Seq,
    bytes: u64,
    is_sealed: bool,
}

impl LogHeader {
    /// Returns the number of rows of the log. Further stored rows belong to earlier segments that
    /// used the log's cell.
    pub fn rows(&self) -> Seq {
        self.rows
    }

    /// Returns the number of messages of a segment, and the bytes of their bodies; `None` if the
    /// log belongs to another segment.
    pub fn sent_to(&self, segment: Segment) -> Option<(Seq, u64)> {
        (self.segment == segment).then_some((self.next, self.bytes))
    }

    /// Returns the index (from 0) of the first row that the caller needs, in addition to the rows
    /// of `copy`, an earlier value of the log. If the caller has not read the rows from this index
    /// on together with this header, it must read header and rows again.
    pub fn needed_from(&self, copy: &Log) -> Seq {
        let is_before = copy.segment == self.segment
            && copy.version <= self.version
            && copy.next() <= self.next
            && copy.rows.count() <= self.rows;
        if is_before { copy.rows.count() } else { 0 }
    }
}

/// Decodes the header of a log from its version, and from the bytes of its static column.
///
/// # Errors
/// The bytes have an unsupported format version, or are damaged.
pub fn decode_log_header(version: Version, bytes: &[u8]) -> Result<LogHeader, StoredError> {
    let mut reader = Reader::of_register(LOG, LOG_FORMAT_VERSION, version, bytes)?;
    let header = LogHeader {
        version,
        segment: Segment(reader.u64()?),
        next: reader.u16()?,
        rows: reader.u16()?,
        bytes: reader.u64()?,
        is_sealed: reader.bool()?,
    };
    reader.check(
        header.next <= MAX_SEGMENT_MESSAGES,
        "it has more messages than a segment can have",
    )?;
    let is_possible = header.rows <= header.next && (header.rows > 0 || header.next == 0);
    reader.check(
        is_possible,
        "the number of its rows does not match the number of its messages",
    )?;
    let is_possible = header.bytes <= MAX_SEGMENT_BYTES;
    reader.check(is_possible, "it has more bytes than a segment can have")?;
    reader.end()?;
    Ok(header)
}

/// Decodes a log from its header, the rows of `copy` (an earlier value of the log), and `rows`: the
/// stored rows, each with its index, from [`LogHeader::needed_from`] up to [`LogHeader::rows`].
///
/// # Errors
/// A row has an unsupported format version, belongs to another segment, or is damaged, or rows are
/// missing.
pub fn decode_log<'b>(
    header: LogHeader,
    copy: &Log,
    rows: impl IntoIterator<Item = (Seq, &'b [u8])>,
) -> Result<Log, StoredError> {
    let from = header.needed_from(copy);
    let known = if from > 0 {
        copy.rows.clone()
    } else {
        Rows::default()
    };
    let mut log = Log {
        version: header.version,
        segment: header.segment,
        bytes: header.bytes,
        is_sealed: header.is_sealed,
        rows: known,
    };
    let check = |is_so: bool, reason| {
        if is_so {
            Ok(())
        } else {
            Err(StoredError::Damaged { what: LOG, reason })
        }
    };
    for (number, row) in rows {
        let (segment, row) = decode_log_row(row)?;
        check(
            segment == header.segment,
            "one of its rows belongs to another segment",
        )?;
        let is_next = number == log.rows.count() && number < header.rows;
        check(is_next, "its rows are not consecutive")?;
        let first = log.next();
        let is_within = row.entries.len() <= usize::from(header.next - first);
        check(is_within, "its rows have more messages than its header")?;
        log.rows.push(first, row);
    }
    let is_whole = log.rows.count() == header.rows && log.next() == header.next;
    check(is_whole, "it has fewer rows or messages than its header")?;
    Ok(log)
}
