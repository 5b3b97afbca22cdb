//! The top of a collection's page: what it is, and what can be done with it.

use maud::{Markup, html};
use recto::Direction;
use recto::schema::{Collection, WriteMode};

use super::browse::Browse;

pub(super) fn render(browse: &Browse<'_>) -> Markup {
    let url = browse.url;
    html! {
        div.heading {
            div {
                h1 { (browse.collection.name) }
                p.arrangement { (arrangement(browse.collection)) }
            }
            div.actions {
                @if browse.may.export {
                    a.button href=(url.export_href()) hx-boost="false" download=(format!("{}.ndjson", url.collection))
                        title="All rows of this query as NDJSON, not only this page" { "Export" }
                }
                @if browse.may.write {
                    a.button.primary href=(url.record_href("new", &[])) { "Add record" }
                }
            }
        }
    }
}

/// How a collection is arranged, in words.
pub(super) fn arrangement(collection: &Collection) -> Markup {
    let base = collection.base();
    html! {
        "by " @for (index, name) in base.partition.iter().enumerate() {
            @if index > 0 { ", " } b { (name) }
        }
        @for (index, column) in base.order.iter().enumerate() {
            @if index == 0 { ", sorted by " } @else { ", " }
            b { (column.field) }
            @if column.direction == Direction::Descending { " ↓" span.unseen { " descending" } }
        }
        span.dim { " · " (writes(collection.writes)) }
    }
}

fn writes(mode: WriteMode) -> &'static str {
    match mode {
        WriteMode::Append => "append only",
        WriteMode::Overwrite => "last writer wins",
        WriteMode::Update => "update",
    }
}
