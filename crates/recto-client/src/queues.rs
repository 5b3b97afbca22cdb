//! Queues and their messages.

use std::time::Duration;

use async_trait::async_trait;
use hyper::Method;
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
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};

use crate::problem;
use crate::replies::{self, misunderstood};
use crate::session::HttpSession;
use crate::target::{Ask, Query, encode, of_queue};

/// The most bytes of messages that are sent with one request, unless one message has more: servers take 16 MiB unless told
/// otherwise.
pub const MAX_SENT_BYTES: usize = 8 << 20;

/// How the tables of bodies stand.
const RING: &str = "/v1/queue-tables";
/// What becomes of messages whose receiver did not hear of them.
const COMES_AGAIN: &str = "what was handed out is received again when its visibility is over";
/// How to find out whether messages were sent.
const SETTLES: &str = "sending it again under the same deduplication id settles it";

impl HttpSession {
    async fn asked<T: DeserializeOwned>(&self, target: &str) -> Result<T> {
        let reply = self.transport.get(target).await?;
        replies::read(self.transport.server(), &reply.body)
    }

    /// Has a change made whose answer says what it did.
    async fn changed<T: DeserializeOwned>(&self, ask: &Ask) -> Result<T> {
        let response = self.transport.change_by(ask).await?;
        let reply = self.transport.read_whole(response).await;
        let reply = reply.map_err(|error| self.transport.unknown(error))?;
        replies::read(self.transport.server(), &reply.body)
    }

    /// Sends what one request takes.
    async fn send_some(&self, queue: &str, messages: &[Json]) -> Result<Vec<Result<SentMessage>>> {
        let body = json!({ "messages": messages });
        let sent = self
            .changed(&Ask::post(of_queue(queue, "/messages:send"), &body))
            .await;
        let sent: SentMessages = sent.map_err(|error| match error.kind() {
            ErrorKind::OutcomeUnknown => error.with_hint(SETTLES),
            _ => error,
        })?;
        if sent.results.len() != messages.len() {
            return Err(misunderstood(self.transport.server()));
        }
        Ok(sent.results.into_iter().map(result).collect())
    }
}

fn result(result: SendResult) -> Result<SentMessage> {
    match result {
        SendResult::Sent(sent) => Ok(sent),
        SendResult::Rejected(rejection) => Err(problem::error_of_line(rejection.problem)),
    }
}

/// The JSON of what is sent.
fn body(of: &impl Serialize) -> Result<Json> {
    serde_json::to_value(of).map_err(|error| {
        Error::new(ErrorKind::InvalidArgument, "what is to be sent is no JSON").with_source(error)
    })
}

/// Returns the verb and the body of a request about received messages.
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

/// How many of these messages go with one request.
fn fitting(messages: &[Json]) -> usize {
    let mut bytes = 0;
    let fits = |message: &&Json| {
        bytes += message.to_string().len();
        bytes <= MAX_SENT_BYTES
    };
    let count = messages.iter().take(MAX_BATCH).take_while(fits).count();
    count.max(1)
}

/// An error of a request, as that of one of its messages.
fn of_message(error: &Error, number: usize) -> Error {
    let mut of_message = Error::new(error.kind(), error.message()).with_change(number);
    if let Some(hint) = error.hint() {
        of_message = of_message.with_hint(hint);
    }
    of_message
}

/// A message was not sent, since those before it may not have been.
fn not_sent_behind(number: usize) -> Result<SentMessage> {
    let message = "it was not sent: it is not known of all before it that they were";
    Err(Error::new(ErrorKind::Unavailable, message)
        .with_hint("send it again, after those before it")
        .with_change(number))
}

#[async_trait]
impl Queues for HttpSession {
    async fn queues(&self) -> Result<Vec<QueueStatus>> {
        let body: QueueList = self.asked("/v1/queues").await?;
        Ok(body.queues)
    }

    async fn queue(&self, name: &str) -> Result<QueueStatus> {
        self.asked(&of_queue(name, "")).await
    }

