//! Traces for `OpenTelemetry`: a span of each request, and below it a span of each page that was read. If the client
//! sends a span (W3C `traceparent`), the span of the request is below it.
//!
//! Traces need the feature `opentelemetry`. Without it, the same names exist and do nothing, so that callers need no
//! conditions. The settings are the standard variables `OTEL_*`. Without an endpoint, no spans are created or sent.
//!
//! Spans contain the same data as metrics and logs: routes and never paths, shapes of plans and never filters. No
//! span contains a key, a cursor, a token, a query, a header or a value.
//!
//! Spans wait for one sending thread in a queue of limited length. When the queue is full, further spans are dropped.
//! No request waits for a collector.

mod settings;

#[cfg(feature = "opentelemetry")]
mod export;
#[cfg(feature = "opentelemetry")]
mod spans;
#[cfg(feature = "opentelemetry")]
mod transport;

#[cfg(not(feature = "opentelemetry"))]
mod off;

#[cfg(not(feature = "opentelemetry"))]
pub(crate) use off::{PageSpan, Parent, Traces};
#[cfg(feature = "opentelemetry")]
pub(crate) use spans::{PageSpan, Parent, Traces};
