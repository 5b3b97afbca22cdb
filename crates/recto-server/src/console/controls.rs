//! Controls of a page of records that change its query or its position: chips, filters, columns and
//! pager.

use maud::{Markup, html};
use recto::schema::{Collection, Field};
use recto::session::{Explanation, PageReply};
use recto::{DEFAULT_PAGE_SIZE, Direction};
use serde_json::Value as Json;

use super::browse::{Browse, JUMP, JUMP_DESCENDS, JUMP_FIELD, OPERATOR_PREFIX, SHARE, VALUE_PREFIX};
use super::count;
use super::filter::{Chip, Operator, typed, without};
use super::page_url::{PageUrl, WAS};
use super::refused::Place;
use super::table::columns;
use super::value::{self, Control};

/// Numbers of rows per page that the user can choose.
const PAGE_SIZES: [i64; 4] = [20, 50, 100, 500];

/// Returns the conditions of the query as chips, and the forms that change the query.
pub(super) fn query(browse: &Browse<'_>) -> Markup {
    html! {
        section.query aria-label="Query" {
            @if let Some(chips) = &browse.chips {
                @if !chips.is_empty() {
                    ul.chips aria-label="Conditions" {
                        @for (index, chip) in chips.iter().enumerate() { li { (chip_of(browse.url, chips, index, chip)) } }
                    }
                }
                (filter_panel(browse))
            }
            (filter_text(browse))
            (column_panel(browse))
            @if !browse.url.view.is_empty() {
                span.chip.filter_scan title="The view that the address names" {
                    span { span.dim { "view " } b { (browse.url.view) } }
                    a href=(browse.url.without_view().href()) aria-label="Let the server choose the view" { "×" }
                }
            }
            @if browse.url.allow_filter_scan {
                span.chip.filter_scan title="Conditions that no view serves are checked row by row" {
                    "row by row"
                    a href=(PageUrl { allow_filter_scan: false, ..browse.url.first_page() }.href())
                        aria-label="Do not check rows one by one" { "×" }
                }
            }
        }
    }
}

fn chip_of(url: &PageUrl, chips: &[Chip], index: usize, chip: &Chip) -> Markup {
    let remove = url.with_filter(without(chips, index)).href();
    html! {
        span.chip {
            span title=(chip.text) {
                @match (chip.asks(), chip.values()) {
                    (Some((field, operator)), [value]) => {
                        span.dim { (field) " " (operator.label()) } " "
                        b { (typed(value)) }
                    }
                    _ => (chip.text)
                }
            }
            a href=(remove) aria-label=(format!("Remove {}", chip.text)) { "×" }
        }
    }
}

fn filter_panel(browse: &Browse<'_>) -> Markup {
    let of = |index: usize| browse.collection.fields.get(index);
    let mut served = Vec::new();
    let mut others = Vec::new();
    for (index, options) in browse.options.iter().enumerate() {
        match of(index) {
            Some(field) if !options.operators.is_empty() => {
                served.push((field, options.operators.as_slice()));
            }
            Some(field) if field.ty.is_orderable() => others.push(field),
            _ => {}
        }
    }
    let place = |field: &Field| {
        columns(browse.collection)
            .iter()
            .position(|name| *name == field.name)
    };
    served.sort_by_key(|(field, _)| place(field));
    html! {
        details.pop name="pop" {
            summary #open-filter { "Filter" }
            form.panel method="get" action=(action(browse.url)) {
                (hidden(browse, &["filter"]))
                input type="hidden" name="filter" value=(browse.url.filter);
                @if served.is_empty() {
                    p.dim { "No view supports a further filter." }
                } @else {
                    p.dim { "Served by the view, at the cost of the page:" }
                }
                div.conditions { @for (field, operators) in &served { (condition_row(field, operators)) } }
                @if !others.is_empty() {
                    details.others {
                        summary { "Other fields: rows are read and checked one by one" }
                        div.conditions {
                            @for field in &others {
                                (condition_row(field, &row_by_row(browse.collection, field)))
                                input type="hidden" name=(format!("filter_scan.{}", field.name)) value="true";
                            }
                        }
                    }
                }
                div.panel-end { button.primary type="submit" { "Apply" } }
            }
        }
    }
}

