//! `GET /queues/{queue}`: the page of a queue with its numbers, options and oldest messages.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};
use recto::session::{DeduplicationScope, QueueStatus};

use super::super::layout::{Failure, Layout, page};
use super::super::page_url::{first, parameters};
use super::super::text::{bytes, counted, grouped};
use super::chart;
use super::history::{FLOWS, Histories};
use super::messages::{self, MAX_PEEKED};
use super::queue_access::{QueueAccess, href};
use super::units::units;
use super::words::{age, depth, paused, seconds};
use super::{BOARD, follow};
use crate::access::{Access, Right};
use crate::app::App;
use crate::problem::Problem;

/// Prefix of the parameter `done` after messages were moved. Their number follows: `redriven-12`.
pub(super) const REDRIVEN: &str = "redriven-";
/// Suffix of the parameter `done` after messages were moved, if more messages remain.
pub(super) const MORE: &str = "-more";

/// Handles `GET /queues/{queue}`: shows the page of a queue.
pub(super) async fn get(
    State(app): State<App>,
    Extension(access): Extension<Access>,
    Extension(histories): Extension<Arc<Histories>>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let asked = QueueAccess::of(&app, access, name, Right::Read)?;
    let sent = parameters(query.unwrap_or_default().as_bytes());
    let status = asked.status().await?;
    histories.note(&status);
    let oldest = asked.queues()?.peek(&asked.name, MAX_PEEKED).await?;
    let content = html! {
        (heading(&asked))
        @if let Some(notice) = first(&sent, "done").and_then(notice) { p.notice role="status" { (notice) } }
        (figures(&asked, &status, &histories).await?)
        (units(&asked).await?)
        (messages::oldest(&asked, &status, &oldest, histories.now_micros()))
        section.health {
            h2 { "Settings" }
            (options(&status))
        }
        p.ways { a.button data-key="u" href=(BOARD) { "← Back to the queues" } }
    };
    Ok(answer(&asked.name, &content))
}

/// Handles `GET /queues/{queue}/figures`: returns only the part of the page that refreshes often.
/// It leaves out the messages, which may be long.
pub(super) async fn get_figures(
    State(app): State<App>,
    Extension(access): Extension<Access>,
    Extension(histories): Extension<Arc<Histories>>,
    Path(name): Path<String>,
) -> Result<Response, Failure> {
    let asked = QueueAccess::of(&app, access, name, Right::Read)?;
    let status = asked.status().await?;
    histories.note(&status);
    let content = html! { (heading(&asked)) (figures(&asked, &status, &histories).await?) };
    Ok(answer(&asked.name, &content))
}

fn answer(name: &str, content: &Markup) -> Response {
    let layout = Layout {
        title: name,
        trail: vec![
            ("Queues".to_owned(), Some(BOARD.to_owned())),
            (name.to_owned(), None),
        ],
        fills_window: false,
        has_rows: false,
    };
    page(StatusCode::OK, &layout, content)
}

fn heading(asked: &QueueAccess) -> Markup {
    let may_manage = asked.may(Right::Manage);
    html! {
        div.heading {
            h1 { (asked.name) }
            div.actions {
                a.button.without-script href=(href(&asked.name)) { "Refresh" }
                @if asked.may(Right::Send) { a.button.primary href=(asked.action("send")) { "Send a message" } }
                @if may_manage {
                    a.button href=(asked.action("redrive")) { "Redrive" }
                    a.button.danger href=(asked.action("purge")) { "Purge" }
                }
            }
        }
    }
}

/// Converts the parameter `done` to the message about the user's last action.
fn notice(done: &str) -> Option<String> {
    if let Some(count) = done.strip_prefix(REDRIVEN) {
        let (count, more) = match count.strip_suffix(MORE) {
            Some(count) => (count, " More messages remain: redrive again."),
            None => (count, ""),
        };
        let count = count.parse().ok()?;
        return Some(format!(
            "{} moved.{more}",
            counted(count, "message was", "messages were")
        ));
    }
    let said = match done {
        "sent" => "The message was sent.",
        "duplicate" => {
            "A message with this deduplication id was sent in the last five minutes. Nothing was sent now."
        }
        "removed" => "The message was removed.",
        "gone" => "The message does not exist any more, or is moving to another queue. Nothing was removed.",
        "purged" => "The queue was purged. Its earlier messages are not delivered again.",
        _ => return None,
    };
    Some(said.to_owned())
}

