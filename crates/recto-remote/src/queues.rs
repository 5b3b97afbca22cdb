//! Queues and their messages over HTTP: the trait [`Queues`] for [`HttpSession`].

use std::time::Duration;

use async_trait::async_trait;
use recto::queues::MAX_BATCH;
use recto::session::{
    MovedMessages, OutgoingMessage, PeekedMessage, QueueSettings, QueueStatus, QueueTableSettings,
    QueueTables, Queues, ReceiveRequest, SentMessage, Settling,
};
use recto::{Error, ErrorKind, Result};
use recto_api::queues::{
    AckRequest, ExtendRequest, NackRequest, PeekOptions, PeekedMessages, QueueList, ReceivedMessages,
    RedriveRequest, RemovedMessage, SendResult, SentMessages, SettledMessages, UnitList,
};
use recto_api::text::path_part;
use recto_client::{Method, Query, Request, StatusCode, error_of_problem, queue_path, unexpected_reply};
use serde::Serialize;
use serde_json::{Value as Json, json};

use crate::session::HttpSession;

/// Maximum size of the messages of one request, in bytes. Only a single larger message exceeds it.
/// Servers accept bodies of 16 MiB unless they are configured otherwise.
pub const MAX_SENT_BYTES: usize = 8 << 20;

/// Path of the resource that describes the tables of all queues.
const QUEUE_TABLES: &str = "/v1/queue-tables";
/// Hint of the error if the reply to a receive request was lost.
const COMES_AGAIN: &str = "receive again after the visibility timeout: delivered messages come back then";
/// Hint of the error if the outcome of sending messages is unknown.
const SETTLES: &str = "send the message again with the same deduplication id to resolve the outcome";

impl HttpSession {
    /// Sends messages in one request, and returns one result per message.
    async fn send_some(&self, queue: &str, messages: &[Json]) -> Result<Vec<Result<SentMessage>>> {
        let body = json!({ "messages": messages });
        let request = Request::change(Method::POST, queue_path(queue, "/messages:send"), Some(&body));
        let sent = self.request(&request).await;
        let sent: SentMessages = sent.map_err(|error| match error.kind() {
            ErrorKind::OutcomeUnknown => error.with_hint(SETTLES),
            _ => error,
        })?;
        if sent.results.len() != messages.len() {
            return Err(unexpected_reply(self.client.server()));
        }
        Ok(sent.results.into_iter().map(result).collect())
    }
}

fn result(result: SendResult) -> Result<SentMessage> {
    match result {
        SendResult::Sent(sent) => Ok(sent),
        SendResult::Rejected(rejection) => Err(error_of_problem(rejection.problem)),
    }
}

/// Converts a struct to the JSON body of a request.
fn body(of: &impl Serialize) -> Result<Json> {
    serde_json::to_value(of).map_err(|error| {
        Error::new(
            ErrorKind::InvalidArgument,
            "the request cannot be written as JSON",
        )
        .with_source(error)
    })
}

/// Returns the end of the path and the body of a request that settles messages (acknowledges them
/// or gives them back).
fn settling_body(settling: &Settling, receipts: Vec<String>) -> (&'static str, Json) {
    let nack = |delay_seconds: u32, error: &str, counted: bool, receipts| {
        json!(NackRequest {
            receipts,
            delay_seconds,
            error: error.to_owned(),
            counted,
        })
    };
    match settling {
        Settling::Ack => ("ack", json!(AckRequest { receipts })),
        Settling::GiveBack => ("nack", nack(0, "", false, receipts)),
        Settling::Nack { delay_seconds, error } => ("nack", nack(*delay_seconds, error, true, receipts)),
        Settling::Extend { visibility_seconds } => {
            let visibility_seconds = *visibility_seconds;
            let body = ExtendRequest {
                receipts,
                visibility_seconds,
            };
            ("extend", json!(body))
        }
    }
}

