//! How a list is found, and what it costs.

use axum::extract::Request;
use axum::http::Uri;
use axum::response::Response;
use recto::Session;
use serde_json::json;

use super::address;
use super::caller::Caller;
use super::question::Question;
use crate::access::Operation;
use crate::problem::Problem;

/// `GET …/records:explain`: the parameters of the list, and `run`.
pub(super) async fn explain(caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let collection = address::collection(&uri)?;
    let session = caller.session(&collection, Operation::Read)?;
    let question = Question::read(&uri, &["run"])?;
    answer(&collection, &*session, &question).await
}

/// `POST …/records:explain`: the same, with the parameters as a JSON object.
pub(super) async fn explain_by_body(caller: Caller, uri: Uri, request: Request) -> Result<Response, Problem> {
    let collection = address::collection(&uri)?;
    let session = caller.session(&collection, Operation::Read)?;
    let question = Question::of_request(&uri, request, &["run"]).await?;
    answer(&collection, &*session, &question).await
}

async fn answer(collection: &str, session: &dyn Session, question: &Question) -> Result<Response, Problem> {
    let run = question.parameters.flag("run")?;
    let explained = session.explain(collection, &question.request, run).await;
    let explained = explained.map_err(|error| question.problem(error))?;
    Ok(super::answer::json_once(&json!(explained)))
}
