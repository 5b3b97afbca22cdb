//! `GET /collections/{collection}/count`: the number of rows of a query, as text.
//!
//! The browser requests the count after it shows a page of records, so that no page waits for a
//! count.

use axum::Extension;
use axum::extract::{Path, RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use recto::ErrorKind;
use recto::session::{Count, MAX_COUNT_UP_TO, PageReply, PageRequest, RowCount};

use super::layout::Failure;
use super::page_url::{PageUrl, encoded, parameters, with_query};
use crate::access::{Access, Right};
use crate::app::App;

/// Header that lets a browser cache a count for a minute, so that other pages of the list need not
/// count again.
const CACHE_CONTROL: &str = "private, max-age=60";

/// Returns the element that shows the number of rows of a query. If the page has all rows, it shows
/// their number at once. Otherwise the browser requests the number later.
pub(super) fn render(url: &PageUrl, reply: &PageReply) -> Markup {
    let is_whole = reply.next_page_token.is_empty() && reply.previous_page_token.is_empty();
    html! {
        @if is_whole {
            span.place.dim { (count_of(reply).in_words(reply.records.len())) }
        } @else {
            span.place.dim hx-get=(href(url)) hx-trigger="load" hx-target="this" hx-select="unset" hx-swap="innerHTML" {}
        }
    }
}

/// Handles `GET /collections/{collection}/count`: returns the number of rows of a query as text.
pub(super) async fn get(
    State(app): State<App>,
    Extension(access): Extension<Access>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let session = access.session(app.session(), &name, Right::Read)?;
    let url = PageUrl::parse(&name, &parameters(query.unwrap_or_default().as_bytes()))?;
    let request = PageRequest {
        page_size: Some(1),
        count: Some(Count::UpTo(MAX_COUNT_UP_TO)),
        both_edges: false,
        ..url.first_page().request()
    };
    let reply = match session.page(&name, &request).await {
        // Show no number to a token that may read only some rows: the session rejects its count.
        Err(error) if error.kind() == ErrorKind::InvalidQuery => {
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
        reply => reply?,
    };
    let words = reply.row_count.map(|count| count.in_words(reply.records.len()));
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, CACHE_CONTROL),
        (header::VARY, "authorization, cookie"),
    ];
    Ok((headers, html! { (words.unwrap_or_default()) }.into_string()).into_response())
}

fn count_of(reply: &PageReply) -> RowCount {
    RowCount {
        total_size: reply.records.len() as u64,
        ..RowCount::default()
    }
}

fn href(url: &PageUrl) -> String {
    let parameters = url.query_parameters();
    let parameters: Vec<_> = parameters
        .into_iter()
        .filter(|(name, _)| *name != "fields")
        .collect();
    with_query(url.action("count"), &encoded(&parameters))
}
