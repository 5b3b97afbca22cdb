//! Queues without async.

use std::sync::Arc;
use std::time::Duration;

use super::runtime::wait;
use crate::error::Result;
use crate::queues::{
    self, Failure, Message, NewMessage, QueueOptions, Receipt, Receive, Sent, Settled, Stats, Worked, Worker,
};

/// The queues of an open store: [`queues::Queues`](crate::queues::Queues) without async.
#[derive(Debug, Clone)]
pub struct Queues {
    inner: queues::Queues,
}

impl Queues {
    pub(super) fn new(inner: queues::Queues) -> Self {
        Self { inner }
    }

    /// The same queues, for async code.
    pub fn asynchronous(&self) -> &queues::Queues {
        &self.inner
    }

    /// Makes a queue; see [`queues::Queues::create`](crate::queues::Queues::create).
    pub fn create(&self, name: &str, options: QueueOptions) -> Result<Queue> {
        let inner = wait(self.inner.create(name, options))??;
        Ok(Queue { inner })
    }

    /// The queue of this name, or the work unit of one, as `QUEUE/UNIT`.
    pub fn get(&self, name: &str) -> Result<Queue> {
        let inner = wait(self.inner.get(name))??;
        Ok(Queue { inner })
    }

    /// All queues, by name.
    pub fn list(&self) -> Result<Vec<Queue>> {
        let all = wait(self.inner.list())??;
        Ok(all.into_iter().map(|inner| Queue { inner }).collect())
    }

    /// Deletes a queue with all of its messages; see [`queues::Queues::delete`](crate::queues::Queues::delete).
    pub fn delete(&self, name: &str) -> Result<()> {
        wait(self.inner.delete(name))?
    }
}

/// A queue: [`queues::Queue`](crate::queues::Queue) without async. What is not here,
/// [`asynchronous`](Self::asynchronous) has.
///
/// ```
/// use recto::queues::{NewMessage, QueueOptions, Receive};
/// use recto::{OpenOptions, blocking};
///
/// fn main() -> recto::Result<()> {
///     # let folder = tempfile::tempdir().unwrap();
///     # let folder = folder.path().join("store");
///     let store = blocking::Recto::open_with(folder, OpenOptions::new().create())?;
///     let mails = store.queues()?.create("mails", QueueOptions::default())?;
///     mails.send(NewMessage::new("to ada"))?;
///
///     let received = mails.receive(Receive::up_to(10))?;
///     assert_eq!(received[0].body, b"to ada");
///     mails.ack(&[received[0].receipt])?;
///     assert_eq!(mails.stats()?.messages, 0);
///     store.close()
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Queue {
    inner: queues::Queue,
}

impl Queue {
    /// The same queue, for async code.
    pub fn asynchronous(&self) -> &queues::Queue {
        &self.inner
    }

    /// What it is called; a work unit: `QUEUE/UNIT`.
    pub fn name(&self) -> &str {
        self.inner.name()
    }

    /// Sends a message; see [`queues::Queue::send`](crate::queues::Queue::send).
    pub fn send(&self, message: NewMessage) -> Result<Sent> {
        wait(self.inner.send(message))?
    }

    /// Sends messages, in this order; what became of each. See [`queues::Queue::send_all`](crate::queues::Queue::send_all).
    pub fn send_all(&self, messages: Vec<NewMessage>) -> Result<Vec<Result<Sent>>> {
        wait(self.inner.send_all(messages))
    }

    /// Receives messages, the oldest first; see [`queues::Queue::receive`](crate::queues::Queue::receive).
    pub fn receive(&self, receive: Receive) -> Result<Vec<Message>> {
        wait(self.inner.receive(receive))?
    }

    /// Is done with messages; see [`queues::Queue::ack`](crate::queues::Queue::ack).
    pub fn ack(&self, receipts: &[Receipt]) -> Result<Vec<Settled>> {
        wait(self.inner.ack(receipts))?
    }

    /// Gives messages back; see [`queues::Queue::nack`](crate::queues::Queue::nack).
    pub fn nack(&self, receipts: &[Receipt], delay: Duration, error: &str) -> Result<Vec<Settled>> {
        wait(self.inner.nack(receipts, delay, error))?
    }

    /// Gives messages back that nobody worked on; see [`queues::Queue::give_back`](crate::queues::Queue::give_back).
    pub fn give_back(&self, receipts: &[Receipt]) -> Result<Vec<Settled>> {
        wait(self.inner.give_back(receipts))?
    }

    /// Keeps messages for so long from now; see [`queues::Queue::extend`](crate::queues::Queue::extend).
    pub fn extend(&self, receipts: &[Receipt], visibility: Duration) -> Result<Vec<Settled>> {
        wait(self.inner.extend(receipts, visibility))?
    }

    /// How much there is; see [`queues::Queue::stats`](crate::queues::Queue::stats).
    pub fn stats(&self) -> Result<Stats> {
        wait(self.inner.stats())?
    }

    /// Hands each message to `handler`, several at a time on threads of their own, which may block; what is to be said of the
    /// [worker](Worker) stands in `set`. Returns when that says [until empty](Worker::until_empty) and there is nothing to
    /// receive; else it goes on until another thread closes the store, which is an error here.
    ///
    /// ```
    /// # use recto::queues::{NewMessage, QueueOptions};
    /// # use recto::{OpenOptions, blocking};
    /// # fn main() -> recto::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let folder = folder.path().join("store");
    /// # let store = blocking::Recto::open_with(folder, OpenOptions::new().create())?;
    /// # let mails = store.queues()?.create("mails", QueueOptions::default())?;
    /// mails.send(NewMessage::new("to ada"))?;
    /// let handler = |message: recto::queues::Message| {
    ///     println!("{}", String::from_utf8_lossy(&message.body));
    ///     Ok(())
    /// };
    /// let worked = mails.work(handler, |worker| worker.concurrency(4).until_empty())?;
    /// assert_eq!(worked.done, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As of [`Worker::run_until`].
    pub fn work<H>(
        &self,
        handler: H,
        set: impl FnOnce(Worker<queues::Queue>) -> Worker<queues::Queue>,
    ) -> Result<Worked>
    where
        H: Fn(Message) -> std::result::Result<(), Failure> + Send + Sync + 'static,
    {
        let handler = Arc::new(handler);
        let worker = self.inner.worker(move |message| {
            let handler = Arc::clone(&handler);
            async move {
                let handled = tokio::task::spawn_blocking(move || handler(message)).await;
                // Whoever works hears of a panic as of any handler's.
                handled.unwrap_or_else(|error| match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(error) => Err(Failure::new(error.to_string())),
                })
            }
        });
        wait(set(worker).run())?
    }
}
