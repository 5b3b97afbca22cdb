//! Operations with receipts: acknowledge messages, give them back, and extend their visibility timeouts.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use recto_protocol::queues::limits::{MAX_DELAY_SECONDS, MAX_VISIBILITY_SECONDS};
use recto_protocol::queues::{Clock, Live, Micros, Moved, Receipt, Segment, StateCommand, StateResponse};

use crate::context::micros;
use crate::error::{QueueError, QueueErrorKind, Result};
use crate::message::Settled;
use crate::shard::Shard;
use crate::shard::segment::LiveSegment;
use crate::shards::Shards;

/// Minimum visibility timeout. It must be long enough for a message to reach its receiver.
const MIN_VISIBILITY: Duration = Duration::from_millis(100);
/// Operation that a receiver requests by showing the receipt of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReceiptOperation {
    Ack,
    Nack { delay: Micros },
    Extend { visibility: Micros },
    GiveBack,
}

impl ReceiptOperation {
    /// Returns whether the operation has an effect only on unresolved messages.
    fn needs_message(self) -> bool {
        matches!(self, Self::Nack { .. } | Self::Extend { .. })
    }
}

impl Shards {
    /// Acknowledges messages, which are then never received again. The acknowledgment is durable when the
    /// call returns.
    ///
    /// # Errors
    /// A receipt is from another queue, or the store is unreachable. Or the outcome is unknown; acknowledge
    /// the receipts again to resolve it.
    pub async fn ack(&self, receipts: &[Receipt]) -> Result<Vec<Settled>> {
        self.apply(receipts, ReceiptOperation::Ack).await
    }

    /// Gives messages back after a failed attempt, so that they can be received again after `delay`. A
    /// message that was received the maximum number of times goes to the dead-letter queue instead, with
    /// `error` as the reason.
    ///
    /// # Errors
    /// The delay is too long. Otherwise, the errors of [`ack`](Self::ack).
    pub async fn nack(&self, receipts: &[Receipt], delay: Duration, error: &str) -> Result<Vec<Settled>> {
        if delay > Duration::from_secs(MAX_DELAY_SECONDS.into()) {
            let message = format!("delay: {} s; the maximum is 30 days", delay.as_secs());
            let error = QueueError::new(QueueErrorKind::InvalidArgument, message);
            return Err(error
                .with_hint("use a shorter delay: no message was returned")
                .with_field("delay_seconds"));
        }
        let error: Arc<str> = error.into();
        self.in_each_shard(receipts, |shard, shown| {
            let error = Arc::clone(&error);
            async move { shard.nack(&shown, micros(delay), &error).await }
        })
        .await
    }

    /// Gives messages back on which no receiver worked. The messages can be received again at once,
    /// and the attempt does not count.
    ///
    /// # Errors
    /// The errors of [`ack`](Self::ack).
    pub async fn give_back(&self, receipts: &[Receipt]) -> Result<Vec<Settled>> {
        self.apply(receipts, ReceiptOperation::GiveBack).await
    }

    /// Extends the visibility timeouts of messages, which then end after the duration `visibility` from now.
    ///
    /// # Errors
    /// The visibility timeout is out of range. Otherwise, the errors of [`ack`](Self::ack).
    pub async fn extend(&self, receipts: &[Receipt], visibility: Duration) -> Result<Vec<Settled>> {
        check_visibility(visibility)?;
        let visibility = micros(visibility);
        self.apply(receipts, ReceiptOperation::Extend { visibility })
            .await
    }

    async fn apply(&self, receipts: &[Receipt], operation: ReceiptOperation) -> Result<Vec<Settled>> {
        self.in_each_shard(receipts, move |shard, shown| async move {
            shard.apply(&shown, operation).await
        })
        .await
    }

    /// Groups receipts by shard, and runs the operation in each shard, in a task of its own. Returns the
    /// outcomes in the order of the receipts.
    async fn in_each_shard<F>(
        &self,
        receipts: &[Receipt],
        does: impl Fn(Arc<Shard>, Vec<Receipt>) -> F,
    ) -> Result<Vec<Settled>>
    where
        F: Future<Output = Result<Vec<Settled>>> + Send + 'static,
    {
        let mut by_shard: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (number, receipt) in receipts.iter().enumerate() {
            let shard = self.shard_of_receipt(receipt).ok_or_else(|| foreign(number))?;
            by_shard.entry(shard).or_default().push(number);
        }
        let asked = by_shard.iter().map(|(shard, numbers)| {
            let shown = numbers.iter().map(|number| receipts[*number]).collect();
            tokio::spawn(does(Arc::clone(&self.all()[*shard]), shown))
        });
        let responses: Vec<_> = join_all(asked)
            .await
            .into_iter()
            .map(|response| response.unwrap_or_else(|_| Err(QueueError::ended())))
            .collect();
        let is_begun = responses.iter().any(Result::is_ok);
        let mut settled = vec![Settled::Done; receipts.len()];
        for (numbers, response) in by_shard.into_values().zip(responses) {
            let response = response.map_err(|error| if is_begun { error.in_part() } else { error })?;
            for (number, response) in numbers.into_iter().zip(response) {
                settled[number] = response;
            }
        }
        Ok(settled)
    }
}

