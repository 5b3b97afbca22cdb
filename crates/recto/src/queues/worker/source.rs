//! Interface to the queue from which a worker receives its messages.

use std::time::Duration;

use async_trait::async_trait;

use crate::error::Result;
use crate::queues::{Message, Queue, Receipt, Receive, Settled};

/// Queue from which a worker receives messages: a [`Queue`], or another implementation.
#[async_trait]
pub trait Source: Send + Sync + 'static {
    /// Type of the messages.
    type Message: Send + 'static;
    /// Type of receipts, which prove that a message was received.
    type Receipt: Clone + Send + Sync + 'static;

    /// Returns the receipt of a message.
    fn receipt(message: &Self::Message) -> Self::Receipt;
    /// Returns the number of times that a message was received so far.
    fn attempts(message: &Self::Message) -> u16;
    /// Returns the default visibility timeout: the time for which a receiver has a message.
    fn visibility(&self) -> Duration;
    /// Returns whether the last receive returned nothing because the queue is paused.
    fn is_paused(&self) -> bool {
        false
    }
    /// Receives messages. If the future is dropped, the messages are given back.
    async fn receive(&self, receive: Receive) -> Result<Vec<Self::Message>>;
    /// Acknowledges messages, so that they are not delivered again. Returns the outcome for each
    /// receipt.
    async fn ack(&self, receipts: &[Self::Receipt]) -> Result<Vec<Settled>>;
    /// Gives a message back, so that it can be received again after `delay`. `error` is the reason.
    async fn nack(&self, receipt: &Self::Receipt, delay: Duration, error: &str) -> Result<Settled>;
    /// Gives back a message that was not handled. It can be received again at once, and the attempt
    /// does not count.
    async fn give_back(&self, receipt: &Self::Receipt) -> Result<Settled>;
    /// Extends the visibility timeouts of messages, which then end at `visibility` from now.
    async fn extend(&self, receipts: &[Self::Receipt], visibility: Duration) -> Result<Vec<Settled>>;
}

#[async_trait]
impl Source for Queue {
    type Message = Message;
    type Receipt = Receipt;

    fn receipt(message: &Message) -> Receipt {
        message.receipt
    }

    fn attempts(message: &Message) -> u16 {
        message.attempts
    }

    fn visibility(&self) -> Duration {
        Duration::from_secs(self.options().visibility_seconds.into())
    }

    fn is_paused(&self) -> bool {
        self.is_paused()
    }

    async fn receive(&self, receive: Receive) -> Result<Vec<Message>> {
        self.receive(receive).await
    }

    async fn ack(&self, receipts: &[Receipt]) -> Result<Vec<Settled>> {
        self.ack(receipts).await
    }

    async fn nack(&self, receipt: &Receipt, delay: Duration, error: &str) -> Result<Settled> {
        let settled = self.nack(&[*receipt], delay, error).await?;
        Ok(settled.first().copied().unwrap_or(Settled::Stale))
    }

    async fn give_back(&self, receipt: &Receipt) -> Result<Settled> {
        let settled = self.give_back(&[*receipt]).await?;
        Ok(settled.first().copied().unwrap_or(Settled::Stale))
    }

    async fn extend(&self, receipts: &[Receipt], visibility: Duration) -> Result<Vec<Settled>> {
        self.extend(receipts, visibility).await
    }
}
