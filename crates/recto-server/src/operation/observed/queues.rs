//! Audit and metrics of queues. The audit log names queues and counts messages. It leaves out operations that keep
//! the messages: receiving, peeking, and extending a receipt.

use std::time::Duration;

use async_trait::async_trait;
use recto::session::{
    MovedMessages, OutgoingMessage, PeekedMessage, QueueSettings, QueueStatus, QueueTableSettings,
    QueueTables, Queues, ReceiveRequest, ReceivedMessages, SentMessage, Settling,
};
use recto::{Result, Session};

use super::{Deed, Observed};

impl<S: Session> Observed<S> {
    /// Begins the audit entry of an operation that changes a queue.
    fn begin_queue(&self, action: &'static str, queue: &str) -> Deed {
        let mut deed = self.begin_change(action);
        deed.detail("queue", queue);
        deed
    }
}

#[async_trait]
impl<S: Session> Queues for Observed<S> {
    async fn queues(&self) -> Result<Vec<QueueStatus>> {
        self.seen(self.session.queues()?.queues().await)
    }

    async fn queue(&self, name: &str) -> Result<QueueStatus> {
        self.seen(self.session.queues()?.queue(name).await)
    }

    async fn create_queue(&self, name: &str, settings: &QueueSettings) -> Result<(QueueStatus, bool)> {
        let deed = self.begin_queue("create queue", name);
        let queues = self.session.queues()?;
        self.audited(deed, queues.create_queue(name, settings)).await
    }

    async fn change_queue(
        &self,
        name: &str,
        settings: &QueueSettings,
        version: Option<u64>,
    ) -> Result<QueueStatus> {
        let deed = self.begin_queue("change queue", name);
        let queues = self.session.queues()?;
        self.audited(deed, queues.change_queue(name, settings, version))
            .await
    }

    async fn delete_queue(&self, name: &str) -> Result<()> {
        let deed = self.begin_queue("delete queue", name);
        self.audited(deed, self.session.queues()?.delete_queue(name))
            .await
    }

    async fn send(&self, queue: &str, messages: Vec<OutgoingMessage>) -> Result<Vec<Result<SentMessage>>> {
        let mut deed = self.begin_queue("send", queue);
        deed.detail("messages", messages.len());
        let sent = self.seen(self.session.queues()?.send(queue, messages).await);
        deed.end(&sent);
        let sent: Vec<_> = sent?.into_iter().map(|one| self.seen(one)).collect();
        let mut refused = sent.iter().filter_map(|one| one.as_ref().err());
        if let Some(error) = refused.next() {
            deed.failed(error);
            deed.detail("refused", 1 + refused.count());
        }
        Ok(sent)
    }

    async fn receive(&self, queue: &str, request: &ReceiveRequest) -> Result<ReceivedMessages> {
        self.seen(self.session.queues()?.receive(queue, request).await)
    }

    async fn settle(&self, queue: &str, receipts: &[String], settling: &Settling) -> Result<Vec<bool>> {
        let settle = self.session.queues()?.settle(queue, receipts, settling);
        let action = match settling {
            Settling::Ack => "ack",
            Settling::Nack { .. } | Settling::GiveBack => "nack",
            Settling::Extend { .. } => return self.seen(settle.await),
        };
        let mut deed = self.begin_queue(action, queue);
        deed.detail("messages", receipts.len());
        self.audited(deed, settle).await
    }

    async fn peek(&self, queue: &str, most: u32) -> Result<Vec<PeekedMessage>> {
        self.seen(self.session.queues()?.peek(queue, most).await)
    }

    async fn remove_message(&self, queue: &str, position: &str) -> Result<bool> {
        let deed = self.begin_queue("remove message", queue);
        self.audited(deed, self.session.queues()?.remove_message(queue, position))
            .await
    }

    async fn purge(&self, queue: &str) -> Result<()> {
        let deed = self.begin_queue("purge", queue);
        self.audited(deed, self.session.queues()?.purge(queue)).await
    }

    async fn redrive(
        &self,
        queue: &str,
        to: Option<&str>,
        most: Option<u64>,
        time: Duration,
    ) -> Result<MovedMessages> {
        let deed = self.begin_queue("redrive", queue);
        let queues = self.session.queues()?;
        self.audited(deed, queues.redrive(queue, to, most, time)).await
    }

    async fn begin_unit(&self, queue: &str, unit: &str) -> Result<QueueStatus> {
        let mut deed = self.begin_queue("begin unit", queue);
        deed.detail("unit", unit);
        self.audited(deed, self.session.queues()?.begin_unit(queue, unit))
            .await
    }

    async fn end_unit(&self, queue: &str, unit: &str) -> Result<()> {
        let mut deed = self.begin_queue("end unit", queue);
        deed.detail("unit", unit);
        self.audited(deed, self.session.queues()?.end_unit(queue, unit))
            .await
    }

    async fn units(&self, queue: &str) -> Result<Vec<QueueStatus>> {
        self.seen(self.session.queues()?.units(queue).await)
    }

    async fn tables(&self) -> Result<QueueTables> {
        self.seen(self.session.queues()?.tables().await)
    }

    async fn change_tables(&self, settings: &QueueTableSettings) -> Result<QueueTables> {
        let deed = self.begin_change("change ring");
        self.audited(deed, self.session.queues()?.change_tables(settings))
            .await
    }

    async fn table_settings(&self) -> Result<Option<QueueTableSettings>> {
        self.seen(self.session.queues()?.table_settings().await)
    }
}