/// Returns how many messages, from the first one, fit in one request; at least 1.
fn fitting(messages: &[Json]) -> usize {
    let mut bytes = 0;
    let fits = |message: &&Json| {
        bytes += message.to_string().len();
        bytes <= MAX_SENT_BYTES
    };
    let count = messages.iter().take(MAX_BATCH).take_while(fits).count();
    count.max(1)
}

/// Converts the error of a whole request to the error of one of its messages. `number` is the index
/// (from 0) of the message.
fn of_message(error: &Error, number: usize) -> Error {
    let mut of_message = Error::new(error.kind(), error.message()).with_change(number);
    if let Some(hint) = error.hint() {
        of_message = of_message.with_hint(hint);
    }
    of_message
}

/// Returns the error for a message that was not sent, because the outcome of earlier messages is
/// unknown. `number` is the index (from 0) of the message.
fn not_sent_behind(number: usize) -> Result<SentMessage> {
    let message = "the message was not sent, because the outcome of an earlier message is unknown";
    Err(Error::new(ErrorKind::Unavailable, message)
        .with_hint("send it again, after the earlier messages")
        .with_change(number))
}

#[async_trait]
impl Queues for HttpSession {
    async fn queues(&self) -> Result<Vec<QueueStatus>> {
        let body: QueueList = self.fetch("/v1/queues").await?;
        Ok(body.queues)
    }

    async fn queue(&self, name: &str) -> Result<QueueStatus> {
        self.fetch(&queue_path(name, "")).await
    }

    async fn create_queue(&self, name: &str, settings: &QueueSettings) -> Result<(QueueStatus, bool)> {
        let request = Request::change(Method::PUT, queue_path(name, ""), Some(&body(settings)?));
        let reply = self.client.read(&request).await?;
        Ok((reply.body, reply.status == StatusCode::CREATED))
    }

    async fn change_queue(
        &self,
        name: &str,
        settings: &QueueSettings,
        version: Option<u64>,
    ) -> Result<QueueStatus> {
        let request = Request::change(Method::PATCH, queue_path(name, ""), Some(&body(settings)?));
        self.request(&request.if_version(version)).await
    }

    async fn delete_queue(&self, name: &str) -> Result<()> {
        let request = Request::change(Method::DELETE, queue_path(name, ""), None);
        self.client.call(&request).await.map(drop)
    }

    async fn send(&self, queue: &str, messages: Vec<OutgoingMessage>) -> Result<Vec<Result<SentMessage>>> {
        let messages: Vec<Json> = messages.iter().map(body).collect::<Result<_>>()?;
        let mut results = Vec::with_capacity(messages.len());
        loop {
            let first = results.len();
            let some = &messages[first..][..fitting(&messages[first..]).min(messages.len() - first)];
            match self.send_some(queue, some).await {
                Ok(sent) => {
                    let numbered = sent.into_iter().zip(first..);
                    let numbered =
                        numbered.map(|(sent, number)| sent.map_err(|error| error.with_change(number)));
                    results.extend(numbered);
                }
                // Return the results of earlier requests. Do not send the later messages, because
                // they would arrive before the messages of the failed request.
                Err(error) if first > 0 => {
                    let numbers = first..first + some.len();
                    results.extend(numbers.map(|number| Err(of_message(&error, number))));
                    results.extend((results.len()..messages.len()).map(not_sent_behind));
                }
                Err(error) => return Err(error),
            }
            if results.len() >= messages.len() {
                return Ok(results);
            }
        }
    }

    async fn receive(&self, queue: &str, request: &ReceiveRequest) -> Result<ReceivedMessages> {
        let wait = Duration::from_secs(request.wait_seconds.unwrap_or_default().into());
        let target = queue_path(queue, "/messages:receive");
        self.request(&Request::work(target, Some(&body(request)?), COMES_AGAIN).wait(wait))
            .await
    }

