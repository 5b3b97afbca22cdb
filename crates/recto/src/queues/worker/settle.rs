//! Settling of messages: requests that tell the queue whether messages were handled.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio::task::Id;

use super::source::Source;
use crate::error::{Error, Result};
use crate::queues::Settled;
use crate::queues::error::is_closed;

/// Maximum number of attempts to send the outcome of a message to the queue.
const MAX_ATTEMPTS: u32 = 5;
/// Wait before the second attempt to send an outcome. Each further wait is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Outcome of the handling of a message.
pub(super) enum Outcome {
    /// The message was handled.
    Done,
    /// The handler failed.
    Failed {
        error: String,
        delay: Duration,
        attempts: u16,
    },
    /// The message was not handled, because the worker stops or the handler did not begin.
    GivenBack,
}

/// Message whose handler has ended, with its outcome.
pub(super) struct Finished<R> {
    pub(super) id: Id,
    pub(super) receipt: R,
    pub(super) outcome: Outcome,
}

/// For each message, the id of its handler's task, its outcome, and the response of the queue to
/// the outcome.
pub(super) type SettledMessages = Vec<(Id, Outcome, Result<Settled>)>;

/// Acknowledges the messages that were handled, in one request. Returns the response of the queue
/// for each message.
pub(super) async fn ack<S: Source>(source: Arc<S>, done: Vec<Finished<S::Receipt>>) -> SettledMessages {
    let receipts: Vec<_> = done.iter().map(|done| done.receipt.clone()).collect();
    let acked = repeated(|| source.ack(&receipts)).await;
    let ids = done.into_iter().map(|done| done.id);
    match acked {
        Ok(settled) => ids
            .zip(settled)
            .map(|(id, settled)| (id, Outcome::Done, Ok(settled)))
            .collect(),
        Err(error) => {
            let message = error.to_string();
            let again = || Error::new(error.kind(), message.clone());
            ids.map(|id| (id, Outcome::Done, Err(again()))).collect()
        }
    }
}

/// Gives back the messages that failed or were not handled, in one request per message. Returns the
/// response of the queue for each message.
pub(super) async fn give_back<S: Source>(
    source: Arc<S>,
    failed: Vec<Finished<S::Receipt>>,
) -> SettledMessages {
    join_all(failed.into_iter().map(|failed| give_one_back(&*source, failed))).await
}

async fn give_one_back<S: Source>(
    source: &S,
    finished: Finished<S::Receipt>,
) -> (Id, Outcome, Result<Settled>) {
    let settled = match &finished.outcome {
        Outcome::Failed { error, delay, .. } => {
            repeated(|| source.nack(&finished.receipt, *delay, error)).await
        }
        // Give back a message that did not fail without counting the attempt, which would bring the
        // message nearer to the dead-letter queue.
        Outcome::Done | Outcome::GivenBack => repeated(|| source.give_back(&finished.receipt)).await,
    };
    (finished.id, finished.outcome, settled)
}

/// Sends a request, and repeats it after errors that may not occur again.
async fn repeated<T, F: Future<Output = Result<T>>>(ask: impl Fn() -> F) -> Result<T> {
    let mut attempt = 1;
    loop {
        match ask().await {
            Err(error) if error.is_retryable() && !is_closed(&error) && attempt < MAX_ATTEMPTS => {}
            outcome => return outcome,
        }
        tokio::time::sleep(FIRST_PAUSE.saturating_mul(1 << (attempt - 1))).await;
        attempt += 1;
    }
}
