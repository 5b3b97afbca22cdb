//! Messages of a queue or a work unit (temporary queue).
//!
//! An invalid body is rejected as a whole. A single invalid message among several gets an error,
//! and Recto sends the others.

use axum::extract::Request;
use axum::http::Uri;
use axum::response::Response;
use recto::queues::{MAX_BATCH, receipt_from_text};
use recto::session::{QueueStatus, Queues, ReceiveRequest, SentMessage, Settling};
use recto_api::queues::{
    AckRequest, ExtendRequest, NackRequest, PeekOptions, PeekedMessages, ReceivedMessages, RedriveRequest,
    Rejection, RemovedMessage, SendRequest, SendResult, SentMessages, SettledMessage, SettledMessages,
};
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};

use super::caller::Caller;
use super::queues::of_queue;
use super::request;
use super::{address, answer, body};
use crate::access::Right;
use crate::problem::Problem;

/// Default maximum number of messages that a peek returns.
pub(crate) const DEFAULT_PEEKED: u32 = 10;
/// Member of a body that lists receipts of messages.
const RECEIPTS: &str = "receipts";

/// Handles `POST …/messages:send`: adds messages to a queue.
pub(super) async fn send(caller: Caller, uri: Uri, request: Request) -> Result<Response, Problem> {
    let queue = address::queue(&uri)?;
    let session = caller.queue_session(&queue, Right::Send)?;
    request::no_parameters(&uri)?;
    let body = body::read(request).await?;
    let given = body.json["messages"].as_array().into_iter().flatten();
    if let Some(other) = given.into_iter().position(Json::is_array) {
        let field = format!("messages[{other}]");
        return Err(Problem::invalid_body("a message must be an object").with_field(field));
    }
    let SendRequest { messages } = body.value()?;
    check_count("messages", messages.len())?;
    let sent = session.queues()?.send(&queue, messages).await;
    let results = sent.map_err(of_queue)?.into_iter().map(result).collect();
    Ok(answer::json_once(&json!(SentMessages { results })))
}

fn result(sent: recto::Result<SentMessage>) -> SendResult {
    match sent {
        Ok(sent) => SendResult::Sent(sent),
        Err(error) => SendResult::Rejected(Box::new(Rejection {
            problem: of_queue(error).to_body(),
        })),
    }
}

/// Handles `POST …/messages:receive`. The request can wait for messages. The wait ends without
/// messages when its time has passed, when the server stops, or when the token becomes invalid. If
/// messages arrive after that, or the client has disconnected, Recto returns them to the queue.
pub(super) async fn receive(caller: Caller, uri: Uri, request: Request) -> Result<Response, Problem> {
    let queue = address::queue(&uri)?;
    let session = caller.queue_session(&queue, Right::Receive)?;
    let asked: ReceiveRequest = read(&uri, request).await?;
    let received = tokio::select! {
        biased;
        // Check the token before the queue, so that an invalid token gets no messages. The next
        // request of the client gets the reason.
        () = caller.waits_no_more() => ReceivedMessages::default(),
        received = session.queues()?.receive(&queue, &asked) => received.map_err(of_queue)?,
    };
    Ok(answer::json_once(&json!(received)))
}

/// Handles `POST …/messages:ack`: removes received messages from the queue.
pub(super) async fn ack(caller: Caller, uri: Uri, request: Request) -> Result<Response, Problem> {
    settle(caller, uri, request, |AckRequest { receipts }| {
        (receipts, Settling::Ack)
    })
    .await
}

/// Handles `POST …/messages:nack`: returns received messages to the queue for another delivery.
pub(super) async fn nack(caller: Caller, uri: Uri, request: Request) -> Result<Response, Problem> {
    let nack = |nacking: NackRequest| {
        let NackRequest {
            receipts,
            delay_seconds,
            error,
            counted,
        } = nacking;
        let nack = Settling::Nack { delay_seconds, error };
        (receipts, if counted { nack } else { Settling::GiveBack })
    };
    settle(caller, uri, request, nack).await
}

/// Handles `POST …/messages:extend`: extends the visibility timeout, during which no other receiver
/// gets the messages.
pub(super) async fn extend(caller: Caller, uri: Uri, request: Request) -> Result<Response, Problem> {
    let extend = |extending: ExtendRequest| {
        let visibility_seconds = extending.visibility_seconds;
        (extending.receipts, Settling::Extend { visibility_seconds })
    };
    settle(caller, uri, request, extend).await
}

async fn settle<T: DeserializeOwned>(
    caller: Caller,
    uri: Uri,
    request: Request,
    asked: impl FnOnce(T) -> (Vec<String>, Settling),
) -> Result<Response, Problem> {
    let queue = address::queue(&uri)?;
    let session = caller.queue_session(&queue, Right::Receive)?;
    let (receipts, settling) = asked(read(&uri, request).await?);
    check_count(RECEIPTS, receipts.len())?;
    let settled = session.queues()?.settle(&queue, &receipts, &settling).await;
    let settled = settled.map_err(|error| Problem::of_queue(error, RECEIPTS))?;
    let results = receipts.iter().zip(settled).enumerate();
    let results = results
        .map(|(number, (receipt, done))| settled_result(number, receipt, done))
        .collect();
    Ok(answer::json_once(&json!(SettledMessages { results })))
}

