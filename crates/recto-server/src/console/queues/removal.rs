//! `/queues/{queue}/remove` and `/purge`: remove one message, or all messages, after a
//! confirmation.

use std::sync::Arc;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use maud::html;

use super::super::layout::{Failure, problem_panel};
use super::super::page_url::{first, parameters};
use super::super::text::counted;
use super::history::Histories;
use super::messages::{MAX_PEEKED, MESSAGE, POSITION, table};
use super::queue_access::QueueAccess;
use crate::access::{Access, Right};
use crate::app::App;
use crate::problem::Problem;

/// Handles `GET /queues/{queue}/remove`: shows a message and asks whether to remove it.
pub(super) async fn ask_remove(
    State(app): State<App>,
    Extension(access): Extension<Access>,
    Extension(histories): Extension<Arc<Histories>>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let asked = QueueAccess::of(&app, access, name, Right::Manage)?;
    let sent = parameters(query.unwrap_or_default().as_bytes());
    let named = |name: &str| first(&sent, name).unwrap_or_default();
    let mut shown = Vec::new();
    if asked.may(Right::Read) {
        shown = asked.queues()?.peek(&asked.name, MAX_PEEKED).await?;
        shown.retain(|message| message.position == named(POSITION) && message.id == named(MESSAGE));
    }
    let content = html! {
        div.heading { h1 { "Remove this message from " (asked.name) "?" } }
        p { "The message is deleted at once, and cannot be restored. A receiver that has it keeps its copy, but cannot acknowledge it." }
        @if shown.is_empty() {
            p.dim { "The message is not among the oldest messages now. It may be acknowledged already." }
        }
        form.ways method="post" action=(asked.action("remove")) hx-boost="false" {
            input type="hidden" name=(POSITION) value=(named(POSITION));
            button.danger type="submit" { "Remove" }
            a.button data-key="u" href=(asked.back()) { "Keep" }
        }
        @if !shown.is_empty() { div.below { (table(&asked, &shown, histories.now_micros(), false)) } }
    };
    Ok(asked.page("Remove", None, &content))
}

/// Handles `POST /queues/{queue}/remove`: removes one message.
pub(super) async fn remove(
    State(app): State<App>,
    Extension(access): Extension<Access>,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<Response, Failure> {
    let asked = QueueAccess::of(&app, access, name, Right::Manage)?;
    let sent = parameters(&body);
    let position = first(&sent, POSITION).unwrap_or_default();
    let was_there = asked.queues()?.remove_message(&asked.name, position).await?;
    Ok(asked.done(if was_there { "removed" } else { "gone" }, "purge"))
}

/// Handles `GET /queues/{queue}/purge`: shows the number of messages and asks whether to remove
/// all.
pub(super) async fn ask_purge(
    State(app): State<App>,
    Extension(access): Extension<Access>,
    Path(name): Path<String>,
) -> Result<Response, Failure> {
    let asked = QueueAccess::of(&app, access, name, Right::Manage)?;
    Ok(purge_page(&asked, None).await?)
}

/// Handles `POST /queues/{queue}/purge`: removes all messages of a queue.
pub(super) async fn purge(
    State(app): State<App>,
    Extension(access): Extension<Access>,
    Path(name): Path<String>,
) -> Result<Response, Failure> {
    let asked = QueueAccess::of(&app, access, name, Right::Manage)?;
    match asked.queues()?.purge(&asked.name).await {
        Ok(()) => Ok(asked.done("purged", "purge")),
        Err(error) => Ok(purge_page(&asked, Some(&error.into())).await?),
    }
}

async fn purge_page(asked: &QueueAccess, problem: Option<&Problem>) -> Result<Response, Problem> {
    let status = asked.status().await?;
    let content = html! {
        div.heading { h1 { "Purge " (asked.name) "?" } }
        @if let Some(problem) = problem { (problem_panel(problem)) }
        p {
            "This deletes all messages in the queue, and they cannot be restored: now "
            @if asked.may(Right::Read) { b { (counted(status.messages, "message", "messages")) } } @else { "all messages" }
            ", including messages in flight. Messages that are sent later stay."
        }
        form.ways method="post" action=(asked.action("purge")) hx-boost="false" {
            button.danger type="submit" { "Purge" }
            a.button data-key="u" href=(asked.back()) { "Keep messages" }
        }
    };
    Ok(asked.page("Purge", problem, &content))
}
