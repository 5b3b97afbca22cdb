//! Stored form of the ring (list of body tables, used in rotation): one column, besides its
//! version.

use std::collections::BTreeMap;

use super::{Reader, StoredError};
use crate::queues::limits::MAX_TABLES;
use crate::queues::names::{BodyTable, Life, Micros, QueueId, Version};
use crate::queues::ring::{Owner, Phase, Ring};

/// Version of the stored format of the ring (list of body tables).
pub const RING_FORMAT_VERSION: u8 = 1;

const WHAT: &str = "the list of tables of message bodies";

const FREE: u8 = 0;
const OPEN: u8 = 1;
const CLOSING: u8 = 2;
const CLOSED: u8 = 3;
const EMPTYING: u8 = 4;
const RETIRED: u8 = 5;
const UNIT: u8 = 6;

/// Encodes the ring (list of body tables) as the bytes of its column.
pub fn encode_ring(ring: &Ring) -> Vec<u8> {
    let mut bytes = vec![RING_FORMAT_VERSION];
    bytes.extend(ring.last.0.to_be_bytes());
    bytes.push(ring.tables.len() as u8);
    for (table, phase) in &ring.tables {
        bytes.extend(table.0.to_be_bytes());
        match phase {
            Phase::Free => bytes.push(FREE),
            Phase::Open { since, life } => push_life(&mut bytes, OPEN, *since, *life),
            Phase::Closing { since, life } => push_life(&mut bytes, CLOSING, *since, *life),
            Phase::Closed { since, life } => push_life(&mut bytes, CLOSED, *since, *life),
            Phase::Emptying { owner, since, life } => {
                push_life(&mut bytes, EMPTYING, *since, *life);
                bytes.extend(owner.0.to_be_bytes());
            }
            Phase::Unit { unit, since, life } => {
                push_life(&mut bytes, UNIT, *since, *life);
                bytes.extend(unit.0.to_be_bytes());
            }
            Phase::Retired => bytes.push(RETIRED),
        }
    }
    bytes
}

fn push_life(bytes: &mut Vec<u8>, phase: u8, since: Micros, life: Life) {
    bytes.push(phase);
    bytes.extend(since.to_be_bytes());
    bytes.extend(life.0.to_be_bytes());
}

/// Decodes the ring (list of body tables) from its version and the bytes of its column.
///
/// # Errors
/// The bytes have an unsupported format version, or are damaged.
pub fn decode_ring(version: Version, bytes: &[u8]) -> Result<Ring, StoredError> {
    let mut reader = Reader::of_register(WHAT, RING_FORMAT_VERSION, version, bytes)?;
    let mut ring = Ring {
        version,
        last: BodyTable(reader.u32()?),
        tables: BTreeMap::new(),
    };
    let count = usize::from(reader.u8()?);
    reader.check(count <= MAX_TABLES, "it has too many tables")?;
    for _ in 0..count {
        let table = BodyTable(reader.u32()?);
        let is_next = ring.tables.last_key_value().is_none_or(|(last, _)| *last < table);
        reader.check(is_next, "its tables are not in order")?;
        reader.check(
            (1..=ring.last.0).contains(&table.0),
            "a table has an unassigned number",
        )?;
        let phase = read_phase(&mut reader, version)?;
        let is_only = !matches!(phase, Phase::Open { .. }) || ring.open().is_none();
        reader.check(is_only, "two of its tables are open")?;
        if let Phase::Unit { unit, .. } = phase {
            reader.check(
                ring.unit(unit).is_none(),
                "two of its tables belong to the same work unit",
            )?;
        }
        ring.tables.insert(table, phase);
    }
    let is_usable = ring.open().is_some() || ring.last == BodyTable(0);
    reader.check(is_usable, "none of its tables is open")?;
    reader.end()?;
    Ok(ring)
}

fn read_phase(reader: &mut Reader<'_>, ring: Version) -> Result<Phase, StoredError> {
    let phase = reader.u8()?;
    match phase {
        FREE => return Ok(Phase::Free),
        RETIRED => return Ok(Phase::Retired),
        OPEN | CLOSING | CLOSED | EMPTYING | UNIT => {}
        _ => return Err(reader.damaged("a table has an unknown phase")),
    }
    let since = reader.i64()?;
    let life = Life(reader.u64()?);
    reader.check(
        (1..=ring).contains(&life.0),
        "a table has an epoch that is newer than the list",
    )?;
    Ok(match phase {
        OPEN => Phase::Open { since, life },
        CLOSING => Phase::Closing { since, life },
        CLOSED => Phase::Closed { since, life },
        UNIT => Phase::Unit {
            unit: QueueId(reader.u128()?),
            since,
            life,
        },
        _ => Phase::Emptying {
            owner: Owner(reader.u128()?),
            since,
            life,
        },
    })
}
