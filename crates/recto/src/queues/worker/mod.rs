//! Workers, which receive messages, handle several concurrently, and report the outcomes to the
//! queue.
//!
//! | module | content |
//! |---|---|
//! | `source` | [`Source`]: origin of the messages |
//! | `failure` | [`Failure`]: reason why a message was not completed, and the delay before it is received again |
//! | `run` | loop of a worker |
//! | `settle` | acknowledging and giving back, in groups |

mod failure;
mod run;
mod settle;
mod source;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use recto_model::Environment;

use crate::error::{Error, ErrorKind, Result};

pub use failure::Failure;
pub use source::Source;

/// Default number of messages that are handled concurrently.
pub const DEFAULT_CONCURRENCY: usize = 8;
/// Maximum number of messages that are handled concurrently. It equals the maximum number that one call receives.
pub const MAX_CONCURRENCY: usize = 1_000;
/// Default delay after the first failure of a message.
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// Default maximum of the delay after a failure, which grows with each failure.
const GROWN_DELAY: Duration = Duration::from_secs(15 * 60);
/// Maximum delay that a worker can set for a failed message.
const LONGEST_DELAY: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Default time for which handlers may continue after the worker began to stop.
const STOP_WITHIN: Duration = Duration::from_secs(30);

type Handler<M> = Arc<dyn Fn(M) -> BoxFuture<'static, std::result::Result<(), Failure>> + Send + Sync>;
type Observer = Arc<dyn Fn(&WorkEvent<'_>) + Send + Sync>;

/// Worker that receives messages and passes each to a handler.
///
/// While a handler runs, the worker extends the lease of its message. The outcome of the handler
/// decides what follows:
///
/// - If it returns `Ok`, the worker acknowledges the message. Acknowledgments are sent in groups.
/// - If it fails or panics, the worker gives the message back with the reason. The delay grows with
///   each failure, until the message becomes a dead letter.
///
/// A message can go to another receiver if the store was unreachable for the time of its lease. In
/// that case, and if the message was removed or purged, the worker drops the handler at its next
/// await.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> recto::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let folder = folder.path().join("store");
/// # let store = recto::Recto::open_with(folder, recto::OpenOptions::new().create()).await?;
/// use recto::queues::{NewMessage, QueueOptions};
///
/// let mails = store.queues().await?.create("mails", QueueOptions::default()).await?;
/// for to in ["ada", "bob", "eve"] {
///     mails.send(NewMessage::new(to)).await?;
/// }
/// let worked = mails
///     .worker(|message| async move {
///         let to = String::from_utf8(message.body)?; // what is no text is given back, and fails again
///         println!("a mail to {to}");
///         Ok(())
///     })
///     .concurrency(2)
///     .until_empty() // in a service: `.run_until(async { tokio::signal::ctrl_c().await.ok(); })`
///     .run()
///     .await?;
/// assert_eq!(worked.done, 3);
/// # Ok(())
/// # }
/// ```
#[must_use = "a worker does nothing until it is run"]
pub struct Worker<S: Source> {
    source: Arc<S>,
    handler: Handler<S::Message>,
    concurrency: usize,
    visibility: Option<Duration>,
    first_delay: Duration,
    longest_delay: Duration,
    stop_within: Duration,
    until_empty: bool,
    observer: Option<Observer>,
    environment: Environment,
}

impl<S: Source> fmt::Debug for Worker<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("concurrency", &self.concurrency)
            .finish_non_exhaustive()
    }
}

/// Counts that a worker returns at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Worked {
    /// Number of messages that were handled and whose acknowledgment is durable.
    pub done: u64,
    /// Number of failures and panics of handlers after which the message was given back.
    pub failed: u64,
    /// Number of messages that were given back without counting the attempt. The worker stopped, or
    /// the handler did not begin.
    pub given_back: u64,
    /// Number of messages whose handler began or ended without effect on the queue. The message
    /// went to another receiver, was removed, or its outcome could not be stored. All of these
    /// messages except removed messages are received again.
    pub lost: u64,
}