/// Returns the result for one receipt of a request. A malformed receipt gets a problem, and the
/// other receipts are still processed.
fn settled_result(number: usize, receipt: &str, done: bool) -> SettledMessage {
    let malformed = receipt_from_text(receipt).err().filter(|_| !done);
    let problem = malformed.map(|error| Problem::of_queue(error.with_change(number), RECEIPTS).to_body());
    SettledMessage { done, problem }
}

/// Handles `POST …/messages:purge`: removes all messages of a queue.
pub(super) async fn purge(caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let queue = address::queue(&uri)?;
    let session = caller.queue_session(&queue, Right::Manage)?;
    request::no_parameters(&uri)?;
    session.queues()?.purge(&queue).await.map_err(of_queue)?;
    Ok(answer::no_content())
}

/// Handles `POST …/messages:redrive`: moves messages to another queue, for which the token needs
/// the right to send. The request ends within its time limit, and reports whether messages remain.
pub(super) async fn redrive(caller: Caller, uri: Uri, request: Request) -> Result<Response, Problem> {
    let queue = address::queue(&uri)?;
    let session = caller.queue_session(&queue, Right::Manage)?;
    let RedriveRequest { to, max_messages } = read(&uri, request).await?;
    let queues = session.queues()?;
    let to = match to {
        None if !caller.access.allows_every_queue(Right::Send) => sources(&caller, queues, &queue).await?,
        to => to,
    };
    if let Some(to) = &to {
        let checked = caller.access.check_queue(to, Right::Send);
        checked.map_err(|problem| problem.with_field("to"))?;
    }
    let time = caller.upkeep().redrive_time;
    let moved = queues.redrive(&queue, to.as_deref(), max_messages, time).await;
    Ok(answer::json_once(&json!(moved.map_err(of_queue)?)))
}

/// Returns the only queue that sends its dead letters to `dead`, for a token that may not send to
/// every queue. Fails if there are no such queues or several. Queues that the token cannot see do
/// not count.
async fn sources(caller: &Caller, queues: &dyn Queues, dead: &str) -> Result<Option<String>, Problem> {
    let is_source = |queue: &QueueStatus| {
        let target = queue.options.dead_letters.as_ref();
        let target = target.and_then(Option::as_ref);
        target.is_some_and(|target| target.queue == dead) && !caller.access.of_queue(&queue.name).is_empty()
    };
    let mut sources = queues.queues().await?;
    sources.retain(is_source);
    match <[QueueStatus; 1]>::try_from(sources) {
        Ok([source]) => Ok(Some(source.name)),
        Err(sources) => {
            let count = sources.len();
            let detail = format!("{count} queues have {dead} as their dead-letter queue");
            Err(Problem::invalid_body(detail)
                .with_hint("name the queue that receives the messages")
                .with_field("to"))
        }
    }
}

/// Handles `GET …/messages`: returns the oldest messages, without receiving them.
pub(super) async fn peek(caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let queue = address::queue(&uri)?;
    let session = caller.queue_session(&queue, Right::Read)?;
    let PeekOptions { max_messages } = request::of_address(&uri)?;
    let most = match max_messages {
        None => DEFAULT_PEEKED,
        // Convert a too large number to the largest u32, which the engine rejects with its own
        // message.
        Some(most) => u32::try_from(most.max(0)).unwrap_or(u32::MAX),
    };
    let messages = session.queues()?.peek(&queue, most).await.map_err(of_queue)?;
    Ok(answer::json_once(&json!(PeekedMessages { messages })))
}

/// Handles `DELETE …/messages/{position}`: removes one message.
pub(super) async fn remove(caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let queue = address::queue(&uri)?;
    let session = caller.queue_session(&queue, Right::Manage)?;
    request::no_parameters(&uri)?;
    let position = address::position(&uri)?;
    let removed = session.queues()?.remove_message(&queue, &position).await;
    let removed = removed.map_err(of_queue)?;
    Ok(answer::json_once(&json!(RemovedMessage { removed })))
}

/// Reads the JSON body of a request whose URL must have no parameters.
async fn read<T: DeserializeOwned>(uri: &Uri, request: Request) -> Result<T, Problem> {
    request::no_parameters(uri)?;
    body::read(request).await?.value()
}

/// Rejects a request with more than [`MAX_BATCH`] messages or receipts.
fn check_count(what: &str, count: usize) -> Result<(), Problem> {
    if count <= MAX_BATCH {
        return Ok(());
    }
    let detail = format!("a request has at most {MAX_BATCH} {what}; this one has {count}");
    Err(Problem::limit_exceeded(detail)
        .with_field(what)
        .with_hint("send several requests"))
}
