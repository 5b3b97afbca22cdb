//! Plan and cost of a page of records, as shown below the page.

use maud::{Markup, html};
use recto::session::{ActualCost, ExplainedSource, Explanation, PageReply};

use super::text::{bytes, capital, counted, duration, grouped};

/// Maximum number of sources (key ranges) of the plan that are listed.
const MAX_SOURCES_SHOWN: usize = 16;

pub(super) fn render(explanation: &Explanation, reply: &PageReply) -> Markup {
    let cost = &reply.cost;
    html! {
        @if let Some(stop) = &reply.stop {
            p.notice.stopped {
                "The page stopped at its limit of " (stop.budget())
                ". Continue with the next page."
            }
        }
        details.plan #plan {
            summary {
                span { (counted(reply.records.len() as u64, "row", "rows")) }
                @if !reply.cost_hidden {
                    span.dim { " · " (grouped(cost.rows_read)) " read, " (bytes(cost.bytes_read)) }
                    @if cost.round_trips > 0 {
                        span.dim { " · " (counted(cost.round_trips.into(), "round trip", "round trips")) }
                    }
                    " · " span.time { (duration(cost.time_micros)) }
                }
                span.dim { " · " (found(explanation)) }
            }
            div.plan-body {
                dl {
                    (entry("shape", &explanation.shape.to_string()))
                    (entry("view", &explanation.view))
                    @for (name, text) in explanation.facts().iter().chain(&explanation.costs()) { (entry(name, text)) }
                    @if !reply.cost_hidden { (entry("actual", &actual(reply).to_string())) }
                    @for rejected in &explanation.rejected {
                        div.rejected { dt { "Rejected" } dd { b { (rejected.sort_order) } span.dim { ": " (rejected.reason) } } }
                    }
                }
                div { (sources(&explanation.sources)) }
            }
        }
    }
}

fn found(explanation: &Explanation) -> String {
    format!("{} of {}", explanation.shape, explanation.sort_order)
}

fn entry(name: &str, text: &str) -> Markup {
    html! { div { dt { (capital(name)) } dd { (text) } } }
}

fn actual(reply: &PageReply) -> ActualCost {
    ActualCost {
        cost: reply.cost,
        rows_returned: reply.records.len() as u64,
    }
}

fn sources(sources: &[ExplainedSource]) -> Markup {
    let more = sources.len().saturating_sub(MAX_SOURCES_SHOWN);
    html! {
        h2 { (counted(sources.len() as u64, "source", "sources")) }
        ol.sources {
            @for source in sources.iter().take(MAX_SOURCES_SHOWN) {
                li {
                    b { (source.place()) } " "
                    span.dim { (source.bounds) }
                    @if let Some(buckets) = source.buckets_text() { span.dim { ", asked: " (buckets) } }
                    @for request in &source.requests { pre tabindex="0" { code { (request) } } }
                }
            }
        }
        @if more > 0 { p.dim { "and " (grouped(more as u64)) " more" } }
    }
}
