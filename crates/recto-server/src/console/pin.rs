//! Form to choose a partition, for collections whose rows have an order only within a partition.

use std::time::Duration;

use futures::StreamExt;
use maud::{Markup, html};
use recto::Session;
use recto::schema::{Collection, Field};
use recto::session::JsonRecord;
use serde_json::Value as Json;

use super::browse::{Browse, VALUE_PREFIX};
use super::controls::{action, hidden};
use super::filter::{Chip, Operator, chips, condition, typed as typed_of, with};
use super::layout::sentence;
use super::page_url::{PageUrl, Parameters, first};
use super::refused::serving;
use super::text::grouped;
use super::value::{self, Control};

/// Parameter of a form that only searches for partitions by the typed text, and does not choose
/// one.
pub(super) const FIND: &str = "find";

/// Maximum number of partitions that a search reads.
const MAX_PARTITIONS_READ: usize = 10_000;
/// Maximum time for which a search reads partitions. Then the search continues with the partitions
/// read so far.
const MAX_READ_TIME: Duration = Duration::from_secs(2);
/// Maximum number of partitions that the list shows.
const MAX_PARTITIONS_SHOWN: usize = 500;

/// Partition fields whose values the user must choose, with the text typed so far.
pub(super) struct PartitionForm<'a> {
    fields: Vec<(&'a Field, &'a str)>,
    /// Partition fields that the filter already fixes, with their values. An empty list means that
    /// the values are unknown.
    pinned: Vec<(&'a str, Vec<Json>)>,
}

impl<'a> PartitionForm<'a> {
    pub(super) fn new(browse: &Browse<'a>, missing: &[&'a Field], parameters: &'a Parameters) -> Self {
        let typed = |field: &Field| first(parameters, &format!("{VALUE_PREFIX}{}", field.name));
        let fields = missing
            .iter()
            .map(|&field| (field, typed(field).unwrap_or_default()));
        let pinned = browse.collection.base().partition.iter();
        let pinned = pinned.filter(|name| missing.iter().all(|field| field.name != **name));
        let held = |name: &str| {
            let pins = [Operator::Equal, Operator::OneOf].map(|operator| Some((name, operator)));
            let chips = browse.chips.iter().flatten();
            let values = chips
                .filter(|chip| pins.contains(&chip.asks()))
                .flat_map(Chip::values);
            let ty = browse.collection.field(name).map(|(_, field)| &field.ty);
            let json = |value| Some(value::json(ty?, &typed_of(value)));
            values.filter_map(json).collect()
        };
        Self {
            fields: fields.collect(),
            pinned: pinned.map(|name| (name.as_str(), held(name))).collect(),
        }
    }

    /// Returns whether all fields are partition fields of the collection itself. Partitions of a
    /// view cannot be listed.
    fn is_of_base(&self, collection: &Collection) -> bool {
        let partition = collection.base().partition;
        self.fields
            .iter()
            .all(|(field, _)| partition.contains(&field.name))
    }

    /// Returns whether a partition has the fixed values, and its other values contain the typed
    /// texts.
    fn admits(&self, partition: &JsonRecord) -> bool {
        let text = |name: &str| value::text(partition.get(name)).unwrap_or_default();
        let is_pinned = self.pinned.iter().all(|(name, values)| {
            let value = partition.get(*name);
            values.is_empty() || value.is_some_and(|value| values.contains(value))
        });
        let is_typed = |(field, typed): &(&Field, &str)| {
            let shown = value::short(&field.ty, &text(&field.name)).to_lowercase();
            shown.contains(&typed.trim().to_lowercase())
        };
        is_pinned && self.fields.iter().all(is_typed)
    }
}

/// Result of a search for partitions.
#[derive(Default)]
pub(super) struct Listed {
    /// Matching partitions in order, each as one text per partition field.
    found: Vec<Vec<String>>,
    read: usize,
    /// True if the search did not read all partitions.
    more: bool,
    /// Reason why the partitions could not be read; `None` if they were.
    failed: Option<String>,
}

/// Searches for partitions that match the typed text, within limits of number and time.
pub(super) async fn list(
    session: &dyn Session,
    collection: &Collection,
    asked: &PartitionForm<'_>,
) -> Listed {
    let mut listed = Listed::default();
    if !asked.is_of_base(collection) {
        return listed;
    }
    let reading = async {
        let mut steps = session.partitions(&collection.name);
        while let Some(step) = steps.next().await {
            match step {
                Ok(partitions) => listed.take(collection, asked, &partitions),
                Err(error) => {
                    // Show the error next to the form instead of failing, because the form works
                    // without the list.
                    listed.failed = Some(sentence(error.message()));
                    return;
                }
            }
            if listed.read >= MAX_PARTITIONS_READ {
                listed.more = true;
                return;
            }
        }
    };
    let is_late = tokio::time::timeout(MAX_READ_TIME, reading).await.is_err();
    listed.more |= is_late;
    // Sort as people expect: whole numbers by value, other values as text.
    let place = |text: &String| (text.parse::<i128>().ok(), text.clone());
    listed
        .found
        .sort_by_cached_key(|partition| partition.iter().map(place).collect::<Vec<_>>());
    listed
}

