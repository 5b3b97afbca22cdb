//! Where a collection has an order within each partition only: which partition to look at.

use std::collections::BTreeSet;

use futures::StreamExt;
use maud::{Markup, html};
use recto::Session;
use recto::schema::{Collection, Field};
use recto::session::ScanRequest;

use super::browse::{Browse, VALUE_PREFIX};
use super::controls::{action, hidden};
use super::filter::{Operator, condition, joined};
use super::page_url::PageUrl;
use super::value::{self, Control};

/// Steps of a scan that are looked at for examples.
const SAMPLED_STEPS: usize = 8;
/// The most examples.
const MAX_EXAMPLES: usize = 12;

/// Partitions there are: some that a few steps of a scan come upon, in no order that matters.
pub(super) async fn examples(session: &dyn Session, collection: &Collection) -> Vec<Vec<String>> {
    let request = ScanRequest {
        fields: collection.partition.clone(),
        parallel: SAMPLED_STEPS as u32,
        ..ScanRequest::default()
    };
    let mut found = BTreeSet::new();
    let mut steps = session.scan(&collection.name, &request).take(SAMPLED_STEPS);
    // Examples are a courtesy: without them the form still asks.
    while let Some(Ok(step)) = steps.next().await {
        for record in step.records {
            let values = collection.partition.iter();
            found.insert(
                values
                    .map(|name| value::text(record.get(name)).unwrap_or_default())
                    .collect::<Vec<_>>(),
            );
        }
    }
    let every = found.len().div_ceil(MAX_EXAMPLES).max(1);
    found.into_iter().step_by(every).collect()
}

/// Asks for the partition's values.
pub(super) fn render(browse: &Browse<'_>, missing: &[&Field], examples: &[Vec<String>]) -> Markup {
    let collection = browse.collection;
    let names = collection.partition.join(" and ");
    html! {
        section.pin aria-labelledby="pin-title" {
            h2 #pin-title { "Which " (names) "?" }
            p.dim {
                "Records of " b { (collection.name) } " are kept in order within each " (names)
                ". Choose one to look at its pages."
            }
            form method="get" action=(action(browse.url)) {
                (hidden(browse.url, &["filter"]))
                input type="hidden" name="filter" value=(browse.url.filter);
                @for field in missing {
                    @let id = format!("pin-{}", field.name);
                    div.field {
                        label for=(id) { (field.name) span.type { (field.ty) } }
                        (Control {
                            name: &format!("{VALUE_PREFIX}{}", field.name),
                            id: &id,
                            ty: &field.ty,
                            value: "",
                            required: true,
                            none: "any",
                            invalid: false,
                        }.render())
                    }
                }
                button.primary type="submit" { "Look" }
            }
            @if !examples.is_empty() {
                h3 { "For example" }
                ul.examples { @for example in examples { li { (example_link(browse, example)) } } }
            }
        }
    }
}

fn example_link(browse: &Browse<'_>, values: &[String]) -> Markup {
    let fields = browse.collection.partition.iter();
    let fields = fields.filter_map(|name| browse.collection.field(name).map(|(_, field)| field));
    let conditions: Vec<String> = fields
        .zip(values)
        .map(|(field, value)| condition(field, Operator::Equal, value))
        .collect();
    let page = PageUrl {
        filter: joined(conditions.iter().map(String::as_str)),
        ..browse.url.first_page()
    };
    html! { a href=(page.href()) { (values.join(" · ")) } }
}
