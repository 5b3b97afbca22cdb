//! Trace spans of requests and pages. Names and attributes follow `OpenTelemetry`'s semantic
//! conventions for HTTP (<https://opentelemetry.io/docs/specs/semconv/http/http-spans/>).
//! `url.path` and `url.query` are missing, because they contain keys, filters and cursors.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::http::{HeaderMap, Method, Request, StatusCode, Version};
use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry::trace::{
    Span as _, SpanBuilder, SpanContext, SpanKind, Status, TraceContextExt as _, Tracer as _,
    TracerProvider as _,
};
use opentelemetry::{Context, InstrumentationScope, KeyValue};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider, Span};
use recto::session::PageReply;
use recto::{Error, ErrorKind};

use super::export::{Counts, provider};
use super::settings::{self, Settings};
use crate::config::Config;

/// Maximum time that a stopping server waits for the export of the last trace spans.
pub(crate) const MAX_FLUSH_TIME: Duration = Duration::from_secs(5);
/// Maximum length of a client's `tracestate` header, in bytes. A longer header is ignored, as the
/// specification allows.
const MAX_TRACE_STATE_BYTES: usize = 512;

/// Paths of requests without a trace span, because they are frequent and not interesting.
const UNTRACED: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// Source of trace spans. It creates none unless the environment requests traces.
pub(crate) struct Traces(Option<Exporting>);

struct Exporting {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    counts: Arc<Counts>,
    scheme: &'static str,
    takes_parents: bool,
}

impl std::fmt::Debug for Traces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Traces").finish_non_exhaustive()
    }
}

impl Traces {
    /// Starts the export of traces, if the environment requests it. With an invalid setting, the
    /// server logs the error and runs without traces.
    pub(crate) fn start(config: &Config) -> Self {
        if !settings::is_wanted(&settings::variable) {
            return Self(None);
        }
        for line in settings::not_followed(&settings::variable) {
            crate::log::warn!("{line}");
        }
        let settings = Settings::read(&settings::variable).map_err(str::to_owned);
        match settings.and_then(|settings| Exporting::new(&settings, config)) {
            Ok(exporting) => Self(Some(exporting)),
            Err(reason) => {
                crate::log::error!(reason, "traces are not exported");
                Self(None)
            }
        }
    }

    /// Creates the trace span of a request, if the request's trace is sampled.
    pub(crate) fn request<B>(&self, request: &Request<B>) -> RequestSpan {
        let exporting = self.0.as_ref();
        let exporting = exporting.filter(|_| !UNTRACED.contains(&request.uri().path()));
        RequestSpan(exporting.and_then(|exporting| exporting.request(request)))
    }

    /// Creates the trace span of a page, as a child of its request's span. Without a span of the
    /// request, the page has none.
    pub(crate) fn page(&self, parent: &Parent) -> PageSpan {
        let (Some(exporting), Some(parent)) = (&self.0, &parent.0) else {
            return PageSpan(None);
        };
        let parent = Context::new().with_remote_span_context(parent.clone());
        PageSpan(exporting.open("page", SpanKind::Internal, &parent))
    }

    /// Exports the remaining trace spans, for at most [`MAX_FLUSH_TIME`].
    pub(crate) async fn finish(&self) {
        let Some(exporting) = &self.0 else {
            return;
        };
        let provider = exporting.provider.clone();
        let flushed = tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(MAX_FLUSH_TIME));
        let is_flushed = matches!(flushed.await, Ok(Ok(())));
        let exported = exporting.counts.exported.load(Ordering::Relaxed);
        let ended = exporting.counts.ended.load(Ordering::Relaxed);
        let lost = ended.saturating_sub(exported);
        if lost == 0 && is_flushed {
            crate::log::info!(exported, "spans exported");
        } else {
            crate::log::warn!(exported, lost, "spans were lost");
        }
    }
}

impl Exporting {
    fn new(settings: &Settings, config: &Config) -> Result<Self, String> {
        let counts = Arc::new(Counts::new(settings));
        let provider = provider(settings, &counts)?;
        let scope = InstrumentationScope::builder("recto")
            .with_version(env!("CARGO_PKG_VERSION"))
            .build();
        let is_https = config.has_tls() || config.behind_proxy;
        crate::log::info!(collector = settings.collector, "traces are exported");
        Ok(Self {
            tracer: provider.tracer_with_scope(scope),
            provider,
            counts,
            scheme: if is_https { "https" } else { "http" },
            takes_parents: settings.takes_parents,
        })
    }

    fn request<B>(&self, request: &Request<B>) -> Option<Open> {
        let headers = request.headers();
        let parent = if self.takes_parents && headers.contains_key("traceparent") {
            TraceContextPropagator::new().extract_with_context(&Context::new(), &Headers(headers))
        } else {
            Context::new()
        };
        let (method, name) = method(request.method());
        let mut open = self.open(name, SpanKind::Server, &parent)?;
        open.set("http.request.method", method);
        open.set("url.scheme", self.scheme);
        if let Some(version) = version(request.version()) {
            open.set("network.protocol.version", version);
        }
        Some(open)
    }

