//! The description of the API (`OpenAPI` 3.1), as JSON and for people.
//!
//! It is made from the running schema, and holds what its asker sees: nothing of collections that a
//! token does not reach, and no operation that it does not allow.
//!
//! | module | holds |
//! |---|---|
//! | `types` | fields' types as JSON Schema |
//! | `patterns` | the regular expressions of what has no format |
//! | `schemas` | the bodies: records, lists, batches, explanations |
//! | `parameters` | what stands in paths and queries |
//! | `responses` | the answers that all operations share |
//! | `operations` | what can be asked of a collection |
//! | `buckets` | the buckets of a collection |
//! | `queues` | what can be asked of queues and their messages |
//! | `units` | what can be asked of work units |
//! | `queue_ring` | the tables in which the bodies of messages lie |
//! | `store` | what can be asked of the store itself |
//! | `docs` | the same for people |
//! | `kept` | both as they were made for the schema and for who sees as much of it |

mod buckets;
mod docs;
mod kept;
mod operations;
mod parameters;
mod patterns;
mod queue_ring;
mod queues;
mod responses;
mod schemas;
mod store;
mod types;
mod units;

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue, Method, Uri};
use axum::response::Response;
use axum::routing::get;
use axum::{Extension, Router};
use recto::schema::{Collection, Schema, WriteMode};
use serde_json::{Map, Value as Json, json};

use crate::access::{Access, Operation, changes_store};
use crate::api::{APPLICATION_JSON, Caller, no_parameters, resource, strong_tag, tagged};
use crate::app::App;
use crate::problem::Problem;

use kept::Descriptions;

const READ: &str = "GET, HEAD, OPTIONS";
const STYLE: &str = include_str!("docs.css");

const ABOUT: &str = "Any page of a large, sorted, filtered collection, forwards and backwards, at the cost \
of the page and not of the depth. Pages are those of AIP-158, filters a subset of AIP-160, sorts AIP-132, \
errors problem details (RFC 9457). Tokens that lead to pages are positions: they go on working while rows \
come and go.";

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/openapi.json", resource(READ, get(as_json)))
        .route("/docs", resource(READ, get(for_people)))
        .route_layer(Extension(Arc::new(Descriptions::default())))
        .route("/assets/docs.css", resource(READ, get(style)))
}

type Kept = Extension<Arc<Descriptions>>;

async fn as_json(caller: Caller, kept: Kept, uri: Uri, headers: HeaderMap) -> Result<Response, Problem> {
    no_parameters(&uri)?;
    let kept = kept.of(&caller).await?;
    Ok(kept.json.answer(&headers, APPLICATION_JSON))
}

async fn for_people(caller: Caller, kept: Kept, uri: Uri, headers: HeaderMap) -> Result<Response, Problem> {
    no_parameters(&uri)?;
    let kept = kept.of(&caller).await?;
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    Ok(kept.html.answer(&headers, html))
}

async fn style(headers: HeaderMap) -> Response {
    let css = HeaderValue::from_static("text/css; charset=utf-8");
    tagged(&headers, &strong_tag(STYLE.as_bytes()), css, STYLE)
}

/// The document: what `access` sees of `schema`.
fn document(schema: &Schema, access: &Access) -> Json {
    let mut paths = Map::new();
    paths.insert("/v1/schema".into(), operations::schema());
    paths.insert("/v1/collections".into(), operations::collections());
    paths.extend([operations::all_views()]);
    let mut schemas = schemas::shared(schema);
    let mut tags = vec![json!({ "name": "collections", "description": "What there is." })];
    let of_store = store::paths(schema, access);
    if !of_store.is_empty() {
        tags.push(json!({ "name": store::TAG, "description": "What looks after the store itself." }));
        schemas.extend(store::schemas());
        paths.extend(of_store);
    }
    let of_queues = queues::paths(access);
    let changes_queues = access.allows_some_queue(Operation::Manage);
    if !of_queues.is_empty() {
        tags.push(json!({ "name": queues::TAG, "description": "Durable jobs, received and done with." }));
        schemas.extend(queues::schemas(access));
        paths.extend(of_queues);
    }
    for collection in &schema.collections {
        paths.extend(operations::of_collection(collection, access));
        let of_buckets = buckets::paths(collection, access);
        if !of_buckets.is_empty() {
            paths.extend(of_buckets);
            schemas.extend(buckets::schemas());
        }
        schemas.extend(schemas::of_collection(collection));
        tags.push(json!({ "name": collection.name, "description": operations::about(collection) }));
    }
    if access.is_read_only() {
        remove_changes(&mut paths);
    }
    let about = if access.is_read_only() {
        format!("{ABOUT} This server is read-only: it rejects every request that would change the store.")
    } else {
        ABOUT.to_owned()
    };
    let (mut parameters, mut responses) = (parameters::shared(), responses::shared());
    let has_versions = |collection: &Arc<Collection>| collection.writes == WriteMode::Update;
    if !schema.collections.iter().any(has_versions) {
        // Nothing refers to what is about versions.
        schemas.remove("Pending");
        if !changes_queues {
            parameters.remove("If-Match");
            responses.remove("412");
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Recto",
            "version": env!("CARGO_PKG_VERSION"),
            "description": about,
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "security": [{}, { "token": [] }],
        "tags": tags,
        "paths": paths,
        "components": {
            "schemas": schemas,
            "parameters": parameters,
            "responses": responses,
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "Made by `recto token`. A server on loopback may do without.",
                },
            },
        },
    })
}

/// Removes the operations that a read-only server rejects, and paths without others.
fn remove_changes(paths: &mut Map<String, Json>) {
    for (path, item) in paths.iter_mut() {
        if let Some(item) = item.as_object_mut() {
            item.retain(|method, _| {
                let method = Method::from_bytes(method.to_ascii_uppercase().as_bytes());
                !method.is_ok_and(|method| changes_store(&method, path))
            });
        }
    }
    paths.retain(|_, item| {
        let methods = item.as_object().map(|item| item.keys());
        methods.is_none_or(|mut methods| methods.any(|method| method != "parameters"))
    });
}
