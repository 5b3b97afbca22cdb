//! Views of a collection, with their states.

use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use recto_api::operations::ANY_COLLECTION;
use recto_api::views::ViewList;
use serde_json::json;

use super::caller::Caller;
use super::request;
use super::{address, answer};
use crate::access::Right;
use crate::problem::Problem;

/// Handles `GET /v1/collections/{collection}/views`: returns the views of one collection, or of all
/// collections if the name is `-`.
pub(super) async fn list(caller: Caller, uri: Uri, headers: HeaderMap) -> Result<Response, Problem> {
    let collection = address::collection(&uri)?;
    request::no_parameters(&uri)?;
    if collection != ANY_COLLECTION {
        caller.definition(&collection).await?;
        caller.access.granted_right(&collection, Right::Read)?;
    }
    let mut views = caller.access.views(caller.app_session()).await?;
    views.retain(|view| [ANY_COLLECTION, &view.collection].contains(&&*collection));
    Ok(answer::json(&headers, &json!(ViewList { views })))
}
