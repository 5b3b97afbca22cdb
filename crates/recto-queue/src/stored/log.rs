//! A log: its static column, and its rows.

use std::collections::BTreeMap;

use super::{Reader, StoredError, push_address};
use crate::limits::{MAX_SEGMENT_BYTES, MAX_SEGMENT_MESSAGES};
use crate::log::{Entry, Log, LogRow, Origin};
use crate::names::{Chunk, Fingerprint, MessageId, Segment, Seq, Version};

/// The version of the form of a log and of its rows.
pub const LOG_FORMAT_VERSION: u8 = 1;

const LOG: &str = "a log";
const ROW: &str = "a log's row";

const GROUP: u8 = 1;
const DEDUPLICATION: u8 = 2;
const ORIGIN: u8 = 4;

/// The static column, beside the version.
pub fn encode_log(log: &Log) -> Vec<u8> {
    let mut bytes = vec![LOG_FORMAT_VERSION];
    bytes.extend(log.segment.0.to_be_bytes());
    bytes.extend(log.next().to_be_bytes());
    bytes.extend(log.bytes.to_be_bytes());
    bytes.push(u8::from(log.is_sealed));
    bytes
}

/// A row, of this segment.
pub fn encode_log_row(segment: Segment, row: &LogRow) -> Vec<u8> {
    let mut bytes = vec![LOG_FORMAT_VERSION];
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
            | has(entry.origin.is_some(), ORIGIN),
    );
    for fingerprint in [entry.group, entry.deduplication].into_iter().flatten() {
        bytes.extend(fingerprint.0.to_be_bytes());
    }
    if let Some(origin) = entry.origin {
        push_address(bytes, origin.address);
        bytes.extend(origin.segment.0.to_be_bytes());
        bytes.extend(origin.seq.to_be_bytes());
    }
}

/// What a row says, and of which segment it is.
///
/// # Errors
/// It is of another version, or damaged.
pub fn decode_log_row(bytes: &[u8]) -> Result<(Segment, LogRow), StoredError> {
    let mut reader = Reader::new(ROW, LOG_FORMAT_VERSION, bytes)?;
    let segment = Segment(reader.u64()?);
    let chunk = Chunk(reader.u128()?);
    let count = reader.u16()?;
    let is_possible = (1..=MAX_SEGMENT_MESSAGES).contains(&count);
    reader.check(is_possible, "it has no messages, or more than a segment")?;
    let mut entries = Vec::new();
    for _ in 0..count {
        entries.push(read_entry(&mut reader)?);
    }
    reader.end()?;
    let entries = entries.into();
    Ok((segment, LogRow { chunk, entries }))
}

fn read_entry(reader: &mut Reader<'_>) -> Result<Entry, StoredError> {
    let mut entry = Entry {
        id: MessageId(reader.u128()?),
        index: reader.u16()?,
        size: reader.u32()?,
        sent: reader.i64()?,
        not_before: reader.i64()?,
        group: None,
        deduplication: None,
        origin: None,
    };
    let flags = reader.u8()?;
    let is_known = flags & !(GROUP | DEDUPLICATION | ORIGIN) == 0;
    reader.check(is_known, "a message has what no message has")?;
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
    Ok(entry)
}

/// The log of these columns and rows, by place; rows of segments that had the register before are passed over.
///
/// # Errors
/// Something is of another version, or damaged, or rows are missing.
pub fn decode_log<'b>(
    version: Version,
    bytes: &[u8],
    rows: impl IntoIterator<Item = (Seq, &'b [u8])>,
) -> Result<Log, StoredError> {
    let mut reader = Reader::of_register(LOG, LOG_FORMAT_VERSION, version, bytes)?;
    let mut log = Log {
        version,
        segment: Segment(reader.u64()?),
        bytes: 0,
        is_sealed: false,
        rows: BTreeMap::new(),
    };
    let next = reader.u16()?;
    reader.check(next <= MAX_SEGMENT_MESSAGES, "it has more than a segment")?;
    log.bytes = reader.u64()?;
    reader.check(log.bytes <= MAX_SEGMENT_BYTES, "it has more bytes than a segment")?;
    log.is_sealed = reader.bool()?;
    for (first, row) in rows {
        let (segment, row) = decode_log_row(row)?;
        if segment == log.segment && first < next {
            reader.check(first == log.next(), "its rows do not follow each other")?;
            reader.check(
                row.entries.len() <= usize::from(next - first),
                "its rows have more",
            )?;
            log.rows.insert(first, row);
        }
    }
    reader.check(log.next() == next, "it has fewer rows than it says")?;
    reader.end()?;
    Ok(log)
}
