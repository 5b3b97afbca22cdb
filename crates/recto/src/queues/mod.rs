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

mod error;
mod queue;
mod receive;
mod typed;
mod words;
mod worker;

use recto_jobs::Created;
pub use recto_jobs::{
    ATTEMPTS_ATTRIBUTE, ERROR_ATTRIBUTE, MAX_BATCH, MAX_WAIT, Message, NewMessage, Peeked, PeekedStanding,
    Position, Sent, Settled, Stats, Totals,
};
pub use recto_queue::limits::{
    MAX_ATTEMPTS, MAX_BODY_BYTES, MAX_DELAY_SECONDS, MAX_QUEUE_NAME_LENGTH, MAX_RETENTION_SECONDS,
    MAX_VISIBILITY_SECONDS, MIN_RETENTION_SECONDS,
};
pub use recto_queue::options::{DeadLetters, Deduplication};
pub use recto_queue::{MessageId, QueueName, QueueOptions, Receipt};

use crate::error::Result;
use crate::shared::Shared;

pub use queue::Queue;
pub use receive::Receive;
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

    /// Makes a queue. One of this name that is like that is taken as it is.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`]: the name or an option is not right, as [`Error::field`] says.
    /// [`ErrorKind::Conflict`]: there is one of this name, and it is not like that.
    /// [`ErrorKind::LimitExceeded`]: there are as many as there may be.
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

    /// The queue of this name.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]: there is none.
    pub async fn get(&self, name: &str) -> Result<Queue> {
        Ok(self.handle(self.engine.find(name).await?))
    }

    /// All queues, by name.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn list(&self) -> Result<Vec<Queue>> {
        let all = self.engine.list().await?;
        Ok(all.into_iter().map(|queue| self.handle(queue)).collect())
    }

    /// Deletes a queue with all of its messages. Another one can have its name at once; handles of this one find it gone.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]: there is none. [`ErrorKind::Conflict`]: another queue sends its dead letters there.
    pub async fn delete(&self, name: &str) -> Result<()> {
        let found = self.engine.find(name).await?;
        Ok(self.engine.delete(found.id).await?)
    }

    fn handle(&self, queue: recto_jobs::Queue) -> Queue {
        Queue::new(self.engine.clone(), queue)
    }
}
