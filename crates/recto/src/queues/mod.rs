//! Queues of durable messages.
//!
//! | start at | for |
//! |---|---|
//! | [`Recto::queues`](crate::Recto::queues) | the queues of an open store |
//! | [`Queues`] | creating, finding and deleting queues |
//! | [`Queue`] | sending, receiving and acknowledging messages |
//! | [`Queue::worker`] | handling messages as they arrive, several concurrently |
//! | [`Queue::of`] | messages that are values of a type |
//!
//! A message is delivered at least once. A receiver has the message for its *visibility timeout*.
//! If the receiver acknowledges the message in this time, with its receipt, the acknowledgment is
//! durable and the message is never delivered again. Otherwise the message is delivered again. A
//! message that was received the maximum number of times goes to the dead-letter queue, if its
//! queue has one.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> recto::Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let folder = folder.path().join("store");
//! use recto::queues::{NewMessage, QueueOptions, Receive};
//! use recto::{OpenOptions, Recto};
//!
//! let store = Recto::open_with(folder, OpenOptions::new().create()).await?;
//! let mails = store.queues().await?.create("mails", QueueOptions::default()).await?;
//! mails.send(NewMessage::new("to ada")).await?;
//!
//! let received = mails.receive(Receive::up_to(10)).await?;
//! assert_eq!(received[0].body, b"to ada");
//! mails.ack(&[received[0].receipt]).await?;
//! assert_eq!(mails.stats().await?.messages, 0);
//! # Ok(())
//! # }
//! ```
//!
//! On Cassandra, message bodies are in rotating tables: each rotation interval fills another table.
//! A full table is truncated when its messages are resolved, so Recto deletes no body row by row.
//! [`Queues::tables`] returns the state of the tables.
//!
//! A *work unit* is a temporary queue for a part of a queue's work, such as an import or a nightly
//! run. All its messages can be deleted at once. It has the options of its queue, and its name is
//! `QUEUE/UNIT`.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> recto::Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let folder = folder.path().join("store");
//! # use recto::queues::{NewMessage, QueueOptions};
//! # use recto::{OpenOptions, Recto};
//! # let store = Recto::open_with(folder, OpenOptions::new().create()).await?;
//! let queues = store.queues().await?;
//! let mails = queues.create("mails", QueueOptions::default()).await?;
//! let night = mails.begin_unit("night").await?;
//! night.send(NewMessage::new("to ada")).await?;
//! assert_eq!(queues.get("mails/night").await?.stats().await?.messages, 1);
//! assert_eq!(mails.stats().await?.messages, 0);
//! mails.end_unit("night").await?;
//! # Ok(())
//! # }
//! ```

mod error;
mod queue;
mod receive;
mod tables;
mod typed;
mod words;
mod worker;

use std::time::Duration;

pub use recto_api::queues::{DeduplicationScope, QueueSettings, QueueTableSettings};
pub use recto_protocol::queues::limits::{
    MAX_ATTEMPTS, MAX_BODY_BYTES, MAX_DELAY_SECONDS, MAX_GRACE_SECONDS, MAX_IN_FLIGHT, MAX_OPTION_TABLES,
    MAX_QUEUE_NAME_LENGTH, MAX_RETENTION_SECONDS, MAX_ROTATION_SECONDS, MAX_SHARDS, MAX_VISIBILITY_SECONDS,
    MIN_RETENTION_SECONDS, MIN_ROTATION_SECONDS, MIN_TABLES,
};
pub use recto_protocol::queues::{DeadLetters, MessageId, QueueName, QueueOptions, Receipt, StoreOptions};
use recto_queues::Created;
pub use recto_queues::{
    ATTEMPTS_ATTRIBUTE, ERROR_ATTRIBUTE, MAX_BATCH, MAX_WAIT, Message, NewMessage, Peeked, PeekedStanding,
    Position, Sent, Settled, Stats, Totals,
};

use crate::error::Result;
use crate::shared::Shared;

pub use queue::{Queue, Redriven};
pub use receive::Receive;
pub use tables::{QueueTable, QueueTables, TablePhase};
pub use typed::TypedQueue;
pub use words::{message_id_text, position_from_text, position_text, receipt_from_text, receipt_text};
pub use worker::{DEFAULT_CONCURRENCY, Failure, MAX_CONCURRENCY, Source, WorkEvent, Worked, Worker};

/// Handle to all queues of an open store. A clone is cheap.
#[derive(Clone)]
pub struct Queues {
    engine: recto_queues::Queues,
}

impl std::fmt::Debug for Queues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Queues")
    }
}

impl Queues {
    pub(crate) async fn open(shared: &Shared) -> Result<Self> {
        let timeout = shared.write_options().timeout;
        let engine =
            recto_queues::Queues::open(shared.store.clone(), shared.environment.clone(), timeout).await?;
        Ok(Self { engine })
    }

