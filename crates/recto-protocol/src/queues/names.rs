//! Identifiers: numbers that never recur, and numbers that are reused.

/// Time or duration in microseconds. A time of a wall clock counts from 1970.
pub type Micros = i64;

/// Version of a versioned cell ([`Register`](crate::queues::Register)). Each conditional write raises it by
/// one. 0: no write was applied yet.
pub type Version = u64;

/// Slot of a queue: a row of the registry. A queue has the slot as long as the queue exists; then another
/// queue can take it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(pub u32);

/// Epoch of a slot: one use of it, by a queue or by the deletion of one. It is the version of the registry
/// with which the use began, so a later epoch is greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Tenure(pub Version);

/// Random identifier of a queue. A queue that is created again under an old name gets a new identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId(pub u128);

/// Number of a shard of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard(pub u16);

/// Address of a shard: the slot of its queue and the number of the shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// Slot of the queue.
    pub place: Place,
    /// Number of the shard.
    pub shard: Shard,
}

/// Number of a segment, which is a part of a shard's messages. A number never recurs in a shard, whichever
/// queue has the slot. 0 means no segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Segment(pub u64);

/// Number of the versioned cells that hold a segment's log and state. A number is reused, under versions that
/// only rise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegisterNumber(pub u32);

/// Number of a body table. A number is reused after the table was emptied. 0 means no table: the bodies are
/// in the rows of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BodyTable(pub u32);

/// Lifetime of a body table, from being opened to being emptied. It is the version of the ring that opened
/// the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Life(pub Version);

/// Position of a message in its segment, counted from 0.
pub type Seq = u16;

/// Random identifier of the bodies of one append.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Chunk(pub u128);

/// Random identifier of one claim of one or more messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimId(pub u128);

/// Random identifier by which users know a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub u128);

/// Hash of the name of a message group, or of a deduplication id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub u128);

/// Number, chosen by the caller, that says which caller an answer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);
