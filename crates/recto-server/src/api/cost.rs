//! What a page cost, in a header.

use axum::http::HeaderName;
use recto::session::PageCost;

/// `Recto-Cost`: a dictionary (RFC 9651) of whole numbers.
pub(super) const COST: HeaderName = HeaderName::from_static("recto-cost");

/// The header's text.
pub(super) fn text(cost: &PageCost) -> String {
    format!(
        "rows_read={}, bytes_read={}, round_trips={}, statements={}, tombstones={}, buckets={}, directory_reads={}, seeks={}, time_micros={}",
        cost.rows_read,
        cost.bytes_read,
        cost.round_trips,
        cost.statements,
        cost.tombstones,
        cost.buckets,
        cost.directory_reads,
        cost.seeks,
        cost.time_micros
    )
}
