//! The routes together.

use axum::Router;
use axum::http::{HeaderMap, Method, Uri, header};
use axum::response::{IntoResponse as _, Response};

use crate::app::App;
use crate::problem::Problem;

/// All routes, without guards: those of `/v1` take an [`Access`](crate::access::Access) from the
/// request's extensions and answer 500 without one.
pub fn router(app: App) -> Router {
    crate::api::routes()
        .merge(crate::openapi::routes())
        .merge(crate::console::routes())
        .fallback(nothing_here)
        .method_not_allowed_fallback(wrong_method)
        .with_state(app)
}

async fn nothing_here(uri: Uri, headers: HeaderMap) -> Response {
    answer(Problem::no_resource(uri.path()), &headers)
}

/// (Which methods there are, the framework adds.)
async fn wrong_method(method: Method, headers: HeaderMap) -> Response {
    answer(Problem::wrong_method(&method), &headers)
}

/// A problem as a page for browsers, which name HTML among what they accept; for others as JSON.
fn answer(problem: Problem, headers: &HeaderMap) -> Response {
    let accepted = headers.get_all(header::ACCEPT).iter();
    let mut accepted = accepted.filter_map(|accepted| accepted.to_str().ok());
    if accepted.any(|accepted| accepted.contains("text/html")) {
        crate::console::problem_page(problem)
    } else {
        problem.into_response()
    }
}
