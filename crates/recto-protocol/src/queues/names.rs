//! Ids, indexes and versions of queues. Some are never reused, others are.

/// Time or duration in microseconds. A time of a wall clock counts from 1970.
pub type Micros = i64;

/// Version of a versioned cell ([`Register`](crate::queues::Register)). Each conditional write
/// increases it by 1. 0: the cell was never written.
pub type Version = u64;

/// Slot: index (from 0) of a row of the registry. A queue has the slot until its deletion is
/// complete. Then another queue can get it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(pub u32);

/// Epoch of a slot: one use of the slot, by a queue or by the deletion of a queue. Its value is the
/// version of the registry when the use began, so later epochs are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Tenure(pub Version);

/// Random id of a queue. A queue that is created again under an old name gets a new id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId(pub u128);

/// Index (from 0) of a shard: a part of a queue with its own order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard(pub u16);

/// Address of a shard (a part of a queue with its own order).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// Slot of the queue: index of its row in the registry.
    pub place: Place,
    /// Index (from 0) of the shard in its queue.
    pub shard: Shard,
}

/// Id of a segment: a batch of consecutive messages of a shard. Ids rise, and are never reused in a
/// shard, whichever queue has its slot. 0: no segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Segment(pub u64);

/// Index (from 0) in a shard of the two versioned cells with a segment's log and state. Later
/// segments reuse the cells, whose versions only rise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegisterNumber(pub u32);

/// Id of a table with message bodies. The id is reused after the table was emptied. 0: no table;
/// the bodies are in the rows of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BodyTable(pub u32);

/// Id of a lifetime of a body table, from opening to emptying. Its value is the version of the ring
/// (list of body tables) that opened the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Life(pub Version);

/// Position of a message in its segment (message batch), from 0.
pub type Seq = u16;

/// Random id of the message bodies that one append wrote together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Chunk(pub u128);

/// Random id of one claim, by which a receiver got one or more messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimId(pub u128);

/// Random id of a message, which users see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub u128);

/// Hash of the name of a message group, or of a deduplication id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub u128);

/// Id of a waiting caller. A response contains it, to find the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);
