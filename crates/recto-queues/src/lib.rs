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
//! The modules form layers. A module uses only modules in its row of this table, or above it.
//!
//! | module | content |
//! |---|---|
//! | [`error`], [`totals`], [`options`], [`message`] | errors, counters, options of shards, and messages that are sent and received |
//! | `affinity`, `idle_segments` | choice of the shard in which a process works; segments that need no work |
//! | `tables`, `body_format`, `ring_cache` | definitions of the tables, bytes of bodies, and the body tables that this process knows |
//! | `group_commit`, `context` | commits in progress; the store, clocks, randomness, and retries of requests |
//! | `notifier` | waiting receivers learn of messages that other processes sent |
//! | `cas_loop` | compare-and-set loop of one versioned cell |
//! | `register_tables` | storage of manifests, logs, claims, the registry and the ring in their tables |
//! | `body_tables` | writes of message bodies |
//! | `shard` | one shard with its cached data, and all shards that this process knows |
//! | [`shards`], `queue` | [`Shards`]: the messages of a queue in all its shards; [`Queue`]: a queue with its options |
//! | `send` | sending of messages |
//! | `transfer` | moves of messages to the dead-letter queue, to another queue, or out of old segments |
//! | `expiry`, `purge` | removal of expired messages, and of all messages |
//! | `receipts`, `receive` | acknowledgments, and receiving |
//! | [`inspect`] | counts and lists messages without receiving them, and removes single messages |
//! | [`table_recycling`] | maintenance of the body tables, which are used in rotation |
//! | `queue_store`, `queues`, `work_units` | operations that create, change, delete and find queues and work units (temporary queues) |
//! | `maintenance`, `open` | periodic maintenance, and opening of the queues of a store |

mod affinity;
mod body_format;
mod body_tables;
mod cas_loop;
mod context;
pub mod error;
mod expiry;
mod group_commit;
mod idle_segments;
pub mod inspect;
mod maintenance;
pub mod message;
mod notifier;
mod open;
pub mod options;
mod purge;
mod queue;
mod queue_store;
mod queues;
mod receipts;
mod receive;
mod register_tables;
mod ring_cache;
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
pub use queue::Queue;
pub use queue_store::QueueStore;
pub use queues::{Created, Queues};
pub use receive::MAX_WAIT;
pub use shards::Shards;
pub use table_recycling::status::{RotationStatus, TableStatus};
pub use totals::Totals;
pub use transfer::{ATTEMPTS_ATTRIBUTE, ERROR_ATTRIBUTE};