/// Returns the operators of a field that Recto can check row by row (a filter scan), without a view
/// for them.
fn row_by_row(collection: &Collection, field: &Field) -> Vec<Operator> {
    let mut operators = vec![Operator::Equal, Operator::OneOf];
    operators.extend(Operator::RANGE);
    if field.ty.is_textual() && collection.collation_of(&field.name).is_none() {
        operators.push(Operator::StartsWith);
    }
    operators
}

fn condition_row(field: &Field, operators: &[Operator]) -> Markup {
    let id = format!("is-{}", field.name);
    let value = format!("{VALUE_PREFIX}{}", field.name);
    html! {
        label for=(id) { (field.name) span.type { (field.ty) } }
        select name=(format!("{OPERATOR_PREFIX}{}", field.name)) aria-label=(format!("Operator for {}", field.name)) {
            @for operator in operators { option value=(operator.name()) { (operator.label()) } }
        }
        // For an integer, `control_type` returns a text field. A number field would not accept a
        // list such as `1, 2`.
        (Control {
            name: &value,
            id: &id,
            ty: control_type(field),
            value: "",
            required: false,
            none: "any",
            invalid: false,
        }.render())
    }
}

/// Returns the type whose form control a field uses in filters. Integers use the text control of a
/// larger type: a number control would reject a list such as `1, 2`.
fn control_type(field: &Field) -> &recto::Type {
    use recto::Type;
    match field.ty {
        Type::TinyInt | Type::SmallInt | Type::Int => &Type::BigInt,
        ref other => other,
    }
}

fn filter_text(browse: &Browse<'_>) -> Markup {
    let refused = browse
        .refused
        .filter(|refused| refused.place == Some(Place::Filter));
    let failed = refused.is_some();
    let text = refused.map_or(&browse.url.filter, |refused| &refused.asked.filter);
    html! {
        // Show a rejected filter open and inline. A panel above the page would hide its error.
        details.pop.wide .inline[failed] name=[(!failed).then_some("pop")] open[failed] {
            summary { "As text" }
            form.panel method="get" action=(action(browse.url)) {
                (hidden(browse, &["filter"]))
                label for="filter-text" { "Filter text" }
                input #filter-text type="text" name="filter" value=(text) autocomplete="off" spellcheck="false"
                    autocapitalize="off" aria-invalid=[failed.then_some("true")]
                    placeholder="carrier = \"UA\" AND time_hour >= \"2013-07-01T00:00:00Z\"";
                p.dim { "AND joins conditions, OR equalities of one field; =, <, <=, >, >=, startsWith(field, \"a\")." }
                div.panel-end { button.primary type="submit" { "Apply" } }
            }
        }
    }
}

fn column_panel(browse: &Browse<'_>) -> Markup {
    let shown = &browse.url.fields;
    html! {
        details.pop name="pop" {
            summary { "Columns" }
            form.panel method="get" action=(action(browse.url)) {
                (hidden(browse, &["fields"]))
                fieldset.columns {
                    legend.dim { "Show" }
                    @for name in columns(browse.collection) {
                        label {
                            input type="checkbox" name="fields" value=(name)
                                checked[shown.is_empty() || shown.iter().any(|field| field == name)];
                            (name)
                        }
                    }
                }
                div.panel-end {
                    @if !shown.is_empty() {
                        a.button href=(PageUrl { fields: Vec::new(), ..browse.url.clone() }.href()) { "All" }
                    }
                    button.primary type="submit" { "Apply" }
                }
            }
        }
    }
}

/// Returns the links to other pages of the query, and the forms that jump to a position.
pub(super) fn pager(browse: &Browse<'_>, explanation: &Explanation, reply: &PageReply) -> Markup {
    let url = browse.url;
    let token = |token: &str| (!token.is_empty()).then(|| url.with_token(token).href());
    let more = !reply.next_page_token.is_empty();
    let less = !reply.previous_page_token.is_empty();
    html! {
        div.pager {
            nav.turn aria-label="Pages" {
                (turn("f", "First", None, less.then(|| url.first_page().href())))
                (turn("p", "← Previous", Some("prev"), token(&reply.previous_page_token)))
                (turn("n", "Next →", Some("next"), token(&reply.next_page_token)))
                (turn("l", "Last", None, more.then(|| url.last_page().href())))
            }
            (jump(browse, explanation))
            @if let Some(count) = &reply.row_count {
                (share(browse, explanation))
                span.place.dim { (count.in_words(reply.records.len())) }
            } @else {
                (count::render(url, reply))
            }
            nav.sizes aria-label="Rows per page" {
                span.dim aria-hidden="true" { "Rows" }
                @for size in PAGE_SIZES { (size_link(url, size)) }
            }
        }
    }
}

