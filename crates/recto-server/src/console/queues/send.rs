//! `/queues/{queue}/send`: a form that sends a message.

use std::collections::BTreeMap;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use maud::{Markup, html};
use recto::session::OutgoingMessage;

use super::super::layout::{Failure, problem_panel};
use super::super::page_url::{Parameters, first, parameters};
use super::super::text::lines;
use super::queue_access::QueueAccess;
use crate::access::{Access, Right};
use crate::app::App;
use crate::problem::Problem;
use recto::problem::ProblemType;

const BODY: &str = "body";
const BODY_BASE64: &str = "body_base64";
const GROUP: &str = "group";
const DEDUPLICATION_ID: &str = "deduplication_id";
const DELAY_SECONDS: &str = "delay_seconds";
const ATTRIBUTES: &str = "attributes";

/// Handles `GET /queues/{queue}/send`: shows the form that sends a message.
pub(super) async fn ask(
    State(app): State<App>,
    Extension(access): Extension<Access>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let asked = QueueAccess::of(&app, access, name, Right::Send)?;
    let settings = asked.status().await?.options;
    let form = Form {
        asked: &asked,
        is_ordered: settings.ordered == Some(true),
        sent: parameters(query.unwrap_or_default().as_bytes()),
    };
    Ok(form.answer(None))
}

/// Handles `POST /queues/{queue}/send`: sends a message, or shows the form with the error.
pub(super) async fn send(
    State(app): State<App>,
    Extension(access): Extension<Access>,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<Response, Failure> {
    let asked = QueueAccess::of(&app, access, name, Right::Send)?;
    let queues = asked.queues()?;
    let form = Form {
        asked: &asked,
        is_ordered: asked.status().await?.options.ordered == Some(true),
        sent: parameters(&body),
    };
    let message = match form.message() {
        Ok(message) => message,
        Err(problem) => return Ok(form.answer(Some(&problem))),
    };
    let sent = queues.send(&asked.name, vec![message]).await?;
    match sent.into_iter().next() {
        Some(Ok(sent)) => Ok(asked.done(if sent.duplicate { "duplicate" } else { "sent" }, "send")),
        // Leave out the index of the message, because the request has only one.
        Some(Err(error)) => Ok(form.answer(Some(&Problem::of_record(error)))),
        None => Err(not_right(
            "the message was not sent, because the queue returned no result",
            BODY,
        )
        .into()),
    }
}

fn not_right(detail: impl Into<String>, field: &str) -> Problem {
    Problem::new(ProblemType::InvalidMessage, detail.into())
        .with_hint("correct this field; nothing was sent")
        .with_field(field)
}

/// Form that sends a message, either empty or with the user's input.
struct Form<'a> {
    asked: &'a QueueAccess,
    is_ordered: bool,
    sent: Parameters,
}

impl Form<'_> {
    fn typed(&self, name: &str) -> &str {
        first(&self.sent, name).unwrap_or_default()
    }

    /// Returns the trimmed text of a form field; `None` if the text is empty.
    fn said(&self, name: &str) -> Option<String> {
        Some(self.typed(name).trim().to_owned()).filter(|typed| !typed.is_empty())
    }

    fn message(&self) -> Result<OutgoingMessage, Problem> {
        let body = lines(self.typed(BODY));
        let (body, body_base64) = match first(&self.sent, BODY_BASE64) {
            None => (Some(body), None),
            Some(_) => (None, Some(body.split_whitespace().collect())),
        };
        let delay = self.said(DELAY_SECONDS).map(|typed| typed.parse());
        let delay_seconds = delay
            .transpose()
            .map_err(|_| not_right("delay_seconds must be a whole number of seconds", DELAY_SECONDS))?;
        Ok(OutgoingMessage {
            body,
            body_base64,
            attributes: self.attributes()?,
            delay_seconds,
            group: self.said(GROUP),
            deduplication_id: self.said(DEDUPLICATION_ID),
        })
    }

    /// Parses the attributes of the message: one `NAME=VALUE` per line.
    fn attributes(&self) -> Result<BTreeMap<String, String>, Problem> {
        let typed = lines(self.typed(ATTRIBUTES));
        let mut attributes = BTreeMap::new();
        for line in typed.lines().filter(|line| !line.trim().is_empty()) {
            let (name, value) = line.split_once('=').ok_or_else(|| {
                not_right(
                    format!("attributes must be NAME=VALUE, one per line, but a line is {line:?}"),
                    ATTRIBUTES,
                )
            })?;
            if attributes
                .insert(name.trim().to_owned(), value.to_owned())
                .is_some()
            {
                return Err(not_right(
                    format!("attributes: the name {} occurs twice", name.trim()),
                    ATTRIBUTES,
                ));
            }
        }
        Ok(attributes)
    }

    fn answer(&self, problem: Option<&Problem>) -> Response {
        let asked = self.asked;
        let done = match first(&self.sent, "done") {
            Some("sent") => Some("The message was sent."),
            Some("duplicate") => Some(
                "A message with this deduplication id was sent in the last five minutes. Nothing was sent \
                 now.",
            ),
            _ => None,
        };
        let at = problem.and_then(Problem::field);
        let content = html! {
            div.heading { h1 { "Send a message to " (asked.name) } }
            @if let Some(done) = done { p.notice role="status" { (done) } }
            @if let Some(problem) = problem { (problem_panel(problem)) }
            form.record method="post" action=(asked.action("send")) hx-boost="false" {
                div.field .invalid[at == Some(BODY)] {
                    label for=(BODY) { "Body" }
                    textarea #(BODY) name=(BODY) rows="6" aria-invalid=[(matches!(at, Some(BODY | BODY_BASE64))).then_some("true")] { "\n" (self.typed(BODY)) }
                    label.null-box {
                        input type="checkbox" name=(BODY_BASE64) value="true" checked[first(&self.sent, BODY_BASE64).is_some()]; "in base64"
                    }
                }
                @if self.is_ordered { (self.line(GROUP, "Group", "messages of a group are received in order", at)) }
                (self.line(DEDUPLICATION_ID, "Deduplication id", "prevents duplicates for five minutes", at))
                (self.line(DELAY_SECONDS, "Delay in seconds", "delay of the queue", at))
                div.field .invalid[at == Some(ATTRIBUTES)] {
                    label for=(ATTRIBUTES) { "Attributes" }
                    textarea #(ATTRIBUTES) name=(ATTRIBUTES) rows="3" placeholder="NAME=VALUE, one per line"
                        aria-invalid=[(at == Some(ATTRIBUTES)).then_some("true")] { "\n" (self.typed(ATTRIBUTES)) }
                }
                div.ways {
                    button.primary type="submit" { "Send" }
                    a.button data-key="u" href=(asked.back()) { "Cancel" }
                }
            }
        };
        asked.page("Send", problem, &content)
    }

    fn line(&self, name: &str, label: &str, hint: &str, at: Option<&str>) -> Markup {
        html! {
            div.field .invalid[at == Some(name)] {
                label for=(name) { (label) }
                input #(name) type="text" name=(name) value=(self.typed(name)) placeholder=(hint) autocomplete="off"
                    aria-invalid=[(at == Some(name)).then_some("true")];
            }
        }
    }
}
