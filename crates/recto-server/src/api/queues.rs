//! The list of queues, and a single queue.

use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::Response;
use recto::session::{QueueSettings, QueueStatus, Queues};
use recto_api::queues::QueueList;
use serde_json::{Value as Json, json};

use super::body::{self, Body};
use super::caller::Caller;
use super::conditions::{self, Condition};
use super::request;
use super::{address, answer};
use crate::access::{EVERY_QUEUE, Right};
use crate::problem::Problem;

/// Handles `GET /v1/queues`: returns the queues that the token may read.
pub(super) async fn list(caller: Caller, uri: Uri) -> Result<Response, Problem> {
    request::no_parameters(&uri)?;
    if !caller.access.allows_some_queue(Right::Read) {
        return Err(Problem::forbidden_queue(EVERY_QUEUE, Right::Read));
    }
    let session = caller.any_queue_session();
    let mut queues = session.queues()?.queues().await?;
    queues.retain(|queue| caller.access.of_queue(&queue.name).contains(&Right::Read));
    Ok(answer::json_once(&json!(QueueList { queues })))
}

/// Handles `GET /v1/queues/{queue}`. The entity tag is the version of the queue's options. The
/// reply is never 304, because the numbers of messages change without a new version.
pub(super) async fn get(caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let name = address::queue(&uri)?;
    let session = caller.queue_session(&name, Right::Read)?;
    request::no_parameters(&uri)?;
    Ok(tagged(StatusCode::OK, &session.queues()?.queue(&name).await?))
}

