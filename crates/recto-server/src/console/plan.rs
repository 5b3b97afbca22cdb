//! How a page was found: its plan and its cost.

use maud::{Markup, html};
use recto::session::{ExplainedSource, Explanation, PageReply};

use super::text::{bytes, counted, duration, grouped};

/// The most sources that are shown one by one.
const MAX_SOURCES_SHOWN: usize = 16;

pub(super) fn render(explanation: &Explanation, reply: &PageReply) -> Markup {
    let cost = &reply.cost;
    html! {
        @if let Some(stop) = &reply.stop {
            p.notice.stopped {
                "Cut short by the page's budget of " (if stop == "scanned" { "rows scanned" } else { stop })
                "; the next page goes on."
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
                span.dim { " · " (explanation.shape) " of " (explanation.arrangement) }
            }
            div.plan-body {
                dl {
                    (entry("Shape", &explanation.shape))
                    (entry("Arrangement", &explanation.arrangement))
                    @if !explanation.table.is_empty() {
                        (entry("Table", &format!("{}, read {} its clustering order", explanation.table, explanation.direction)))
                    }
                    (entry("Order", &explanation.order))
                    @for condition in &explanation.residual { (entry("Row by row", condition)) }
                    (entry("Expected", &format!(
                        "at most {}, {}",
                        counted(explanation.expected_rows, "row", "rows"),
                        counted(explanation.expected_round_trips.into(), "round trip", "round trips"),
                    )))
                    @if !reply.cost_hidden { (entry("Actual", &actual(reply))) }
                    @for (arrangement, reason) in &explanation.rejected {
                        (entry("Not taken", &format!("{arrangement}: {reason}")))
                    }
                }
                div { (sources(&explanation.sources)) }
            }
        }
    }
}

fn entry(name: &str, text: &str) -> Markup {
    html! { div { dt { (name) } dd { (text) } } }
}

fn actual(reply: &PageReply) -> String {
    let cost = &reply.cost;
    let mut parts = vec![
        format!(
            "{} read ({})",
            counted(cost.rows_read, "row", "rows"),
            bytes(cost.bytes_read)
        ),
        format!("{} returned", grouped(reply.records.len() as u64)),
        counted(cost.round_trips.into(), "round trip", "round trips"),
        counted(cost.statements.into(), "request", "requests"),
    ];
    if cost.tombstones > 0 {
        parts.push(counted(cost.tombstones, "tombstone", "tombstones"));
    }
    parts.push(duration(cost.time_micros));
    parts.join(", ")
}

fn sources(sources: &[ExplainedSource]) -> Markup {
    let more = sources.len().saturating_sub(MAX_SOURCES_SHOWN);
    html! {
        h2 { (counted(sources.len() as u64, "source", "sources")) }
        ol.sources {
            @for source in sources.iter().take(MAX_SOURCES_SHOWN) {
                li {
                    b { (source.partition) } " "
                    span.dim { (source.bounds) }
                    @for request in &source.requests { pre tabindex="0" { code { (request) } } }
                }
            }
        }
        @if more > 0 { p.dim { "and " (grouped(more as u64)) " more" } }
    }
}
