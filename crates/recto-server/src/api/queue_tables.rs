//! Tables that store the message bodies of all queues. Requests need a right for every queue.

use axum::extract::Request;
use axum::http::Uri;
use axum::response::Response;
use recto::session::QueueTableSettings;
use serde_json::json;

use super::caller::Caller;
use super::queues::of_queue;
use super::request;
use super::{answer, body};
use crate::access::Right;
use crate::problem::Problem;

/// Handles `GET /v1/queue-tables`: returns the tables of message bodies with their states.
pub(super) async fn get(caller: Caller, uri: Uri) -> Result<Response, Problem> {
    caller.access.check_every_queue(Right::Read)?;
    request::no_parameters(&uri)?;
    let session = caller.any_queue_session();
    Ok(answer::json_once(&json!(session.queues()?.tables().await?)))
}

/// Handles `PATCH /v1/queue-tables`: changes options of the tables of message bodies. Omitted
/// options stay.
pub(super) async fn patch(caller: Caller, uri: Uri, request: Request) -> Result<Response, Problem> {
    caller.access.check_every_queue(Right::Manage)?;
    request::no_parameters(&uri)?;
    let settings: QueueTableSettings = body::read_patch(request).await?.value()?;
    let session = caller.any_queue_session();
    let changed = session.queues()?.change_tables(&settings).await;
    Ok(answer::json_once(&json!(changed.map_err(of_queue)?)))
}
