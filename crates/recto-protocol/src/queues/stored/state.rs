//! Stored form of a segment's state (progress of its messages): one column, besides its version.

use std::collections::{BTreeMap, BTreeSet};

use super::{Reader, StoredError, push_address, push_compact};
use crate::queues::ack_bitmap::Resolved;
use crate::queues::claims::{Pending, Standing, State, Target};
use crate::queues::limits::MAX_SEGMENT_MESSAGES;
use crate::queues::names::{Chunk, ClaimId, Micros, Segment, Seq, Version};

/// Version of the stored format of a state with at most 1,024 pending messages (received or being
/// moved).
pub const STATE_FORMAT_VERSION: u8 = 1;
/// Version of the stored format of a state with more than 1,024 pending messages. The format is
/// compact: 4,096 messages take 1.5 to 3 times the bytes of 1,024 messages in the other format.
pub const CROWDED_FORMAT_VERSION: u8 = 2;
/// Maximum number of pending messages in the stored format of version 1.
const MAX_PLAIN: usize = 1_024;

const WHAT: &str = "a segment state";

const CLAIMED: u8 = 0;
const WAITING: u8 = 1;
const LEAVING: u8 = 2;
const MAX_WORDS: u8 = (MAX_SEGMENT_MESSAGES / 64) as u8;

/// Encodes the state of a segment (progress of its messages) as the bytes of its column.
pub fn encode_state(state: &State) -> Vec<u8> {
    let is_plain = state.pending.len() <= MAX_PLAIN;
    let mut bytes = vec![if is_plain {
        STATE_FORMAT_VERSION
    } else {
        CROWDED_FORMAT_VERSION
    }];
    bytes.extend(state.segment.0.to_be_bytes());
    let words = state.resolved.words();
    bytes.push(words.len() as u8);
    bytes.extend(words.iter().flat_map(|word| word.to_be_bytes()));
    bytes.extend((state.pending.len() as u16).to_be_bytes());
    if !is_plain {
        push_crowd(&mut bytes, &state.pending);
        return bytes;
    }
    for (seq, pending) in &state.pending {
        bytes.extend(seq.to_be_bytes());
        push_pending(&mut bytes, pending);
    }
    bytes
}

/// Earliest times of the pending messages. The stored times of each message are relative to them.
#[derive(Clone, Copy)]
struct Base {
    first_received: Micros,
    until: Micros,
}

impl Base {
    fn of<'p>(pending: impl Iterator<Item = &'p Pending> + Clone) -> Self {
        let first_received = pending.clone().map(|pending| pending.first_received).min();
        let until = pending.map(|pending| pending.until).min();
        Self {
            first_received: first_received.unwrap_or(0),
            until: until.unwrap_or(0),
        }
    }
}

fn push_crowd(bytes: &mut Vec<u8>, all: &BTreeMap<Seq, Pending>) {
    let mut numbers = BTreeMap::new();
    let mut claims = Vec::new();
    for pending in all.values() {
        numbers.entry(pending.claim).or_insert_with(|| {
            claims.push(pending.claim);
            claims.len() as u64 - 1
        });
    }
    bytes.extend((claims.len() as u16).to_be_bytes());
    bytes.extend(claims.iter().flat_map(|claim| claim.0.to_be_bytes()));
    let base = Base::of(all.values());
    bytes.extend(base.first_received.to_be_bytes());
    bytes.extend(base.until.to_be_bytes());
    let mut next = 0;
    for (seq, pending) in all {
        push_compact(bytes, u64::from(seq - next));
        next = seq + 1;
        push_compact(bytes, pending.attempts.into());
        push_compact(bytes, numbers[&pending.claim]);
        push_compact(
            bytes,
            pending
                .first_received
                .wrapping_sub(base.first_received)
                .cast_unsigned(),
        );
        push_compact(bytes, pending.until.wrapping_sub(base.until).cast_unsigned());
        push_standing(bytes, pending.standing);
    }
}

fn push_pending(bytes: &mut Vec<u8>, pending: &Pending) {
    bytes.extend(pending.attempts.to_be_bytes());
    bytes.extend(pending.first_received.to_be_bytes());
    bytes.extend(pending.claim.0.to_be_bytes());
    bytes.extend(pending.until.to_be_bytes());
    push_standing(bytes, pending.standing);
}