/// Returns the part of a queue's page that refreshes: rates, charts and numbers of messages.
async fn figures(
    asked: &QueueAccess,
    status: &QueueStatus,
    histories: &Histories,
) -> Result<Markup, Problem> {
    let history = histories.of(&asked.name);
    let dead_letters = dead_letters(asked, status).await?;
    Ok(html! {
        (follow(&asked.action("figures"), "figures"))
        section #figures aria-label="Numbers of messages" {
            dl.tiles {
                (tile("Messages", &html! { (depth(status)) (paused(status)) (chart::depth(&history)) }))
                (tile("In flight", &html! { (grouped(status.in_flight)) }))
                (tile("Delayed", &html! { (grouped(status.delayed)) }))
                (tile("Oldest", &age(status)))
                (tile("Dead letters", &dead_letters))
                (tile("Receivers waiting", &html! { (grouped(status.receivers_waiting)) }))
                @for flow in FLOWS { (tile(&format!("{} per second", flow.name()), &chart::rate(&history, flow))) }
            }
            p.dim.below { (since(status)) }
        }
    })
}

fn tile(name: &str, content: &Markup) -> Markup {
    html! { div { dt { (name) } dd { (content) } } }
}

async fn dead_letters(asked: &QueueAccess, status: &QueueStatus) -> Result<Markup, Problem> {
    let Some(to) = status.options.dead_letters.as_ref().and_then(Option::as_ref) else {
        return Ok(html! { span.dim { "–" } });
    };
    if !super::queue_access::may(&asked.access, &to.queue, Right::Read) {
        return Ok(html! { span.dim { "in " (to.queue) } });
    }
    let dead = match asked.queues()?.queue(&to.queue).await {
        Ok(dead) => dead,
        // Show the error in the field for dead letters: an error of the dead-letter queue must not
        // hide the page of this queue.
        Err(error) => {
            return Ok(html! {
                span.bad title=(error) { "not known" } " in " a id="dead-letters" href=(href(&to.queue)) { (to.queue) }
            });
        }
    };
    Ok(html! {
        span .bad[dead.messages > 0] { (depth(&dead)) } " " span.in { "in " a id="dead-letters" href=(href(&to.queue)) { (to.queue) } }
    })
}

/// Describes the counters of a queue since the server opened the store.
fn since(status: &QueueStatus) -> String {
    let totals = &status.totals;
    format!(
        "Since this server opened the store: {} sent, {} received, {} acknowledged, {} returned, {} \
         dead-lettered, {} expired, {} lost.",
        grouped(totals.sent),
        grouped(totals.received),
        grouped(totals.acked),
        grouped(totals.given_back),
        grouped(totals.dead_lettered),
        grouped(totals.expired),
        counted(totals.bodies_lost, "body", "bodies"),
    )
}

fn options(status: &QueueStatus) -> Markup {
    let options = &status.options;
    let dead_letters = options.dead_letters.as_ref().and_then(Option::as_ref);
    html! {
        dl.record {
            div { dt { "Visibility" } dd { (seconds(options.visibility_seconds.unwrap_or_default())) ", unless the receiver sets another" } }
            div { dt { "Delay" } dd {
                @match options.delay_seconds.unwrap_or_default() { 0 => "none", delay => (seconds(delay)) }
                ", unless the sender sets another"
            } }
            div { dt { "Retention" } dd {
                @match options.retention_seconds.flatten() { None => "until they are acknowledged", Some(kept) => { "for " (seconds(kept)) } }
            } }
            div { dt { "Dead letters" } dd {
                @match dead_letters {
                    None => "none: a message is delivered again until it is acknowledged",
                    Some(to) => {
                        "after " (counted(to.attempts.into(), "attempt", "attempts")) " to " a href=(href(&to.queue)) { (to.queue) }
                    },
                }
            } }
            div { dt { "Order" } dd {
                @if options.ordered == Some(true) { "by group: one message of a group at a time, in sending order" } @else { "not guaranteed" }
            } }
            div { dt { "Shards" } dd { (options.shards.unwrap_or(1)) } }
            div { dt { "Deduplication" } dd {
                @match options.deduplication { Some(DeduplicationScope::Group) => "by id, within a group", _ => "by id, within the queue" }
            } }
            div { dt { "Message size" } dd { "up to " (bytes(options.body_bytes.unwrap_or_default().into())) " of body and attributes" } }
            div { dt { "In flight" } dd { "up to " (counted(options.max_in_flight.unwrap_or_default().into(), "message", "messages")) } }
            div { dt { "Delivery" } dd {
                @if status.is_paused() { "paused: the queue accepts messages, but delivers none" } @else { "on" }
            } }
            div { dt { "Version" } dd { (status.version) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use recto::session::QueueTotals;

    use super::*;

    #[test]
    fn all_that_was_done_is_said() {
        let totals = QueueTotals {
            sent: 1_001,
            received: 1_002,
            acked: 1_003,
            given_back: 1_004,
            dead_lettered: 1_005,
            expired: 1_006,
            bodies_lost: 1,
        };
        let status = QueueStatus {
            totals,
            ..QueueStatus::default()
        };
        let said = "1,001 sent, 1,002 received, 1,003 acknowledged, 1,004 returned, 1,005 dead-lettered, \
                    1,006 expired, 1 body lost.";
        assert!(since(&status).ends_with(said), "{}", since(&status));
    }
}
