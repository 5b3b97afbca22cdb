//! Loop of a worker.

use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};

use super::failure::Failure;
use super::settle::{Finished, Outcome, SettledMessages, ack, give_back};
use super::source::Source;
use super::{LONGEST_DELAY, WorkEvent, Worked, Worker};
use crate::error::{Error, ErrorKind, Result};
use crate::queues::error::is_closed;
use crate::queues::{Receive, Settled};

/// Maximum time of one receive request while the queue has no message.
const WAIT: Duration = Duration::from_secs(20);
/// Maximum time of one receive request, for a worker that stops when no message can be received.
const EMPTY_WAIT: Duration = Duration::from_millis(100);
/// Wait after the first failed receive request. Each further wait is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Maximum wait after a failed receive request.
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// Number of times that a worker extends a lease in the time of the lease. Two consecutive
/// extensions can fail before the lease ends.
const EXTENSIONS_PER_LEASE: u32 = 3;

type Handled = std::result::Result<(), Failure>;
type Extended = (Vec<Id>, Result<Vec<Settled>>);

/// Message whose handler is running.
struct Running<R> {
    receipt: R,
    attempts: u16,
    handler: AbortHandle,
    end: End,
}

/// Reason why the handler of a message ended.
#[derive(Clone, Copy)]
enum End {
    /// The handler ended by itself.
    Handled,
    /// The message went to another receiver, or was removed.
    Lost,
    /// The worker stopped before the handler ended.
    Stopped,
}

/// State of a worker while it runs.
struct Work<S: Source> {
    worker: Worker<S>,
    handling: JoinSet<Handled>,
    running: HashMap<Id, Running<S::Receipt>>,
    /// Handled messages that must be acknowledged.
    done: Vec<Finished<S::Receipt>>,
    failed: Vec<Finished<S::Receipt>>,
    /// Messages whose handlers have ended and whose outcome the queue has not stored yet. Their
    /// leases are extended until then.
    owed: HashMap<Id, S::Receipt>,
    /// Number of consecutive receive requests that failed.
    failures: u32,
    /// True if the worker has reported that too many messages are in flight. It reports this once,
    /// because a slow worker reaches the limit after each message.
    is_limited: bool,
    /// True if the last receive request found the queue paused.
    is_paused: bool,
    is_stopping: bool,
    /// Error because of which the worker stops. `None`: the worker runs, or its caller stops it.
    fatal: Option<Error>,
    worked: Worked,
}

pub(super) async fn run<S: Source>(
    worker: Worker<S>,
    stop: impl Future<Output = ()> + Send,
) -> Result<Worked> {
    let every = worker.lease() / EXTENSIONS_PER_LEASE;
    let mut work = Work::new(worker);
    let mut stop = pin!(stop.fuse());
    let mut is_grace_given = false;
    let (mut receiving, mut extending, mut grace) = (None, None, None);
    // Acknowledging and giving back are separate futures, so that an acknowledgment does not wait
    // for other messages.
    let (mut acking, mut giving_back) = (None, None);
    let mut tick = Some(tokio::time::sleep(every).boxed());
    loop {
        if work.is_stopping && !is_grace_given {
            is_grace_given = true;
            // Drop the receiving future, which gives back the messages that it would have received.
            receiving = None;
            grace = Some(tokio::time::sleep(work.worker.stop_within).boxed());
        }
        if acking.is_none() && !work.done.is_empty() {
            let source = Arc::clone(&work.worker.source);
            acking = Some(ack(source, std::mem::take(&mut work.done)).boxed());
        }
        if giving_back.is_none() && !work.failed.is_empty() {
            let source = Arc::clone(&work.worker.source);
            giving_back = Some(give_back(source, std::mem::take(&mut work.failed)).boxed());
        }
        if receiving.is_none() && !work.is_stopping && work.free() > 0 {
            receiving = Some(work.receive());
        }
        if work.is_stopping && work.is_idle() {
            return work.fatal.map_or(Ok(work.worked), Err);
        }
        tokio::select! {
            () = &mut stop, if !work.is_stopping => work.is_stopping = true,
            () = done(&mut grace) => work.drop_all(),
            Some(ended) = work.handling.join_next_with_id() => work.ended(ended),
            received = done(&mut receiving) => work.received(received),
            told = done(&mut acking) => work.settled(told),
            told = done(&mut giving_back) => work.settled(told),
            extended = done(&mut extending) => work.extended(extended),
            () = done(&mut tick) => {
                tick = Some(tokio::time::sleep(every).boxed());
                if extending.is_none() && !work.is_idle() {
                    extending = Some(work.extend());
                }
            }
        }
    }
}

