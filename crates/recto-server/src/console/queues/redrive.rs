//! `/queues/{queue}/redrive`: moves messages to another queue, for example dead letters back to the
//! queue whose receivers failed.

use std::time::Duration;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::response::Response;
use maud::html;
use recto::session::{MovedMessages, QueueStatus};

use super::super::layout::{Failure, problem_panel};
use super::super::page_url::{Parameters, first, parameters};
use super::queue::{MORE, REDRIVEN};
use super::queue_access::{QueueAccess, may};
use crate::access::{Access, Right};
use crate::app::App;
use crate::problem::Problem;
use recto::problem::ProblemType;

const TO: &str = "to";
const MAX_MESSAGES: &str = "max_messages";

/// Handles `GET /queues/{queue}/redrive`: shows the form that moves messages.
pub(super) async fn ask(
    State(app): State<App>,
    Extension(access): Extension<Access>,
    Path(name): Path<String>,
) -> Result<Response, Failure> {
    let asked = QueueAccess::of(&app, access, name, Right::Manage)?;
    asked.status().await?;
    Ok(answer(&asked, &Parameters::new(), None).await?)
}

/// Handles `POST /queues/{queue}/redrive`: moves messages to another queue, or shows the form with
/// the error.
pub(super) async fn redrive(
    State(app): State<App>,
    Extension(access): Extension<Access>,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<Response, Failure> {
    let asked = QueueAccess::of(&app, access, name, Right::Manage)?;
    let sent = parameters(&body);
    match moved(&asked, &sent, app.upkeep().redrive_time).await {
        Ok(MovedMessages { moved, done }) => {
            let more = if done { "" } else { MORE };
            Ok(asked.done(&format!("{REDRIVEN}{moved}{more}"), "redrive"))
        }
        Err(problem) => Ok(answer(&asked, &sent, Some(&problem)).await?),
    }
}

/// Moves the messages that a sent form requests. The token needs the right to send to the target
/// queue.
async fn moved(asked: &QueueAccess, sent: &Parameters, time: Duration) -> Result<MovedMessages, Problem> {
    let to = first(sent, TO).unwrap_or_default();
    asked
        .access
        .check_queue(to, Right::Send)
        .map_err(|problem| problem.with_field(TO))?;
    let most = first(sent, MAX_MESSAGES)
        .map(str::trim)
        .filter(|typed| !typed.is_empty());
    let most = most.map(str::parse).transpose().map_err(|_| {
        let detail = "max_messages must be a whole number, or empty for all";
        Problem::new(ProblemType::InvalidNumber, detail)
            .with_hint("correct the number; nothing was moved")
            .with_field(MAX_MESSAGES)
    })?;
    let moved = asked.queues()?.redrive(&asked.name, Some(to), most, time).await;
    moved.map_err(|error| Problem::of_queue(error, "messages"))
}

async fn answer(
    asked: &QueueAccess,
    sent: &Parameters,
    problem: Option<&Problem>,
) -> Result<Response, Problem> {
    let mut others = asked.queues()?.queues().await?;
    others.retain(|queue| queue.name != asked.name && may(&asked.access, &queue.name, Right::Send));
    let chosen = first(sent, TO).or_else(|| source(&others, &asked.name));
    let typed = first(sent, MAX_MESSAGES).unwrap_or_default();
    let at = problem.and_then(Problem::field);
    let content = html! {
        div.heading { h1 { "Redrive " (asked.name) } }
        @if let Some(problem) = problem { (problem_panel(problem)) }
        @if others.is_empty() {
            p { "There is no other queue to which you can send messages." }
            p.ways { a.button data-key="u" href=(asked.back()) { "Back" } }
        } @else {
            p { "Moves messages that were never received. The oldest are moved first, and the other queue delivers them as new messages." }
            form.record.below method="post" action=(asked.action("redrive")) hx-boost="false" {
                div.field {
                    label for=(TO) { "To" }
                    select #(TO) name=(TO) required aria-invalid=[(at == Some(TO)).then_some("true")] {
                        @if chosen.is_none() { option value="" { "choose a queue" } }
                        @for queue in &others {
                            option value=(queue.name) selected[chosen == Some(queue.name.as_str())] {
                                (queue.name) @if is_source(queue, &asked.name) { ": uses this dead-letter queue" }
                            }
                        }
                    }
                }
                div.field .invalid[at == Some(MAX_MESSAGES)] {
                    label for=(MAX_MESSAGES) { "Maximum number of messages" }
                    input #(MAX_MESSAGES) type="text" inputmode="numeric" name=(MAX_MESSAGES) value=(typed) placeholder="all" autocomplete="off"
                        aria-invalid=[(at == Some(MAX_MESSAGES)).then_some("true")];
                }
                div.ways {
                    button.primary type="submit" { "Move messages" }
                    a.button data-key="u" href=(asked.back()) { "Cancel" }
                }
            }
        }
    };
    Ok(asked.page("Redrive", problem, &content))
}

/// Returns the queue that sends its dead letters to `dead`; `None` if there are none or several.
fn source<'a>(others: &'a [QueueStatus], dead: &str) -> Option<&'a str> {
    let mut sources = others.iter().filter(|queue| is_source(queue, dead));
    let source = sources.next()?;
    sources.next().is_none().then_some(&source.name)
}

fn is_source(queue: &QueueStatus, dead: &str) -> bool {
    let to = queue.options.dead_letters.as_ref().and_then(Option::as_ref);
    to.is_some_and(|to| to.queue == dead)
}
