//! What things are called by: numbers that never recur, and numbers that do.

/// Microseconds; since 1970 where a wall clock tells them.
pub type Micros = i64;

/// Of a register: greater by one with each conditional write. 0: none was applied yet.
pub type Version = u64;

/// A row of the registry, which a queue has as long as it exists, and then another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(pub u32);

/// One use of a place, by a queue or by who deletes one: the version of the registry by which it began. A later one is greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Tenure(pub Version);

/// One queue: random, another one for each. A queue that is made anew under an old name has another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId(pub u128);

/// One of the parts a queue is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard(pub u16);

/// A shard, by the place of its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// Of which queue.
    pub place: Place,
    /// Which shard of it.
    pub shard: Shard,
}

/// A piece of a shard's messages. Its number never recurs, whichever queue has the place; 0 is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Segment(pub u64);

/// Where a segment's log and state lie. Recurs, under versions that only rise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegisterNumber(pub u32);

/// A table of bodies. Recurs, when it was emptied. 0 is none: the bodies lie in the log's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BodyTable(pub u32);

/// One use of a table of bodies, from being opened to being emptied: the version of the ring that opened it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Life(pub Version);

/// Where a message stands in its segment, counted from 0.
pub type Seq = u16;

/// The bodies of one append: random, another one for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Chunk(pub u128);

/// One claim of one or more messages: random, another one for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimId(pub u128);

/// What users know a message by: random.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub u128);

/// The hash of a group's name, or of a deduplication id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub u128);

/// Who waits for an answer: whatever the caller counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);