/// Waits until the future in `under_way` completes, and removes the future. Without a future, never
/// completes. If this call is dropped, a later call continues with the same future.
async fn done<T>(under_way: &mut Option<BoxFuture<'_, T>>) -> T {
    match under_way {
        Some(future) => {
            let ended = future.await;
            *under_way = None;
            ended
        }
        None => std::future::pending().await,
    }
}

impl<S: Source> Work<S> {
    fn new(worker: Worker<S>) -> Self {
        Self {
            worker,
            handling: JoinSet::new(),
            running: HashMap::new(),
            done: Vec::new(),
            failed: Vec::new(),
            owed: HashMap::new(),
            failures: 0,
            is_limited: false,
            is_paused: false,
            is_stopping: false,
            fatal: None,
            worked: Worked::default(),
        }
    }

    /// Returns the number of further messages that the worker can handle now.
    fn free(&self) -> usize {
        let taken = self.running.len() + self.owed.len();
        self.worker.concurrency.saturating_sub(taken)
    }

    fn is_idle(&self) -> bool {
        self.running.is_empty() && self.owed.is_empty()
    }

    fn receive(&self) -> BoxFuture<'static, Result<Vec<S::Message>>> {
        let source = Arc::clone(&self.worker.source);
        let receive = Receive {
            most: self.free(),
            // Request the lease that the worker extends, even if the options of the
            // queue have changed.
            visibility: Some(self.worker.lease()),
            wait: if self.worker.until_empty { EMPTY_WAIT } else { WAIT },
        };
        let doublings = self.failures.saturating_sub(1).min(16);
        let pause = FIRST_PAUSE.saturating_mul(1 << doublings).min(MAX_PAUSE);
        let has_failed = self.failures > 0;
        async move {
            if has_failed {
                tokio::time::sleep(pause).await;
            }
            source.receive(receive).await
        }
        .boxed()
    }

    fn received(&mut self, received: Result<Vec<S::Message>>) {
        match received {
            Ok(messages) => {
                self.failures = 0;
                let is_paused = messages.is_empty() && self.worker.source.is_paused();
                if !std::mem::replace(&mut self.is_paused, is_paused) && is_paused {
                    self.worker.tell(&WorkEvent::Paused);
                }
                self.is_stopping |= messages.is_empty() && self.is_idle() && self.worker.until_empty;
                for message in messages {
                    self.begin(message);
                }
            }
            Err(error) if error.kind() == ErrorKind::TooManyInFlight => {
                // The store did not fail, so keep the pause at its minimum.
                self.failures = 1;
                if !std::mem::replace(&mut self.is_limited, true) {
                    self.worker.tell(&WorkEvent::TooManyInFlight(&error));
                }
            }
            Err(error) if error.is_retryable() && !is_closed(&error) => {
                self.failures = self.failures.saturating_add(1);
                self.worker.tell(&WorkEvent::Unreachable(&error));
            }
            Err(error) => {
                self.fatal = Some(error);
                self.is_stopping = true;
            }
        }
    }

    fn begin(&mut self, message: S::Message) {
        let (receipt, attempts) = (S::receipt(&message), S::attempts(&message));
        let handler = Arc::clone(&self.worker.handler);
        // Call the handler inside the task, so that a panic before its first
        // await stays in the task.
        let handler = self.handling.spawn(async move { handler(message).await });
        let running = Running {
            receipt,
            attempts,
            handler: handler.clone(),
            end: End::Handled,
        };
        self.running.insert(handler.id(), running);
    }

    fn ended(&mut self, ended: std::result::Result<(Id, Handled), JoinError>) {
        let (id, handled) = match ended {
            Ok((id, handled)) => (id, Ok(handled)),
            Err(error) => (error.id(), Err(error)),
        };
        let Some(running) = self.running.remove(&id) else {
            return;
        };
        let failure = match handled {
            Ok(Ok(())) => None,
            Ok(Err(failure)) => Some(failure),
            Err(error) if error.is_panic() => Some(Failure::new(panic_text(error))),
            Err(_) if matches!(running.end, End::Lost) => {
                self.worked.lost += 1;
                return self.worker.tell(&WorkEvent::Lost);
            }
            Err(_) => {
                self.owed.insert(id, running.receipt.clone());
                return self.failed.push(Finished {
                    id,
                    receipt: running.receipt,
                    outcome: Outcome::GivenBack,
                });
            }
        };
        let outcome = match failure {
            None => Outcome::Done,
            Some(failure) if !failure.is_counted => Outcome::GivenBack,
            Some(failure) => Outcome::Failed {
                delay: failure
                    .delay
                    .unwrap_or_else(|| self.worker.delay(running.attempts))
                    .min(LONGEST_DELAY),
                error: failure.error,
                attempts: running.attempts,
            },
        };
        self.owed.insert(id, running.receipt.clone());
        let finished = match outcome {
            Outcome::Done => &mut self.done,
            Outcome::Failed { .. } | Outcome::GivenBack => &mut self.failed,
        };
        finished.push(Finished {
            id,
            receipt: running.receipt,
            outcome,
        });
    }

    fn settled(&mut self, told: SettledMessages) {
        for (id, outcome, settled) in told {
            self.owed.remove(&id);
            match settled {
                Ok(Settled::Done) => self.so_it_is(&outcome),
                Ok(Settled::Stale) => {
                    self.worked.lost += 1;
                    self.worker.tell(&WorkEvent::Lost);
                }
                Err(error) => {
                    self.worked.lost += 1;
                    self.worker.tell(&WorkEvent::NotSettled(&error));
                }
            }
        }
    }

    fn so_it_is(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Done => {
                self.worked.done += 1;
                self.worker.tell(&WorkEvent::Done);
            }
            Outcome::GivenBack => self.worked.given_back += 1,
            Outcome::Failed {
                error,
                delay,
                attempts,
            } => {
                self.worked.failed += 1;
                self.worker.tell(&WorkEvent::Failed {
                    error,
                    attempts: *attempts,
                    delay: *delay,
                });
            }
        }
    }

    fn extend(&self) -> BoxFuture<'static, Extended> {
        let running = self.running.iter().map(|(id, running)| (*id, &running.receipt));
        let owed = self.owed.iter().map(|(id, receipt)| (*id, receipt));
        let kept: Vec<_> = running
            .chain(owed)
            .map(|(id, receipt)| (id, receipt.clone()))
            .collect();
        let (source, lease) = (Arc::clone(&self.worker.source), self.worker.lease());
        let every = lease / EXTENSIONS_PER_LEASE;
        async move {
            let receipts: Vec<_> = kept.iter().map(|(_, receipt)| receipt.clone()).collect();
            // Limit the time of the request, so that a missing response does not delay the next
            // extension until the leases end.
            let extended = tokio::time::timeout(every, source.extend(&receipts, lease)).await;
            let late = |_| {
                let message = "leases were not extended in time; trying again";
                Err(Error::new(ErrorKind::Timeout, message))
            };
            let extended = extended.unwrap_or_else(late);
            (kept.into_iter().map(|(id, _)| id).collect(), extended)
        }
        .boxed()
    }

    /// Processes the result of a lease extension: drops the handlers whose messages went to other
    /// receivers or were removed.
    fn extended(&mut self, (handlers, extended): Extended) {
        let settled = match extended {
            Ok(settled) => settled,
            // Only report the error, because the next tick extends the leases
            // again before they end.
            Err(error) => return self.worker.tell(&WorkEvent::Unreachable(&error)),
        };
        for (handler, settled) in handlers.into_iter().zip(settled) {
            let running = self.running.get_mut(&handler);
            if let Some(running) = running.filter(|_| settled == Settled::Stale) {
                running.end = End::Lost;
                running.handler.abort();
            }
        }
    }

    fn drop_all(&mut self) {
        for running in self.running.values_mut() {
            running.end = End::Stopped;
            running.handler.abort();
        }
    }
}

/// Returns the text with which a handler panicked.
fn panic_text(error: JoinError) -> String {
    let said = error.into_panic();
    let text = said.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| said.downcast_ref::<String>().cloned());
    text.map_or_else(
        || "the handler panicked".to_owned(),
        |text| format!("the handler panicked: {text}"),
    )
}
