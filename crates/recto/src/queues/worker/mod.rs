//! Workers: messages are received, handled several at a time, and done with.
//!
//! | module | holds |
//! |---|---|
//! | `source` | [`Source`]: what messages come from |
//! | `failure` | [`Failure`]: why a message is not done with, and when it comes again |
//! | `run` | the loop |
//! | `settle` | acks and nacks, in groups |

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

/// Messages that are handled at once, if nothing else is said.
pub const DEFAULT_CONCURRENCY: usize = 8;
/// The most messages that are handled at once: as many as are received at once.
pub const MAX_CONCURRENCY: usize = 1_000;
/// How long a message that failed for the first time is not received, if nothing else is said.
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// The longest that such a delay grows to, if nothing else is said.
const GROWN_DELAY: Duration = Duration::from_secs(15 * 60);
/// The longest delay that a message has.
const LONGEST_DELAY: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How long what is being handled may go on after a worker was told to stop, if nothing else is said.
const STOP_WITHIN: Duration = Duration::from_secs(30);

type Handler<M> = Arc<dyn Fn(M) -> BoxFuture<'static, std::result::Result<(), Failure>> + Send + Sync>;
type Observer = Arc<dyn Fn(&WorkEvent<'_>) + Send + Sync>;

/// Receives messages and hands each to a handler.
///
/// As long as a handler runs its message stays this worker's: the lease is extended. A handler that returns `Ok` is done with
/// its message. One that fails or panics gives it back with the reason, to come again later each time, until it is
/// a dead letter. Acks are sent in groups. If another receiver got the message, because the store could not be
/// reached for as long as its lease, or if the message was removed or purged, its handler is dropped where it waits.
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

/// What a worker did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Worked {
    /// Messages that were handled, and are done with durably.
    pub done: u64,
    /// How often a handler failed or panicked, and its message was given back.
    pub failed: u64,
    /// Messages that were given back uncounted: the worker was to stop, or their handlers did not begin.
    pub given_back: u64,
    /// Messages that were handled, or begun, and that another receiver got meanwhile, or that were removed, or could not be settled.
    /// All but those that were removed come again.
    pub lost: u64,
}

/// What happens while a worker works.
#[derive(Debug)]
#[non_exhaustive]
pub enum WorkEvent<'e> {
    /// A message was handled, and is done with durably.
    Done,
    /// A handler failed or panicked.
    Failed {
        /// Why.
        error: &'e str,
        /// How often the message was received so far.
        attempts: u16,
        /// After how long it comes again, if it does.
        delay: Duration,
    },
    /// Another receiver got the message meanwhile, or it was removed.
    Lost,
    /// What became of a message could not be said to the queue: it comes again.
    NotSettled(&'e Error),
    /// Nothing can be received now; it is tried again.
    Unreachable(&'e Error),
    /// As many messages of the queue are in flight as may be. The worker waits until some are settled; each worker reports it once.
    TooManyInFlight(&'e Error),
    /// The queue is paused. The worker waits; it reports each pause once.
    Paused,
}

impl<S: Source> Worker<S> {
    /// A worker on what comes from `source`.
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

    /// Handles so many messages at once: 1 to [`MAX_CONCURRENCY`], else [`DEFAULT_CONCURRENCY`].
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency;
        self
    }

    /// Leases messages for so long at a time, 1 s to 12 hours, else for as long as the queue says: if this process dies, they
    /// are received again after that.
    pub fn visibility(mut self, visibility: Duration) -> Self {
        self.visibility = Some(visibility);
        self
    }

    /// A message that failed for the first time comes again after about `first`, and each further time after twice as long, up to
    /// `longest`; each delay is drawn between half of that and all of it, lest what failed together comes together. Else
    /// 1 s and 15 minutes. Both are 30 days at most.
    pub fn backoff(mut self, first: Duration, longest: Duration) -> Self {
        (self.first_delay, self.longest_delay) = (first, longest);
        self
    }

    /// What is being handled when the worker is to stop may go on for so long, else 30 s; then it is dropped, and given back. The
    /// queue is told of all that, however long a store takes to answer.
    pub fn stop_within(mut self, grace: Duration) -> Self {
        self.stop_within = grace;
        self
    }

    /// Stops when there is nothing to receive.
    pub fn until_empty(mut self) -> Self {
        self.until_empty = true;
        self
    }

    /// Tells what happens, as it happens.
    pub fn observe(mut self, observer: impl Fn(&WorkEvent<'_>) + Send + Sync + 'static) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// Works until the queue is gone, or empty if that was asked for. If the future is dropped, handlers are too, and their
    /// messages come again when their leases end.
    ///
    /// # Errors
    /// As of [`run_until`](Self::run_until).
    pub async fn run(self) -> Result<Worked> {
        self.run_until(std::future::pending()).await
    }

    /// Works until `stop` is ready. Then nothing is received any more; what is being handled is finished, or given back.
    /// A store that cannot be reached is waited for; one that was closed is not.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`]: the store was closed. [`ErrorKind::NotFound`]: there is no such queue any more. [`ErrorKind::InvalidArgument`]: an option is not right.
    pub async fn run_until(self, stop: impl Future<Output = ()> + Send) -> Result<Worked> {
        if self.concurrency == 0 || self.concurrency > MAX_CONCURRENCY {
            let message = format!(
                "{} at once: 1 to {MAX_CONCURRENCY} messages are handled at once",
                self.concurrency
            );
            return Err(Error::new(ErrorKind::InvalidArgument, message).with_field("concurrency"));
        }
        if self.first_delay.max(self.longest_delay) > LONGEST_DELAY {
            let message = "backoff: 30 days is the longest delay of a message";
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

    /// How long a message that was received so often is not received, now that it failed.
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
