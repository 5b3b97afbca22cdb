//! The collections of the schema.

use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use recto::Session as _;
use recto::schema::{Collection, Field, SortOrder};
use recto::session::StoreDescription;
use serde_json::{Value as Json, json};

use super::caller::Caller;
use super::request;
use super::{address, answer};
use crate::problem::Problem;

/// `GET /v1/collections`.
pub(super) async fn list(caller: Caller, uri: Uri, headers: HeaderMap) -> Result<Response, Problem> {
    request::no_parameters(&uri)?;
    let schema = caller.schema().await?;
    let store = caller.app_session().describe().await?;
    let collections = schema.collections.iter();
    let collections: Vec<Json> = collections.map(|one| describe(one, &store)).collect();
    Ok(answer::json(&headers, &json!({ "collections": collections })))
}

/// `GET /v1/collections/{collection}`.
pub(super) async fn get(caller: Caller, uri: Uri, headers: HeaderMap) -> Result<Response, Problem> {
    let definition = caller.definition(&address::collection(&uri)?).await?;
    request::no_parameters(&uri)?;
    let store = caller.app_session().describe().await?;
    Ok(answer::json(&headers, &describe(&definition, &store)))
}

/// What a client needs to know to read and write a collection.
fn describe(collection: &Collection, store: &StoreDescription) -> Json {
    let fields: Vec<Json> = collection
        .fields
        .iter()
        .map(|field| describe_field(collection, field))
        .collect();
    let mut told = json!({
        "name": collection.name,
        "writes": collection.writes.as_str(),
        "key": collection.key,
        "fields": fields,
        "views": views(collection),
    });
    if let Some(table) = &collection.attached {
        told["writes"] = json!("none");
        told["attached"] = json!(table.to_string());
    }
    if let Some(refused) = store.unavailability(&collection.name) {
        told["unavailable"] = json!(refused.message);
    }
    told
}

fn describe_field(collection: &Collection, field: &Field) -> Json {
    let sort_orders = collection.sort_orders();
    let is_by = |one: &&SortOrder<'_>| one.is_by(&field.name);
    let by = || sort_orders.iter().filter(is_by);
    json!({
        "name": field.name,
        "type": field.ty.to_string(),
        "required": collection.is_required(&field.name),
        "operators": operators(collection, field),
        "filter": if by().next().is_some() { "view" } else { "filter_scan" },
        "sort": by().any(|one| one.rounding_of(&field.name).is_none()),
    })
}

/// The filter's operators that a field takes.
fn operators(collection: &Collection, field: &Field) -> Vec<&'static str> {
    let mut operators = vec!["="];
    if field.ty.is_orderable() {
        operators.extend(["<", "<=", ">", ">="]);
    }
    if field.ty.is_textual() && collection.collation_of(&field.name).is_none() {
        operators.push("startsWith");
    }
    operators
}

/// The names of a collection's views, its own sort order among them.
pub(crate) fn view_names(collection: &Collection) -> Vec<&str> {
    let sort_orders = collection.sort_orders().into_iter();
    sort_orders.map(|one| one.name()).collect()
}

fn views(collection: &Collection) -> Vec<Json> {
    let sort_orders = collection.sort_orders().into_iter();
    let views = sort_orders.map(|one| {
        let order: Vec<String> = one.order.iter().map(ToString::to_string).collect();
        let mut json = json!({ "name": one.name(), "partition": one.partition, "order": order });
        let rounding = one.order.iter().filter_map(|column| {
            let width = one.rounding_of(&column.field)?;
            Some((column.field.clone(), Json::String(width.to_string())))
        });
        let rounding: serde_json::Map<_, _> = rounding.collect();
        if !rounding.is_empty() {
            json["rounding"] = Json::Object(rounding);
        }
        let collate = one.order.iter().filter_map(|column| {
            let collation = one.collation_of(&column.field)?;
            Some((column.field.clone(), Json::from(collation.locale())))
        });
        let collate: serde_json::Map<_, _> = collate.collect();
        if !collate.is_empty() {
            json["collate"] = Json::Object(collate);
        }
        json
    });
    views.collect()
}
