//! Work queues on a store: the engine of `recto_protocol::queues`.
//!
//! The protocol says what is to be done, and this does it: it reads registers and writes them by conditional writes, writes and
//! reads bodies, keeps what is known of a shard, and tells whoever waits. A shard is one part of a queue, with an order of its
//! own; [`Shards`] has the operations on all of them. Why it is so stands in `docs/design/queues.md`.
//!
//! What is asked is done by tasks of its own: a caller that goes away leaves nothing half done, and what it received is given
//! back. Callers have deadlines; what is not decided by then was not sent, or its outcome is unknown, and the error says which.
//!
//! | module | holds |
//! |---|---|
//! | [`error`] | [`QueueError`] |
//! | [`message`] | [`NewMessage`], [`Message`], what became of them |
//! | `queues` | [`Queues`]: made, changed, deleted, found |
//! | `units` | work units: begun, ended, found |
//! | `registry` | how the registry of queues lies in its table |
//! | [`inspect`] | what there is, seen without receiving it; single messages taken out, or moved back |
//! | [`options`] | [`ShardOptions`]: what shards go by |
//! | [`shards`] | [`Shards`]: a queue's messages, in all of its shards |
//! | `affinity` | on which of them a process works |
//! | `common` | what all shards of a queue share in this process |
//! | `shard` | one shard, as this process knows it |
//! | [`totals`] | [`Totals`]: what was done here, counted |
//! | `place` | [`QueueStore`]: the store, its tables and clocks, as all shards share them |
//! | `tables` | the tables of registers and bodies |
//! | [`ring`] | the tables of bodies that are emptied in turn |
//! | `registers` | how heads, logs and states lie in their tables |
//! | `rounds` | one conditional write at a time of one register |
//! | `trains` | conditional writes of several registers that leave together |
//! | `bell` | who waits hears of what other processes sent |
//! | `bodies` | the bytes of bodies, and where they lie |
//! | `segment` | what is known of one live segment |
//! | `entering` | what sending asks of a shard |
//! | `reading` | bodies are read |
//! | `send`, `receive` (`look`: at one shard), `settle`, `release`, `moving`, `burying`, `clear`, `redriving`, `expiring`, `gathering`, `losing` | the operations |
//! | `upkeep` | what is done without anybody asking |

mod affinity;
mod bell;
mod bodies;
mod burying;
mod clear;
mod common;
mod entering;
pub mod error;
mod expiring;
mod gathering;
pub mod inspect;
mod look;
mod losing;
pub mod message;
mod moving;
pub mod options;
mod place;
mod queues;
mod reading;
mod receive;
mod redriving;
mod registers;
mod registry;
mod release;
pub mod ring;
mod rounds;
mod segment;
mod send;
mod settle;
mod shard;
pub mod shards;
mod tables;
pub mod totals;
mod trains;
mod units;
mod upkeep;
mod waits;

pub use error::{QueueError, QueueErrorKind, Result};
pub use inspect::{Peeked, PeekedContent, PeekedStanding, Position, Stats};
pub use message::{MAX_BATCH, Message, NewMessage, Sent, Settled};
pub use moving::{ATTEMPTS_ATTRIBUTE, ERROR_ATTRIBUTE};
pub use options::{DeadLetters, Destination, ShardOptions};
pub use place::QueueStore;
pub use queues::{Created, Queue, Queues};
pub use receive::MAX_WAIT;
pub use ring::view::{RingView, TableView};
pub use shards::Shards;
pub use totals::Totals;
