//! `GET /queues`: the board, a table of all queues.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};
use recto::session::QueueStatus;
use recto::{Error, ErrorKind};

use super::super::layout::{Failure, Layout, page, sentence};
use super::super::page_url::{encoded, first, parameters};
use super::super::text::{counted, grouped};
use super::chart;
use super::history::{FLOWS, Histories, History};
use super::queue_access::{href, may};
use super::words::{age, depth, paused};
use super::{BOARD, TABLES, follow};
use crate::access::{Access, Right};
use crate::app::App;

/// Maximum number of queues on one page of the board.
const MAX_QUEUES_SHOWN: usize = 100;
/// Parameter with the name of the queue after which the board starts.
const AFTER: &str = "after";

/// Handles `GET /queues`: returns the board, which is a table of all queues.
pub(super) async fn get(
    State(app): State<App>,
    Extension(access): Extension<Access>,
    Extension(histories): Extension<Arc<Histories>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let session = Access::queue_session(app.session());
    let mut queues = match session.queues()?.queues().await {
        Ok(queues) => queues,
        Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(answer(&not_here(&error))),
        Err(error) => return Err(error.into()),
    };
    histories.note_all(&queues);
    queues.retain(|queue| may(&access, &queue.name, Right::Read));
    let asked = parameters(query.unwrap_or_default().as_bytes());
    let board = Board {
        queues: queues.iter().map(|queue| (queue.name.as_str(), queue)).collect(),
        histories: &histories,
        after: first(&asked, AFTER).unwrap_or_default(),
        sees_tables: access.allows_every_queue(Right::Read),
    };
    Ok(answer(&board.render()))
}

fn answer(content: &Markup) -> Response {
    let layout = Layout {
        title: "Queues",
        trail: vec![("Queues".to_owned(), None)],
        fills_window: false,
        has_rows: false,
    };
    page(StatusCode::OK, &layout, content)
}

/// Returns the message that replaces the board if the store has no queues.
fn not_here(error: &Error) -> Markup {
    html! {
        section.empty {
            h1 { "No queues here" }
            p { (sentence(error.message())) }
            @if let Some(hint) = error.hint() { p { (sentence(hint)) } }
        }
    }
}

/// Data of the board: the queues that the token may read, and their recent histories.
struct Board<'a> {
    queues: BTreeMap<&'a str, &'a QueueStatus>,
    histories: &'a Histories,
    /// Name of the queue after which the board's page starts; empty for the first page.
    after: &'a str,
    /// True if the token may read the page about the tables of message bodies.
    sees_tables: bool,
}

impl Board<'_> {
    fn render(&self) -> Markup {
        let messages = self.queues.values().map(|queue| queue.messages).sum();
        html! {
            div.heading {
                div {
                    h1 { "Queues" }
                    p.sort_order {
                        (counted(self.queues.len() as u64, "queue", "queues")) ", "
                        (counted(messages, "message", "messages")) " at the time of this page"
                    }
                }
                div.actions {
                    a.button.without-script href=(board_href(self.after)) { "Refresh" }
                    @if self.sees_tables { a.button href=(TABLES) { "Queue tables" } }
                }
            }
            @if self.queues.is_empty() {
                section.empty {
                    h2 { "No queues" }
                    p { "The store has no queue that you can see. " code { "recto queue create NAME" } " creates a queue." }
                }
            } @else {
                (self.table())
                p.dim.below { "The rates count requests to this server between two refreshes. The lines show the last two minutes." }
            }
        }
    }

    fn table(&self) -> Markup {
        let rest = || {
            self.queues
                .range::<str, _>((std::ops::Bound::Excluded(self.after), std::ops::Bound::Unbounded))
        };
        let last = rest().nth(MAX_QUEUES_SHOWN - 1).map(|(name, _)| *name);
        let has_more = rest().nth(MAX_QUEUES_SHOWN).is_some();
        html! {
            (follow(&board_href(self.after), "queues"))
            div.rows.board tabindex="0" role="region" aria-label="Queues" {
                table #queues {
                    thead {
                        tr {
                            th scope="col" { "Queue" }
                            @for number in ["Messages", "In flight", "Delayed", "Oldest", "Dead letters"] { th.number scope="col" { (number) } }
                            @for flow in FLOWS { th scope="col" { (flow.name()) span.type { "per second" } } }
                        }
                    }
                    tbody { @for (_, queue) in rest().take(MAX_QUEUES_SHOWN) { (self.row(queue)) } }
                }
            }
            @if !self.after.is_empty() || has_more {
                p.ways {
                    @if !self.after.is_empty() { a.button data-key="f" href=(BOARD) { "First" } }
                    @if let Some(last) = last.filter(|_| has_more) { a.button data-key="n" href=(board_href(last)) { "Next" } }
                }
            }
        }
    }

    fn row(&self, queue: &QueueStatus) -> Markup {
        html! {
            tr {
                td { a.row id=(format!("queue-{}", queue.name)) href=(href(&queue.name)) { (queue.name) } (paused(queue)) }
                td.number { (depth(queue)) }
                td.number { (grouped(queue.in_flight)) }
                td.number { (grouped(queue.delayed)) }
                td.number { (age(queue)) }
                td.number { (self.dead_letters(queue)) }
                (rates(&self.histories.of(&queue.name)))
            }
        }
    }

    /// Returns the number of messages in a queue's dead-letter queue. If the token may not read
    /// that queue, returns only its name.
    fn dead_letters(&self, queue: &QueueStatus) -> Markup {
        let to = queue.options.dead_letters.as_ref().and_then(Option::as_ref);
        html! {
            @match to.map(|to| (to, self.queues.get(to.queue.as_str()))) {
                None => span.dim { "–" },
                Some((to, None)) => span.dim { (to.queue) },
                Some((to, Some(dead))) => {
                    a .bad[dead.messages > 0] href=(href(&to.queue)) title=(format!("in {}", to.queue)) {
                        (depth(dead)) span.unseen { " in " (to.queue) }
                    }
                },
            }
        }
    }
}

/// Returns the address of the board's page that starts after a queue, or of the first page if the
/// name is empty.
fn board_href(after: &str) -> String {
    if after.is_empty() {
        return BOARD.to_owned();
    }
    format!("{BOARD}?{}", encoded(&[(AFTER, after.to_owned())]))
}

/// Returns table cells with the rates of sent, received and acknowledged messages.
fn rates(history: &History) -> Markup {
    html! { @for flow in FLOWS { td { (chart::rate(history, flow)) } } }
}
