//! Router of the server, with the routes of the API, its description and the console.

use axum::Router;
use axum::http::{HeaderMap, Method, Uri, header};
use axum::response::{IntoResponse as _, Response};

use crate::app::App;
use crate::problem::Problem;

/// Returns all routes, without the checks of the guard. Requests must carry an
/// [`Access`](crate::access::Access) in their extensions. Without it, routes of `/v1` answer 500.
pub fn router(app: App) -> Router {
    crate::api::routes()
        .merge(crate::openapi::routes())
        .merge(crate::console::routes())
        .fallback(nothing_here)
        .method_not_allowed_fallback(wrong_method)
        .with_state(app)
}

async fn nothing_here(uri: Uri, headers: HeaderMap) -> Response {
    answer(Problem::no_resource(uri.path()), wants_page(&headers))
}

/// Answers a request whose method the resource does not support. axum adds the header `Allow`.
async fn wrong_method(method: Method, headers: HeaderMap) -> Response {
    answer(Problem::wrong_method(&method), wants_page(&headers))
}

/// Returns whether the client is a browser: only browsers accept HTML.
pub(crate) fn wants_page(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter();
    let mut accepted = accepted.filter_map(|accepted| accepted.to_str().ok());
    accepted.any(|accepted| accepted.contains("text/html"))
}

/// Converts a problem to a reply: a console page if `wants_page` is true, otherwise JSON.
pub(crate) fn answer(problem: Problem, wants_page: bool) -> Response {
    if wants_page {
        crate::console::problem_page(problem)
    } else {
        problem.into_response()
    }
}
