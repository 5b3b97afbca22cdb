//! What became of messages is told to their queue.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;

use super::source::Source;
use crate::error::{Error, Result};
use crate::queues::Settled;

/// How often telling a queue is tried.
const MAX_ATTEMPTS: u32 = 5;
/// How long to wait before it is tried for the second time; each further wait is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// What became of a message.
pub(super) enum Outcome {
    /// It was handled.
    Done,
    /// It was not.
    Failed {
        error: String,
        delay: Duration,
        attempts: u16,
    },
    /// The worker stops.
    GivenBack,
}

/// A message that nobody handles any more.
pub(super) struct Finished<R> {
    pub(super) receipt: R,
    pub(super) outcome: Outcome,
}

/// What the queue said of each, in their order.
pub(super) type Told = Vec<(Outcome, Result<Settled>)>;

/// Tells the queue of all of these: those that are done with together.
pub(super) async fn settle<S: Source>(source: Arc<S>, finished: Vec<Finished<S::Receipt>>) -> Told {
    let (done, others): (Vec<_>, Vec<_>) = finished
        .into_iter()
        .partition(|finished| matches!(finished.outcome, Outcome::Done));
    let acked = ack(&*source, done.into_iter().map(|done| done.receipt).collect());
    let given_back = join_all(others.into_iter().map(|other| give_back(&*source, other)));
    let (mut told, given_back) = futures::join!(acked, given_back);
    told.extend(given_back);
    told
}

async fn ack<S: Source>(source: &S, receipts: Vec<S::Receipt>) -> Told {
    if receipts.is_empty() {
        return Told::new();
    }
    match repeated(|| source.ack(&receipts)).await {
        Ok(settled) => settled
            .into_iter()
            .map(|settled| (Outcome::Done, Ok(settled)))
            .collect(),
        Err(error) => {
            let message = error.to_string();
            let again = || Error::new(error.kind(), message.clone());
            receipts.iter().map(|_| (Outcome::Done, Err(again()))).collect()
        }
    }
}

async fn give_back<S: Source>(source: &S, finished: Finished<S::Receipt>) -> (Outcome, Result<Settled>) {
    let (error, delay) = match &finished.outcome {
        Outcome::Failed { error, delay, .. } => (error.as_str(), *delay),
        Outcome::Done | Outcome::GivenBack => ("", Duration::ZERO),
    };
    let settled = repeated(|| source.nack(&finished.receipt, delay, error)).await;
    (finished.outcome, settled)
}

/// Asks again what may be done by that.
async fn repeated<T, F: Future<Output = Result<T>>>(ask: impl Fn() -> F) -> Result<T> {
    let mut attempt = 1;
    loop {
        match ask().await {
            Err(error) if error.is_retryable() && attempt < MAX_ATTEMPTS => {}
            outcome => return outcome,
        }
        tokio::time::sleep(FIRST_PAUSE.saturating_mul(1 << (attempt - 1))).await;
        attempt += 1;
    }
}
