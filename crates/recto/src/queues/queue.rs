//! One queue.

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

/// Messages that are moved before it is looked whether the time is over.
const MOVED_AT_ONCE: usize = 256;

/// What a redrive did in its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Redriven {
    /// How many messages were moved.
    pub moved: usize,
    /// Whether that is all that was to be moved; else another one goes on.
    pub is_done: bool,
}

/// A queue, or a work unit of one. Cheap to clone; every clone is the same queue, and finds it gone once it is deleted, whatever has its name then.
#[derive(Clone)]
pub struct Queue {
    engine: recto_jobs::Queues,
    known: recto_jobs::Queue,
    name: Arc<str>,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Queue").field(&self.name()).finish()
    }
}

impl Queue {
    pub(super) fn new(engine: recto_jobs::Queues, queue: recto_jobs::Queue) -> Self {
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

    /// What it is called; a work unit: `QUEUE/UNIT`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it was like when this handle was got.
    pub fn options(&self) -> &QueueOptions {
        &self.known.options
    }

    /// Whether the queue is paused, as far as this process knows: it accepts messages and delivers none.
    pub fn is_paused(&self) -> bool {
        self.known.shards.options().is_paused
    }

    /// When its options were changed last, as this handle knows it: a number that only rises.
    pub fn version(&self) -> u64 {
        self.known.changed
    }

    /// Changes options of the queue, unless it was changed since this handle read it. [`QueueSettings`] change the options that
    /// they state; [`QueueOptions`] replace all options.
    ///
    /// # Errors
    /// [`ErrorKind::Changed`]: it was changed since. [`ErrorKind::InvalidArgument`]: an option is not right, or one that cannot
    /// be changed, as [`Error::field`] says, or it is a work unit. [`ErrorKind::NotFound`]: it was deleted.
    pub async fn change(&mut self, change: impl Into<QueueSettings>) -> Result<()> {
        self.change_from(Some(self.known.changed), change.into()).await
    }

    /// The same of whatever version it is of, or of one only.
    pub(crate) async fn change_from(&mut self, expected: Option<u64>, change: QueueSettings) -> Result<()> {
        self.check_no_unit("is as its queue is", "change its queue")?;
        self.engine.change(self.known.id, expected, change).await?;
        self.known = self.engine.queue(self.known.id).await?;
        Ok(())
    }

    /// Sends a message. It is durable when this returns.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`]: the message is not right, as [`Error::field`] says. [`ErrorKind::LimitExceeded`]: the
    /// queue is full. [`ErrorKind::OutcomeUnknown`]: it may have been sent; sending it again under the same deduplication id
    /// settles that.
    pub async fn send(&self, message: NewMessage) -> Result<Sent> {
        let results = self.send_all(vec![message]).await;
        let nothing = || {
            Err(Error::new(
                ErrorKind::Store,
                "the queue said nothing of a message",
            ))
        };
        results.into_iter().next().unwrap_or_else(nothing)
    }

    /// Sends messages, in this order; what became of each. Those that are not right are left out, and the others sent.
    /// [`Error::change`] is which message an error is about.
    pub async fn send_all(&self, messages: Vec<NewMessage>) -> Vec<Result<Sent>> {
        let results = self.known.shards.send(messages).await;
        results
            .into_iter()
            .map(|sent| sent.map_err(Error::from))
            .collect()
    }

    /// Receives messages, the oldest of a shard first. If the future is dropped, or its answer is not taken, they are given back.
    /// A queue that [is paused](Self::is_paused) delivers no messages.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`]: a number is not right. [`ErrorKind::NotFound`]: the queue was deleted.
    pub async fn receive(&self, receive: Receive) -> Result<Vec<Message>> {
        let Receive {
            most,
            visibility,
            wait,
        } = receive;
        Ok(self.known.shards.receive(most, visibility, wait).await?)
    }

    /// Is done with messages: durably, when this returns. What became of each receipt.
    ///
    /// # Errors
    /// The store cannot be reached. [`ErrorKind::OutcomeUnknown`]: it may have been done; showing the receipts again settles
    /// that. [`ErrorKind::InvalidArgument`]: a receipt is of another queue.
    pub async fn ack(&self, receipts: &[Receipt]) -> Result<Vec<Settled>> {
        Ok(self.known.shards.ack(receipts).await?)
    }

    /// Gives messages back, to be received again after `delay`, with the reason in `error` (empty for none). One that was
    /// received as often as it may be goes to the dead letters, with that as its attribute [`ERROR_ATTRIBUTE`](super::ERROR_ATTRIBUTE).
    ///
    /// # Errors
    /// As of [`ack`](Self::ack).
    pub async fn nack(&self, receipts: &[Receipt], delay: Duration, error: &str) -> Result<Vec<Settled>> {
        Ok(self.known.shards.nack(receipts, delay, error).await?)
    }

    /// Gives messages back that nobody worked on: they are there at once, and that they were received is not counted.
    ///
    /// # Errors
    /// As of [`ack`](Self::ack).
    pub async fn give_back(&self, receipts: &[Receipt]) -> Result<Vec<Settled>> {
        Ok(self.known.shards.give_back(receipts).await?)
    }

    /// Keeps messages for so long from now.
    ///
    /// # Errors
    /// As of [`ack`](Self::ack).
    pub async fn extend(&self, receipts: &[Receipt], visibility: Duration) -> Result<Vec<Settled>> {
        Ok(self.known.shards.extend(receipts, visibility).await?)
    }

    /// A worker that hands each message to `handler`; see [`Worker`].
    pub fn worker<H, F>(&self, handler: H) -> Worker<Self>
    where
        H: Fn(Message) -> F + Send + Sync + 'static,
        F: Future<Output = std::result::Result<(), Failure>> + Send + 'static,
    {
        Worker::new(self.clone(), handler)
    }

    /// A [`worker`](Self::worker) whose handler may block: each message is handled on a thread of its own.
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
                // The worker reports a panic as it does for any handler.
                handled.unwrap_or_else(|error| match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(error) => Err(Failure::new(error.to_string())),
                })
            }
        })
    }

    /// This queue, as one whose messages are values of one type.
    pub fn of<T>(&self) -> TypedQueue<T> {
        TypedQueue::new(self.clone())
    }

    /// How much there is. Costs a look at up to 64 segments of 4,096 messages.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn stats(&self) -> Result<Stats> {
        Ok(self.known.shards.stats().await?)
    }

    /// The first messages of each shard, at most so many of up to 1,000 in all, as they stand: nobody receives them by that. They are
    /// about in the order in which they were sent; those with a delay of more than 15 minutes stand apart, behind others of their
    /// time or before.
    ///
    /// # Errors
    /// As of [`stats`](Self::stats), or the number is not right.
    pub async fn peek(&self, most: usize) -> Result<Vec<Peeked>> {
        Ok(self.known.shards.peek(most).await?)
    }

    /// Takes a message out, whoever has received it. Whether it was there, and not on its way to another queue.
    ///
    /// # Errors
    /// As of [`ack`](Self::ack).
    pub async fn remove(&self, position: Position) -> Result<bool> {
        Ok(self.known.shards.remove(position).await?)
    }

    /// Every message that is there now is received no more.
    ///
    /// # Errors
    /// The store cannot be reached: some may be gone; doing it again goes on.
    pub async fn purge(&self) -> Result<()> {
        self.known.shards.purge().await?;
        Ok(())
    }

    /// Begins a work unit of this queue, or finds that it has begun: a queue like this one, whose messages all go when it ends. On Cassandra it
    /// has a table to itself, which is emptied whole.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`]: the name is not right, or this is a unit itself. [`ErrorKind::LimitExceeded`]: as many have
    /// begun as there may be, or no table is free. [`ErrorKind::NotFound`]: the queue was deleted.
    pub async fn begin_unit(&self, name: &str) -> Result<Queue> {
        self.check_no_unit("has no units of its own", "begin another one of its queue")?;
        let unit = self.engine.begin_unit(self.known.id, name).await?;
        Ok(Self::new(self.engine.clone(), unit))
    }

    /// Ends a work unit of this queue: what is left of it is gone, and its handles find it so.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]: there is none of this name, or no longer.
    pub async fn end_unit(&self, name: &str) -> Result<()> {
        Ok(self.engine.end_unit(self.known.id, name).await?)
    }

    /// The work units of this queue that have begun, by name.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn units(&self) -> Result<Vec<Queue>> {
        let units = self.engine.units(self.known.id).await?;
        let handle = |unit| Self::new(self.engine.clone(), unit);
        Ok(units.into_iter().map(handle).collect())
    }

    /// Refuses what only queues do.
    fn check_no_unit(&self, why: &str, hint: &str) -> Result<()> {
        if self.known.unit.is_none() {
            return Ok(());
        }
        let message = format!("{} is a work unit, which {why}: nothing was done", self.name);
        Err(Error::new(ErrorKind::InvalidArgument, message).with_hint(hint))
    }

    /// Moves messages that nobody has received to another queue, the oldest of a shard first, at most so many, or all: dead letters
    /// back to where they came from, mostly. How many were moved. To a queue that is ordered only those go that have a group. However
    /// long that takes; [`redrive_for`](Self::redrive_for) ends in time.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`]: both are one queue. The store cannot be reached, or the other queue takes no more:
    /// [`ErrorKind::OutcomeUnknown`] if some were moved before, and the message says how many.
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

    /// The same for so long, and at least until something was moved: whether there is more to be moved is told, and another one
    /// goes on with that. Two at a time move no message twice.
    ///
    /// # Errors
    /// As of [`redrive`](Self::redrive), of which nothing was moved: what keeps it from moving more is told by the next one.
    pub async fn redrive_for(&self, to: &Queue, most: Option<usize>, time: Duration) -> Result<Redriven> {
        let mut over = std::pin::pin!(tokio::time::sleep(time));
        let mut moved = 0;
        loop {
            let some = most.map_or(MOVED_AT_ONCE, |most| MOVED_AT_ONCE.min(most - moved));
            let count = match self.engine.redrive(&self.known, &to.known, Some(some)).await {
                Ok(count) => count,
                Err(error) if moved + error.moved() == 0 => return Err(error.into()),
                // What was moved is told now, and why no more is by the next one.
                Err(error) => {
                    return Ok(Redriven {
                        moved: moved + error.moved(),
                        is_done: false,
                    });
                }
            };
            moved += count;
            // Fewer than that: it was looked at all that there are.
            let is_done = count < some || most == Some(moved);
            if is_done || over.as_mut().now_or_never().is_some() {
                return Ok(Redriven { moved, is_done });
            }
        }
    }
}

/// What a redrive ended with that had moved so many before: whatever that says of itself, not nothing was done.
fn after_moving(moved: usize, error: Error) -> Error {
    if moved == 0 {
        return error;
    }
    let message = format!(
        "{moved} messages were moved, and then it ended: {}",
        error.message()
    );
    let hint = error.hint().map(str::to_owned);
    let said = Error::new(ErrorKind::OutcomeUnknown, message).with_source(error);
    match hint {
        Some(hint) => said.with_hint(hint),
        None => said,
    }
}
