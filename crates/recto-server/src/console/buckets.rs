//! `GET /collections/{collection}/buckets`: a drawing of the buckets (ranges) of a partition, with
//! their target size. Each bucket links to the page of records that starts at its first row.
//! Without a partition, the page lists the partitions that have buckets.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};
use recto::Session;
use recto::schema::Collection;
use recto::session::{
    BucketFigures, BucketList, BucketPartition, BucketPartitions, BucketStatus, BucketTarget, BucketsRequest,
    Explanation, JsonRecord, PageReply,
};
use recto::text::bytes;
use serde_json::Value as Json;

use super::layout::{Failure, Layout, page};
use super::page_url::{PageUrl, Parameters, encoded, first, parameters};
use super::text::{counted, grouped};
use crate::access::{Access, Right};
use crate::app::App;
use crate::problem::Problem;

/// Parameter that is set if the page of records named its view. Without it, the server chose the
/// view.
const NAMED: &str = "named";
/// Maximum number of buckets that one drawing shows.
const MAX_DRAWN: i64 = 64;
/// Width of a bucket with its gap in the drawing. The unit is arbitrary, because style sheets scale
/// the drawing.
const SLOT_WIDTH: f64 = 10.0;
const BAR_WIDTH: f64 = 8.0;
const HEIGHT: f64 = 100.0;
/// Minimum height in the drawing of a bucket that has rows.
const MIN_HEIGHT: f64 = 2.0;
/// Height of the target's line in the drawing, if no bucket is larger than the target.
const TARGET_HEIGHT: f64 = 80.0;

/// Handles `GET /collections/{collection}/buckets`: shows a drawing of a partition's buckets.
pub(super) async fn get(
    State(app): State<App>,
    Extension(access): Extension<Access>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    access.check_reads_all_of(&name, Right::Read)?;
    let session = access.session_over(app.session(), [])?;
    let schema = session.schema().await?;
    let collection = schema
        .collection(&name)
        .ok_or_else(|| Problem::no_collection(&name))?;
    let parameters = parameters(query.unwrap_or_default().as_bytes());
    let asked = BucketsPageRequest::new(collection, &parameters)?;
    let content = asked.render(&session).await?;
    let layout = Layout {
        title: "Buckets",
        trail: vec![(name, Some(asked.url.href())), ("Buckets".to_owned(), None)],
        fills_window: false,
        has_rows: false,
    };
    Ok(page(StatusCode::OK, &layout, &content))
}

/// Returns a link from a page of records to the drawing of its buckets. Returns nothing unless the
/// page reads one partition that has buckets.
pub(super) fn link(
    collection: &Collection,
    url: &PageUrl,
    explanation: &Explanation,
    reply: &PageReply,
) -> Markup {
    let sort_orders = collection.sort_orders();
    let arranged = sort_orders.iter().find(|one| one.name() == explanation.view);
    let is_one = arranged.is_some_and(|one| one.bucket().is_some()) && explanation.sources.len() == 1;
    let (Some(first), Some(last)) = (reply.records.first(), reply.records.last()) else {
        return html! {};
    };
    if !is_one {
        return html! {};
    }
    let order = arranged.map(|one| one.order.iter().map(|order| order.field.clone()).collect());
    let order: Vec<String> = order.unwrap_or_default();
    let place = |record: &JsonRecord| -> Json {
        order
            .iter()
            .map(|field| record.get(field).cloned().unwrap_or_default())
            .collect()
    };
    let at = Json::from(vec![place(first), place(last)]).to_string();
    let mut parameters = vec![
        ("view", explanation.view.clone()),
        ("filter", url.filter.clone()),
        ("order_by", url.order_by.clone()),
        ("at", at),
    ];
    if !url.view.is_empty() {
        parameters.push((NAMED, "true".to_owned()));
    }
    let href = format!("{}?{}", url.action("buckets"), encoded(&parameters));
    html! { p.ways { a.button href=(href) title="Buckets of this partition" { "Buckets" } } }
}

