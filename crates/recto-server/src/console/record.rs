//! Page of one record with all fields, and page that deletes the record.

use axum::Extension;
use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use recto::ErrorKind;
use recto::schema::{Collection, WriteMode};
use recto::session::{Action, JsonRecord, RecordChange, Versioned};

use super::browse::CollectionRights;
use super::form::{SEEN, seen};
use super::layout::{Failure, Layout, page, problem_panel};
use super::page_url::{first, parameters};
use super::subject::Subject;
use super::table::columns;
use super::value::{full, short, type_label};
use crate::access::{Access, Right};
use crate::app::App;
use crate::problem::Problem;
use recto::problem::ProblemType;

/// Handles `GET /collections/{collection}/record`: shows a record.
pub(super) async fn get(
    State(app): State<App>,
    Extension(access): Extension<Access>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let subject = Subject::of(&app, &access, &name, query, Right::Read).await?;
    let record = subject.record().await?;
    let may = CollectionRights::of(&access, &subject.collection);
    let append = subject.collection.writes == WriteMode::Append;
    let read_only = subject.collection.attached.as_ref();
    let notice = match first(&subject.parameters, "done") {
        Some("saved") => Some("The record was saved."),
        Some("written") => Some("The record was written."),
        _ => None,
    };
    let content = html! {
        div.heading {
            div {
                h1 { (title(&subject)) }
                @if let Some(table) = read_only {
                    p.sort_order { "Read-only: a row of table " b { (table.to_string()) } "." }
                } @else if append {
                    p.sort_order { "Append-only: you can delete this record, but not edit it." }
                }
            }
            div.actions {
                @if may.write && !append { a.button.primary href=(subject.href("edit", &subject.key)) { "Edit" } }
                @if may.write { a.button href=(subject.href("new", &subject.key)) { "Add a similar record" } }
                @if may.delete { a.button.danger href=(subject.href("delete", &subject.key)) { "Delete" } }
            }
        }
        @if let Some(notice) = notice { p.notice role="status" { (notice) } }
        (fields(&subject.collection, &record))
        p.ways { a.button data-key="u" href=(subject.back.href()) { "← Back to the page" } }
    };
    Ok(page(StatusCode::OK, &layout(&subject, "Record"), &content))
}

/// Handles `GET /collections/{collection}/delete`: asks whether to delete a record.
pub(super) async fn ask_delete(
    State(app): State<App>,
    Extension(access): Extension<Access>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let subject = Subject::of(&app, &access, &name, query, Right::Delete).await?;
    let shown = access.allows(&name, Right::Read);
    let held = if shown {
        Some(subject.versioned().await?)
    } else {
        None
    };
    Ok(delete_page(&subject, held.as_ref(), None))
}

/// Handles `POST /collections/{collection}/delete`: deletes a record after the user confirmed it.
/// If the record changed since the confirmation page was shown, deletes nothing and shows that page
/// again. Does not check this for a token without the right to read, because its page shows no
/// record.
pub(super) async fn delete(
    State(app): State<App>,
    Extension(access): Extension<Access>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
    body: Bytes,
) -> Result<Response, Failure> {
    let subject = Subject::of(&app, &access, &name, query, Right::Delete).await?;
    let sent = parameters(&body);
    let mut version = None;
    // Compare versions only for a token that may read. Other tokens see no record on the page, so
    // they cannot have seen a version.
    if let Some(shown) = first(&sent, SEEN).filter(|_| access.allows(&name, Right::Read)) {
        let held = subject.versioned().await?;
        if seen(&held) != shown {
            return Ok(delete_page(&subject, Some(&held), Some(&changed_meanwhile())));
        }
        version = held.version;
    }
    let key = subject.key.clone();
    let delete = RecordChange::new(&name, Action::Delete { key }).if_version(version);
    match subject.session.change(delete).await {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::Changed => {
            let held = subject.versioned().await?;
            return Ok(delete_page(&subject, Some(&held), Some(&changed_meanwhile())));
        }
        Err(error) => return Ok(delete_page(&subject, None, Some(&error.into()))),
    }
    let back = subject.back.href();
    let sign = if back.contains('?') { '&' } else { '?' };
    Ok(Redirect::to(&format!("{back}{sign}done=deleted")).into_response())
}

fn changed_meanwhile() -> Problem {
    let detail = "somebody saved the record after you opened it; nothing was deleted";
    Problem::new(ProblemType::Conflict, detail)
        .with_title("The record was changed")
        .with_hint("check the present record below: delete or keep it")
}

/// Returns the page that shows a record and asks whether to delete it.
fn delete_page(
    subject: &Subject,
    held: Option<&Versioned<JsonRecord>>,
    problem: Option<&Problem>,
) -> Response {
    let content = html! {
        div.heading { h1 { "Delete " (title(subject)) "?" } }
        @if let Some(problem) = problem { (problem_panel(problem)) }
        p { "The record is deleted at once, and cannot be restored." }
        form.ways method="post" action=(subject.href("delete", &subject.key)) hx-boost="false" {
            @if let Some(held) = held { input type="hidden" name=(SEEN) value=(seen(held)); }
            button.danger type="submit" { "Delete" }
            a.button data-key="u" href=(subject.href("record", &subject.key)) { "Keep" }
        }
        @if let Some(held) = held { (fields(&subject.collection, &held.record)) }
    };
    let status = problem.map_or(StatusCode::OK, |problem| problem.status);
    page(status, &layout(subject, "Delete"), &content)
}

pub(super) fn layout(subject: &Subject, here: &str) -> Layout<'static> {
    Layout {
        title: "Record",
        trail: subject.trail(here),
        fills_window: false,
        has_rows: false,
    }
}

/// Returns the key of a record as the title of its page.
pub(super) fn title(subject: &Subject) -> String {
    let names = subject.collection.key.iter();
    let texts = names
        .zip(&subject.key)
        .map(|(name, text)| match subject.collection.field(name) {
            Some((_, field)) => short(&field.ty, text),
            None => text.clone(),
        });
    texts.collect::<Vec<_>>().join(" · ")
}

fn fields(collection: &Collection, record: &JsonRecord) -> Markup {
    html! {
        dl.record {
            @for name in columns(collection) {
                @if let Some((_, field)) = collection.field(name) {
                    div {
                        dt class=[collection.is_required(name).then_some("key")] {
                            (name) @if collection.is_required(name) { span.mark { "key" } } span.type { (type_label(&field.ty)) }
                        }
                        dd { (full(record.get(name))) }
                    }
                }
            }
        }
    }
}
