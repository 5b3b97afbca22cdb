//! Handle of a queue, with the operations on its messages.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;

use super::typed::TypedQueue;
use super::worker::{Failure, Worker};
use super::{
    Message, NewMessage, Peeked, Position, QueueOptions, QueueSettings, Receipt, Receive, Sent, Settled,
    Stats,
};
use crate::error::{Error, ErrorKind, Result};

/// Number of messages that a redrive moves between two checks of the time limit.
const MOVED_AT_ONCE: usize = 256;

/// Result of a redrive with a time limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Redriven {
    /// Number of messages that the redrive moved to the other queue.
    pub moved: usize,
    /// True if no messages remain to be moved. Otherwise, another redrive continues.
    pub is_done: bool,
}

/// Queue, or work unit (a temporary queue) of a queue. A clone is cheap and refers to the same
/// queue. After the queue is deleted, every handle reports that it does not exist, even if a new
/// queue has the same name.
#[derive(Clone)]
pub struct Queue {
    engine: recto_queues::Queues,
    known: recto_queues::Queue,
    name: Arc<str>,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Queue").field(&self.name()).finish()
    }
}

impl Queue {
    pub(super) fn new(engine: recto_queues::Queues, queue: recto_queues::Queue) -> Self {
        let name = match &queue.unit {
            None => queue.name.as_str().into(),
            Some(unit) => format!("{}/{unit}", queue.name).into(),
        };
        Self {
            engine,
            known: queue,
            name,
        }
    }

    /// Returns the name of the queue. A work unit has the name `QUEUE/UNIT`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the options of the queue when this handle was created or made its last
    /// [`change`](Self::change).
    pub fn options(&self) -> &QueueOptions {
        &self.known.options
    }

    /// Returns whether the queue is paused, as far as this process knows. A paused queue accepts messages and delivers
    /// none.
    pub fn is_paused(&self) -> bool {
        self.known.shards.options().is_paused
    }

    /// Returns the version of the queue's options that this handle knows. Every change of the
    /// options raises the version.
    pub fn version(&self) -> u64 {
        self.known.changed
    }

    /// Changes options of the queue. Rejects the change if the options were changed since this
    /// handle read them. [`QueueSettings`] change only the options that they contain;
    /// [`QueueOptions`] replace all options.
    ///
    /// # Errors
    /// - [`ErrorKind::Changed`]: the options were changed since this handle read them.
    /// - [`ErrorKind::InvalidArgument`]: an option is invalid or cannot be changed ([`Error::field`] names it), or this
    ///   is a work unit.
    /// - [`ErrorKind::NotFound`]: the queue was deleted.
    pub async fn change(&mut self, change: impl Into<QueueSettings>) -> Result<()> {
        self.change_from(Some(self.known.changed), change.into()).await
    }

    /// Changes options of the queue if their version is `expected`. `None` means any version.
    pub(crate) async fn change_from(&mut self, expected: Option<u64>, change: QueueSettings) -> Result<()> {
        self.check_no_unit("has the options of its queue", "change its queue")?;
        self.engine.change(self.known.id, expected, change).await?;
        self.known = self.engine.queue(self.known.id).await?;
        Ok(())
    }

    /// Sends a message. The message is durable when the call returns.
    ///
    /// # Errors
    /// - [`ErrorKind::InvalidArgument`]: the message is invalid; [`Error::field`] names the field.
    /// - [`ErrorKind::LimitExceeded`]: the queue is full.
    /// - [`ErrorKind::OutcomeUnknown`]: the message may have been sent. Send it again with the same deduplication id to
    ///   resolve the outcome.
    pub async fn send(&self, message: NewMessage) -> Result<Sent> {
        let results = self.send_all(vec![message]).await;
        let nothing = || {
            Err(Error::new(
                ErrorKind::Store,
                "the queue returned no result for a message",
            ))
        };
        results.into_iter().next().unwrap_or_else(nothing)
    }