/// Request for the page that draws buckets.
struct BucketsPageRequest<'a> {
    collection: &'a Arc<Collection>,
    /// Page of records from which the user came, without its position. Links of buckets keep its
    /// query.
    url: PageUrl,
    request: BucketsRequest,
    is_whole: bool,
}

impl<'a> BucketsPageRequest<'a> {
    fn new(collection: &'a Arc<Collection>, parameters: &Parameters) -> Result<Self, Problem> {
        let text = |name: &str| first(parameters, name).unwrap_or_default().to_owned();
        let sort_orders = collection.sort_orders();
        let (view, filter) = (text("view"), text("filter"));
        let arranged = match view.as_str() {
            "" => sort_orders.iter().find(|one| one.bucket().is_some()),
            view => sort_orders.iter().find(|one| one.name() == view),
        };
        let mut url = PageUrl::parse(&collection.name, parameters)?.first_page();
        if first(parameters, NAMED).is_none() {
            url = url.without_view();
        }
        let is_whole = filter.is_empty() && arranged.is_none_or(|one| !one.partition.is_empty());
        Ok(Self {
            collection,
            url,
            request: BucketsRequest {
                view: arranged.map_or(view, |one| one.name().to_owned()),
                filter,
                page_size: Some(MAX_DRAWN),
                page_token: text("token"),
                at: Some(text("at")).filter(|at| !at.is_empty()),
            },
            is_whole,
        })
    }

    async fn render(&self, session: &Arc<dyn Session>) -> Result<Markup, Problem> {
        let tools = session.tools()?;
        let name = &self.collection.name;
        let content = if self.is_whole {
            self.partitions(&tools.bucket_partitions(name, &self.request).await?)
        } else {
            self.buckets(&tools.buckets(name, &self.request).await?)
        };
        Ok(html! {
            (content)
            p.ways { a.button data-key="u" href=(self.url.href()) { "← Back to the records" } }
        })
    }

    /// Returns the address of the page of buckets for another partition, or for other buckets of
    /// the partition.
    fn href(&self, filter: &str, token: &str) -> String {
        let mut parameters = vec![("view", self.request.view.clone()), ("filter", filter.to_owned())];
        if !self.url.view.is_empty() {
            parameters.push((NAMED, "true".to_owned()));
        }
        if !token.is_empty() {
            parameters.push(("token", token.to_owned()));
        }
        format!("{}?{}", self.url.action("buckets"), encoded(&parameters))
    }

    fn partitions(&self, listed: &BucketPartitions) -> Markup {
        let names: Vec<&String> = listed
            .partitions
            .first()
            .map_or_else(Vec::new, |one| one.partition.keys().collect());
        html! {
            div.heading { div {
                h1 { "Partitions in buckets" }
                p.sort_order { (listed.collection) "." (listed.view) ", " (target(listed.target, "a bucket")) }
            } }
            @if listed.partitions.is_empty() {
                section.empty { h2 { "No partitions yet" } }
            } @else {
                div.rows tabindex="0" role="region" aria-label="Partitions" { table {
                    thead { tr {
                        @for name in &names { th scope="col" { (name) } }
                        @for number in ["Buckets", "Rows", "Bytes", "Largest"] { th.number scope="col" { (number) } }
                        th.number scope="col" { "Over the target" }
                    } }
                    tbody { @for one in &listed.partitions { (self.partition(one)) } }
                } }
            }
            @if !listed.next_page_token.is_empty() {
                p { a.button href=(self.href("", &listed.next_page_token)) { "More partitions" } }
            }
        }
    }

    fn partition(&self, one: &BucketPartition) -> Markup {
        let href = self.href(&filter_of(&one.partition), "");
        let least = if one.at_least { "≥ " } else { "" };
        html! { tr {
            @for value in one.partition.values() { td { a href=(href) { (shown(value)) } } }
            td.number { (grouped(one.buckets)) }
            td.number { (least) (rows_of(one.figures)) }
            td.number { (least) (bytes_of(one.figures)) }
            td.number { (bytes_of(one.largest)) }
            td.number { @if one.too_large > 0 { strong.bad { (grouped(one.too_large)) } } @else { "0" } }
        } }
    }

