//! The collections of the schema.

use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use recto::schema::{self, Collection, Field};
use serde_json::{Value as Json, json};

use super::caller::Caller;
use super::parameters::Parameters;
use super::{address, answer};
use crate::problem::Problem;

/// The name of a collection's own arrangement, among its views.
const PRIMARY_VIEW: &str = schema::PRIMARY_VIEW;

/// `GET /v1/collections`.
pub(super) async fn list(caller: Caller, uri: Uri, headers: HeaderMap) -> Result<Response, Problem> {
    Parameters::read(&uri, &[])?;
    let schema = caller.schema().await?;
    let collections: Vec<Json> = schema.collections.iter().map(|one| describe(one)).collect();
    Ok(answer::json(&headers, &json!({ "collections": collections })))
}

/// `GET /v1/collections/{collection}`.
pub(super) async fn get(caller: Caller, uri: Uri, headers: HeaderMap) -> Result<Response, Problem> {
    let definition = caller.definition(&address::collection(&uri)?).await?;
    Parameters::read(&uri, &[])?;
    Ok(answer::json(&headers, &describe(&definition)))
}

/// What a client needs to know to read and write a collection.
fn describe(collection: &Collection) -> Json {
    let fields: Vec<Json> = collection
        .fields
        .iter()
        .map(|field| describe_field(collection, field))
        .collect();
    json!({
        "name": collection.name,
        "writes": collection.writes.as_str(),
        "key": collection.key,
        "fields": fields,
        "views": views(collection),
    })
}

fn describe_field(collection: &Collection, field: &Field) -> Json {
    let is_sortable = |view: &ViewColumns<'_>| {
        view.partition.contains(&field.name) || view.order.iter().any(|order| order.field == field.name)
    };
    json!({
        "name": field.name,
        "type": field.ty.to_string(),
        "required": collection.is_required(&field.name),
        "operators": operators(field),
        "filter": if columns(collection).iter().any(is_sortable) { "view" } else { "residual" },
        "sort": columns(collection).iter().any(is_sortable),
    })
}

/// The filter's operators that a field takes.
fn operators(field: &Field) -> Vec<&'static str> {
    let mut operators = vec!["="];
    if field.ty.is_orderable() {
        operators.extend(["<", "<=", ">", ">="]);
    }
    if field.ty.is_textual() {
        operators.push("startsWith");
    }
    operators
}

/// The columns of a view that a query can use.
struct ViewColumns<'a> {
    name: &'a str,
    partition: &'a [String],
    order: &'a [schema::OrderColumn],
}

/// A collection's own arrangement, and its further views.
fn columns(collection: &Collection) -> Vec<ViewColumns<'_>> {
    let own = ViewColumns {
        name: PRIMARY_VIEW,
        partition: &collection.partition,
        order: &collection.order,
    };
    let further = collection.views.iter().filter(|view| view.name != PRIMARY_VIEW);
    let further = further.map(|view| ViewColumns {
        name: &view.name,
        partition: &view.partition,
        order: &view.order,
    });
    std::iter::once(own).chain(further).collect()
}

/// The names of a collection's views.
pub(crate) fn view_names(collection: &Collection) -> Vec<&str> {
    columns(collection).iter().map(|view| view.name).collect()
}

fn views(collection: &Collection) -> Vec<Json> {
    let views = columns(collection).into_iter();
    let views = views.map(|view| {
        let order: Vec<String> = view.order.iter().map(ToString::to_string).collect();
        json!({ "name": view.name, "partition": view.partition, "order": order })
    });
    views.collect()
}

/// Refuses the name of a view that the collection does not have.
pub(super) fn check_view(collection: &Collection, asked: Option<&str>) -> Result<(), Problem> {
    let Some(asked) = asked.filter(|asked| !asked.is_empty()) else {
        return Ok(());
    };
    let names = view_names(collection);
    if names.contains(&asked) {
        return Ok(());
    }
    Err(Problem::invalid_parameter(
        "view",
        format!("collection {} has no view {asked:?}", collection.name),
    )
    .with_hint(format!("its views are {}", names.join(", "))))
}
