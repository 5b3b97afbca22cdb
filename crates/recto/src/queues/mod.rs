//! Work queues: durable jobs that are received, worked on, and done with.
//!
//! | start at | for |
//! |---|---|
//! | [`Recto::queues`](crate::Recto::queues) | the queues of an open store |
//! | [`Queues`] | making, finding and deleting them |
//! | [`Queue`] | sending, receiving, and being done with messages |
//! | [`Queue::worker`] | handling messages as they come, several at a time |
//! | [`Queue::of`] | messages that are values of a type |
//!
//! A message is delivered at least once. Who has received it has it for its *visibility*; who is done with it by then
//! acknowledges it by its receipt, durably, and it is never delivered again. Otherwise it is. A message that was received too
//! often goes to the queue of dead letters, if its queue names one.
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
//! On Cassandra bodies lie in tables that slices of time take in turn, and that are emptied whole: nothing is deleted row by row.
//! [`Queues::tables`] says how they stand.
//!
//! A *work unit* is a part of a queue's work that ends at once, whatever is left of it: an import, a night's run. It is a queue
//! like its queue, and called `QUEUE/UNIT`.
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
use recto_jobs::Created;
pub use recto_jobs::{
    ATTEMPTS_ATTRIBUTE, ERROR_ATTRIBUTE, MAX_BATCH, MAX_WAIT, Message, NewMessage, Peeked, PeekedStanding,
    Position, Sent, Settled, Stats, Totals,
};
pub use recto_protocol::queues::limits::{
    MAX_ATTEMPTS, MAX_BODY_BYTES, MAX_DELAY_SECONDS, MAX_GRACE_SECONDS, MAX_IN_FLIGHT, MAX_OPTION_TABLES,
    MAX_QUEUE_NAME_LENGTH, MAX_RETENTION_SECONDS, MAX_ROTATION_SECONDS, MAX_SHARDS, MAX_VISIBILITY_SECONDS,
    MIN_RETENTION_SECONDS, MIN_ROTATION_SECONDS, MIN_TABLES,
};
pub use recto_protocol::queues::{DeadLetters, MessageId, QueueName, QueueOptions, Receipt, StoreOptions};

use crate::error::Result;
use crate::shared::Shared;

pub use queue::{Queue, Redriven};
pub use receive::Receive;
pub use tables::{QueueTable, QueueTables, TablePhase};
pub use typed::TypedQueue;
pub use words::{message_id_text, position_from_text, position_text, receipt_from_text, receipt_text};
pub use worker::{DEFAULT_CONCURRENCY, Failure, MAX_CONCURRENCY, Source, WorkEvent, Worked, Worker};

/// The queues of an open store. Cheap to clone.
#[derive(Clone)]
pub struct Queues {
    engine: recto_jobs::Queues,
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
            recto_jobs::Queues::open(shared.store.clone(), shared.environment.clone(), timeout).await?;
        Ok(Self { engine })
    }

    /// The same, if the store has any; makes nothing.
    pub(crate) async fn open_there(shared: &Shared) -> Result<Option<Self>> {
        let timeout = shared.write_options().timeout;
        let (store, environment) = (shared.store.clone(), shared.environment.clone());
        let engine = recto_jobs::Queues::open_there(store, environment, timeout).await?;
        Ok(engine.map(|engine| Self { engine }))
    }

    /// The same, for who only looks at them; makes nothing.
    pub(crate) async fn look(shared: &Shared) -> Result<Self> {
        let timeout = shared.write_options().timeout;
        let engine =
            recto_jobs::Queues::look(shared.store.clone(), shared.environment.clone(), timeout).await?;
        Ok(Self { engine })
    }

    /// The same, if the store has any.
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

    /// Tells other processes of what was done here, before the store is closed.
    pub(crate) async fn has_told(&self) {
        self.engine.has_told().await;
    }

    /// Makes a queue. One of this name that is like that is taken as it is.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument): the name or an option is not right, as [`Error::field`](crate::Error::field) says.
    /// [`ErrorKind::Conflict`](crate::ErrorKind::Conflict): there is one of this name, and it is not like that.
    /// [`ErrorKind::LimitExceeded`](crate::ErrorKind::LimitExceeded): there are as many as there may be.
    pub async fn create(&self, name: &str, options: QueueOptions) -> Result<Queue> {
        Ok(self.create_telling(name, options).await?.0)
    }

    /// As [`create`](Self::create), and whether it was made now.
    pub(crate) async fn create_telling(&self, name: &str, options: QueueOptions) -> Result<(Queue, bool)> {
        Ok(match self.engine.create(name, options).await? {
            Created::New(queue) => (self.handle(queue), true),
            Created::There(queue) => (self.handle(queue), false),
        })
    }

    /// The queue of this name, or the work unit of one, as `QUEUE/UNIT`.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound): there is none.
    pub async fn get(&self, name: &str) -> Result<Queue> {
        Ok(self.handle(self.engine.find(name).await?))
    }

    /// All queues, by name. Their work units are not among them: see [`Queue::units`].
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn list(&self) -> Result<Vec<Queue>> {
        let all = self.engine.list().await?;
        Ok(all.into_iter().map(|queue| self.handle(queue)).collect())
    }

    /// Deletes a queue with all of its messages and work units; or ends a unit, named `QUEUE/UNIT`. Another one can have its name at once; handles of this one find it gone.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound): there is none. [`ErrorKind::Conflict`](crate::ErrorKind::Conflict): another queue sends its dead letters there.
    pub async fn delete(&self, name: &str) -> Result<()> {
        let found = self.engine.find(name).await?;
        Ok(self.engine.delete(found.id).await?)
    }

    /// How the tables of bodies stand. Reads a row of every queue, where bodies lie in such tables.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn tables(&self) -> Result<QueueTables> {
        Ok(self.engine.ring().await?.into())
    }

    /// The same, with no segments and no messages counted: no row of a queue is read.
    pub(crate) async fn tables_at_a_glance(&self) -> Result<QueueTables> {
        Ok(self.engine.ring_at_a_glance().await?.into())
    }

    /// How often slices end, and the like, as it is now.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn options(&self) -> Result<StoreOptions> {
        Ok(self.engine.options().await?)
    }

    /// Changes options of all queues of the store, such as the time after which bodies go to the next table. Settings change
    /// only the options that they state, and keep concurrent changes of other options. [`StoreOptions`] replace all options. In a store that
    /// needs no queue tables, only the number of work units has an effect.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument): a number is too small or too great, as [`Error::field`](crate::Error::field) says.
    pub async fn configure(&self, change: impl Into<QueueTableSettings>) -> Result<()> {
        Ok(self.engine.configure(change).await?)
    }

    fn handle(&self, queue: recto_jobs::Queue) -> Queue {
        Queue::new(self.engine.clone(), queue)
    }
}
