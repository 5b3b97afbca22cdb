//! Metrics and audit log of operations on queues. The audit log names queues and counts messages.
//! It omits receiving, peeking and extending a receipt, which leave the messages in the queue.

use std::time::Duration;

use async_trait::async_trait;
use recto::session::{
    MovedMessages, OutgoingMessage, PeekedMessage, QueueSettings, QueueStatus, QueueTableSettings,
    QueueTables, Queues, ReceiveRequest, ReceivedMessages, SentMessage, Settling,
};
use recto::{Result, Session};

use super::{Observed, Operation, errors_of};

/// Describes an operation that changes a queue, with the queue's name for the audit log.
fn change<T>(action: &'static str, queue: &str) -> Operation<T> {
    Operation::change(action).detail("queue", queue)
}

#[async_trait]
impl<S: Session> Queues for Observed<S> {
    async fn queues(&self) -> Result<Vec<QueueStatus>> {
        let list = async |session: &S| session.queues()?.queues().await;
        self.call(Operation::unaudited(), list).await
    }

    async fn queue(&self, name: &str) -> Result<QueueStatus> {
        let get = async |session: &S| session.queues()?.queue(name).await;
        self.call(Operation::unaudited(), get).await
    }

    async fn create_queue(&self, name: &str, settings: &QueueSettings) -> Result<(QueueStatus, bool)> {
        let create = async |session: &S| session.queues()?.create_queue(name, settings).await;
        self.call(change("create queue", name), create).await
    }

    async fn change_queue(
        &self,
        name: &str,
        settings: &QueueSettings,
        version: Option<u64>,
    ) -> Result<QueueStatus> {
        let change_queue = async |session: &S| session.queues()?.change_queue(name, settings, version).await;
        self.call(change("change queue", name), change_queue).await
    }

    async fn delete_queue(&self, name: &str) -> Result<()> {
        let delete = async |session: &S| session.queues()?.delete_queue(name).await;
        self.call(change("delete queue", name), delete).await
    }

    async fn send(&self, queue: &str, messages: Vec<OutgoingMessage>) -> Result<Vec<Result<SentMessage>>> {
        let operation = change("send", queue)
            .detail("messages", messages.len())
            .item_errors(|sent: &Vec<_>| errors_of(sent));
        let send = async |session: &S| session.queues()?.send(queue, messages).await;
        self.call(operation, send).await
    }

    async fn receive(&self, queue: &str, request: &ReceiveRequest) -> Result<ReceivedMessages> {
        let receive = async |session: &S| session.queues()?.receive(queue, request).await;
        self.call(Operation::unaudited(), receive).await
    }

    async fn settle(&self, queue: &str, receipts: &[String], settling: &Settling) -> Result<Vec<bool>> {
        let change = |action| change(action, queue).detail("messages", receipts.len());
        let operation = match settling {
            Settling::Ack => change("ack"),
            Settling::Nack { .. } | Settling::GiveBack => change("nack"),
            Settling::Extend { .. } => Operation::unaudited(),
        };
        let settle = async |session: &S| session.queues()?.settle(queue, receipts, settling).await;
        self.call(operation, settle).await
    }

    async fn peek(&self, queue: &str, most: u32) -> Result<Vec<PeekedMessage>> {
        let peek = async |session: &S| session.queues()?.peek(queue, most).await;
        self.call(Operation::unaudited(), peek).await
    }

    async fn remove_message(&self, queue: &str, position: &str) -> Result<bool> {
        let remove = async |session: &S| session.queues()?.remove_message(queue, position).await;
        self.call(change("remove message", queue), remove).await
    }

    async fn purge(&self, queue: &str) -> Result<()> {
        let purge = async |session: &S| session.queues()?.purge(queue).await;
        self.call(change("purge", queue), purge).await
    }

    async fn redrive(
        &self,
        queue: &str,
        to: Option<&str>,
        most: Option<u64>,
        time: Duration,
    ) -> Result<MovedMessages> {
        let redrive = async |session: &S| session.queues()?.redrive(queue, to, most, time).await;
        self.call(change("redrive", queue), redrive).await
    }

    async fn begin_unit(&self, queue: &str, unit: &str) -> Result<QueueStatus> {
        let begin = async |session: &S| session.queues()?.begin_unit(queue, unit).await;
        self.call(change("begin unit", queue).detail("unit", unit), begin)
            .await
    }

    async fn end_unit(&self, queue: &str, unit: &str) -> Result<()> {
        let end = async |session: &S| session.queues()?.end_unit(queue, unit).await;
        self.call(change("end unit", queue).detail("unit", unit), end)
            .await
    }

    async fn units(&self, queue: &str) -> Result<Vec<QueueStatus>> {
        let list = async |session: &S| session.queues()?.units(queue).await;
        self.call(Operation::unaudited(), list).await
    }

    async fn tables(&self) -> Result<QueueTables> {
        let list = async |session: &S| session.queues()?.tables().await;
        self.call(Operation::unaudited(), list).await
    }

    async fn change_tables(&self, settings: &QueueTableSettings) -> Result<QueueTables> {
        let change = async |session: &S| session.queues()?.change_tables(settings).await;
        self.call(Operation::change("change ring"), change).await
    }

    async fn table_settings(&self) -> Result<Option<QueueTableSettings>> {
        let get = async |session: &S| session.queues()?.table_settings().await;
        self.call(Operation::unaudited(), get).await
    }
}
