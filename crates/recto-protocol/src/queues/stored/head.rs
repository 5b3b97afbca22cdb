//! Stored form of a shard's manifest (list of live segments): one column, besides its version.

use std::collections::{BTreeMap, BTreeSet};

use super::{Reader, StoredError};
use crate::queues::limits::{MAX_LIVE_SEGMENTS, MAX_REGISTERS, MAX_SEGMENT_MESSAGES};
use crate::queues::names::{BodyTable, RegisterNumber, Segment, Tenure, Version};
use crate::queues::shard_manifest::{Head, Live, Reach, Resting};

/// Version of the stored format of a shard's manifest (list of live segments).
pub const HEAD_FORMAT_VERSION: u8 = 1;

const WHAT: &str = "a shard manifest";

const FAR: u8 = 1;
const SEALED: u8 = 2;

/// Encodes a shard's manifest (list of live segments) as the bytes of its column.
pub fn encode_head(head: &Head) -> Vec<u8> {
    let mut bytes = vec![HEAD_FORMAT_VERSION];
    bytes.extend(head.ring.to_be_bytes());
    bytes.extend(head.tenure.0.to_be_bytes());
    bytes.extend(head.last.0.to_be_bytes());
    bytes.extend(head.registers.to_be_bytes());
    bytes.extend((head.live.len() as u16).to_be_bytes());
    for (segment, live) in &head.live {
        bytes.extend(segment.0.to_be_bytes());
        bytes.extend(live.register.0.to_be_bytes());
        bytes.extend(live.table.0.to_be_bytes());
        let far = if live.reach == Reach::Far { FAR } else { 0 };
        match live.count {
            None => bytes.push(far),
            Some(count) => {
                bytes.push(far | SEALED);
                bytes.extend(count.to_be_bytes());
            }
        }
    }
    bytes.extend((head.resting.len() as u16).to_be_bytes());
    for resting in &head.resting {
        bytes.extend(resting.register.0.to_be_bytes());
        bytes.extend(resting.segment.0.to_be_bytes());
        bytes.extend(resting.since.to_be_bytes());
    }
    bytes
}

/// Decodes a shard's manifest (list of live segments) from its version and the bytes of its column.
///
/// # Errors
/// The bytes have an unsupported format version, or are damaged.
pub fn decode_head(version: Version, bytes: &[u8]) -> Result<Head, StoredError> {
    let mut reader = Reader::of_register(WHAT, HEAD_FORMAT_VERSION, version, bytes)?;
    let mut head = Head {
        version,
        ring: reader.u64()?,
        tenure: Tenure(reader.u64()?),
        last: Segment(reader.u64()?),
        registers: reader.u32()?,
        live: BTreeMap::new(),
        resting: Vec::new(),
    };
    let is_possible = head.registers as usize <= MAX_REGISTERS;
    reader.check(is_possible, "it has too many versioned cells")?;
    let mut used = BTreeSet::new();
    let count = reader.u16()?;
    let is_possible = usize::from(count) <= MAX_LIVE_SEGMENTS;
    reader.check(is_possible, "it has too many segments")?;
    for _ in 0..count {
        let (segment, live) = read_live(&mut reader)?;
        let is_next = head.live.last_key_value().is_none_or(|(last, _)| *last < segment);
        reader.check(is_next, "its segments are not in order")?;
        reader.check(
            (1..=head.last.0).contains(&segment.0),
            "a segment has an unassigned number",
        )?;
        let is_only = live.count.is_some() || head.opened(live.reach).is_none();
        reader.check(is_only, "two open segments have the same reach")?;
        check_register(&reader, &mut used, live.register, head.registers)?;
        head.live.insert(segment, live);
    }
    for _ in 0..reader.u16()? {
        let resting = Resting {
            register: RegisterNumber(reader.u32()?),
            segment: Segment(reader.u64()?),
            since: reader.i64()?,
        };
        check_register(&reader, &mut used, resting.register, head.registers)?;
        head.resting.push(resting);
    }
    reader.check(
        used.len() == head.registers as usize,
        "a versioned cell is neither in use nor at rest",
    )?;
    reader.end()?;
    Ok(head)
}

fn check_register(
    reader: &Reader<'_>,
    used: &mut BTreeSet<RegisterNumber>,
    register: RegisterNumber,
    registers: u32,
) -> Result<(), StoredError> {
    reader.check(register.0 < registers, "a versioned cell does not exist")?;
    reader.check(used.insert(register), "a versioned cell occurs twice")
}

fn read_live(reader: &mut Reader<'_>) -> Result<(Segment, Live), StoredError> {
    let segment = Segment(reader.u64()?);
    let register = RegisterNumber(reader.u32()?);
    let table = BodyTable(reader.u32()?);
    let flags = reader.u8()?;
    let is_known = flags & !(FAR | SEALED) == 0;
    reader.check(is_known, "a segment has unknown flags")?;
    let reach = if flags & FAR == 0 { Reach::Near } else { Reach::Far };
    let count = (flags & SEALED != 0).then(|| reader.u16()).transpose()?;
    let is_possible = count.is_none_or(|count| count <= MAX_SEGMENT_MESSAGES);
    reader.check(is_possible, "a segment has too many messages")?;
    let live = Live {
        register,
        table,
        reach,
        count,
    };
    Ok((segment, live))
}
