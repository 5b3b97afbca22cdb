//! The work units of a queue. Their messages are asked for as those of a queue, below the address of the unit.

use axum::http::{Method, StatusCode, Uri};
use axum::response::Response;
use serde_json::json;

use super::caller::Caller;
use super::queues::{self, changed_answer, of_queue};
use super::request;
use super::{READ, WRITE, address, answer};
use crate::access::Operation;
use crate::problem::Problem;

/// `GET /v1/queues/{queue}/units`: those that have begun, by name.
pub(super) async fn list(caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let queue = address::queue(&uri)?;
    let session = caller.queue_session(&queue, Operation::Read)?;
    request::no_parameters(&uri)?;
    let units = session.queues()?.units(&queue).await?;
    Ok(answer::json_once(&json!({ "units": units })))
}

/// Returns the methods of the address of a work unit, or of one of its verbs.
fn methods(uri: &Uri) -> Result<&'static str, Problem> {
    match address::unit_verb(uri)?.verb.as_str() {
        "" => Ok(READ),
        "begin" | "end" => Ok(WRITE),
        _ => Err(Problem::no_resource(uri.path())),
    }
}

/// `OPTIONS /v1/queues/{queue}/units/{unit}`, and of its verbs.
pub(super) async fn options(uri: Uri) -> Result<Response, Problem> {
    Ok(answer::options(methods(&uri)?))
}

/// Refuses a method that the address does not have.
pub(super) async fn wrong_method(method: Method, uri: Uri) -> Problem {
    match methods(&uri) {
        Ok(allow) => Problem::method_not_allowed(&method, allow),
        Err(problem) => problem,
    }
}

/// `GET /v1/queues/{queue}/units/{unit}`.
pub(super) async fn get(caller: Caller, method: Method, uri: Uri) -> Result<Response, Problem> {
    match methods(&uri)? {
        READ => queues::get(caller, uri).await,
        allow => Err(Problem::method_not_allowed(&method, allow)),
    }
}

/// `POST /v1/queues/{queue}/units/{unit}:begin`, and `:end`.
pub(super) async fn begin_or_end(caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let address::UnitVerb { queue, unit, verb } = address::unit_verb(&uri)?;
    match methods(&uri)? {
        WRITE => {}
        allow => return Err(Problem::method_not_allowed(&Method::POST, allow)),
    }
    let session = caller.queue_session(&queue, Operation::Manage)?;
    request::no_parameters(&uri)?;
    let queues = session.queues()?;
    if verb == "begin" {
        let begun = queues.begin_unit(&queue, &unit).await.map_err(of_queue)?;
        return Ok(changed_answer(&caller, StatusCode::OK, &begun));
    }
    queues.end_unit(&queue, &unit).await.map_err(of_queue)?;
    Ok(answer::no_content())
}