/// Handles `PUT /v1/queues/{queue}`: creates a queue. Succeeds without effect if the queue exists
/// with the same options.
pub(super) async fn put(caller: Caller, uri: Uri, request: Request) -> Result<Response, Problem> {
    let name = address::queue(&uri)?;
    let session = caller.queue_session(&name, Right::Manage)?;
    request::no_parameters(&uri)?;
    let condition = Condition::of_versions(request.headers())?;
    if !matches!(condition, Condition::None | Condition::Absent) {
        let detail = "If-Match is only for changes; PUT creates a queue, or confirms that it exists with \
                      these options";
        return Err(Problem::invalid_parameter("If-Match", detail).with_hint("use PATCH to change a queue"));
    }
    let settings = settings(&caller, body::read(request).await?)?;
    let created = session.queues()?.create_queue(&name, &settings).await;
    let (queue, is_new) = created.map_err(of_queue)?;
    if !is_new && condition == Condition::Absent {
        let detail = format!("queue {name} exists already, with these options");
        return Err(changed(detail).with_version(version(&queue)));
    }
    let status = if is_new {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    Ok(changed_answer(&caller, status, &queue))
}

/// Handles `PATCH /v1/queues/{queue}`: changes options of a queue. Omitted options stay.
pub(super) async fn patch(caller: Caller, uri: Uri, request: Request) -> Result<Response, Problem> {
    let name = address::queue(&uri)?;
    let session = caller.queue_session(&name, Right::Manage)?;
    request::no_parameters(&uri)?;
    let condition = Condition::of_versions(request.headers())?;
    let settings = settings(&caller, body::read_patch(request).await?)?;
    let queues = session.queues()?;
    let version = expected(&condition, queues, &name).await?;
    let changed = queues.change_queue(&name, &settings, version).await;
    Ok(changed_answer(
        &caller,
        StatusCode::OK,
        &changed.map_err(of_queue)?,
    ))
}

/// Handles `DELETE /v1/queues/{queue}`: deletes a queue with all of its messages.
pub(super) async fn delete(caller: Caller, uri: Uri, headers: HeaderMap) -> Result<Response, Problem> {
    let name = address::queue(&uri)?;
    let session = caller.queue_session(&name, Right::Manage)?;
    request::no_parameters(&uri)?;
    if Condition::of_versions(&headers)? != Condition::None {
        let detail = "the deletion of a queue cannot depend on its version";
        return Err(Problem::invalid_parameter("If-Match", detail).with_hint("leave the condition out"));
    }
    let deleted = session.queues()?.delete_queue(&name).await;
    deleted.map_err(|error| without_unseen(&caller, of_queue(error)))?;
    Ok(answer::no_content())
}

/// Hides the name of a queue that the token cannot see. If another queue needs the queue to delete,
/// the deletion fails, and the problem names the other queue.
fn without_unseen(caller: &Caller, problem: Problem) -> Problem {
    let other = problem.detail().strip_prefix("queue ");
    let other = other.and_then(|rest| rest.split_once(' '));
    match other.map(|(name, _)| name.to_owned()) {
        Some(other) if caller.access.of_queue(&other).is_empty() => {
            problem.renamed(&format!("queue {other}"), "another queue")
        }
        _ => problem,
    }
}

/// Reads the options of a queue from a body. If they name a queue for dead letters, the token needs
/// the right to send to that queue.
fn settings(caller: &Caller, body: Body) -> Result<QueueSettings, Problem> {
    if !body.json.is_object() {
        return Err(Problem::invalid_body(
            "the body must be the options of the queue: a JSON object",
        ));
    }
    if body.json["dead_letters"].is_array() {
        return Err(
            Problem::invalid_body("dead_letters must be an object, or null").with_field("dead_letters")
        );
    }
    let settings: QueueSettings = body.value()?;
    if let Some(Some(dead_letters)) = &settings.dead_letters {
        let checked = caller.access.check_queue(&dead_letters.queue, Right::Send);
        checked.map_err(|problem| problem.with_field("dead_letters.queue"))?;
    }
    Ok(settings)
}

/// Returns the version that the queue must have for a change; `None` if the condition needs no
/// version.
async fn expected(condition: &Condition, queues: &dyn Queues, name: &str) -> Result<Option<u64>, Problem> {
    let versions = match condition {
        Condition::None | Condition::Present => return Ok(None),
        Condition::Absent => {
            let detail = "If-None-Match: * is only for new queues, but a patch changes an existing one";
            return Err(
                Problem::invalid_parameter("If-None-Match", detail).with_hint("use PUT to create a queue")
            );
        }
        Condition::Versions(versions) => versions,
    };
    if let [version] = versions[..] {
        // Replace a number that cannot be a version by u64::MAX, which is no queue's version.
        return Ok(Some(u64::try_from(version).unwrap_or(u64::MAX)));
    }
    let now = version(&queues.queue(name).await?);
    if versions.contains(&now) {
        return Ok(u64::try_from(now).ok());
    }
    Err(
        changed(format!("queue {name} has none of the versions of If-Match"))
            .with_version(now)
            .with_hint("read the queue again, and repeat the change; weak entity tags never match"),
    )
}

fn changed(detail: String) -> Problem {
    of_queue(recto::Error::new(recto::ErrorKind::Changed, detail))
}

pub(super) fn of_queue(error: recto::Error) -> Problem {
    Problem::of_queue(error, "messages")
}

fn version(queue: &QueueStatus) -> i64 {
    i64::try_from(queue.version).unwrap_or(i64::MAX)
}

/// Returns the reply to a change of a queue. For a token that may not read the queue, the reply has
/// only the name and the version.
pub(super) fn changed_answer(caller: &Caller, status: StatusCode, queue: &QueueStatus) -> Response {
    if caller.access.of_queue(&queue.name).contains(&Right::Read) {
        return tagged(status, queue);
    }
    answered(
        status,
        &json!({ "name": queue.name, "version": queue.version }),
        queue,
    )
}

fn tagged(status: StatusCode, queue: &QueueStatus) -> Response {
    answered(status, &json!(queue), queue)
}

fn answered(status: StatusCode, body: &Json, queue: &QueueStatus) -> Response {
    let mut answer = answer::json_once(body);
    *answer.status_mut() = status;
    let tag = conditions::tag(version(queue));
    answer::set(answer.headers_mut(), header::ETAG, &tag);
    answer
}