    /// Opens the queues, if the store has queues; otherwise returns `None`. Creates no tables.
    pub(crate) async fn open_there(shared: &Shared) -> Result<Option<Self>> {
        let timeout = shared.write_options().timeout;
        let (store, environment) = (shared.store.clone(), shared.environment.clone());
        let engine = recto_queues::Queues::open_existing(store, environment, timeout).await?;
        Ok(engine.map(|engine| Self { engine }))
    }

    /// Opens the queues only to read their state. Creates no tables, even if the store has no
    /// queues.
    pub(crate) async fn look(shared: &Shared) -> Result<Self> {
        let timeout = shared.write_options().timeout;
        let engine =
            recto_queues::Queues::open_read_only(shared.store.clone(), shared.environment.clone(), timeout)
                .await?;
        Ok(Self { engine })
    }

    /// Opens the queues only to read their state, if the store has queues; otherwise returns
    /// `None`.
    pub(crate) async fn look_there(shared: &Shared) -> Result<Option<Self>> {
        let looked = Self::look(shared).await?;
        Ok(looked.engine.has_tables().then_some(looked))
    }

    /// Returns the shortest retention of all queues; `None` if no queue expires messages.
    pub(crate) async fn shortest_retention(&self) -> Result<Option<Duration>> {
        let all = self.engine.list().await?;
        let retentions = all.iter().filter_map(|queue| queue.options.retention_seconds);
        Ok(retentions
            .min()
            .map(|seconds| Duration::from_secs(seconds.into())))
    }

    /// Waits until other processes have been notified of all changes of this process. Call it
    /// before the store is closed.
    pub(crate) async fn has_told(&self) {
        self.engine.flush_notifications().await;
    }

    /// Creates a queue. Returns the existing queue if a queue with this name and these options exists.
    ///
    /// # Errors
    /// - [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument): the name or an option is invalid;
    ///   [`Error::field`](crate::Error::field) names it.
    /// - [`ErrorKind::Conflict`](crate::ErrorKind::Conflict): a queue with this name has other options.
    /// - [`ErrorKind::LimitExceeded`](crate::ErrorKind::LimitExceeded): the store has the maximum number of queues.
    pub async fn create(&self, name: &str, options: QueueOptions) -> Result<Queue> {
        Ok(self.create_telling(name, options).await?.0)
    }

    /// Creates a queue like [`create`](Self::create). Also returns whether the queue is new.
    pub(crate) async fn create_telling(&self, name: &str, options: QueueOptions) -> Result<(Queue, bool)> {
        Ok(match self.engine.create(name, options).await? {
            Created::New(queue) => (self.handle(queue), true),
            Created::Existing(queue) => (self.handle(queue), false),
        })
    }

    /// Returns the queue with the name `name`, or the work unit (a temporary queue) with the name
    /// `QUEUE/UNIT`.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound): no queue or work unit has this name.
    pub async fn get(&self, name: &str) -> Result<Queue> {
        Ok(self.handle(self.engine.find(name).await?))
    }

    /// Returns all queues, by name. Work units are not included: see [`Queue::units`].
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn list(&self) -> Result<Vec<Queue>> {
        let all = self.engine.list().await?;
        Ok(all.into_iter().map(|queue| self.handle(queue)).collect())
    }

    /// Deletes a queue with all its messages and work units, or ends the work unit with the name
    /// `QUEUE/UNIT`. The name can be used again at once. Handles of the deleted queue report that
    /// it does not exist.
    ///
    /// # Errors
    /// - [`ErrorKind::NotFound`](crate::ErrorKind::NotFound): no queue or work unit has this name.
    /// - [`ErrorKind::Conflict`](crate::ErrorKind::Conflict): the queue is the dead-letter queue of
    ///   another queue.
    pub async fn delete(&self, name: &str) -> Result<()> {
        let found = self.engine.find(name).await?;
        Ok(self.engine.delete(found.id).await?)
    }

    /// Returns the state of the tables of message bodies, with numbers of segments and messages. If
    /// the store has such tables, reads a row of every queue.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn tables(&self) -> Result<QueueTables> {
        Ok(self.engine.rotation().await?.into())
    }

    /// Returns the state of the tables of message bodies, without numbers of segments and messages.
    /// This is cheap, because it reads no row of a queue.
    pub(crate) async fn tables_at_a_glance(&self) -> Result<QueueTables> {
        Ok(self.engine.rotation_at_a_glance().await?.into())
    }

    /// Returns the current options that all queues share, such as the rotation interval.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn options(&self) -> Result<StoreOptions> {
        Ok(self.engine.options().await?)
    }

    /// Changes options of all queues of the store, such as the rotation interval of the tables of
    /// message bodies. [`QueueTableSettings`] change only the options that they contain, and keep
    /// concurrent changes of other options. [`StoreOptions`] replace all options. In a store that
    /// needs no queue tables, only the number of work units has an effect.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument): a number is too small or too large;
    /// [`Error::field`](crate::Error::field) names it.
    pub async fn configure(&self, change: impl Into<QueueTableSettings>) -> Result<()> {
        Ok(self.engine.configure(change).await?)
    }

    fn handle(&self, queue: recto_queues::Queue) -> Queue {
        Queue::new(self.engine.clone(), queue)
    }
}
