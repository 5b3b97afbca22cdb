//! Table of records on a page, with column headers that sort.

use maud::{Markup, html};
use recto::Direction;
use recto::schema::{Collection, Field};
use recto::session::{Explanation, JsonRecord, SortChoice};

use super::browse::Browse;
use super::layout::FIRST_ROW;
use super::value;

/// Returns the names of the fields in the order of their columns: sort fields, partition fields,
/// other key fields, and then the others in the schema's order.
pub(super) fn columns(collection: &Collection) -> Vec<&str> {
    let base = collection.base();
    let mut fields: Vec<&str> = base.fields().collect();
    // `fields` starts with the partition fields. Move them after the sort fields.
    fields.rotate_left(base.partition.len());
    let field = |name| collection.field(name).map(|(_, field)| field.name.as_str());
    let mut names: Vec<&str> = fields.into_iter().filter_map(field).collect();
    for name in &collection.key {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    for field in &collection.fields {
        if !names.contains(&field.name.as_str()) {
            names.push(&field.name);
        }
    }
    names
}

/// Returns the key of a record: one text per key field.
pub(super) fn key_of(collection: &Collection, record: &JsonRecord) -> Vec<String> {
    let key = collection.key.iter();
    key.map(|name| value::text(record.get(name)).unwrap_or_default())
        .collect()
}

pub(super) fn render(browse: &Browse<'_>, explanation: &Explanation, records: &[JsonRecord]) -> Markup {
    let collection = browse.collection;
    let chosen = &browse.url.fields;
    let shown: Vec<&str> = columns(collection)
        .into_iter()
        .filter(|name| chosen.is_empty() || chosen.iter().any(|field| field == name))
        .collect();
    html! {
        div.rows #rows role="region" aria-label=(format!("Records of {}", collection.name)) tabindex="0" {
            table {
                caption.unseen { (collection.name) ", sorted by " (explanation.order_text()) }
                thead { tr { @for name in &shown { (header(browse, explanation, name)) } } }
                tbody { @for (index, record) in records.iter().enumerate() { (row(browse, &shown, record, index == 0)) } }
            }
        }
    }
}

fn row(browse: &Browse<'_>, shown: &[&str], record: &JsonRecord, is_first: bool) -> Markup {
    let collection = browse.collection;
    let href = browse.url.record_href("record", &key_of(collection, record));
    html! {
        tr {
            @for (index, name) in shown.iter().enumerate() {
                @if let Some((_, field)) = collection.field(name) {
                    td class=[classes(collection, field)] {
                        @if index == 0 {
                            a.row id=[is_first.then_some(FIRST_ROW)] href=(href) { (value::cell(&field.ty, record.get(*name))) }
                        } @else {
                            (value::cell(&field.ty, record.get(*name)))
                        }
                    }
                }
            }
        }
    }
}

/// Returns the header of a column, which is a link that sorts by the column. If no view serves the
/// sort order, the link leads to an error that suggests a view.
fn header(browse: &Browse<'_>, explanation: &Explanation, name: &str) -> Markup {
    let Some((index, field)) = browse.collection.field(name) else {
        return Markup::default();
    };
    let direction = direction(explanation, name);
    let first = explanation.order.first().is_some_and(|first| first.field == name);
    let next = if first && direction == Some(Direction::Ascending) {
        format!("{name} desc")
    } else {
        name.to_owned()
    };
    let sort = browse.options.get(index).map(|options| &options.sort);
    let (aria, arrow) = match direction {
        None => (None, None),
        Some(Direction::Ascending) => (Some("ascending"), Some("↑")),
        Some(Direction::Descending) => (Some("descending"), Some("↓")),
    };
    let aria_sort = aria.filter(|_| first);
    html! {
        th scope="col" class=[classes(browse.collection, field)] aria-sort=[aria_sort] {
            @match sort {
                Some(SortChoice::Served) => {
                    a.sort href=(browse.url.with_order(next).href()) title=(format!("Sort by {name}")) { (name) }
                }
                Some(SortChoice::Unserved) => {
                    a.unserved href=(browse.url.with_order(next).href_from(browse.url))
                        title=(format!("No view sorts by {name}: click for a view that would")) {
                        (name) span.unseen { ", no view sorts by it" }
                    }
                }
                _ => { span { (name) } }
            }
            @if let Some(arrow) = arrow { span.arrow .first[first] aria-hidden="true" { (arrow) } }
            span.type { (value::type_label(&field.ty)) }
        }
    }
}

/// Returns the CSS classes of a column. Numbers are aligned to the right, and required fields stay
/// visible when the table is scrolled.
fn classes(collection: &Collection, field: &Field) -> Option<&'static str> {
    match (field.ty.is_number(), collection.is_required(&field.name)) {
        (true, true) => Some("number key"),
        (true, false) => Some("number"),
        (false, true) => Some("key"),
        (false, false) => None,
    }
}

/// Returns the direction in which the query sorts a field; `None` if it does not sort by the field.
fn direction(explanation: &Explanation, name: &str) -> Option<Direction> {
    let column = explanation.order.iter().find(|column| column.field == name)?;
    Some(column.direction)
}
