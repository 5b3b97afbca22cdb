//! Queues without tombstones: the protocol as step functions.
//!
//! The functions do no I/O, are not async, and read no clock. The engine reports events to them,
//! and executes the actions that they return. The models in the tests drive the same functions
//! through all possible events. `docs/design/queues.md` gives the reasons.
//!
//! All decisions are stored in versioned cells ([`Register`]), which change only by conditional
//! writes on their version, and are never deleted. Message bodies are immutable. They are in tables
//! that are emptied as a whole, and no decision depends on the content of these tables.
//!
//! A shard is a part of a queue with its own order. Its [`Head`] is its manifest: it lists the live
//! [segments](Segment) (batches of consecutive messages) with their cells and body tables. A
//! segment's [`Log`] lists its messages, and its [`State`] their progress. A [`Round`] is the
//! compare-and-set loop that changes a cell. The [`Ring`] lists the body tables, which are filled
//! and emptied in rotation. A store that needs no ring has one body table, 0, whose bodies are in
//! the rows of the logs.
//!
//! | module | content |
//! |---|---|
//! | [`names`] | ids, indexes and versions |
//! | [`registry`] | [`Registry`]: the queues of a keyspace, and the slots of their shards |
//! | [`options`] | options of queues and of a store |
//! | [`limits`] | limits, and waiting times |
//! | [`cas_loop`] | [`Round`]: compare-and-set loop of a versioned cell |
//! | [`log`] | [`Log`]: messages that were sent into a segment |
//! | [`claims`], [`ack_bitmap`] | [`State`]: resolved and claimed messages of a segment |
//! | `claiming` | selection of the messages that a claim takes |
//! | `due` | time at which a message can be received next |
//! | [`order`] | [`Order`]: message groups that must wait |
//! | [`lease`] | [`Leases`]: check whether a claim has ended |
//! | [`shard_manifest`] | [`Head`]: manifest of a shard |
//! | [`ring`] | [`Ring`]: body tables, used in rotation |
//! | [`table_recycling`] | maintenance of a body table: [`Fencing`], [`Rehoming`], [`Emptying`] |
//! | [`append`] | [`ShardAction`]: opening of a segment for new messages |
//! | [`sending`] | [`Sending`]: sending of messages into a shard |
//! | [`transfer`] | [`Moving`]: move of a message to another segment |
//! | [`segment_release`] | [`Releasing`]: release of a segment |
//! | [`clearing`] | [`Purging`], [`Clearing`]: removal of segments, even with unresolved messages |
//! | [`units`] | [`Ending`]: end of temporary queues, and of their tables |
//! | [`stored`] | encoding of stored values as bytes |

pub mod ack_bitmap;
pub mod append;
pub mod cas_loop;
pub mod claims;
pub mod clearing;
pub mod lease;
pub mod limits;
pub mod log;
pub mod names;
pub mod options;
pub mod order;
pub mod registry;
pub mod ring;
pub mod segment_release;
pub mod sending;
pub mod shard_manifest;
pub mod stored;
pub mod table_recycling;
pub mod transfer;
pub mod units;

mod claiming;
mod due;
mod rows;
mod rules;
#[cfg(test)]
mod tests;

pub use ack_bitmap::Resolved;
pub use append::{ShardAction, ShardEvent};
pub use cas_loop::{Action, Decision, Event, Register, Round};
pub use claims::{Delivery, Pending, Standing, State, StateCommand, StateContext, StateResponse, Target};
pub use clearing::{ClearAction, ClearEvent, Clearing, Purging, expired_by, is_expired};
pub use lease::{Claim, Clock, Leases};
pub use limits::Protocol;
pub use log::{Entry, Log, LogCommand, LogContext, LogResponse, LogRow, Origin, Placed, Received, Recent};
pub use names::{
    Address, BodyTable, Chunk, ClaimId, Fingerprint, Life, MessageId, Micros, Place, QueueId, RegisterNumber,
    Segment, Seq, Shard, Tenure, Ticket, Version,
};
pub use options::{DeadLetters, OptionError, QueueName, QueueOptions, StoreOptions};
pub use order::{OpenGroups, Order};
pub use registry::{
    Held, PlaceRow, Queue, Registry, RegistryCommand, RegistryContext, RegistryResponse, Unit,
};
pub use ring::{Emptied, Owner, Phase, Ring, RingCommand, RingContext, RingResponse};
pub use segment_release::{ReleaseAction, ReleaseEvent, Released, Releasing};
pub use sending::{SendAction, SendEvent, SendResponse, Sending, reach};
pub use shard_manifest::{Head, HeadCommand, HeadContext, HeadResponse, Live, Reach, Resting, Settled};
pub use stored::{LogHeader, Receipt, StoredError};
pub use table_recycling::{Emptying, Fencing, KeepAction, KeepEvent, Rehoming};
pub use transfer::{MoveAction, MoveEvent, Moved, Moving};
pub use units::{Ending, UnitAction, UnitEvent};