    fn buckets(&self, listed: &BucketList) -> Markup {
        let is_part = !listed.next_page_token.is_empty() || !listed.previous_page_token.is_empty();
        let over = listed.buckets.iter().filter(|one| one.too_large).count();
        html! {
            div.heading { div {
                h1 { "Buckets" }
                p.sort_order {
                    (listed.collection) "." (listed.view)
                    @for (name, value) in &listed.partition { ", " b { (name) } " = " (shown(value)) }
                    span.dim { " · " (listed.counted()) @if is_part { " shown" } " · " (target(listed.target, "each")) }
                    @if over > 0 { " · " strong.bad { (over) " over the target" } }
                }
            } }
            (self.map(listed))
            @if !listed.exact {
                p.dim.below { "Rows and bytes are estimates from samples. The error after ± holds in 95 of 100 cases." }
            }
            (self.table(listed))
            p {
                @if !listed.previous_page_token.is_empty() {
                    a.button href=(self.href(&self.request.filter, &listed.previous_page_token)) { "← Previous buckets" } " "
                }
                @if !listed.next_page_token.is_empty() {
                    a.button href=(self.href(&self.request.filter, &listed.next_page_token)) { "Next buckets →" }
                }
            }
        }
    }

    /// Draws a bar for each bucket, which links to the page of records that starts at the bucket. A
    /// bucket with rows has a visible bar. Without a target size, there is no target line.
    #[allow(clippy::cast_precision_loss)] // the values are only for display
    fn map(&self, listed: &BucketList) -> Markup {
        let sizes = listed
            .buckets
            .iter()
            .map(|one| listed.target.measure(one.figures));
        let largest = sizes.max().unwrap_or(0) as f64;
        let target = Some(listed.target.drawn() as f64).filter(|target| *target > 0.0);
        let full = match target {
            Some(target) => (target * HEIGHT / TARGET_HEIGHT).max(largest),
            None => largest.max(1.0),
        };
        let height = |size: f64| size / full * HEIGHT;
        let bar = |size: f64| {
            if size > 0.0 {
                height(size).max(MIN_HEIGHT)
            } else {
                0.0
            }
        };
        let width = SLOT_WIDTH * listed.buckets.len().max(1) as f64;
        html! {
            svg.buckets viewBox=(format!("0 0 {width} {HEIGHT}")) preserveAspectRatio="none" role="group" aria-label="Buckets, with links to their pages" {
                @for (index, one) in listed.buckets.iter().enumerate() {
                    @let high = bar(listed.target.measure(one.figures) as f64);
                    @let x = SLOT_WIDTH * index as f64;
                    a href=(self.page_at(listed, one)) .here[is_here(listed, index)] .over[one.too_large] .cut[one.is_being_cut()]
                        aria-label=(words(listed, index)) {
                        title { (words(listed, index)) }
                        rect.slot x=(x) y="0" width=(SLOT_WIDTH) height=(HEIGHT) {}
                        rect.bar x=(x + (SLOT_WIDTH - BAR_WIDTH) / 2.0) y=(format!("{:.2}", HEIGHT - high)) width=(BAR_WIDTH) height=(format!("{high:.2}")) {}
                    }
                }
                @if let Some(target) = target {
                    @let line = format!("{:.2}", HEIGHT - height(target));
                    line.target x1="0" x2=(width) y1=(line) y2=(line) {}
                }
            }
        }
    }

    fn table(&self, listed: &BucketList) -> Markup {
        html! {
            div.rows tabindex="0" role="region" aria-label="Buckets" { table {
                thead { tr {
                    th.number scope="col" { "Bucket" }
                    th scope="col" { "From " span.dim { "(" (listed.order.join(", ")) ")" } }
                    th.number scope="col" { "Bytes" }
                    th.number scope="col" { "Rows" }
                    th.number scope="col" { "In old buckets" }
                    th scope="col" { "Split" }
                } }
                tbody { @for (index, one) in listed.buckets.iter().enumerate() {
                    tr .here[is_here(listed, index)] {
                        td.number { (one.bucket) }
                        td { a href=(self.page_at(listed, one)) { (from(one)) } @if is_here(listed, index) { " " span.mark { "this page" } } }
                        td.number { @if one.too_large { strong.bad { (bytes_of(one.figures)) } } @else { (bytes_of(one.figures)) } }
                        td.number { (rows_of(one.figures)) }
                        td.number { @if one.leftover.bytes > 0 { (bytes_of(one.leftover)) } }
                        td { (step(one)) }
                    }
                } }
            } }
        }
    }