    /// Sends messages in the given order, and returns the result of each message. Invalid messages
    /// are not sent, but all others are. [`Error::change`] of an error is the index of the message.
    pub async fn send_all(&self, messages: Vec<NewMessage>) -> Vec<Result<Sent>> {
        let results = self.known.shards.send(messages).await;
        results
            .into_iter()
            .map(|sent| sent.map_err(Error::from))
            .collect()
    }

    /// Receives messages, the oldest message of each shard (independent part of a queue) first. If
    /// the future is dropped before it returns, the messages are given back. A queue that
    /// [is paused](Self::is_paused) delivers no messages.
    ///
    /// # Errors
    /// - [`ErrorKind::InvalidArgument`]: a number is out of range.
    /// - [`ErrorKind::NotFound`]: the queue was deleted.
    pub async fn receive(&self, receive: Receive) -> Result<Vec<Message>> {
        let Receive {
            most,
            visibility,
            wait,
        } = receive;
        Ok(self.known.shards.receive(most, visibility, wait).await?)
    }

    /// Acknowledges messages, and returns the outcome for each receipt. The acknowledgment is durable when the call
    /// returns.
    ///
    /// # Errors
    /// - [`ErrorKind::InvalidArgument`]: a receipt is from another queue.
    /// - [`ErrorKind::OutcomeUnknown`]: the messages may or may not be acknowledged. Acknowledge
    ///   the same receipts again to resolve the outcome.
    /// - The store is unreachable.
    pub async fn ack(&self, receipts: &[Receipt]) -> Result<Vec<Settled>> {
        Ok(self.known.shards.ack(receipts).await?)
    }

    /// Gives messages back, so that they can be received again after `delay`. `error` is the
    /// reason; it may be empty. A message that was received the maximum number of times goes to the
    /// dead-letter queue, with the reason in its attribute
    /// [`ERROR_ATTRIBUTE`](super::ERROR_ATTRIBUTE).
    ///
    /// # Errors
    /// The errors of [`ack`](Self::ack). Or the delay is too long.
    pub async fn nack(&self, receipts: &[Receipt], delay: Duration, error: &str) -> Result<Vec<Settled>> {
        Ok(self.known.shards.nack(receipts, delay, error).await?)
    }

    /// Gives back messages that were not handled. They can be received again at once, and the
    /// attempt does not count.
    ///
    /// # Errors
    /// The errors of [`ack`](Self::ack).
    pub async fn give_back(&self, receipts: &[Receipt]) -> Result<Vec<Settled>> {
        Ok(self.known.shards.give_back(receipts).await?)
    }

    /// Extends the visibility timeouts of messages, which then end at `visibility` from now.
    ///
    /// # Errors
    /// The errors of [`ack`](Self::ack). Or the visibility timeout is out of range.
    pub async fn extend(&self, receipts: &[Receipt], visibility: Duration) -> Result<Vec<Settled>> {
        Ok(self.known.shards.extend(receipts, visibility).await?)
    }

    /// Creates a worker that passes each message to `handler`; see [`Worker`].
    pub fn worker<H, F>(&self, handler: H) -> Worker<Self>
    where
        H: Fn(Message) -> F + Send + Sync + 'static,
        F: Future<Output = std::result::Result<(), Failure>> + Send + 'static,
    {
        Worker::new(self.clone(), handler)
    }

