//! `GET /`: a page with the list of collections.

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};
use recto::Session as _;
use recto::schema::Collection;
use recto::session::UnavailableCollection;

use super::heading::sort_order;
use super::layout::{Failure, Layout, page};
use super::page_url::PageUrl;
use super::queues::BOARD;
use super::table::columns;
use super::text::counted;
use crate::access::{Access, Right};
use crate::app::App;

/// Maximum number of field names in a collection's entry of the list.
const MAX_FIELDS_NAMED: usize = 24;

/// Handles `GET /`: shows the list of collections.
pub(super) async fn get(
    State(app): State<App>,
    Extension(access): Extension<Access>,
) -> Result<Response, Failure> {
    let schema = app.session().schema().await?;
    let store = app.session().describe().await?;
    let seen = schema.collections.iter();
    let seen: Vec<&Collection> = seen
        .map(|collection| &**collection)
        .filter(|collection| access.allows(&collection.name, Right::Read))
        .collect();
    let content = html! {
        div.heading {
            div {
                h1 { "Collections" }
                p.sort_order {
                    (counted(seen.len() as u64, "collection", "collections"))
                    // Show the store's path only to operators, because it is a path on the server.
                    @if access.reads_everything() || access.operates_store() { " in " b { (store.store) } }
                }
            }
            div.actions {
                @if access.allows_some_queue(Right::Read) { a.button href=(BOARD) { "Queues" } }
                @if access.reads_everything() { a.button href="/health" { "Health" } }
            }
        }
        @if seen.is_empty() {
            section.empty {
                h2 { "No collections" }
                p { "The store has no collection that you can read. " code { "recto init" }
                    " writes an example schema, " code { "recto apply" } " creates its collections." }
            }
        } @else {
            ul.collections { @for collection in seen { li { (entry(collection, store.unavailability(&collection.name))) } } }
        }
    };
    let layout = Layout {
        title: "Collections",
        trail: Vec::new(),
        fills_window: false,
        has_rows: false,
    };
    Ok(page(StatusCode::OK, &layout, &content))
}

fn entry(collection: &Collection, refused: Option<&UnavailableCollection>) -> Markup {
    let url = PageUrl {
        collection: collection.name.clone(),
        ..PageUrl::default()
    };
    let names = columns(collection);
    let more = names.len().saturating_sub(MAX_FIELDS_NAMED);
    html! {
        h2 { a.row href=(url.href()) { (collection.name) } }
        p.sort_order { (sort_order(collection)) }
        @if let Some(refused) = refused { p.notice.stopped { (refused.message) ". " (refused.hint) } }
        p.fields {
            @for name in names.iter().take(MAX_FIELDS_NAMED) {
                @let key = collection.is_required(name);
                span class=[key.then_some("key")] title=[collection.field(name).map(|(_, field)| field.ty.to_string())] { (name) } " "
            }
            @if more > 0 { "and " (more) " more" }
        }
    }
}
