//! Top of a page of records: the collection's name, the order of the rows, and actions.

use maud::{Markup, html};
use recto::schema::{Collection, WriteMode};

use super::browse::Browse;
use super::text::counted;

pub(super) fn render(browse: &Browse<'_>) -> Markup {
    let url = browse.url;
    html! {
        div.heading {
            div {
                h1 { (browse.collection.name) }
                p.sort_order { (shown(browse)) }
            }
            div.actions {
                a.button href=(url.action("views")) { "Views" }
                // Offer no export of a query that no view serves: it would fail.
                @if browse.may.export && (browse.has_rows || !url.has_query()) {
                    a.button href=(url.export_href()) hx-boost="false" download=(format!("{}.ndjson", url.collection))
                        title="Export all rows of this query as NDJSON, not only this page" { "Export" }
                }
                @if browse.may.write {
                    a.button.primary href=(url.record_href("new", &[])) { "Add record" }
                }
            }
        }
    }
}

/// Describes the order of the rows on a page, which is that of the view that the page reads.
fn shown(browse: &Browse<'_>) -> Markup {
    let collection = browse.collection;
    let view = browse.view.as_deref().and_then(|name| collection.view(name));
    let Some(view) = view else {
        return sort_order(collection);
    };
    let order = collection.arranged(view).order;
    let order: Vec<String> = order.iter().map(ToString::to_string).collect();
    html! {
        "view " b { (view.name) } ", " (arranged(&view.partition, &order))
        (about(collection))
    }
}

/// Describes the sort order of a collection's own table.
pub(super) fn sort_order(collection: &Collection) -> Markup {
    let base = collection.base();
    let order: Vec<String> = base.order.iter().map(ToString::to_string).collect();
    html! {
        @if order.is_empty() { "key: " (names(base.partition)) } @else { (arranged(base.partition, &order)) }
        (about(collection))
    }
}

/// Describes the write mode of a collection, and its number of views.
fn about(collection: &Collection) -> Markup {
    html! {
        span.dim {
            " · " (writes(collection))
            @if !collection.views.is_empty() { " · " (counted(collection.views.len() as u64, "view", "views")) }
        }
    }
}

/// Describes partition fields and an order, such as `by carrier, sorted by day`.
pub(super) fn arranged(partition: &[String], order: &[String]) -> Markup {
    html! {
        @if partition.is_empty() { "one list" } @else { "by " (names(partition)) }
        @for (index, column) in order.iter().enumerate() {
            @if index == 0 { ", sorted by " } @else { ", " }
            @match column.strip_prefix('-') {
                Some(field) => { b { (field) } " ↓" span.unseen { " descending" } },
                None => b { (column) },
            }
        }
    }
}

fn names(fields: &[String]) -> Markup {
    html! { @for (index, name) in fields.iter().enumerate() { @if index > 0 { ", " } b { (name) } } }
}

fn writes(collection: &Collection) -> &'static str {
    if collection.attached.is_some() {
        return "read-only";
    }
    match collection.writes {
        WriteMode::Append => "append-only",
        WriteMode::Overwrite => "last writer wins",
        WriteMode::Update => "versioned",
    }
}
