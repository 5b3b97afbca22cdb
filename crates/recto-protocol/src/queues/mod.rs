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
//! | [`round`] | [`Round`]: compare-and-set loop of a versioned cell |
//! | [`log`] | [`Log`]: messages that were sent into a segment |
//! | [`state`], [`resolved`] | [`State`]: resolved and claimed messages of a segment |
//! | `claiming` | selection of the messages that a claim takes |
//! | `due` | time at which a message can be received next |
//! | [`order`] | [`Order`]: message groups that must wait |
//! | [`lease`] | [`Leases`]: check whether a claim has ended |
//! | [`head`] | [`Head`]: manifest of a shard |
//! | [`ring`] | [`Ring`]: body tables, used in rotation |
//! | [`keeping`] | maintenance of a body table: [`Fencing`], [`Rehoming`], [`Emptying`] |
//! | [`entering`] | [`ShardAction`]: opening of a segment for new messages |
//! | [`sending`] | [`Sending`]: sending of messages into a shard |
//! | [`moving`] | [`Moving`]: move of a message to another segment |
//! | [`releasing`] | [`Releasing`]: release of a segment |
//! | [`clearing`] | [`Purging`], [`Clearing`]: removal of segments, even with unresolved messages |
//! | [`units`] | [`Ending`]: end of temporary queues, and of their tables |
//! | [`stored`] | encoding of stored values as bytes |

pub mod clearing;
pub mod entering;
pub mod head;
pub mod keeping;
pub mod lease;
pub mod limits;
pub mod log;
pub mod moving;
pub mod names;
pub mod options;
pub mod order;
pub mod registry;
pub mod releasing;
pub mod resolved;
pub mod ring;
pub mod round;
pub mod sending;
pub mod state;
pub mod stored;
pub mod units;

mod claiming;
mod due;
mod rows;
mod rules;
#[cfg(test)]
mod tests;

pub use clearing::{ClearAction, ClearEvent, Clearing, Purging, expired_by, is_expired};
pub use entering::{ShardAction, ShardEvent};
pub use head::{Head, HeadAnswer, HeadContext, HeadWish, Live, Reach, Resting, Settled};
pub use keeping::{Emptying, Fencing, KeepAction, KeepEvent, Rehoming};
pub use lease::{Claim, Clock, Leases};
pub use limits::Protocol;
pub use log::{Entry, Log, LogAnswer, LogContext, LogRow, LogWish, Origin, Placed, Received, Recent};
pub use moving::{MoveAction, MoveEvent, Moved, Moving};
pub use names::{
    Address, BodyTable, Chunk, ClaimId, Fingerprint, Life, MessageId, Micros, Place, QueueId, RegisterNumber,
    Segment, Seq, Shard, Tenure, Ticket, Version,
};
pub use options::{DeadLetters, OptionError, QueueName, QueueOptions, StoreOptions};
pub use order::{OpenGroups, Order};
pub use registry::{Held, PlaceRow, Queue, Registry, RegistryAnswer, RegistryContext, RegistryWish, Unit};
pub use releasing::{ReleaseAction, ReleaseEvent, Released, Releasing};
pub use resolved::Resolved;
pub use ring::{Emptied, Owner, Phase, Ring, RingAnswer, RingContext, RingWish};
pub use round::{Action, Decision, Event, Register, Round};
pub use sending::{SendAction, SendAnswer, SendEvent, Sending, reach};
pub use state::{Delivery, Pending, Standing, State, StateAnswer, StateContext, StateWish, Target};
pub use stored::{LogHeader, Receipt, StoredError};
pub use units::{Ending, UnitAction, UnitEvent};
