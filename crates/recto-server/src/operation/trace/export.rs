//! Export of trace spans to an `OpenTelemetry` collector. The server's log omits lines of libraries
//! such as the SDK. So the module itself logs when the export starts to fail or to drop spans.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use opentelemetry::{Key, KeyValue};
use opentelemetry_otlp::WithHttpConfig as _;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SdkTracerProvider, SpanData, SpanExporter,
};
use tokio::runtime::Handle;

use super::settings::Settings;
use super::transport::Transport;

/// Counters of trace spans by their progress, from which dropped spans are detected.
#[derive(Debug)]
pub(super) struct Counts {
    /// Number of trace spans that ended.
    pub(super) ended: AtomicU64,
    /// Number of trace spans that the exporter took from the queue.
    taken: AtomicU64,
    /// Number of trace spans that a collector accepted.
    pub(super) exported: AtomicU64,
    /// Maximum number of trace spans in the queue.
    queued_spans: u64,
    is_dropping: AtomicBool,
    /// Reason why the last export got no reply from the collector.
    reason: Mutex<Option<String>>,
}

impl Counts {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            ended: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            exported: AtomicU64::new(0),
            queued_spans: settings.queued_spans,
            is_dropping: AtomicBool::new(false),
            reason: Mutex::new(None),
        }
    }

    /// Counts a span that ends. Logs once if spans end faster than they are exported.
    ///
    /// The SDK drops a span when the queue is full, and does not report it. Dropped spans are
    /// ended, but never taken from the queue. So a growing difference of the two counts shows that
    /// spans were dropped. The difference must exceed twice the length of the queue, because a
    /// batch as large as the queue may be in transit.
    pub(super) fn end(&self) {
        let ended = self.ended.fetch_add(1, Ordering::Relaxed) + 1;
        let waiting = ended.saturating_sub(self.taken.load(Ordering::Relaxed));
        if waiting > 2 * self.queued_spans && !self.is_dropping.swap(true, Ordering::Relaxed) {
            crate::log::warn!(
                queued_spans = self.queued_spans,
                "spans are dropped: more end than can be sent; sample fewer (OTEL_TRACES_SAMPLER), or let \
                 more wait (OTEL_BSP_MAX_QUEUE_SIZE)"
            );
        }
    }

    pub(super) fn note_reason(&self, reason: String) {
        *self.reason.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
    }

    fn take_reason(&self) -> Option<String> {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Starts the export of trace spans, with the settings in the environment.
///
/// # Errors
/// A setting cannot be used. The error contains no value, because a value may be a secret.
pub(super) fn provider(settings: &Settings, counts: &Arc<Counts>) -> Result<SdkTracerProvider, String> {
    let runtime = Handle::try_current().map_err(|error| error.to_string())?;
    let transport = Transport::new(settings, runtime, Arc::clone(counts))?;
    // Discard the library's error: it contains the endpoint, which may have a password.
    let exporter = opentelemetry_otlp::SpanExporter::builder()
        .with_http()
        .with_http_client(transport)
        .build()
        .map_err(|_| "an OTEL_EXPORTER_OTLP_* variable cannot be used")?;
    let queue = usize::try_from(settings.queued_spans).unwrap_or(usize::MAX);
    let watched = Watched {
        exporter,
        counts: Arc::clone(counts),
        is_failing: AtomicBool::new(false),
    };
    let batches = BatchConfigBuilder::default()
        .with_max_queue_size(queue)
        .with_scheduled_delay(settings.delay)
        .build();
    let processor = BatchSpanProcessor::builder(watched)
        .with_batch_config(batches)
        .build();
    Ok(SdkTracerProvider::builder()
        .with_resource(resource())
        .with_span_processor(processor)
        .build())
}

/// Returns the attributes that identify the server in traces, from the environment. The default
/// name is `recto`.
fn resource() -> Resource {
    let told = Resource::builder().build();
    let name = told.get(&Key::from_static_str("service.name"));
    // The SDK's default name starts with `unknown_service`, so treat such a name as not set.
    let is_named = name.is_some_and(|name| !name.as_str().starts_with("unknown_service"));
    let has_version = told.get(&Key::from_static_str("service.version")).is_some();
    let name = (!is_named).then(|| KeyValue::new("service.name", "recto"));
    let version = (!has_version).then(|| KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    Resource::builder()
        .with_attributes([name, version].into_iter().flatten())
        .build()
}

/// Exporter that logs when the collector becomes unreachable, and when it is reachable again.
#[derive(Debug)]
struct Watched<E> {
    exporter: E,
    counts: Arc<Counts>,
    is_failing: AtomicBool,
}

impl<E> Watched<E> {
    /// Logs a change of the collector's state: unreachable, or reachable again.
    fn note_outcome(&self, spans: u64, result: &OTelSdkResult) {
        match result {
            Ok(()) => {
                self.counts.exported.fetch_add(spans, Ordering::Relaxed);
                if self.is_failing.swap(false, Ordering::Relaxed) {
                    crate::log::info!("traces are exported again");
                }
            }
            Err(error) => {
                let reason = self.counts.take_reason().unwrap_or_else(|| error.to_string());
                if !self.is_failing.swap(true, Ordering::Relaxed) {
                    crate::log::warn!(reason, "traces cannot be exported and are lost until they can");
                }
            }
        }
    }
}

impl<E: SpanExporter> SpanExporter for Watched<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len() as u64;
        self.counts.taken.fetch_add(spans, Ordering::Relaxed);
        let result = self.exporter.export(batch).await;
        self.note_outcome(spans, &result);
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn shutdown(&self) -> OTelSdkResult {
        self.exporter.shutdown()
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}
