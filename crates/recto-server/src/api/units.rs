//! Work units (temporary queues) of a queue. Below its path, a unit has the same message operations
//! as a queue.

use axum::http::{Method, StatusCode, Uri};
use axum::response::Response;
use axum::routing::{self, MethodRouter};
use recto_api::operations::{self, OPERATIONS};
use recto_api::queues::UnitList;
use serde_json::json;

use super::caller::Caller;
use super::queues::{self, changed_answer, of_queue};
use super::request;
use super::{address, answer};
use crate::access::Right;
use crate::app::App;
use crate::problem::Problem;

/// Path of a work unit. The path of an operation on it appends `:begin` or `:end`.
pub(super) const PATH: &str = "/v1/queues/{queue}/units/{unit}";

/// Handles `GET /v1/queues/{queue}/units`: returns the work units that exist, by name.
pub(super) async fn list(caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let queue = address::queue(&uri)?;
    let session = caller.queue_session(&queue, Right::Read)?;
    request::no_parameters(&uri)?;
    let units = session.queues()?.units(&queue).await?;
    Ok(answer::json_once(&json!(UnitList { units })))
}

/// Returns one route for a work unit and its operations. The router cannot separate `:begin` and
/// `:end` from the unit's name.
pub(super) fn routes() -> MethodRouter<App> {
    routing::get(get)
        .post(begin_or_end)
        .options(options)
        .fallback(wrong_method)
}

/// Returns the HTTP methods that the server accepts for the path of a work unit or of an operation
/// on it.
fn methods(uri: &Uri) -> Result<String, Problem> {
    let path = match address::unit_verb(uri)?.verb.as_str() {
        "" => PATH.to_owned(),
        verb => format!("{PATH}:{verb}"),
    };
    if OPERATIONS.iter().any(|operation| operation.path == path) {
        return Ok(operations::methods(&path, |_| true));
    }
    Err(Problem::no_resource(uri.path()))
}

async fn options(uri: Uri) -> Result<Response, Problem> {
    Ok(answer::options(&methods(&uri)?))
}

async fn wrong_method(method: Method, uri: Uri) -> Problem {
    match methods(&uri) {
        Ok(allow) => Problem::method_not_allowed(&method, &allow),
        Err(problem) => problem,
    }
}

/// Handles `GET /v1/queues/{queue}/units/{unit}`: returns one work unit.
async fn get(caller: Caller, method: Method, uri: Uri) -> Result<Response, Problem> {
    match address::unit_verb(&uri)?.verb.as_str() {
        "" => queues::get(caller, uri).await,
        _ => Err(wrong_method(method, uri).await),
    }
}

/// Handles `POST /v1/queues/{queue}/units/{unit}:begin` and `:end`: creates or ends a work unit.
async fn begin_or_end(caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let address::UnitVerb { queue, unit, verb } = address::unit_verb(&uri)?;
    if !["begin", "end"].contains(&verb.as_str()) {
        return Err(wrong_method(Method::POST, uri).await);
    }
    let session = caller.queue_session(&queue, Right::Manage)?;
    request::no_parameters(&uri)?;
    let queues = session.queues()?;
    if verb == "begin" {
        let begun = queues.begin_unit(&queue, &unit).await.map_err(of_queue)?;
        return Ok(changed_answer(&caller, StatusCode::OK, &begun));
    }
    queues.end_unit(&queue, &unit).await.map_err(of_queue)?;
    Ok(answer::no_content())
}
