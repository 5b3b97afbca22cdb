//! Description of the API (`OpenAPI` 3.1), as JSON and for people.
//!
//! The description is made from the table of operations and the schema of the store. It contains
//! the collections that a token can see, and the operations that the token may use.
//!
//! | module | content |
//! |---|---|
//! | `operations` | operations of the table |
//! | `parameters` | parameters in addresses, bodies and headers |
//! | `responses` | replies that all operations share |
//! | `schemas` | bodies that are not structs |
//! | `types` | types of fields as JSON Schema |
//! | `patterns` | regular expressions of values without a format |
//! | `components` | parts to which operations refer |
//! | `docs` | document for people |
//! | `kept` | cache of documents |

mod components;
mod docs;
mod kept;
mod operations;
mod parameters;
mod patterns;
mod responses;
mod schemas;
#[cfg(test)]
mod tests;
mod types;

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue, Uri};
use axum::response::Response;
use axum::routing::get;
use axum::{Extension, Router};
use recto::schema::Schema;
use serde_json::{Value as Json, json};

use crate::access::Access;
use crate::api::{APPLICATION_JSON, Caller, no_parameters, resource, strong_tag, tagged};
use crate::app::App;
use crate::problem::Problem;

use kept::Descriptions;

const READ: &str = "GET, HEAD, OPTIONS";
const STYLE: &str = include_str!("docs.css");

const ABOUT: &str = "API for large, sorted, filtered collections. It returns any page, forwards and \
    backwards; the cost depends on the page, not on its depth. Pages follow AIP-158, filters a subset of \
    AIP-160, and sorts AIP-132. Errors are problem details (RFC 9457). A page token is a position: it \
    continues to work while rows are added and removed.";

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

/// Returns the `OpenAPI` document with the operations that a token may use.
fn document(schema: &Schema, access: &Access) -> Json {
    let paths = operations::paths(schema, access);
    let mut components = components::of(&paths, schema);
    components.insert("securitySchemes".into(), security());
    let mut tags = operations::tags(&paths);
    let collections = schema.collections.iter();
    tags.extend(
        collections.map(
            |collection| json!({ "name": collection.name, "description": operations::about(collection) }),
        ),
    );
    let about = if access.is_read_only() {
        format!("{ABOUT} This server is read-only: it rejects every request that would change the store.")
    } else {
        ABOUT.to_owned()
    };
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
        "components": components,
    })
}

fn security() -> Json {
    json!({
        "token": {
            "type": "http",
            "scheme": "bearer",
            "description": "Token that `recto token` created. A server on a loopback address can work \
                            without tokens.",
        },
    })
}
