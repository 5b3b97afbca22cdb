//! Descriptions of the schema's collections.

use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use recto::Session as _;
use recto::schema::Collection;
use recto::session::{CollectionDescription, StoreDescription};
use recto_api::collections::CollectionList;
use serde_json::json;

use super::caller::Caller;
use super::request;
use super::{address, answer};
use crate::problem::Problem;

/// Handles `GET /v1/collections`: returns the collections that the token sees.
pub(super) async fn list(caller: Caller, uri: Uri, headers: HeaderMap) -> Result<Response, Problem> {
    request::no_parameters(&uri)?;
    let schema = caller.schema().await?;
    let store = caller.app_session().describe().await?;
    let collections = schema.collections.iter();
    let collections = collections.map(|one| describe(one, &store)).collect();
    Ok(answer::json(&headers, &json!(CollectionList { collections })))
}

/// Handles `GET /v1/collections/{collection}`: returns one collection.
pub(super) async fn get(caller: Caller, uri: Uri, headers: HeaderMap) -> Result<Response, Problem> {
    let definition = caller.definition(&address::collection(&uri)?).await?;
    request::no_parameters(&uri)?;
    let store = caller.app_session().describe().await?;
    Ok(answer::json(&headers, &json!(describe(&definition, &store))))
}

fn describe(collection: &Collection, store: &StoreDescription) -> CollectionDescription {
    let unavailable = store.unavailability(&collection.name);
    CollectionDescription::new(collection, unavailable.map(|one| one.message.clone()))
}

/// Returns the names of a collection's views, including its primary sort order.
pub(crate) fn view_names(collection: &Collection) -> Vec<&str> {
    let sort_orders = collection.sort_orders().into_iter();
    sort_orders.map(|one| one.name()).collect()
}
