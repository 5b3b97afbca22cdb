//! Bytes of a record (drawn in the documentation of `log`).

use super::changes::MAX_RECORD_BYTES;
use super::position::Id;

/// Version of the records of a log.
pub(super) const RECORD_VERSION: u32 = 1;
/// Number of bytes before the changes of a record.
pub(super) const HEADER_BYTES: usize = 56;
/// Offset of the record's checksum.
const CHECKSUM: usize = 52;
/// Each record begins at a multiple of this number of bytes.
pub(super) const ALIGNMENT: usize = 8;

/// Decoded record whose checksum is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub(super) log: Id,
    pub(super) generation: Id,
    pub(super) number: u64,
    /// Checksum of the record before.
    pub(super) previous: u32,
    /// Checksum of this record.
    pub(super) checksum: u32,
    pub(super) changes: &'a [u8],
    /// Number of bytes of the whole record.
    pub(super) len: usize,
}

/// Returns the value that the first record of a generation has instead of the checksum of the record before.
pub(super) fn first_checksum(generation: Id) -> u32 {
    crc32c::crc32c(&generation)
}

/// Returns the number of bytes of a record with these bytes of changes.
pub(super) fn record_len(changes: usize) -> usize {
    (HEADER_BYTES + changes).next_multiple_of(ALIGNMENT)
}

/// Returns the bytes of a record, and its checksum.
pub(super) fn encode(
    (log, generation): (Id, Id),
    number: u64,
    previous: u32,
    changes: &[u8],
) -> (Vec<u8>, u32) {
    let len = record_len(changes.len());
    let mut out = Vec::with_capacity(len);
    out.extend_from_slice(&RECORD_VERSION.to_le_bytes());
    out.extend_from_slice(&(changes.len() as u32).to_le_bytes());
    out.extend_from_slice(&log);
    out.extend_from_slice(&generation);
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(&previous.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(changes);
    out.resize(len, 0);
    let checksum = checksum(&out);
    out[CHECKSUM..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
    (out, checksum)
}

fn checksum(record: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&record[..CHECKSUM]), &record[HEADER_BYTES..])
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// Decodes the record at the start of `bytes`. Returns `None` if there is no valid record.
pub(super) fn decode(bytes: &[u8]) -> Option<Record<'_>> {
    if u32::from_le_bytes(field(bytes, 0)?) != RECORD_VERSION {
        return None;
    }
    let changes = u32::from_le_bytes(field(bytes, 4)?) as usize;
    if changes > MAX_RECORD_BYTES {
        return None;
    }
    let record = bytes.get(..record_len(changes))?;
    let stored = u32::from_le_bytes(field(record, CHECKSUM)?);
    if checksum(record) != stored {
        return None;
    }
    Some(Record {
        log: field(record, 8)?,
        generation: field(record, 24)?,
        number: u64::from_le_bytes(field(record, 40)?),
        previous: u32::from_le_bytes(field(record, 48)?),
        checksum: stored,
        changes: &record[HEADER_BYTES..HEADER_BYTES + changes],
        len: record.len(),
    })
}

/// Returns whether a write of a record of this log and generation began at the start of `bytes`, although
/// there is no valid record.
pub(super) fn is_begun(bytes: &[u8], log: Id, generation: Id) -> bool {
    field(bytes, 8) == Some(log) && field(bytes, 24) == Some(generation)
}

/// Returns whether `bytes` begin like a record of this log with a number after `last`. The record may be
/// incomplete or damaged.
pub(super) fn is_later(bytes: &[u8], log: Id, last: u64) -> bool {
    let number = field(bytes, 40).map(u64::from_le_bytes);
    field(bytes, 8) == Some(log) && number.is_some_and(|number| number > last)
}

/// Returns the offsets at which `bytes` may contain records of the log, from `first` on.
pub(super) fn candidates(bytes: &[u8], log: Id, first: usize) -> impl Iterator<Item = usize> {
    let aligned = (first..bytes.len()).step_by(ALIGNMENT);
    aligned.filter(move |at| bytes.get(at + 8..at + 24) == Some(log.as_slice()))
}
