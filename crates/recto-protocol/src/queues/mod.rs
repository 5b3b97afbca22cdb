//! Queues without tombstones: the protocol as step functions.
//!
//! Nothing here does I/O, is async, or reads a clock. The engine says what happened and does what it is told; the models
//! in the tests drive the same functions through all that may happen. Why it is so stands in `docs/design/queues.md`.
//!
//! What is decided lies in registers, which are changed by conditional writes on their version and never emptied; bodies
//! are immutable, lie in tables that are emptied whole, and nothing is decided by what those hold. A shard's [`Head`] says
//! which [segments](Segment) are live and where they lie; a segment's [`Log`] has what was sent, its [`State`] what became
//! of that. Every register is changed by [`Round`]s. In a store that needs no ring, all is the same with one body
//! table, 0, whose bodies lie with the log's rows.
//!
//! | module | holds |
//! |---|---|
//! | [`names`] | numbers that never recur, and numbers that do |
//! | [`registry`] | [`Registry`]: the queues of a store and their places |
//! | [`options`] | options of queues and of a store, and the settings that change them |
//! | [`limits`] | how much of everything there may be, and for how long things wait |
//! | [`round`] | [`Round`]: one conditional write at a time, carrying all that waits |
//! | [`log`] | [`Log`]: what was sent into a segment |
//! | [`state`], [`resolved`] | [`State`]: what became of it |
//! | `claiming` | which messages a claim takes |
//! | `due` | when a message may be received next |
//! | [`order`] | [`Order`]: which groups must wait |
//! | [`lease`] | [`Leases`]: when a claim is over |
//! | [`head`] | [`Head`]: the segments of a shard |
//! | [`ring`] | [`Ring`]: the tables of bodies |
//! | [`keeping`] | what a keeper does with a table: [`Fencing`], [`Rehoming`], [`Emptying`] |
//! | [`entering`] | [`ShardAction`]: what a shard is asked by who brings messages there |
//! | [`sending`] | [`Sending`]: messages on their way into a shard |
//! | [`moving`] | [`Moving`]: a message on its way to another segment |
//! | [`releasing`] | [`Releasing`]: a segment leaves |
//! | [`clearing`] | [`Purging`], [`Clearing`]: segments leave whatever their messages are |
//! | [`units`] | [`Ending`]: tables of work units that have ended |
//! | [`stored`] | the bytes of all that |

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
