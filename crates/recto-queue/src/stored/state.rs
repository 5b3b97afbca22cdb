//! A state: one column, beside the version.

use std::collections::BTreeMap;

use super::{Reader, StoredError, push_address};
use crate::limits::{MAX_PENDING, MAX_SEGMENT_MESSAGES};
use crate::names::{Chunk, ClaimId, Segment, Seq, Version};
use crate::resolved::Resolved;
use crate::state::{Pending, Standing, State, Target};

/// The version of the form of a state.
pub const STATE_FORMAT_VERSION: u8 = 1;

const WHAT: &str = "a state";

const CLAIMED: u8 = 0;
const WAITING: u8 = 1;
const LEAVING: u8 = 2;
const MAX_WORDS: u8 = (MAX_SEGMENT_MESSAGES / 64) as u8;

/// The column.
pub fn encode_state(state: &State) -> Vec<u8> {
    let mut bytes = vec![STATE_FORMAT_VERSION];
    bytes.extend(state.segment.0.to_be_bytes());
    let words = state.resolved.words();
    bytes.push(words.len() as u8);
    bytes.extend(words.iter().flat_map(|word| word.to_be_bytes()));
    bytes.extend((state.pending.len() as u16).to_be_bytes());
    for (seq, pending) in &state.pending {
        bytes.extend(seq.to_be_bytes());
        push_pending(&mut bytes, pending);
    }
    bytes
}

fn push_pending(bytes: &mut Vec<u8>, pending: &Pending) {
    bytes.extend(pending.attempts.to_be_bytes());
    bytes.extend(pending.first_received.to_be_bytes());
    bytes.extend(pending.claim.0.to_be_bytes());
    bytes.extend(pending.until.to_be_bytes());
    match pending.standing {
        Standing::Claimed => bytes.push(CLAIMED),
        Standing::Waiting => bytes.push(WAITING),
        Standing::Leaving(target) => {
            bytes.push(LEAVING);
            push_address(bytes, target.address);
            bytes.extend(target.segment.0.to_be_bytes());
            bytes.extend(target.chunk.0.to_be_bytes());
        }
    }
}

/// The state of these columns.
///
/// # Errors
/// It is of another version, or damaged.
pub fn decode_state(version: Version, bytes: &[u8]) -> Result<State, StoredError> {
    let mut reader = Reader::of_register(WHAT, STATE_FORMAT_VERSION, version, bytes)?;
    let segment = Segment(reader.u64()?);
    let count = reader.u8()?;
    reader.check(count <= MAX_WORDS, "more is resolved than a segment has")?;
    let words: Result<Vec<u64>, StoredError> = (0..count).map(|_| reader.u64()).collect();
    let resolved = Resolved::from_words(words?);
    let resolved = resolved.ok_or(reader.damaged("what is resolved ends with nothing"))?;
    let count = reader.u16()?;
    reader.check(usize::from(count) <= MAX_PENDING, "more is pending than may be")?;
    let mut pending = BTreeMap::new();
    for _ in 0..count {
        let seq = read_seq(&mut reader, &pending, &resolved)?;
        pending.insert(seq, read_pending(&mut reader)?);
    }
    reader.end()?;
    Ok(State {
        version,
        segment,
        resolved,
        pending,
    })
}

fn read_seq(
    reader: &mut Reader<'_>,
    before: &BTreeMap<Seq, Pending>,
    resolved: &Resolved,
) -> Result<Seq, StoredError> {
    let seq = reader.u16()?;
    let is_next = before.last_key_value().is_none_or(|(last, _)| *last < seq);
    reader.check(is_next, "what is pending is not in order")?;
    let is_place = seq < MAX_SEGMENT_MESSAGES && !resolved.has(seq);
    reader.check(is_place, "what is pending is resolved, or beyond the segment")?;
    Ok(seq)
}

fn read_pending(reader: &mut Reader<'_>) -> Result<Pending, StoredError> {
    let mut pending = Pending {
        attempts: reader.u16()?,
        first_received: reader.i64()?,
        claim: ClaimId(reader.u128()?),
        until: reader.i64()?,
        standing: Standing::Claimed,
    };
    match reader.u8()? {
        CLAIMED => {}
        WAITING => pending.standing = Standing::Waiting,
        LEAVING => {
            pending.standing = Standing::Leaving(Target {
                address: reader.address()?,
                segment: Segment(reader.u64()?),
                chunk: Chunk(reader.u128()?),
            });
        }
        _ => return Err(reader.damaged("what is pending stands in no way that there is")),
    }
    Ok(pending)
}
