//! Stored form of the registry of queues: a static column, and a row for each slot.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use recto_api::queues::DeduplicationScope;

use super::{Reader, StoredError};
use crate::queues::limits::{DEFAULT_IN_FLIGHT, MAX_DATA_CENTRE_LENGTH, MAX_PLACES, MAX_SHARDS};
use crate::queues::names::{Place, QueueId, Tenure, Version};
use crate::queues::options::{DeadLetters, QueueName, QueueOptions, StoreOptions};
use crate::queues::registry::{Held, PlaceRow, Queue, Registry, Unit};

/// Version of the stored format of a registry, and of each row that needs no newer version.
pub const REGISTRY_FORMAT_VERSION: u8 = 1;
/// Version of the stored format of a row whose queue does not have the default of `max_in_flight`.
pub const IN_FLIGHT_FORMAT_VERSION: u8 = 2;
/// Version of the stored format of a row whose queue is paused: it accepts messages, and delivers
/// none.
pub const PAUSED_FORMAT_VERSION: u8 = 3;

const REGISTRY: &str = "the registry of queues";
const ROW: &str = "a row of the registry of queues";

const OPTIONS: u8 = 1;
const DATA_CENTRE: u8 = 2;

const FREE: u8 = 0;
const QUEUE: u8 = 1;
const DELETING: u8 = 2;
const UNIT: u8 = 3;

const ORDERED: u8 = 1;
const PER_GROUP: u8 = 2;
const RETENTION: u8 = 4;
const DEAD_LETTERS: u8 = 8;
const IN_FLIGHT: u8 = 16;
const PAUSED: u8 = 32;

/// Encodes the static column of the registry of queues, without the version of the registry.
pub fn encode_registry(registry: &Registry) -> Vec<u8> {
    let mut bytes = vec![REGISTRY_FORMAT_VERSION];
    let has = |is_there: bool, flag: u8| if is_there { flag } else { 0 };
    bytes.push(has(registry.options.is_some(), OPTIONS) | has(registry.data_centre.is_some(), DATA_CENTRE));
    if let Some(options) = &registry.options {
        bytes.extend(options.rotation_seconds.to_be_bytes());
        bytes.extend(options.grace_seconds.to_be_bytes());
        bytes.extend([options.tables, options.units]);
    }
    if let Some(data_centre) = &registry.data_centre {
        push_text(&mut bytes, data_centre);
    }
    bytes.extend((registry.places.len() as u32).to_be_bytes());
    bytes
}

/// Encodes a row of the registry of queues, as the bytes of its column.
pub fn encode_registry_row(row: &PlaceRow) -> Vec<u8> {
    let mut bytes = vec![row_version(&row.held)];
    bytes.extend(row.tenure.0.to_be_bytes());
    bytes.extend(row.changed.to_be_bytes());
    bytes.extend(row.shards.to_be_bytes());
    match &row.held {
        Held::Free => bytes.push(FREE),
        Held::Queue(queue) => {
            bytes.push(QUEUE);
            bytes.extend(queue.id.0.to_be_bytes());
            push_text(&mut bytes, queue.name.as_str());
            bytes.extend(queue.created.to_be_bytes());
            push_options(&mut bytes, &queue.options);
        }
        Held::Deleting { id, name, since } => {
            bytes.push(DELETING);
            bytes.extend(id.0.to_be_bytes());
            push_text(&mut bytes, name.as_str());
            bytes.extend(since.to_be_bytes());
        }
        Held::Unit(unit) => {
            bytes.push(UNIT);
            bytes.extend(unit.id.0.to_be_bytes());
            push_text(&mut bytes, unit.name.as_str());
            bytes.extend(unit.begun.to_be_bytes());
            bytes.extend(unit.queue.0.to_be_bytes());
        }
    }
    bytes
}

/// Returns the lowest format version that can express the owner of a slot, so that earlier releases
/// can read as many rows as possible.
fn row_version(held: &Held) -> u8 {
    match held {
        Held::Queue(queue) if queue.options.is_paused => PAUSED_FORMAT_VERSION,
        Held::Queue(queue) if queue.options.max_in_flight != DEFAULT_IN_FLIGHT => IN_FLIGHT_FORMAT_VERSION,
        _ => REGISTRY_FORMAT_VERSION,
    }
}

/// Writes the length of a text as one byte, and then the text, which has at most 255 bytes.
fn push_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.push(text.len() as u8);
    bytes.extend(text.as_bytes());
}

