//! Pages for queues: a board of all, one with its oldest messages, and what can be done there.
//!
//! | module | holds |
//! |---|---|
//! | `board` | all queues beside each other |
//! | `queue` | one: how much is in it, what it is like |
//! | `units` | its work units |
//! | `tables` | the tables of message bodies |
//! | `messages` | its oldest messages, as they stand |
//! | `send` | sending a message |
//! | `removal` | taking out one message, or all |
//! | `redrive` | moving messages to another queue |
//! | `asked` | the queue that a page is about, and who asks |
//! | `history` | what queues were like a short while ago, from one look to the next |
//! | `chart` | that as a line |
//! | `words` | numbers and times of queues |

mod asked;
mod board;
mod chart;
mod history;
mod messages;
mod queue;
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

/// How often a page asks anew how much is in its queues.
const REFRESH: &str = "every 2s";
/// The address of the board.
pub(super) const BOARD: &str = "/queues";

/// Address of the page of tables. It is not below the board, where a queue may have any name.
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

/// Has a part of a page asked for anew all the time. It stands beside the part: links in there would go by what it says.
fn follow(href: &str, part: &str) -> Markup {
    let part = format!("#{part}");
    html! { div hx-get=(href) hx-trigger=(REFRESH) hx-select=(part) hx-target=(part) hx-swap="outerHTML" {} }
}
