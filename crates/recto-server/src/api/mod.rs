//! `/v1`: the resources.

mod collections;

use axum::Router;
use axum::routing::get;

use crate::app::App;

pub(crate) fn routes() -> Router<App> {
    Router::new().route("/v1/collections", get(collections::list))
}
