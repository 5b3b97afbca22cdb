//! Pages for people: collections, pages of records, single records, and queues.
//!
//! Every page is complete HTML from the server and works without a script. htmx only replaces its middle part, and
//! `console.js` adds keyboard shortcuts. No script or style is inline, so a strict content security policy holds.
//!
//! | module | holds |
//! |---|---|
//! | `layout` | head and bar; errors as pages |
//! | `home` | list of collections |
//! | `buckets` | drawing of the buckets of a partition |
//! | `views` | views of a collection, with their states |
//! | `design` | views that a collection needs for its queries |
//! | `health` | state of the store: views and writers |
//! | `queues` | queues and their actions |
//! | `browse` | page of records, or the reason why there is none |
//! | `heading`, `controls`, `table`, `plan` | parts of a page of records, from top to bottom |
//! | `count` | number of rows of a query |
//! | `pin` | form that asks for the partition |
//! | `export` | all rows of a query |
//! | `options` | further conditions and sorts that the planner allows |
//! | `filter` | filter text as chips |
//! | `page_url` | address of a page |
//! | `subject`, `record`, `form` | one record: display, insert, change, delete |
//! | `value`, `text` | values, numbers and times as text for people |
//! | `refused` | error above the previous page |
//! | `signed_in` | token of the user, its rights, and sign-out |
//! | `assets` | style sheet, scripts, icon |

mod assets;
mod browse;
mod buckets;
mod controls;
mod count;
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
        .route(&format!("{record}/count"), get(count::get))
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

/// Returns an error page that describes a problem.
pub(crate) fn problem_page(problem: Problem) -> Response {
    layout::Failure::from(problem).into_response()
}