    async fn settle(&self, queue: &str, receipts: &[String], settling: &Settling) -> Result<Vec<bool>> {
        let mut settled = Vec::with_capacity(receipts.len());
        loop {
            let first = settled.len();
            let some = &receipts[first..receipts.len().min(first + MAX_BATCH)];
            let (verb, body) = settling_body(settling, some.to_vec());
            let target = queue_path(queue, &format!("/messages:{verb}"));
            let reply = self
                .request(&Request::change(Method::POST, target, Some(&body)))
                .await;
            let reply: SettledMessages = reply.map_err(|error| match error.change() {
                Some(number) => error.with_change(first + number),
                None => error,
            })?;
            if reply.results.len() != some.len() {
                return Err(unexpected_reply(self.client.server()));
            }
            settled.extend(reply.results.iter().map(|one| one.done));
            if settled.len() >= receipts.len() {
                return Ok(settled);
            }
        }
    }

    async fn peek(&self, queue: &str, most: u32) -> Result<Vec<PeekedMessage>> {
        let options = PeekOptions {
            max_messages: Some(most.into()),
        };
        let target = Query::of(&options).after(&queue_path(queue, "/messages"));
        let body: PeekedMessages = self.fetch(&target).await?;
        Ok(body.messages)
    }

    async fn remove_message(&self, queue: &str, position: &str) -> Result<bool> {
        let target = queue_path(queue, &format!("/messages/{}", path_part(position)));
        let reply: RemovedMessage = self
            .request(&Request::change(Method::DELETE, target, None))
            .await?;
        Ok(reply.removed)
    }

    async fn purge(&self, queue: &str) -> Result<()> {
        let target = queue_path(queue, "/messages:purge");
        let request = Request::change(Method::POST, target, None);
        self.client.call(&request).await.map(drop)
    }

    async fn redrive(
        &self,
        queue: &str,
        to: Option<&str>,
        most: Option<u64>,
        _time: Duration,
    ) -> Result<MovedMessages> {
        let body = json!(RedriveRequest {
            to: to.map(str::to_owned),
            max_messages: most,
        });
        let target = queue_path(queue, "/messages:redrive");
        self.request(&Request::change(Method::POST, target, Some(&body)))
            .await
    }

    async fn begin_unit(&self, queue: &str, unit: &str) -> Result<QueueStatus> {
        let target = queue_path(queue, &format!("/units/{}:begin", path_part(unit)));
        self.request(&Request::change(Method::POST, target, None)).await
    }

    async fn end_unit(&self, queue: &str, unit: &str) -> Result<()> {
        let target = queue_path(queue, &format!("/units/{}:end", path_part(unit)));
        let request = Request::change(Method::POST, target, None);
        self.client.call(&request).await.map(drop)
    }

    async fn units(&self, queue: &str) -> Result<Vec<QueueStatus>> {
        let body: UnitList = self.fetch(&queue_path(queue, "/units")).await?;
        Ok(body.units)
    }

    async fn tables(&self) -> Result<QueueTables> {
        self.fetch(QUEUE_TABLES).await
    }

    async fn change_tables(&self, settings: &QueueTableSettings) -> Result<QueueTables> {
        self.request(&Request::change(
            Method::PATCH,
            QUEUE_TABLES,
            Some(&body(settings)?),
        ))
        .await
    }

    /// Returns the settings of the tables that store queues, as the server reports them with its
    /// schema. Returns `None` if there are no queues.
    async fn table_settings(&self) -> Result<Option<QueueTableSettings>> {
        let queues = self.recorded_schema().await?.queues;
        Ok((!queues.is_empty()).then(|| QueueTableSettings::of_schema(&queues)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_holds_as_many_messages_as_a_server_takes() {
        let small = vec![json!("x"); 2 * MAX_BATCH];
        assert_eq!(fitting(&small), MAX_BATCH);
        let large = vec![json!("x".repeat(3 << 20)); 4];
        assert_eq!(fitting(&large), 2);
        assert_eq!(fitting(&[json!("x".repeat(2 * MAX_SENT_BYTES))]), 1);
    }
}
