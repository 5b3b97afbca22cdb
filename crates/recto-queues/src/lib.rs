//! Engine of queues: it runs the protocol of `recto_protocol::queues` on a store.
//!
//! The protocol decides which step comes next, and this crate executes the steps. It reads
//! versioned cells (rows that are overwritten by compare-and-set) and changes them by conditional
//! writes. It writes and reads bodies, caches the data of shards, and wakes waiting receivers. A
//! shard is a part of a queue with its own order. [`Shards`] has the operations on all shards of a
//! queue. `docs/design/queues.md` gives the reasons for this design.
//!
//! Each operation runs in a task of its own. If the caller goes away, nothing stays half done, and messages that were
//! claimed for it are given back. Callers have deadlines. If an operation has no result by its deadline, either nothing
//! was sent to the store, or the outcome is unknown. The error says which of the two.
//!
//! | module | content |
//! |---|---|
//! | [`error`] | [`QueueError`] |
//!  [`message`] | [`NewMessage`], [`Message`], and the outcomes of sending and of operations with receipts |
//! | `queues` | [`Queues`]: operations that create, change, delete and find queues |
//! | `work_units` | work units (temporary queues): operations that begin, end and find them |
//! | `registry` | storage of the registry of queues in its table |
//!  [`inspect`] | counts and lists messages without receiving them, and removes single messages |
//! | [`options`] | [`ShardOptions`]: options of shards |
//! | [`shards`] | [`Shards`]: the messages of a queue, in all its shards |
//! | `affinity` | choice of the shard in which a process works |
//! | `queue` | data that all shards of a queue share in this process |
//! | `shard` | one shard, as this process knows it |
//! | [`totals`] | [`Totals`]: counters of this process |
//! | `place` | [`QueueStore`]: the store, its tables and clocks, which all shards share |
//! | `tables` | tables of versioned cells and bodies |
//! | [`table_recycling`] | ring of body tables, which are emptied in rotation |
//! | `register_tables` | storage of heads, logs and states in their tables |
//! | `cas_loop` | compare-and-set loop of one versioned cell |
//! | `group_commit` | group commit: conditional writes of several versioned cells share a commit |
//! | `notifier` | notifier: waiting receivers learn of messages that other processes sent |
//! | `body_format` | byte format of bodies |
//! | `segment` | cached data of one live segment |
//!  `append` | actions of the protocol that add messages to a shard |
//! | `body_reads` | reads of bodies |
//! | `send`, `receive`, `receipts` | sending, receiving, and operations with receipts |
//! | `poll` | poll of one shard, which claims the messages that can be received |
//! | `transfer`, `dead_lettering`, `redrive`, `segment_merging` | moves of messages to other queues and segments |
//! | `segment_release`, `purge`, `expiry`, `lost_bodies` | release of segments, purges, retention, and lost bodies |
//! | `maintenance` | periodic maintenance |

mod affinity;
mod append;
mod body_format;
mod body_reads;
mod cas_loop;
mod dead_lettering;
pub mod error;
mod expiry;
mod group_commit;
mod idle_segments;
pub mod inspect;
mod local_queue;
mod lost_bodies;
mod maintenance;
pub mod message;
mod notifier;
pub mod options;
mod place;
mod poll;
mod purge;
mod queues;
mod receipts;
mod receive;
mod redrive;
mod register_tables;
mod registry;
mod segment;
mod segment_merging;
mod segment_release;
mod send;
mod shard;
pub mod shards;
pub mod table_recycling;
mod tables;
pub mod totals;
mod transfer;
mod work_units;

pub use error::{QueueError, QueueErrorKind, Result};
pub use inspect::{Peeked, PeekedContent, PeekedStanding, Position, Stats};
pub use message::{MAX_BATCH, Message, NewMessage, Sent, Settled};
pub use options::{DeadLetters, Destination, ShardOptions};
pub use place::QueueStore;
pub use queues::{Created, Queue, Queues};
pub use receive::MAX_WAIT;
pub use shards::Shards;
pub use table_recycling::status::{RotationStatus, TableStatus};
pub use totals::Totals;
pub use transfer::{ATTEMPTS_ATTRIBUTE, ERROR_ATTRIBUTE};