    async fn create_queue(&self, name: &str, settings: &QueueSettings) -> Result<(QueueStatus, bool)> {
        let ask = Ask::new(Method::PUT, of_queue(name, ""), body(settings)?.to_string());
        let response = self.transport.change_by(&ask).await?;
        let is_new = response.status() == hyper::StatusCode::CREATED;
        let reply = self.transport.read_whole(response).await;
        let reply = reply.map_err(|error| self.transport.unknown(error))?;
        Ok((replies::read(self.transport.server(), &reply.body)?, is_new))
    }

    async fn change_queue(
        &self,
        name: &str,
        settings: &QueueSettings,
        version: Option<u64>,
    ) -> Result<QueueStatus> {
        let mut ask = Ask::new(Method::PATCH, of_queue(name, ""), body(settings)?.to_string());
        ask.if_version = version;
        self.changed(&ask).await
    }

    async fn delete_queue(&self, name: &str) -> Result<()> {
        let target = of_queue(name, "");
        self.transport
            .change(Method::DELETE, &target, None)
            .await
            .map(drop)
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
                // Of those that were sent before, what became of them is known; those behind are not sent, lest they
                // come first.
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
        let mut ask = Ask::post(of_queue(queue, "/messages:receive"), &body(request)?);
        ask.wait = Duration::from_secs(request.wait_seconds.unwrap_or_default().into());
        let response = self.transport.begin_by(&ask, COMES_AGAIN).await?;
        let reply = self.transport.read_whole(response).await;
        let reply = reply.map_err(|error| error.with_hint(COMES_AGAIN))?;
        replies::read(self.transport.server(), &reply.body)
    }

    async fn settle(&self, queue: &str, receipts: &[String], settling: &Settling) -> Result<Vec<bool>> {
        let mut settled = Vec::with_capacity(receipts.len());
        loop {
            let first = settled.len();
            let some = &receipts[first..receipts.len().min(first + MAX_BATCH)];
            let (verb, body) = settling_body(settling, some.to_vec());
            let target = of_queue(queue, &format!("/messages:{verb}"));
            let reply = self.changed(&Ask::post(target, &body)).await;
            let reply: SettledMessages = reply.map_err(|error| match error.change() {
                Some(number) => error.with_change(first + number),
                None => error,
            })?;
            if reply.results.len() != some.len() {
                return Err(misunderstood(self.transport.server()));
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
        let target = Query::of(&options).after(&of_queue(queue, "/messages"));
        let body: PeekedMessages = self.asked(&target).await?;
        Ok(body.messages)
    }

    async fn remove_message(&self, queue: &str, position: &str) -> Result<bool> {
        let target = of_queue(queue, &format!("/messages/{}", encode(position)));
        let body: RemovedMessage = self.changed(&Ask::new(Method::DELETE, target, "")).await?;
        Ok(body.removed)
    }

    async fn purge(&self, queue: &str) -> Result<()> {
        let target = of_queue(queue, "/messages:purge");
        self.transport.change(Method::POST, &target, None).await.map(drop)
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
        self.changed(&Ask::post(of_queue(queue, "/messages:redrive"), &body))
            .await
    }

    async fn begin_unit(&self, queue: &str, unit: &str) -> Result<QueueStatus> {
        let target = of_queue(queue, &format!("/units/{}:begin", encode(unit)));
        self.changed(&Ask::new(Method::POST, target, "")).await
    }

    async fn end_unit(&self, queue: &str, unit: &str) -> Result<()> {
        let target = of_queue(queue, &format!("/units/{}:end", encode(unit)));
        self.transport.change(Method::POST, &target, None).await.map(drop)
    }

    async fn units(&self, queue: &str) -> Result<Vec<QueueStatus>> {
        let body: UnitList = self.asked(&of_queue(queue, "/units")).await?;
        Ok(body.units)
    }

    async fn tables(&self) -> Result<QueueTables> {
        self.asked(RING).await
    }

    async fn change_tables(&self, settings: &QueueTableSettings) -> Result<QueueTables> {
        let ask = Ask::new(Method::PATCH, RING, body(settings)?.to_string());
        self.changed(&ask).await
    }

    /// A server tells of them with the schema.
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
