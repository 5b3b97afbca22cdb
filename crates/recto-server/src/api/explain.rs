//! Plan and cost of a list of records.

use axum::extract::Request;
use axum::http::Uri;
use axum::response::Response;
use recto::Session;
use recto::session::PageRequest;
use recto_api::pages::ExplainOptions;
use recto_api::parameters::{Parameters, names_of};
use serde_json::json;

use super::address;
use super::caller::Caller;
use super::pages::problem;
use super::request;
use crate::access::Right;
use crate::problem::Problem;

/// Handles `GET …/records:explain`: returns the plan of a list of records. With `run`, also reads
/// the page and returns its cost. The other parameters are those of the list.
pub(super) async fn explain(caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let collection = address::collection(&uri)?;
    let session = caller.session(&collection, Right::Read)?;
    let parameters = request::parameters(&uri, &known())?;
    answer(&collection, &*session, &parameters).await
}

/// Handles `POST …/records:explain`, with the parameters as a JSON object in the body.
pub(super) async fn explain_by_body(caller: Caller, uri: Uri, request: Request) -> Result<Response, Problem> {
    let collection = address::collection(&uri)?;
    let session = caller.session(&collection, Right::Read)?;
    let parameters = request::in_body(&uri, request, &known()).await?;
    answer(&collection, &*session, &parameters).await
}

fn known() -> Vec<&'static str> {
    [names_of::<PageRequest>(), names_of::<ExplainOptions>()].concat()
}

async fn answer(
    collection: &str,
    session: &dyn Session,
    parameters: &Parameters,
) -> Result<Response, Problem> {
    let request: PageRequest = parameters.read()?;
    let ExplainOptions { run } = parameters.read()?;
    request.check()?;
    let explained = session.explain(collection, &request, run).await;
    let explained = explained.map_err(|error| problem(&request, error))?;
    Ok(super::answer::json_once(&json!(explained)))
}
