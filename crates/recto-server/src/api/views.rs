//! The views of a collection, with their states.

use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use recto::session::ViewStatus;
use serde_json::{Value as Json, json};

use super::caller::Caller;
use super::parameters::Parameters;
use super::{address, answer};
use crate::access::Operation;
use crate::problem::Problem;

/// In the place of a collection's name: all that are seen (AIP-159).
pub(crate) const ANY_COLLECTION: &str = "-";

/// `GET /v1/collections/{collection}/views`.
pub(super) async fn list(caller: Caller, uri: Uri, headers: HeaderMap) -> Result<Response, Problem> {
    let collection = address::collection(&uri)?;
    Parameters::read(&uri, &[])?;
    if collection != ANY_COLLECTION {
        caller.definition(&collection).await?;
        caller.access.granted_operation(&collection, Operation::Read)?;
    }
    let session = caller.access.session_over(caller.app_session(), [])?;
    let mut views = session.tools()?.views().await?;
    views.retain(|view| [ANY_COLLECTION, &view.collection].contains(&&*collection));
    let views: Vec<Json> = views
        .into_iter()
        .filter_map(|view| shown(&caller, view))
        .collect();
    Ok(answer::json(&headers, &json!({ "views": views })))
}

/// A view as it may be seen: who sees some rows only is not told how many there are.
fn shown(caller: &Caller, mut view: ViewStatus) -> Option<Json> {
    let grant = caller
        .access
        .granted_operation(&view.collection, Operation::Read)
        .ok()?;
    if !grant.rows.is_empty() {
        view.rows_filled = None;
    }
    Some(view.to_json())
}