    fn open(&self, name: &'static str, kind: SpanKind, parent: &Context) -> Option<Open> {
        let builder = SpanBuilder::from_name(name).with_kind(kind);
        let span = self.tracer.build_with_context(builder, parent);
        span.is_recording().then(|| Open {
            span,
            name,
            counts: Arc::clone(&self.counts),
            is_finished: false,
        })
    }
}

/// Request headers, from which `OpenTelemetry` extracts the client's trace.
struct Headers<'a>(&'a HeaderMap);

impl Extractor for Headers<'_> {
    /// Returns the value of a header that the request has exactly once. If a
    /// request has two `traceparent` headers, neither is reliable.
    fn get(&self, key: &str) -> Option<&str> {
        let mut values = self.0.get_all(key).iter();
        let value = values.next()?.to_str().ok()?;
        let is_short = key != "tracestate" || value.len() <= MAX_TRACE_STATE_BYTES;
        (is_short && values.next().is_none()).then_some(value)
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(axum::http::HeaderName::as_str).collect()
    }
}

/// Returns two names of a method: the attribute's value, and the start of the span's name. All
/// unknown methods share the names, so that clients cannot create new ones.
fn method(method: &Method) -> (&'static str, &'static str) {
    let known = match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        Method::CONNECT => "CONNECT",
        Method::TRACE => "TRACE",
        _ => return ("_OTHER", "HTTP"),
    };
    (known, known)
}

fn version(version: Version) -> Option<&'static str> {
    match version {
        Version::HTTP_10 => Some("1.0"),
        Version::HTTP_11 => Some("1.1"),
        Version::HTTP_2 => Some("2"),
        _ => None,
    }
}

/// Trace span that has not ended. Dropping it ends the span.
struct Open {
    span: Span,
    name: &'static str,
    counts: Arc<Counts>,
    is_finished: bool,
}

impl Open {
    fn set(&mut self, key: &'static str, value: impl Into<opentelemetry::Value>) {
        self.span.set_attribute(KeyValue::new(key, value));
    }

    fn count(&mut self, key: &'static str, count: u64) {
        self.set(key, i64::try_from(count).unwrap_or(i64::MAX));
    }

    fn finish(mut self) {
        self.is_finished = true;
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // A span that `finish` did not end is from a request whose client disconnected, or that
        // timed out.
        if !self.is_finished {
            self.set("error.type", "cancelled");
        }
        self.counts.end();
        self.span.end();
    }
}

/// Trace span of a request as the parent of the spans of its pages; `None` without a span.
#[derive(Debug, Clone)]
pub(crate) struct Parent(Option<SpanContext>);

/// Trace span of a request; `None` if the request's trace is not sampled.
pub(crate) struct RequestSpan(Option<Open>);

impl RequestSpan {
    pub(crate) fn parent(&self) -> Parent {
        Parent(self.0.as_ref().map(|open| open.span.span_context().clone()))
    }

    /// Ends the trace span of a request. First adds the response's status, and the route if one
    /// matched.
    pub(crate) fn end(self, route: Option<&str>, status: StatusCode, request_id: &str) {
        let Some(mut open) = self.0 else {
            return;
        };
        if let Some(route) = route {
            let name = format!("{} {route}", open.name);
            open.span.update_name(name);
            open.set("http.route", route.to_owned());
        }
        open.set("http.response.status_code", i64::from(status.as_u16()));
        open.set("recto.request_id", request_id.to_owned());
        if status.is_server_error() {
            open.set("error.type", status.as_str().to_owned());
            open.span.set_status(Status::error(""));
        }
        open.finish();
    }
}

/// Trace span of a page; `None` if the page's request has no span.
pub(crate) struct PageSpan(Option<Open>);

impl PageSpan {
    /// Ends the trace span of a page. First adds the collection and the number of rows, or the
    /// error. With an error, omits the collection, whose name may be arbitrary text of the request.
    pub(crate) fn end(self, collection: &str, page: Result<(&PageReply, usize), &Error>) {
        let Some(mut open) = self.0 else {
            return;
        };
        match page {
            Ok((reply, rows)) => {
                open.set("recto.collection", collection.to_owned());
                if let Some(shape) = reply.shape {
                    open.set("recto.plan.shape", shape.to_string());
                }
                open.count("recto.rows.read", reply.cost.rows_read);
                open.count("recto.rows.returned", rows as u64);
                open.count("recto.bytes.read", reply.cost.bytes_read);
                open.count("recto.round_trips", u64::from(reply.cost.round_trips));
                if let Some(stop) = &reply.stop {
                    open.set("recto.stop", stop.name());
                }
            }
            Err(error) => {
                open.set("error.type", kind_name(error.kind()));
                if is_of_store(error.kind()) {
                    open.span.set_status(Status::error(""));
                }
            }
        }
        open.finish();
    }
}

/// Returns the kind of an error as an attribute's value. The error's message may contain stored
/// values.
fn kind_name(kind: ErrorKind) -> String {
    let mut name = String::new();
    for letter in format!("{kind:?}").chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

/// Returns whether an error of this kind is a failure of the store, and not a fault of the request.
fn is_of_store(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Unavailable
            | ErrorKind::Timeout
            | ErrorKind::OutcomeUnknown
            | ErrorKind::Unauthorized
            | ErrorKind::Corrupt
            | ErrorKind::Io
            | ErrorKind::Store
    )
}