fn turn(key: &str, name: &str, relation: Option<&str>, href: Option<String>) -> Markup {
    html! {
        @match href {
            Some(href) => a #(format!("turn-{key}")) href=(href) rel=[relation] data-key=(key) { (name) },
            None => span #(format!("turn-{key}")) aria-disabled="true" { (name) },
        }
    }
}

fn jump(browse: &Browse<'_>, explanation: &Explanation) -> Markup {
    let url = browse.url;
    let Some(first) = explanation.order.first() else {
        return Markup::default();
    };
    let Some((_, field)) = browse.collection.field(&first.field) else {
        return Markup::default();
    };
    let descends = first.direction == Direction::Descending;
    let text = match browse.jumped {
        Some(typed) => typed.to_owned(),
        None => url
            .from
            .as_deref()
            .map_or_else(String::new, |from| gone_to(field, from)),
    };
    html! {
        form.jump method="get" action=(action(url)) role="search" aria-label="Jump to a value" {
            (hidden(browse, &["from", "page_token", "last", "around"]))
            input type="hidden" name=(JUMP_FIELD) value=(field.name);
            @if descends { input type="hidden" name=(JUMP_DESCENDS) value="true"; }
            label for="jump" { "Jump to " (field.name) }
            (Control {
                name: JUMP,
                id: "jump",
                ty: &field.ty,
                value: &text,
                required: false,
                none: "any",
                invalid: browse.jumped.is_some(),
            }.render())
            button type="submit" { "Jump" }
        }
    }
}

/// Returns the form that jumps to a share of all rows. Only queries of one partition have the form,
/// because the position of a share is known only there.
fn share(browse: &Browse<'_>, explanation: &Explanation) -> Markup {
    if explanation.sources.len() > 1 {
        return Markup::default();
    }
    let at = browse
        .url
        .around
        .as_deref()
        .and_then(|around| around.strip_suffix('%'));
    html! {
        form.jump method="get" action=(action(browse.url)) role="search" aria-label="Jump to a share of the rows" {
            (hidden(browse, &["from", "page_token", "last", "around"]))
            label for="share" { "Jump to %" }
            input #share type="number" name=(SHARE) min="0" max="100" step="any" required value=[at] placeholder="60 %";
            button type="submit" { "Jump" }
        }
    }
}

/// Formats the value at which a page starts, as a person would type it.
fn gone_to(field: &Field, from: &str) -> String {
    let values = serde_json::from_str::<Vec<Json>>(from).unwrap_or_default();
    let text = value::text(values.first());
    text.map_or_else(String::new, |text| value::brief(&field.ty, &text))
}

fn size_link(url: &PageUrl, size: i64) -> Markup {
    let current = url.page_size.unwrap_or(i64::from(DEFAULT_PAGE_SIZE)) == size;
    let href = PageUrl {
        page_size: Some(size),
        ..url.clone()
    }
    .href();
    html! {
        a href=(href) aria-current=[current.then_some("true")] { (size) span.unseen { " rows" } }
    }
}

/// Returns the address to which the forms of a page are sent.
pub(super) fn action(url: &PageUrl) -> String {
    PageUrl {
        collection: url.collection.clone(),
        ..PageUrl::default()
    }
    .href()
}

/// Returns hidden form fields with the parameters of the page, except the parameters in `but`,
/// which the form sets. The form leads to a first page. The field [`WAS`] lets the server show the
/// current page below an error.
pub(super) fn hidden(browse: &Browse<'_>, but: &[&str]) -> Markup {
    let parameters = browse.url.first_page().all_parameters();
    let parameters = parameters.iter().filter(|(name, _)| !but.contains(name));
    html! {
        @for (name, value) in parameters { input type="hidden" name=(name) value=(value); }
        @if browse.has_rows { input type="hidden" name=(WAS) value=(browse.url.query()); }
    }
}