fn push_standing(bytes: &mut Vec<u8>, standing: Standing) {
    match standing {
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

/// Decodes the state of a segment (progress of its messages) from its version and the bytes of its
/// column.
///
/// # Errors
/// The bytes have an unsupported format version, or are damaged.
pub fn decode_state(version: Version, bytes: &[u8]) -> Result<State, StoredError> {
    let is_plain = bytes.first() != Some(&CROWDED_FORMAT_VERSION);
    let form = if is_plain {
        STATE_FORMAT_VERSION
    } else {
        CROWDED_FORMAT_VERSION
    };
    let mut reader = Reader::of_register(WHAT, form, version, bytes)?;
    let segment = Segment(reader.u64()?);
    let count = reader.u8()?;
    reader.check(
        count <= MAX_WORDS,
        "it has more resolved messages than a segment can have",
    )?;
    let words: Result<Vec<u64>, StoredError> = (0..count).map(|_| reader.u64()).collect();
    let resolved = Resolved::from_words(words?);
    let resolved = resolved.ok_or(reader.damaged("the list of resolved messages ends with an empty word"))?;
    let count = reader.u16()?;
    let pending = if is_plain {
        read_plain(&mut reader, count, &resolved)?
    } else {
        read_crowd(&mut reader, count, &resolved)?
    };
    reader.end()?;
    Ok(State {
        version,
        segment,
        resolved,
        pending,
    })
}

fn read_plain(
    reader: &mut Reader<'_>,
    count: u16,
    resolved: &Resolved,
) -> Result<BTreeMap<Seq, Pending>, StoredError> {
    let is_possible = usize::from(count) <= MAX_PLAIN;
    reader.check(
        is_possible,
        "it has more pending messages than its format version allows",
    )?;
    let mut all = BTreeMap::new();
    for _ in 0..count {
        let seq = read_seq(reader, &all, resolved)?;
        all.insert(seq, read_pending(reader)?);
    }
    Ok(all)
}

fn read_crowd(
    reader: &mut Reader<'_>,
    count: u16,
    resolved: &Resolved,
) -> Result<BTreeMap<Seq, Pending>, StoredError> {
    let is_possible = usize::from(count) > MAX_PLAIN && count <= MAX_SEGMENT_MESSAGES;
    reader.check(
        is_possible,
        "the number of pending messages does not match the segment or the format version",
    )?;
    let claim_count = reader.u16()?;
    reader.check(claim_count <= count, "it has more claims than messages")?;
    let claims: Result<Vec<_>, StoredError> = (0..claim_count).map(|_| reader.u128().map(ClaimId)).collect();
    let claims = claims?;
    let is_once = claims.iter().collect::<BTreeSet<_>>().len() == claims.len();
    reader.check(is_once, "a claim occurs twice")?;
    let base = Base {
        first_received: reader.i64()?,
        until: reader.i64()?,
    };
    let (mut all, mut next, mut next_claim) = (BTreeMap::new(), 0, 0);
    for _ in 0..count {
        let seq = reader.compact()?.checked_add(next);
        let seq = seq.and_then(|seq| Seq::try_from(seq).ok());
        let seq = seq.filter(|seq| *seq < MAX_SEGMENT_MESSAGES && !resolved.has(*seq));
        let seq = seq.ok_or(reader.damaged("a pending message is resolved, or outside of the segment"))?;
        next = u64::from(seq) + 1;
        all.insert(seq, read_compact_pending(reader, &claims, &mut next_claim, base)?);
    }
    reader.check(next_claim == claims.len(), "a claim has no message")?;
    let least = Base::of(all.values());
    let is_least = least.first_received == base.first_received && least.until == base.until;
    reader.check(is_least, "its times do not begin at the earliest time")?;
    Ok(all)
}

/// Reads a pending message in the compact format. Claims have indexes in the order of their first
/// occurrence, so the index of a claim is at most `next_claim`.
fn read_compact_pending(
    reader: &mut Reader<'_>,
    claims: &[ClaimId],
    next_claim: &mut usize,
    base: Base,
) -> Result<Pending, StoredError> {
    let attempts = u16::try_from(reader.compact()?).ok();
    let attempts = attempts.ok_or(reader.damaged("a message has too many attempts"))?;
    let number = usize::try_from(reader.compact()?).unwrap_or(usize::MAX);
    let claim = claims.get(number).filter(|_| number <= *next_claim).copied();
    let claim = claim.ok_or(reader.damaged("a message has a claim that is unknown, or not in order"))?;
    *next_claim = (*next_claim).max(number + 1);
    let since = |base: Micros, reader: &mut Reader<'_>| {
        let time = base.checked_add_unsigned(reader.compact()?);
        time.ok_or(reader.damaged("a time is out of range"))
    };
    Ok(Pending {
        attempts,
        claim,
        first_received: since(base.first_received, reader)?,
        until: since(base.until, reader)?,
        standing: read_standing(reader)?,
    })
}

fn read_seq(
    reader: &mut Reader<'_>,
    before: &BTreeMap<Seq, Pending>,
    resolved: &Resolved,
) -> Result<Seq, StoredError> {
    let seq = reader.u16()?;
    let is_next = before.last_key_value().is_none_or(|(last, _)| *last < seq);
    reader.check(is_next, "the pending messages are not in order")?;
    let is_place = seq < MAX_SEGMENT_MESSAGES && !resolved.has(seq);
    reader.check(
        is_place,
        "a pending message is resolved, or outside of the segment",
    )?;
    Ok(seq)
}

fn read_pending(reader: &mut Reader<'_>) -> Result<Pending, StoredError> {
    Ok(Pending {
        attempts: reader.u16()?,
        first_received: reader.i64()?,
        claim: ClaimId(reader.u128()?),
        until: reader.i64()?,
        standing: read_standing(reader)?,
    })
}

fn read_standing(reader: &mut Reader<'_>) -> Result<Standing, StoredError> {
    match reader.u8()? {
        CLAIMED => Ok(Standing::Claimed),
        WAITING => Ok(Standing::Waiting),
        LEAVING => Ok(Standing::Leaving(Target {
            address: reader.address()?,
            segment: Segment(reader.u64()?),
            chunk: Chunk(reader.u128()?),
        })),
        _ => Err(reader.damaged("a pending message has an unknown status")),
    }
}
