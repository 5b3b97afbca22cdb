//! The messages of a queue.
//!
//! What is wrong with a body is refused before anything of it is done. What is wrong with one of several messages that are
//! sent is said of that one, and the others are sent.

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

/// How many messages are looked at unless that is said.
pub(crate) const DEFAULT_PEEKED: u32 = 10;
/// What receipts are, in a body.
const RECEIPTS: &str = "receipts";

/// `POST …/messages:send`.
pub(super) async fn send(caller: Caller, uri: Uri, request: Request) -> Result<Response, Problem> {
    let queue = address::queue(&uri)?;
    let session = caller.queue_session(&queue, Right::Send)?;
    request::no_parameters(&uri)?;
    let body = body::read(request).await?;
    let given = body.json["messages"].as_array().into_iter().flatten();
    if let Some(other) = given.into_iter().position(Json::is_array) {
        let field = format!("messages[{other}]");
        return Err(Problem::invalid_body("a message is an object").with_field(field));
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

/// `POST …/messages:receive`. Whoever waits is answered when there is a message, when its time is over, and when the server
/// stops, or the token is taken no more or allows something else: then without any. What was received for a client that is gone is
/// given back, and so is what comes too late.
pub(super) async fn receive(caller: Caller, uri: Uri, request: Request) -> Result<Response, Problem> {
    let queue = address::queue(&uri)?;
    let session = caller.queue_session(&queue, Right::Receive)?;
    let asked: ReceiveRequest = read(&uri, request).await?;
    let received = tokio::select! {
        biased;
        // First, so that nothing is handed out to a token that is taken no more; why, the next request is told.
        () = caller.waits_no_more() => ReceivedMessages::default(),
        received = session.queues()?.receive(&queue, &asked) => received.map_err(of_queue)?,
    };
    Ok(answer::json_once(&json!(received)))
}

/// `POST …/messages:ack`.
pub(super) async fn ack(caller: Caller, uri: Uri, request: Request) -> Result<Response, Problem> {
    settle(caller, uri, request, |AckRequest { receipts }| {
        (receipts, Settling::Ack)
    })
    .await
}

/// `POST …/messages:nack`.
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

/// `POST …/messages:extend`.
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

/// Result of a receipt. A malformed receipt fails alone, with its problem.
fn settled_result(number: usize, receipt: &str, done: bool) -> SettledMessage {
    let malformed = receipt_from_text(receipt).err().filter(|_| !done);
    let problem = malformed.map(|error| Problem::of_queue(error.with_change(number), RECEIPTS).to_body());
    SettledMessage { done, problem }
}

/// `POST …/messages:purge`.
pub(super) async fn purge(caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let queue = address::queue(&uri)?;
    let session = caller.queue_session(&queue, Right::Manage)?;
    request::no_parameters(&uri)?;
    session.queues()?.purge(&queue).await.map_err(of_queue)?;
    Ok(answer::no_content())
}

/// `POST …/messages:redrive`: who moves messages to a queue could send to it, too. It ends within the time of a request, and says
/// whether there is more to be moved.
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

/// The queue whose dead letters these are, for who may not send to all: the only one that is seen.
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
            let detail = format!("{count} queues send their dead letters to {dead}");
            Err(Problem::invalid_body(detail)
                .with_hint("say to which queue the messages go")
                .with_field("to"))
        }
    }
}

/// `GET …/messages`: the first by position, as they stand.
pub(super) async fn peek(caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let queue = address::queue(&uri)?;
    let session = caller.queue_session(&queue, Right::Read)?;
    let PeekOptions { max_messages } = request::of_address(&uri)?;
    let most = match max_messages {
        None => DEFAULT_PEEKED,
        // What is too much is refused in the words of who looks.
        Some(most) => u32::try_from(most.max(0)).unwrap_or(u32::MAX),
    };
    let messages = session.queues()?.peek(&queue, most).await.map_err(of_queue)?;
    Ok(answer::json_once(&json!(PeekedMessages { messages })))
}

/// `DELETE …/messages/{position}`.
pub(super) async fn remove(caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let queue = address::queue(&uri)?;
    let session = caller.queue_session(&queue, Right::Manage)?;
    request::no_parameters(&uri)?;
    let position = address::position(&uri)?;
    let removed = session.queues()?.remove_message(&queue, &position).await;
    let removed = removed.map_err(of_queue)?;
    Ok(answer::json_once(&json!(RemovedMessage { removed })))
}

/// A body of a request that has no parameters.
async fn read<T: DeserializeOwned>(uri: &Uri, request: Request) -> Result<T, Problem> {
    request::no_parameters(uri)?;
    body::read(request).await?.value()
}

/// Refuses more messages or receipts than are taken at once.
fn check_count(what: &str, count: usize) -> Result<(), Problem> {
    if count <= MAX_BATCH {
        return Ok(());
    }
    let detail = format!("a request holds at most {MAX_BATCH} {what}, and this one {count}");
    Err(Problem::limit_exceeded(detail)
        .with_field(what)
        .with_hint("send several requests"))
}
