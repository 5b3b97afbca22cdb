//! `GET /access`: a page with the user's token and its rights. `GET /sign-out`: signs the user out.

use axum::Extension;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};

use super::layout::{Layout, page};
use crate::access::{Access, EVERY_COLLECTION, EVERY_QUEUE, Grant, Right};

/// Handles `GET /access`: shows the name, the id and the rights of the user's token.
pub(super) async fn get(Extension(access): Extension<Access>) -> Response {
    let content = html! {
        div.heading {
            div {
                h1 { @if access.token_id.is_some() { "Signed in as " (access.name) } @else { "Open access" } }
                p.sort_order {
                    @match &access.token_id {
                        Some(id) => { "with the token " b { (id) } ", as " code { "recto token" } " shows it" },
                        None => "This server has no tokens: anyone who reaches it has all rights.",
                    }
                }
            }
            @if access.token_id.is_some() {
                div.actions { a.button href="/sign-out" hx-boost="false" { "Sign out" } }
            }
        }
        (grants(&access))
    };
    page(StatusCode::OK, &layout("Access"), &content)
}

fn grants(access: &Access) -> Markup {
    let grants = access.grants();
    let store = Right::OF_STORE.into_iter();
    let store: Vec<Right> = store.filter(|right| access.allows_store(*right)).collect();
    if access.token_id.is_none() {
        return Markup::default();
    }
    html! {
        div.rows tabindex="0" role="region" aria-label="Rights of the token" {
            table {
                thead { tr { th scope="col" { "Collection" } th scope="col" { "May" } th scope="col" { "Records" } } }
                tbody {
                    @for (collection, grant) in grants { (row(collection, grant)) }
                    @for (queue, rights) in access.queue_grants() { (queue_row(queue, rights)) }
                    @if !store.is_empty() { tr { td { "the store" } td { (names(&store)) } td {} } }
                }
            }
        }
    }
}

fn row(collection: &str, grant: &Grant) -> Markup {
    html! {
        tr {
            td { @if collection == EVERY_COLLECTION { "all other collections" } @else { (collection) } }
            td { (names(&grant.rights)) }
            td { @if grant.rows.is_empty() { "all" } @else { "those where " code { (grant.rows) } } }
        }
    }
}

fn queue_row(queue: &str, rights: &[Right]) -> Markup {
    html! {
        tr {
            td { @if queue == EVERY_QUEUE { "all other queues" } @else { "the queue " (queue) } }
            td { (names(rights)) }
            td {}
        }
    }
}

fn names(rights: &[Right]) -> String {
    if rights.is_empty() {
        return "nothing".to_owned();
    }
    let names: Vec<&str> = rights.iter().map(|right| right.name()).collect();
    names.join(", ")
}

/// Handles `GET /sign-out`: replies with status 401, because a browser forgets a token only if the
/// server rejects it.
pub(super) async fn leave() -> Response {
    let content = html! {
        section.empty {
            h1 { "Signed out" }
            p { "Recto asked the browser to forget the token. Remove it there if you saved it." }
            p { a.button href="/" hx-boost="false" { "Sign in again" } }
        }
    };
    let mut answer = page(StatusCode::UNAUTHORIZED, &layout("Signed out"), &content);
    let challenge = header::HeaderValue::from_static("Basic realm=\"Recto\", charset=\"UTF-8\"");
    answer.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    answer.into_response()
}

fn layout(title: &'static str) -> Layout<'static> {
    Layout {
        title,
        trail: vec![(title.to_owned(), None)],
        fills_window: false,
        has_rows: false,
    }
}
