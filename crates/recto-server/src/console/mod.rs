//! Pages for people: collections, their pages of records, records; queues.
//!
//! Every page is whole HTML from the server and works without a script; htmx only swaps its middle,
//! and `console.js` adds keys. Nothing is inline, so that a strict content security policy holds.
//!
//! | module | holds |
//! |---|---|
//! | `layout` | head and bar; errors as pages |
//! | `home` | the collections |
//! | `buckets` | the buckets that partitions are kept in, drawn |
//! | `views` | the views of a collection, with their states |
//! | `design` | which views its queries need |
//! | `health` | how the store is: views, and who writes them |
//! | `queues` | the queues, and what is done there |
//! | `browse` | a page of records, and what is shown where there is none |
//! | `heading`, `controls`, `table`, `plan` | its parts, from top to bottom |
//! | `pin` | asking for the partition |
//! | `export` | all rows of a query |
//! | `options` | what the planner says could be asked |
//! | `filter` | filter text as chips |
//! | `page_url` | which page, as an address |
//! | `subject`, `record`, `form` | one record: shown, added, changed, deleted |
//! | `value`, `text` | values, numbers and times as people read and type them |
//! | `refused` | what is said above the page one came from |
//! | `signed_in` | who asks, what they may do, signing out |
//! | `assets` | style sheet, scripts, icon |

mod assets;
mod browse;
mod buckets;
mod controls;
#[cfg(feature = "full")]
mod design;
#[cfg(not(feature = "full"))]
#[path = "no_design.rs"]
mod design;
mod export;
mod filter;
mod form;
mod heading;
mod health;
mod home;
mod layout;
mod options;
mod page_url;
mod pin;
mod plan;
mod queues;
mod record;
mod refused;
mod signed_in;
mod subject;
mod table;
mod text;
mod value;
mod views;

use axum::Router;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;

use crate::app::App;
use crate::problem::Problem;

pub(crate) use assets::href as asset;

pub(crate) fn routes() -> Router<App> {
    let record = "/collections/{collection}";
    Router::new()
        .route("/", get(home::get))
        .route(record, get(browse::get))
        .route("/health", get(health::get))
        .route(&format!("{record}/views"), get(views::get))
        .route(&format!("{record}/buckets"), get(buckets::get))
        .route(&format!("{record}/design"), get(design::get).post(design::ask))
        .route(&format!("{record}/export"), get(export::get))
        .route(&format!("{record}/record"), get(record::get))
        .route(&format!("{record}/new"), get(form::ask_new).post(form::new))
        .route(&format!("{record}/edit"), get(form::ask_edit).post(form::edit))
        .route(
            &format!("{record}/delete"),
            get(record::ask_delete).post(record::delete),
        )
        .route("/access", get(signed_in::get))
        .route("/sign-out", get(signed_in::leave))
        .merge(queues::routes())
        .layer(axum::middleware::from_fn(layout::note_who))
        .route("/assets/{name}", get(assets::get))
}

/// A problem as a page.
pub(crate) fn problem_page(problem: Problem) -> Response {
    layout::Failure::from(problem).into_response()
}