    /// Creates a [`worker`](Self::worker) whose handler may block. Each message is handled on its own thread.
    ///
    /// ```
    /// use recto::blocking::Wait as _;
    /// use recto::queues::{Message, NewMessage, QueueOptions};
    /// use recto::{OpenOptions, Recto};
    ///
    /// fn main() -> recto::Result<()> {
    ///     # let folder = tempfile::tempdir().unwrap();
    ///     # let folder = folder.path().join("store");
    ///     let store = Recto::open_with(folder, OpenOptions::new().create()).wait()?;
    ///     let mails = store.queues().wait()?.create("mails", QueueOptions::default()).wait()?;
    ///     mails.send(NewMessage::new("to ada")).wait()?;
    ///
    ///     let handler = |message: Message| {
    ///         println!("{}", String::from_utf8_lossy(&message.body));
    ///         Ok(())
    ///     };
    ///     let worked = mails.blocking_worker(handler).concurrency(4).until_empty().run().wait()?;
    ///     assert_eq!(worked.done, 1);
    ///     Ok(())
    /// }
    /// ```
    pub fn blocking_worker<H>(&self, handler: H) -> Worker<Self>
    where
        H: Fn(Message) -> std::result::Result<(), Failure> + Send + Sync + 'static,
    {
        let handler = Arc::new(handler);
        self.worker(move |message| {
            let handler = Arc::clone(&handler);
            async move {
                let handled = tokio::task::spawn_blocking(move || handler(message)).await;
                // Continue the panic of the handler here, so that the worker reports it like the
                // panic of an asynchronous handler.
                handled.unwrap_or_else(|error| match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(error) => Err(Failure::new(error.to_string())),
                })
            }
        })
    }

    /// Returns this queue as a queue whose messages are values of type `T`, encoded as JSON.
    pub fn of<T>(&self) -> TypedQueue<T> {
        TypedQueue::new(self.clone())
    }

    /// Returns statistics of the queue, such as the number of its messages. Reads up to 64 segments
    /// of 4,096 messages.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn stats(&self) -> Result<Stats> {
        Ok(self.known.shards.stats().await?)
    }

    /// Returns the first messages of each shard (independent part of a queue) without receiving
    /// them, at most `most` messages in total (up to 1,000). They are approximately in the order in
    /// which they were sent. A message with a delay of more than 15 minutes comes later: after
    /// messages that were sent at the same time or earlier.
    ///
    /// # Errors
    /// The errors of [`stats`](Self::stats). Or the number is out of range.
    pub async fn peek(&self, most: usize) -> Result<Vec<Peeked>> {
        Ok(self.known.shards.peek(most).await?)
    }

    /// Removes a message, even if a receiver has it. Returns false if the message did not exist or
    /// was being moved to another queue.
    ///
    /// # Errors
    /// The errors of [`ack`](Self::ack).
    pub async fn remove(&self, position: Position) -> Result<bool> {
        Ok(self.known.shards.remove(position).await?)
    }

    /// Purges the queue: deletes all messages that are in it now.
    ///
    /// # Errors
    /// The store is unreachable. Some messages may already be purged; another call continues.
    pub async fn purge(&self) -> Result<()> {
        self.known.shards.purge().await?;
        Ok(())
    }

    /// Begins a work unit of this queue, or returns a work unit that has already begun. A work unit
    /// is a temporary queue with the options of its queue. All its messages are deleted when it
    /// ends. On Cassandra, the work unit has its own table of message bodies, which is truncated at
    /// its end.
    ///
    /// # Errors
    /// - [`ErrorKind::InvalidArgument`]: the name is invalid, or this is a work unit itself.
    /// - [`ErrorKind::LimitExceeded`]: the maximum number of work units has begun, or no table is free.
    /// - [`ErrorKind::NotFound`]: the queue was deleted.
    pub async fn begin_unit(&self, name: &str) -> Result<Queue> {
        self.check_no_unit("cannot have work units", "begin another work unit of its queue")?;
        let unit = self.engine.begin_unit(self.known.id, name).await?;
        Ok(Self::new(self.engine.clone(), unit))
    }

    /// Ends a work unit (a temporary queue) of this queue and deletes its messages. Handles of the
    /// work unit then report that it does not exist.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]: the queue has no work unit with this name, or the work unit has
    /// already ended.
    pub async fn end_unit(&self, name: &str) -> Result<()> {
        Ok(self.engine.end_unit(self.known.id, name).await?)
    }

    /// Returns the current work units (temporary queues) of this queue, by name.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn units(&self) -> Result<Vec<Queue>> {
        let units = self.engine.units(self.known.id).await?;
        let handle = |unit| Self::new(self.engine.clone(), unit);
        Ok(units.into_iter().map(handle).collect())
    }

    /// Returns an error if this queue is a work unit (a temporary queue), which does not support an
    /// operation. `why` is the reason.
    fn check_no_unit(&self, why: &str, hint: &str) -> Result<()> {
        if self.known.unit.is_none() {
            return Ok(());
        }
        let message = format!("{} is a work unit, which {why}: nothing was done", self.name);
        Err(Error::new(ErrorKind::InvalidArgument, message).with_hint(hint))
    }

    /// Moves messages that were never received from this queue to another queue: at most `most`
    /// messages, or all of them. A typical use is to return dead letters to their original queue.
    /// The oldest messages of a shard (independent part of a queue) are moved first. An ordered
    /// queue gets only messages that have a group. Returns the number of moved messages. There is
    /// no time limit; [`redrive_for`](Self::redrive_for) has one.
    ///
    /// # Errors
    /// - [`ErrorKind::InvalidArgument`]: both queues are the same.
    /// - [`ErrorKind::OutcomeUnknown`]: after some messages were moved, the store became
    ///   unreachable or the other queue became full. The message of the error contains the number
    ///   of moved messages.
    /// - The store is unreachable, or the other queue accepts no more messages.
    pub async fn redrive(&self, to: &Queue, most: Option<usize>) -> Result<usize> {
        let mut moved = 0;
        loop {
            let redriven = self.redrive_for(to, most.map(|most| most - moved), Duration::MAX);
            let redriven = redriven.await.map_err(|error| after_moving(moved, error))?;
            moved += redriven.moved;
            if redriven.is_done {
                return Ok(moved);
            }
        }
    }

    /// Moves messages like [`redrive`](Self::redrive), but stops after about `time`. It moves at
    /// least one message if there is one. The result reports whether more messages remain; another
    /// call continues with them. Two concurrent calls move no message twice.
    ///
    /// # Errors
    /// The errors of [`redrive`](Self::redrive), if no message was moved. If an error follows moved
    /// messages, this call reports the moved messages, and the next call returns the error.
    pub async fn redrive_for(&self, to: &Queue, most: Option<usize>, time: Duration) -> Result<Redriven> {
        let mut over = std::pin::pin!(tokio::time::sleep(time));
        let mut moved = 0;
        loop {
            let some = most.map_or(MOVED_AT_ONCE, |most| MOVED_AT_ONCE.min(most - moved));
            let count = match self.engine.redrive(&self.known, &to.known, Some(some)).await {
                Ok(count) => count,
                Err(error) if moved + error.moved() == 0 => return Err(error.into()),
                // Report success for the messages that were moved. The next call returns the error.
                Err(error) => {
                    return Ok(Redriven {
                        moved: moved + error.moved(),
                        is_done: false,
                    });
                }
            };
            moved += count;
            // If fewer messages moved than were requested, the redrive has checked all messages.
            let is_done = count < some || most == Some(moved);
            if is_done || over.as_mut().now_or_never().is_some() {
                return Ok(Redriven { moved, is_done });
            }
        }
    }
}

/// Adds to the error of a redrive that `moved` messages were moved before it. The error would
/// otherwise suggest that nothing was moved.
fn after_moving(moved: usize, error: Error) -> Error {
    if moved == 0 {
        return error;
    }
    let message = format!(
        "{moved} messages were moved, then the redrive failed: {}",
        error.message()
    );
    let hint = error.hint().map(str::to_owned);
    let said = Error::new(ErrorKind::OutcomeUnknown, message).with_source(error);
    match hint {
        Some(hint) => said.with_hint(hint),
        None => said,
    }
}
