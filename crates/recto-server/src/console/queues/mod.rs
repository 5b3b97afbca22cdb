//! Pages of queues: a board of all queues, the page of a queue with its oldest messages, and actions.
//!
//! | module | holds |
//! |---|---|
//! | `board` | table of all queues |
//! | `queue` | page of a queue: figures and options |
//! | `units` | work units of a queue |
//! | `tables` | tables of message bodies |
//! | `messages` | oldest messages of a queue |
//! | `send` | form to send a message |
//! | `removal` | removal of one message, or of all |
//! | `redrive` | transfer of messages to another queue |
//! | `queue_access` | queue of a page, and the access of the user |
//! | `history` | recent history of queues |
//! | `chart` | chart of a history |
//! | `words` | numbers and times of queues |

mod board;
mod chart;
mod history;
mod messages;
mod queue;
mod queue_access;
mod redrive;
mod removal;
mod send;
mod tables;
mod units;
mod words;

use std::sync::Arc;

use axum::routing::get;
use axum::{Extension, Router};
use maud::{Markup, html};

use crate::app::App;
use history::Histories;

/// Interval at which a page refreshes the figures of its queues.
const REFRESH: &str = "every 2s";
/// Address of the board, the table of all queues.
pub(super) const BOARD: &str = "/queues";

/// Address of the page about the tables of message bodies. Below [`BOARD`] it could be the name of
/// a queue.
const TABLES: &str = "/queue-tables";

pub(super) fn routes() -> Router<App> {
    let of_queue = |action: &str| format!("{BOARD}/{{queue}}{action}");
    Router::new()
        .route(BOARD, get(board::get))
        .route(TABLES, get(tables::get))
        .route(&of_queue(""), get(queue::get))
        .route(&of_queue("/figures"), get(queue::get_figures))
        .route(&of_queue("/send"), get(send::ask).post(send::send))
        .route(&of_queue("/redrive"), get(redrive::ask).post(redrive::redrive))
        .route(
            &of_queue("/remove"),
            get(removal::ask_remove).post(removal::remove),
        )
        .route(&of_queue("/purge"), get(removal::ask_purge).post(removal::purge))
        .layer(Extension(Arc::new(Histories::default())))
}

/// Returns an element that regularly refreshes a part of a page. It is beside the part, because
/// links inside an element would inherit its htmx attributes.
fn follow(href: &str, part: &str) -> Markup {
    let part = format!("#{part}");
    html! { div hx-get=(href) hx-trigger=(REFRESH) hx-select=(part) hx-target=(part) hx-swap="outerHTML" {} }
}