fn push_options(bytes: &mut Vec<u8>, options: &QueueOptions) {
    bytes.extend(options.visibility_seconds.to_be_bytes());
    bytes.extend(options.delay_seconds.to_be_bytes());
    bytes.extend(options.body_bytes.to_be_bytes());
    bytes.extend(options.shards.to_be_bytes());
    let has = |is_there: bool, flag: u8| if is_there { flag } else { 0 };
    bytes.push(
        has(options.is_ordered, ORDERED)
            | has(options.deduplication == DeduplicationScope::Group, PER_GROUP)
            | has(options.retention_seconds.is_some(), RETENTION)
            | has(options.dead_letters.is_some(), DEAD_LETTERS)
            | has(options.max_in_flight != DEFAULT_IN_FLIGHT, IN_FLIGHT)
            | has(options.is_paused, PAUSED),
    );
    if let Some(retention) = options.retention_seconds {
        bytes.extend(retention.to_be_bytes());
    }
    if let Some(dead) = &options.dead_letters {
        bytes.extend(dead.attempts.to_be_bytes());
        push_text(bytes, dead.queue.as_str());
    }
    if options.max_in_flight != DEFAULT_IN_FLIGHT {
        bytes.extend(options.max_in_flight.to_be_bytes());
    }
}

/// Decodes the registry of queues from its version, the bytes of its static column, and the rows of
/// its slots.
///
/// # Errors
/// A column or a row has an unsupported format version or is damaged, or rows are missing.
pub fn decode_registry<'b>(
    version: Version,
    bytes: &[u8],
    rows: impl IntoIterator<Item = (Place, &'b [u8])>,
) -> Result<Registry, StoredError> {
    let mut reader = Reader::of_register(REGISTRY, REGISTRY_FORMAT_VERSION, version, bytes)?;
    let mut registry = Registry {
        version,
        options: None,
        data_centre: None,
        places: BTreeMap::new(),
    };
    let flags = reader.u8()?;
    let is_known = flags & !(OPTIONS | DATA_CENTRE) == 0;
    reader.check(is_known, "it has unknown flags")?;
    if flags & OPTIONS != 0 {
        registry.options = Some(read_store_options(&mut reader)?);
    }
    if flags & DATA_CENTRE != 0 {
        let data_centre = read_text(&mut reader, MAX_DATA_CENTRE_LENGTH)?;
        registry.data_centre = Some(data_centre.into());
    }
    let count = reader.u32()?;
    reader.check(count as usize <= MAX_PLACES, "it has too many places")?;
    for (place, row) in rows {
        let row = decode_registry_row(row)?;
        let is_next = place.0 as usize == registry.places.len() && place.0 < count;
        reader.check(is_next, "its places are not consecutive")?;
        reader.check(
            row.changed <= version,
            "a place has a version that is newer than the registry",
        )?;
        registry.places.insert(place, Arc::new(row));
    }
    let is_whole = registry.places.len() == count as usize;
    reader.check(is_whole, "it has fewer places than its header")?;
    check_queues(&reader, &registry)?;
    reader.end()?;
    Ok(registry)
}

/// Checks conditions on several rows, such as unique names.
fn check_queues(reader: &Reader<'_>, registry: &Registry) -> Result<(), StoredError> {
    let (mut names, mut ids, mut units) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for (.., queue) in registry.queues() {
        let is_only = names.insert(&queue.name) && ids.insert(queue.id);
        reader.check(is_only, "two of its queues have the same name")?;
    }
    for (.., unit) in registry.units() {
        reader.check(
            ids.contains(&unit.queue),
            "a work unit belongs to a queue that does not exist",
        )?;
        let is_only = units.insert((unit.queue, &unit.name));
        reader.check(is_only, "two work units of a queue have the same name")?;
    }
    for (.., unit) in registry.units() {
        reader.check(ids.insert(unit.id), "two work units have the same id")?;
    }
    for (.., queue) in registry.queues() {
        let dead = queue.options.dead_letters.as_ref();
        let is_there = dead.is_none_or(|dead| names.contains(&dead.queue));
        reader.check(is_there, "a dead-letter queue does not exist")?;
    }
    let has_options = registry.options.is_some() || registry.places.is_empty();
    reader.check(has_options, "it has queues, but no options")
}

