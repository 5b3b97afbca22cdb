//! What a worker's messages come from.

use std::time::Duration;

use async_trait::async_trait;

use crate::error::Result;
use crate::queues::{Message, Queue, Receipt, Receive, Settled};

/// What messages come from: a [`Queue`], or one that is asked in another way.
#[async_trait]
pub trait Source: Send + Sync + 'static {
    /// What is received.
    type Message: Send + 'static;
    /// What shows that it was.
    type Receipt: Clone + Send + Sync + 'static;

    /// The receipt of a message.
    fn receipt(message: &Self::Message) -> Self::Receipt;
    /// How often a message was received so far.
    fn attempts(message: &Self::Message) -> u16;
    /// For how long messages are leased, if nothing else is said.
    fn visibility(&self) -> Duration;
    /// Whether the last receive returned nothing because the queue is paused.
    fn is_paused(&self) -> bool {
        false
    }
    /// Receives messages. If the future is dropped they are given back.
    async fn receive(&self, receive: Receive) -> Result<Vec<Self::Message>>;
    /// Is done with messages.
    async fn ack(&self, receipts: &[Self::Receipt]) -> Result<Vec<Settled>>;
    /// Gives a message back.
    async fn nack(&self, receipt: &Self::Receipt, delay: Duration, error: &str) -> Result<Settled>;
    /// Gives a message back that nobody worked on: it is there at once, and that it was received is not counted.
    async fn give_back(&self, receipt: &Self::Receipt) -> Result<Settled>;
    /// Keeps messages for so long from now.
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