/// Event during the run of a worker.
#[derive(Debug)]
#[non_exhaustive]
pub enum WorkEvent<'e> {
    /// A message was handled, and its acknowledgment is durable.
    Done,
    /// A handler failed or panicked.
    Failed {
        /// Reason of the failure.
        error: &'e str,
        /// Number of times that the message was received so far.
        attempts: u16,
        /// Delay before the message is received again, unless it becomes a dead letter.
        delay: Duration,
    },
    /// A message went to another receiver or was removed while its handler ran.
    Lost,
    /// The outcome of a message could not be stored. The message is received again.
    NotSettled(&'e Error),
    /// The queue cannot be reached, so no message is received. The worker retries.
    Unreachable(&'e Error),
    /// Too many messages of the queue are in flight (received and not resolved). The worker waits
    /// until some are resolved. Each worker reports this event once.
    TooManyInFlight(&'e Error),
    /// The queue is paused. The worker waits until it is resumed, and reports each pause once.
    Paused,
}

impl<S: Source> Worker<S> {
    /// Creates a worker for messages from `source`.
    pub fn new<H, F>(source: S, handler: H) -> Self
    where
        H: Fn(S::Message) -> F + Send + Sync + 'static,
        F: Future<Output = std::result::Result<(), Failure>> + Send + 'static,
    {
        Self {
            source: Arc::new(source),
            handler: Arc::new(move |message| Box::pin(handler(message))),
            concurrency: DEFAULT_CONCURRENCY,
            visibility: None,
            first_delay: FIRST_DELAY,
            longest_delay: GROWN_DELAY,
            stop_within: STOP_WITHIN,
            until_empty: false,
            observer: None,
            environment: Environment::system(),
        }
    }

    /// Sets the number of messages that are handled concurrently: 1 to [`MAX_CONCURRENCY`]. Default:
    /// [`DEFAULT_CONCURRENCY`].
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency;
        self
    }

    /// Sets the time for which messages are leased: 1 s to 12 hours. Default: the visibility
    /// timeout of the queue. If this process dies, other receivers get its messages after this
    /// time.
    pub fn visibility(mut self, visibility: Duration) -> Self {
        self.visibility = Some(visibility);
        self
    }

    /// Sets the delays after failures. After the first failure, a message is received again after
    /// about `first`. Each further delay is twice as long, up to `longest`. The actual delay is
    /// random, between half of this time and all of it, so that messages that failed together do
    /// not return together. Default: 1 s and 15 minutes. Both values are at most 30 days.
    pub fn backoff(mut self, first: Duration, longest: Duration) -> Self {
        (self.first_delay, self.longest_delay) = (first, longest);
        self
    }

    /// Sets the time for which handlers may continue after the worker begins to stop. Default: 30
    /// s. After this time, the worker drops the handlers and gives their messages back. It then
    /// still waits until the queue has stored all outcomes, even if the store is slow.
    pub fn stop_within(mut self, grace: Duration) -> Self {
        self.stop_within = grace;
        self
    }

    /// Makes the worker stop when no message can be received.
    pub fn until_empty(mut self) -> Self {
        self.until_empty = true;
        self
    }

    /// Sets a function that the worker calls for each event.
    pub fn observe(mut self, observer: impl Fn(&WorkEvent<'_>) + Send + Sync + 'static) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// Runs the worker until the queue is deleted or, with [`until_empty`](Self::until_empty),
    /// until no message can be received. If the future is dropped, the handlers are dropped, too,
    /// and their messages are received again when their leases end.
    ///
    /// # Errors
    /// The errors of [`run_until`](Self::run_until).
    pub async fn run(self) -> Result<Worked> {
        self.run_until(std::future::pending()).await
    }

    /// Runs the worker until `stop` completes. It then receives no more messages, and finishes or
    /// gives back the messages that are being handled. If the store is unreachable, the worker
    /// waits for it. If the store was closed, the worker ends.
    ///
    /// # Errors
    /// - [`ErrorKind::Unavailable`]: the store was closed.
    /// - [`ErrorKind::NotFound`]: the queue was deleted.
    /// - [`ErrorKind::InvalidArgument`]: an option is out of range.
    pub async fn run_until(self, stop: impl Future<Output = ()> + Send) -> Result<Worked> {
        if self.concurrency == 0 || self.concurrency > MAX_CONCURRENCY {
            let message = format!(
                "concurrency {}: a worker handles 1 to {MAX_CONCURRENCY} messages at once",
                self.concurrency
            );
            return Err(Error::new(ErrorKind::InvalidArgument, message).with_field("concurrency"));
        }
        if self.first_delay.max(self.longest_delay) > LONGEST_DELAY {
            let message = "backoff: the maximum delay of a message is 30 days";
            return Err(Error::new(ErrorKind::InvalidArgument, message).with_field("backoff"));
        }
        run::run(self, stop).await
    }

    fn tell(&self, event: &WorkEvent<'_>) {
        if let Some(observer) = &self.observer {
            observer(event);
        }
    }

    fn lease(&self) -> Duration {
        self.visibility.unwrap_or_else(|| self.source.visibility())
    }

    /// Returns the delay for a message that failed after it was received `attempts` times.
    fn delay(&self, attempts: u16) -> Duration {
        let doublings = u32::from(attempts.saturating_sub(1)).min(31);
        let longest = self
            .first_delay
            .saturating_mul(1 << doublings)
            .min(self.longest_delay);
        let [drawn] = self.environment.random();
        longest.mul_f64(0.5 + f64::from(drawn) / 510.0)
    }
}
