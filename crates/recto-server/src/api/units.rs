//! The work units of a queue. Their messages are asked for as those of a queue, below the address of the unit.

use axum::http::{Method, StatusCode, Uri};
use axum::response::Response;
use serde_json::json;

use super::caller::Caller;
use super::parameters::Parameters;
use super::queues::{of_queue, tagged};
use super::{READ, address, answer};
use crate::access::Operation;
use crate::problem::Problem;

/// `GET /v1/queues/{queue}/units`: those that have begun, by name.
pub(super) async fn list(caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let queue = address::queue(&uri)?;
    let session = caller.queue_session(&queue, Operation::Read)?;
    Parameters::read(&uri, &[])?;
    let units = session.queues()?.units(&queue).await?;
    Ok(answer::json_once(&json!({ "units": units })))
}

/// `POST /v1/queues/{queue}/units/{unit}:begin`, and `:end`.
pub(super) async fn begin_or_end(caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let address::UnitVerb { queue, unit, verb } = address::unit_verb(&uri)?;
    if verb.is_empty() {
        return Err(Problem::method_not_allowed(&Method::POST, READ));
    }
    if !matches!(verb.as_str(), "begin" | "end") {
        return Err(Problem::no_resource(uri.path()));
    }
    let session = caller.queue_session(&queue, Operation::Manage)?;
    Parameters::read(&uri, &[])?;
    let queues = session.queues()?;
    if verb == "begin" {
        let begun = queues.begin_unit(&queue, &unit).await.map_err(of_queue)?;
        return Ok(tagged(StatusCode::OK, &begun));
    }
    queues.end_unit(&queue, &unit).await.map_err(of_queue)?;
    Ok(answer::no_content())
}
