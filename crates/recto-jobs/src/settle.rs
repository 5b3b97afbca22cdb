//! Being done with messages, giving them back, and keeping them for longer.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use recto_queue::{Clock, Micros, Receipt, Segment, StateAnswer, StateWish};

use crate::error::{QueueError, QueueErrorKind, Result};
use crate::message::Settled;
use crate::segment::LiveSegment;
use crate::shard::{Inner, Shard};

/// What is done with a message that was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Ack,
    Nack { delay: Micros },
    Extend { visibility: Micros },
    GiveBack,
}

impl Shard {
    /// Is done with messages: durably, when this says so.
    ///
    /// # Errors
    /// The store cannot be reached, or it is not known whether it was done; showing the receipts again settles that.
    pub async fn ack(&self, receipts: &[Receipt]) -> Result<Vec<Settled>> {
        self.settle(receipts, What::Ack).await
    }

    /// Gives messages back, to be received again after so long.
    ///
    /// # Errors
    /// As of [`ack`](Self::ack).
    pub async fn nack(&self, receipts: &[Receipt], delay: Duration) -> Result<Vec<Settled>> {
        let delay = micros(delay);
        self.settle(receipts, What::Nack { delay }).await
    }

    /// Keeps messages for so long from now.
    ///
    /// # Errors
    /// As of [`ack`](Self::ack).
    pub async fn extend(&self, receipts: &[Receipt], visibility: Duration) -> Result<Vec<Settled>> {
        let visibility = micros(visibility);
        self.settle(receipts, What::Extend { visibility }).await
    }

    async fn settle(&self, receipts: &[Receipt], what: What) -> Result<Vec<Settled>> {
        let (shard, receipts) = (self.clone(), receipts.to_vec());
        let settled = tokio::spawn(async move { shard.0.settle(&receipts, what).await }).await;
        settled.unwrap_or_else(|_| Err(QueueError::closed()))
    }
}

impl Inner {
    /// Does that with each of the messages; of other shards there may be none among them.
    pub(crate) async fn settle(self: &Arc<Self>, receipts: &[Receipt], what: What) -> Result<Vec<Settled>> {
        let mut by_segment: BTreeMap<Segment, Vec<usize>> = BTreeMap::new();
        for (index, receipt) in receipts.iter().enumerate() {
            by_segment.entry(receipt.segment).or_default().push(index);
        }
        self.check_receipts(receipts)?;
        // A segment that is not live is released: all its messages are done with.
        let mut settled = vec![Settled::Done; receipts.len()];
        let mut head = self.head(false).await?;
        if by_segment
            .keys()
            .any(|segment| !head.live().contains_key(segment))
        {
            head = self.head(true).await?;
        }
        for (number, indexes) in by_segment {
            let Some(live) = head.live().get(&number) else {
                continue;
            };
            let segment = self.segment(number, *live);
            let shown: Vec<_> = indexes.iter().map(|index| receipts[*index]).collect();
            let answers = self.settle_in(&segment, &shown, what).await?;
            for (index, answer) in indexes.into_iter().zip(answers) {
                settled[index] = match answer {
                    StateAnswer::Stale | StateAnswer::Leaving(_) => Settled::Stale,
                    _ => Settled::Done,
                };
            }
            self.release_if_done(&segment).await;
        }
        Ok(settled)
    }

    fn check_receipts(&self, receipts: &[Receipt]) -> Result<()> {
        let is_foreign = |receipt: &Receipt| receipt.address != self.address || receipt.tenure != self.tenure;
        match receipts.iter().position(is_foreign) {
            None => Ok(()),
            Some(number) => {
                let message = format!("receipt {number} is of another queue: nothing was done");
                let error = QueueError::new(QueueErrorKind::InvalidArgument, message);
                Err(error.with_hint("show each receipt to the queue that the message was received from"))
            }
        }
    }

    async fn settle_in(
        &self,
        segment: &LiveSegment,
        receipts: &[Receipt],
        what: What,
    ) -> Result<Vec<StateAnswer>> {
        let sent = self.queues.clock();
        let wishes = receipts.iter().map(|receipt| wish(receipt, what, sent)).collect();
        let answers = segment
            .state
            .ask(wishes, None, self.queues.request_timeout)
            .await?;
        let heard = self.queues.clock();
        let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        for (receipt, answer) in receipts.iter().zip(&answers) {
            let claim = (receipt.segment, receipt.seq, receipt.claim);
            match (what, answer) {
                (What::Extend { visibility }, StateAnswer::Done) => {
                    leases.given(claim, visibility, sent, heard);
                }
                (_, StateAnswer::Done) => leases.forget(claim),
                _ => {}
            }
        }
        drop(leases);
        if what != What::Ack {
            self.news.notify_one();
        }
        Ok(answers)
    }
}

fn wish(receipt: &Receipt, what: What, now: Clock) -> StateWish {
    let Receipt { seq, claim, .. } = *receipt;
    match what {
        What::Ack => StateWish::Ack { seq, claim },
        What::Nack { delay } => {
            let until = now.wall.saturating_add(delay);
            StateWish::Nack { seq, claim, until }
        }
        What::Extend { visibility } => {
            let until = now.wall.saturating_add(visibility);
            StateWish::Extend { seq, claim, until }
        }
        What::GiveBack => StateWish::GiveBack { seq, claim },
    }
}

pub(crate) fn micros(duration: Duration) -> Micros {
    Micros::try_from(duration.as_micros()).unwrap_or(Micros::MAX)
}