fn foreign(number: usize) -> QueueError {
    let message = format!("receipt {number} belongs to another queue: nothing was done");
    QueueError::new(QueueErrorKind::InvalidArgument, message)
        .with_hint("use each receipt with the queue from which the message was received")
}

impl Shard {
    async fn nack(
        self: &Arc<Self>,
        receipts: &[Receipt],
        delay: Micros,
        error: &str,
    ) -> Result<Vec<Settled>> {
        let dead_lettered = self.dead_letter_exhausted(receipts, error).await?;
        let count = dead_lettered
            .iter()
            .filter(|is_dead_lettered| **is_dead_lettered)
            .count();
        self.queue.counters.given_back.add(count);
        let left: Vec<_> = (0..receipts.len())
            .filter(|index| !dead_lettered[*index])
            .collect();
        let mut settled = vec![Settled::Done; receipts.len()];
        if !left.is_empty() {
            let shown: Vec<_> = left.iter().map(|index| receipts[*index]).collect();
            let each = self.apply(&shown, ReceiptOperation::Nack { delay }).await?;
            for (index, each) in left.into_iter().zip(each) {
                settled[index] = each;
            }
        }
        Ok(settled)
    }

    /// Moves those messages to the dead-letter queue that were received the maximum number of times. Returns
    /// for each receipt whether its message was moved.
    async fn dead_letter_exhausted(self: &Arc<Self>, receipts: &[Receipt], error: &str) -> Result<Vec<bool>> {
        let mut dead_lettered = Vec::with_capacity(receipts.len());
        let head = self.head(false).await?;
        for receipt in receipts {
            let live = head.live().get(&receipt.segment);
            let moved = match live {
                Some(live) => self.dead_letter_if_exhausted(receipt, *live, error).await,
                None => Ok(false),
            };
            dead_lettered.push(match moved {
                // Skip a message whose data is damaged: it stays in its segment, and the other messages are
                // still handled.
                Err(error) if error.kind() == QueueErrorKind::Corrupt => false,
                moved => moved.map_err(QueueError::in_part)?,
            });
        }
        Ok(dead_lettered)
    }

    async fn dead_letter_if_exhausted(
        self: &Arc<Self>,
        receipt: &Receipt,
        live: Live,
        error: &str,
    ) -> Result<bool> {
        let dead_letters = self.queue.options.get().dead_letters;
        let segment = self.segment(receipt.segment, live);
        segment.load(false).await?;
        let attempts = segment.attempts(receipt);
        let (Some(dead_letters), Some(attempts)) = (dead_letters, attempts) else {
            return Ok(false);
        };
        if attempts < dead_letters.attempts {
            return Ok(false);
        }
        let claim = Some(receipt.claim);
        let moved = self
            .dead_letter(&segment, live, receipt.seq, attempts, claim, error)
            .await?;
        Ok(moved == Some(Moved::Done))
    }

    /// Executes the operation `operation` on the messages of receipts, which must all be from this
    /// shard.
    pub(crate) async fn apply(
        self: &Arc<Self>,
        receipts: &[Receipt],
        operation: ReceiptOperation,
    ) -> Result<Vec<Settled>> {
        let mut by_segment: BTreeMap<Segment, Vec<usize>> = BTreeMap::new();
        for (index, receipt) in receipts.iter().enumerate() {
            by_segment.entry(receipt.segment).or_default().push(index);
        }
        // The head no longer lists a released segment. All messages of a released segment are
        // resolved, and `done_before` is the outcome for their receipts.
        let done_before = if operation.needs_message() {
            Settled::Stale
        } else {
            Settled::Done
        };
        let mut settled = vec![done_before; receipts.len()];
        let mut head = self.head(false).await?;
        if by_segment
            .keys()
            .any(|segment| !head.live().contains_key(segment))
        {
            head = self.head.read().await?;
        }
        let mut is_begun = false;
        for (number, indexes) in by_segment {
            let Some(live) = head.live().get(&number) else {
                if !head.ever_had(number) {
                    // The segment never existed in this store, for example because the store was
                    // restored from a backup. So its receipts are stale.
                    for index in indexes {
                        settled[index] = Settled::Stale;
                    }
                }
                continue;
            };
            let segment = self.segment(number, *live);
            let shown: Vec<_> = indexes.iter().map(|index| receipts[*index]).collect();
            let responses = self.apply_in_segment(&segment, &shown, operation).await;
            let responses = responses.map_err(|error| if is_begun { error.in_part() } else { error })?;
            is_begun = true;
            for (index, response) in indexes.into_iter().zip(responses) {
                settled[index] = match response {
                    StateResponse::Stale | StateResponse::Leaving(..) => Settled::Stale,
                    StateResponse::Gone => done_before,
                    _ => Settled::Done,
                };
            }
            if segment.is_done() {
                let shard = Arc::clone(self);
                tokio::spawn(async move { shard.release_if_done(&segment).await });
            }
        }
        Ok(settled)
    }

