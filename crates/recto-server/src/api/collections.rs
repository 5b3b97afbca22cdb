//! The collections of the schema.

use axum::extract::State;
use axum::{Extension, Json};
use recto::Session as _;
use serde_json::{Value, json};

use crate::access::Access;
use crate::app::App;
use crate::problem::Problem;

/// `GET /v1/collections`.
pub(crate) async fn list(
    State(app): State<App>,
    Extension(access): Extension<Access>,
) -> Result<Json<Value>, Problem> {
    let schema = app.session().schema().await?;
    let names = schema
        .collections
        .iter()
        .filter(|collection| access.sees(&collection.name))
        .map(|collection| json!({ "name": collection.name }));
    Ok(Json(json!({ "collections": names.collect::<Vec<_>>() })))
}
