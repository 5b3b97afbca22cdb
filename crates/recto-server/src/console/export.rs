//! `GET /collections/{collection}/export`: all rows of a query in its order, as NDJSON.
//!
//! The export of the API returns a whole collection without an order. The export of the console
//! reads the pages of a query one by one. It reads a page when the client has taken the page
//! before.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures::stream;
use recto::session::{JsonRecord, PageReply, PageRequest};
use recto::{Error, Session};
use serde_json::Value as Json;

use super::layout::Failure;
use super::page_url::{PageUrl, parameters};
use crate::access::{Access, Right};
use crate::app::App;

/// Number of rows of the pages that the export reads.
const PAGE_ROWS: i64 = 500;

pub(super) async fn get(
    State(app): State<App>,
    Extension(access): Extension<Access>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let session = access.session(app.session(), &name, Right::Export)?;
    let url = PageUrl::parse(&name, &parameters(query.unwrap_or_default().as_bytes()))?;
    let request = PageRequest {
        page_size: Some(PAGE_ROWS),
        fields: url.fields.clone(),
        both_edges: false,
        ..url.first_page().request()
    };
    // Read the first page before the reply starts, so that an error of the query becomes an error
    // page.
    let first = session.page(&name, &request).await?;
    let headers = [
        (header::CONTENT_TYPE, "application/x-ndjson".to_owned()),
        (
            header::CONTENT_DISPOSITION,
            format!("attachment; filename=\"{name}.ndjson\""),
        ),
    ];
    Ok((headers, body(session, name, request, first)).into_response())
}

/// Returns the lines of a page and of all pages after it. An error closes the connection, so that
/// an incomplete file does not seem complete.
fn body(session: Arc<dyn Session>, name: String, request: PageRequest, first: PageReply) -> Body {
    let begin = (session, name, request, Some(Step::Have(Box::new(first))));
    Body::from_stream(stream::try_unfold(
        begin,
        |(session, name, request, step)| async move {
            let reply = match step {
                None => return Ok::<_, Error>(None),
                Some(Step::Have(reply)) => *reply,
                Some(Step::Ask(page_token)) => {
                    let request = PageRequest {
                        page_token,
                        ..request.clone()
                    };
                    session.page(&name, &request).await?
                }
            };
            let next = (!reply.next_page_token.is_empty()).then_some(Step::Ask(reply.next_page_token));
            Ok(Some((lines(reply.records), (session, name, request, next))))
        },
    ))
}

/// Next step of an export: send a page that was read, or read the page of a token.
enum Step {
    Have(Box<PageReply>),
    Ask(String),
}

fn lines(records: Vec<JsonRecord>) -> String {
    let mut text = String::new();
    for record in records {
        text.push_str(&Json::Object(record).to_string());
        text.push('\n');
    }
    text
}