/// Decodes a row of the registry of queues.
///
/// # Errors
/// The bytes have an unsupported format version, or are damaged.
pub fn decode_registry_row(bytes: &[u8]) -> Result<PlaceRow, StoredError> {
    let version = match bytes.first() {
        Some(&version @ (IN_FLIGHT_FORMAT_VERSION | PAUSED_FORMAT_VERSION)) => version,
        _ => REGISTRY_FORMAT_VERSION,
    };
    let mut reader = Reader::new(ROW, version, bytes)?;
    let (tenure, changed, shards) = (Tenure(reader.u64()?), reader.u64()?, reader.u16()?);
    reader.check(
        (1..=changed).contains(&tenure.0),
        "its epoch does not match its version",
    )?;
    reader.check(
        (1..=MAX_SHARDS).contains(&shards),
        "it has no shards, or too many",
    )?;
    let held = match reader.u8()? {
        QUEUE => Held::Queue(read_queue(&mut reader, shards)?),
        FREE => Held::Free,
        UNIT => Held::Unit(Unit {
            id: QueueId(reader.u128()?),
            name: read_name(&mut reader)?,
            begun: reader.i64()?,
            queue: QueueId(reader.u128()?),
        }),
        DELETING => Held::Deleting {
            id: QueueId(reader.u128()?),
            name: read_name(&mut reader)?,
            since: reader.i64()?,
        },
        _ => return Err(reader.damaged("its kind is unknown")),
    };
    let is_possible = match held {
        Held::Free => tenure.0 < changed,
        Held::Queue(_) => true,
        // The row of a temporary queue or of a deletion never changes, so the version of its last
        // change equals its epoch.
        Held::Unit(_) | Held::Deleting { .. } => tenure.0 == changed,
    };
    reader.check(is_possible, "its version does not match its epoch")?;
    reader.check(
        row_version(&held) == version,
        "its format version does not match its content",
    )?;
    reader.end()?;
    Ok(PlaceRow {
        tenure,
        changed,
        shards,
        held,
    })
}

fn read_text<'b>(reader: &mut Reader<'b>, most: usize) -> Result<&'b str, StoredError> {
    let length = usize::from(reader.u8()?);
    let is_possible = (1..=most).contains(&length) && length <= reader.rest.len();
    reader.check(is_possible, "a name is empty, too long, or cut off")?;
    let (text, rest) = reader.rest.split_at(length);
    reader.rest = rest;
    std::str::from_utf8(text).map_err(|_| reader.damaged("a name is not UTF-8"))
}

fn read_name(reader: &mut Reader<'_>) -> Result<QueueName, StoredError> {
    let text = read_text(reader, crate::queues::limits::MAX_QUEUE_NAME_LENGTH)?;
    QueueName::new("name", text).map_err(|_| reader.damaged("a name is not a valid name of a queue"))
}

fn read_store_options(reader: &mut Reader<'_>) -> Result<StoreOptions, StoredError> {
    let options = StoreOptions {
        rotation_seconds: reader.u32()?,
        grace_seconds: reader.u32()?,
        tables: reader.u8()?,
        units: reader.u8()?,
    };
    reader.check(options.check().is_ok(), "its options are invalid")?;
    Ok(options)
}

fn read_queue(reader: &mut Reader<'_>, shards: u16) -> Result<Queue, StoredError> {
    let queue = Queue {
        id: QueueId(reader.u128()?),
        name: read_name(reader)?,
        created: reader.i64()?,
        options: read_options(reader)?,
    };
    let is_possible = queue.options.check(&queue.name).is_ok() && queue.options.shards <= shards;
    reader.check(is_possible, "its options are invalid")?;
    Ok(queue)
}

fn read_options(reader: &mut Reader<'_>) -> Result<QueueOptions, StoredError> {
    let (visibility_seconds, delay_seconds) = (reader.u32()?, reader.u32()?);
    let (body_bytes, shards) = (reader.u32()?, reader.u16()?);
    let flags = reader.u8()?;
    let is_known = flags & !(ORDERED | PER_GROUP | RETENTION | DEAD_LETTERS | IN_FLIGHT | PAUSED) == 0;
    reader.check(is_known, "a queue has unknown flags")?;
    let retention_seconds = (flags & RETENTION != 0).then(|| reader.u32()).transpose()?;
    let dead_letters = if flags & DEAD_LETTERS == 0 {
        None
    } else {
        let attempts = reader.u16()?;
        let queue = read_name(reader)?;
        Some(DeadLetters { queue, attempts })
    };
    let mut max_in_flight = DEFAULT_IN_FLIGHT;
    if flags & IN_FLIGHT != 0 {
        max_in_flight = reader.u32()?;
        let is_needed = max_in_flight != DEFAULT_IN_FLIGHT;
        reader.check(is_needed, "it stores a default value")?;
    }
    Ok(QueueOptions {
        visibility_seconds,
        delay_seconds,
        retention_seconds,
        dead_letters,
        is_ordered: flags & ORDERED != 0,
        shards,
        deduplication: if flags & PER_GROUP == 0 {
            DeduplicationScope::Queue
        } else {
            DeduplicationScope::Group
        },
        body_bytes,
        max_in_flight,
        is_paused: flags & PAUSED != 0,
    })
}