    async fn apply_in_segment(
        &self,
        segment: &LiveSegment,
        receipts: &[Receipt],
        operation: ReceiptOperation,
    ) -> Result<Vec<StateResponse>> {
        let sent = self.context.clock();
        if matches!(operation, ReceiptOperation::Extend { .. }) {
            // The end of the extended visibility timeout is unknown until the response arrives. Until then,
            // this process uses the end that is stored with the claim, as other processes do.
            let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
            for receipt in receipts {
                leases.forget((receipt.segment, receipt.seq, receipt.claim));
            }
        }
        let commands = receipts
            .iter()
            .map(|receipt| command_for(receipt, operation, sent))
            .collect();
        let open = segment.claims.with_cached(|state| {
            let state = state.filter(|state| state.segment() == segment.number);
            let is_open = |receipt: &Receipt| state.is_some_and(|state| !state.resolved().has(receipt.seq));
            receipts.iter().map(is_open).collect::<Vec<_>>()
        });
        let responses = segment
            .claims
            .call_all(commands, None, self.context.request_timeout)
            .await?;
        let heard = self.context.clock();
        let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        for (receipt, response) in receipts.iter().zip(&responses) {
            let claim = (receipt.segment, receipt.seq, receipt.claim);
            match (operation, response) {
                (ReceiptOperation::Extend { visibility }, StateResponse::Done) => {
                    leases.given(claim, visibility, sent, heard);
                }
                (_, StateResponse::Done) => leases.forget(claim),
                _ => {}
            }
        }
        drop(leases);
        // Count only messages that were not resolved before, as far as this process knows.
        let done = open
            .iter()
            .zip(&responses)
            .filter(|(is_open, response)| **is_open && **response == StateResponse::Done);
        match operation {
            ReceiptOperation::Ack => self.queue.counters.acked.add(done.count()),
            ReceiptOperation::Nack { .. } => self.queue.counters.given_back.add(done.count()),
            ReceiptOperation::Extend { .. } | ReceiptOperation::GiveBack => {}
        }
        if operation == ReceiptOperation::Ack && !self.queue.options.get().is_ordered {
            // In an unordered queue, an ack makes no waiting message available. The ack can only
            // make room below the limit of messages in flight, so other processes need no
            // notification.
            self.wake_receiver();
        } else {
            self.notify_receivers();
        }
        Ok(responses)
    }
}

fn command_for(receipt: &Receipt, operation: ReceiptOperation, now: Clock) -> StateCommand {
    let Receipt { seq, claim, .. } = *receipt;
    match operation {
        ReceiptOperation::Ack => StateCommand::Ack { seq, claim },
        ReceiptOperation::Nack { delay } => {
            let until = now.wall.saturating_add(delay);
            StateCommand::Nack { seq, claim, until }
        }
        ReceiptOperation::Extend { visibility } => {
            let until = now.wall.saturating_add(visibility);
            StateCommand::Extend { seq, claim, until }
        }
        ReceiptOperation::GiveBack => StateCommand::GiveBack { seq, claim },
    }
}

/// Checks that a visibility timeout is in the valid range.
pub(crate) fn check_visibility(visibility: Duration) -> Result<()> {
    let most = Duration::from_secs(MAX_VISIBILITY_SECONDS.into());
    if (MIN_VISIBILITY..=most).contains(&visibility) {
        return Ok(());
    }
    let what = format!("visibility: {visibility:?}; the range is 100 ms to 12 hours");
    Err(QueueError::new(QueueErrorKind::InvalidArgument, what)
        .with_hint("nothing was done")
        .with_field("visibility_seconds"))
}