impl Listed {
    fn take(&mut self, collection: &Collection, asked: &PartitionForm<'_>, partitions: &[JsonRecord]) {
        self.read += partitions.len();
        for partition in partitions.iter().filter(|one| asked.admits(one)) {
            let names = collection.base().partition.iter();
            let texts = names.map(|name| value::text(partition.get(name)).unwrap_or_default());
            self.found.push(texts.collect());
        }
    }

    /// Describes how many partitions the list shows, and whether more exist.
    fn summary(&self) -> String {
        let shown = self.found.len().min(MAX_PARTITIONS_SHOWN);
        let count = |count: usize| grouped(count as u64);
        let of = if self.found.len() == self.read {
            ""
        } else {
            " that match"
        };
        let mut text = match (shown, self.found.len()) {
            (0, _) => "No matches".to_owned(),
            (1, 1) if of.is_empty() => "One".to_owned(),
            (1, 1) => "One match".to_owned(),
            (_, all) if shown == all && self.more => format!("{}{of}", count(all)),
            (_, all) if shown == all => format!("All {}{of}", count(all)),
            (_, all) => format!("The first {} of {}{of}", count(shown), count(all)),
        };
        if self.more {
            text.push_str(&format!(", out of {} that were read", count(self.read)));
        }
        text
    }
}

/// Returns the form that asks for a partition, with a list of partitions to choose.
pub(super) fn render(
    browse: &Browse<'_>,
    asked: &PartitionForm<'_>,
    listed: &Listed,
    served_by: &[PageUrl],
) -> Markup {
    let collection = browse.collection;
    let is_of_base = asked.is_of_base(collection);
    let all = collection.base().partition.join(" and ");
    let missing: Vec<&str> = asked
        .fields
        .iter()
        .map(|(field, _)| field.name.as_str())
        .collect();
    html! {
        section.pin aria-labelledby="pin-title" {
            h2 #pin-title { "Which " (missing.join(" and ")) "?" }
            p.dim {
                @if is_of_base { "Records of " b { (collection.name) } " are kept in order within each " (all) }
                @else { "A view of " b { (collection.name) } " keeps its records in order within each " (missing.join(" and ")) }
                ". Choose one to show its pages."
            }
            (serving(served_by))
            form #pin-form method="get" action=(action(browse.url)) {
                (hidden(browse, &["filter"]))
                input type="hidden" name="filter" value=(browse.url.filter);
                @for (field, typed) in &asked.fields {
                    @let id = format!("pin-{}", field.name);
                    div.field {
                        label for=(id) { (field.name) span.type { (field.ty) } }
                        (Control {
                            name: &format!("{VALUE_PREFIX}{}", field.name),
                            id: &id,
                            ty: &field.ty,
                            value: typed,
                            required: true,
                            none: "any",
                            invalid: false,
                        }.render())
                    }
                }
                button.primary type="submit" { "Look" }
                button.without-script type="submit" name=(FIND) value="true" formnovalidate { "Find" }
            }
            @if is_of_base { (offered(browse, asked, listed)) }
        }
    }
}

/// Returns the list of partitions, which the browser updates while the user types. The element that
/// requests the update is beside the list. Around the list, htmx would add its `hx-vals` to the
/// request of every link.
fn offered(browse: &Browse<'_>, asked: &PartitionForm<'_>, listed: &Listed) -> Markup {
    html! {
        div hx-get=(action(browse.url)) hx-trigger="input delay:150ms from:#pin-form" hx-include="#pin-form"
            hx-vals=(format!("{{\"{FIND}\":\"true\"}}")) hx-target="#partitions" hx-select="#partitions" hx-swap="outerHTML"
            hx-push-url="false" hx-sync="this:replace" {}
        div #partitions {
            @if let Some(reason) = &listed.failed {
                p.dim { (reason) }
            } @else if listed.read == 0 {
                p.dim { "The collection has no records yet." }
            } @else {
                h3 { (listed.summary()) }
                ul.examples {
                    @for partition in listed.found.iter().take(MAX_PARTITIONS_SHOWN) { li { (link(browse, partition)) } }
                }
                @if listed.more {
                    p.dim { "There are more values. To open a value that is not shown, enter it." }
                } @else if listed.found.len() > MAX_PARTITIONS_SHOWN {
                    p.dim { "Enter more of " (asked.fields.first().map_or("it", |(field, _)| field.name.as_str())) " to see other values." }
                }
            }
        }
    }
}

/// Returns a link to the first page of a partition, with the current conditions of the filter.
fn link(browse: &Browse<'_>, partition: &[String]) -> Markup {
    let mut filter = browse.url.filter.clone();
    let mut shown = Vec::with_capacity(partition.len());
    for (name, text) in browse.collection.base().partition.iter().zip(partition) {
        let Some((_, field)) = browse.collection.field(name) else {
            continue;
        };
        let held = chips(&filter).unwrap_or_default();
        filter = with(
            &held,
            name,
            Operator::Equal,
            &condition(field, Operator::Equal, text),
        );
        shown.push(if text.is_empty() {
            "\"\"".to_owned()
        } else {
            value::short(&field.ty, text)
        });
    }
    html! { a href=(browse.url.with_filter(filter).href()) { (shown.join(" · ")) } }
}
