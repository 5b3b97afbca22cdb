//! Traces for `OpenTelemetry`: a span of each request, below the caller's own if it sends one (W3C
//! `traceparent`), and below it a span of each page that was read.
//!
//! Behind the feature `opentelemetry`. Without it the same names are here and do nothing, so that
//! whoever calls them need not know. What is set is read from the standard variables `OTEL_*`; where no
//! endpoint is named, nothing is made and nothing is sent.
//!
//! A span holds what metrics and logs hold: routes and never paths, shapes of plans and never filters.
//! No span holds a key, a cursor, a token, a query, a header or a value.
//!
//! Spans wait in a queue of limited length for one thread, which sends them; when it is full, more are
//! dropped. No request waits for a collector.

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