    /// Returns the address of the page of records that starts at the first row of a bucket.
    fn page_at(&self, listed: &BucketList, one: &BucketStatus) -> String {
        // Use only the values before the first null, because a page cannot start at null.
        let values: Vec<Json> = one
            .start
            .iter()
            .take_while(|value| !value.is_null())
            .cloned()
            .collect();
        let own = self
            .collection
            .sort_orders()
            .first()
            .is_some_and(|own| own.name() == listed.view);
        let field = |term: &str| term.strip_prefix('-').unwrap_or(term).to_owned();
        let mut fields = listed.order.iter().map(|term| field(term));
        let terms = listed.order.iter().map(|term| match term.strip_prefix('-') {
            Some(field) => format!("{field} desc"),
            None => term.clone(),
        });
        let mut page = self.url.first_page().with_order("");
        page.from = (!values.is_empty()).then(|| Json::from(values).to_string());
        if !own && fields.all(|name| self.collection.field(&name).is_some()) {
            page.order_by = terms.collect::<Vec<_>>().join(", ");
        } else if !own {
            // Name the view instead of sorting: a query cannot sort by a field that the view
            // rounds.
            page.view.clone_from(&listed.view);
        }
        page.href()
    }
}

/// Returns whether the bucket has rows of the page of records from which the user came. `index` is
/// that of the bucket in the list.
fn is_here(listed: &BucketList, index: usize) -> bool {
    let places = listed.places.iter().flatten();
    match (places.clone().min(), places.max()) {
        (Some(first), Some(last)) => (*first..=*last).contains(&index),
        _ => false,
    }
}

fn words(listed: &BucketList, index: usize) -> String {
    let one = &listed.buckets[index];
    let here = if is_here(listed, index) { ", this page" } else { "" };
    let over = if one.too_large { ", over the target" } else { "" };
    format!(
        "Bucket {}: {}, {} from {}{over}{here}",
        one.bucket,
        bytes_of(one.figures),
        rows_of(one.figures),
        from(one)
    )
}

fn from(one: &BucketStatus) -> String {
    if one.start.is_empty() {
        return "the beginning".to_owned();
    }
    one.start.iter().map(shown).collect::<Vec<_>>().join(", ")
}

fn step(one: &BucketStatus) -> String {
    let other = one.other.unwrap_or_default();
    match one.step.as_str() {
        "at_rest" => "–".to_owned(),
        "announced" => format!("split announced, to {other}"),
        "copying" => format!("copied to {other}"),
        "switched" => format!("read here, from {other}"),
        _ => format!("done, {other} is to be cleared"),
    }
}

fn shown(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Returns the text of a filter that selects a partition.
fn filter_of(partition: &JsonRecord) -> String {
    let terms = partition.iter().map(|(name, value)| format!("{name} = {value}"));
    terms.collect::<Vec<_>>().join(" AND ")
}

/// Formats the target size of buckets, such as `target 60 rows each`.
fn target(target: BucketTarget, each: &str) -> String {
    match (target.rows, target.bytes) {
        (Some(rows), _) => format!("target {} {each}", counted(rows, "row", "rows")),
        (None, Some(most)) => format!("target {} {each}", bytes(most)),
        (None, None) => "by time, without a target".to_owned(),
    }
}

fn rows_of(figures: BucketFigures) -> String {
    match figures.rows_error {
        0 => counted(figures.rows, "row", "rows"),
        error => format!("{} ± {} rows", grouped(figures.rows), grouped(error)),
    }
}

fn bytes_of(figures: BucketFigures) -> String {
    match figures.bytes_error {
        0 => bytes(figures.bytes),
        error => format!("{} ± {}", bytes(figures.bytes), bytes(error)),
    }
}
