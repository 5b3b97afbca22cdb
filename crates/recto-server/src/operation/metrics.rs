//! Metrics of the server.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use recto::ErrorKind;
use recto::session::{PageReply, PlanShape};

use super::Observer;
use super::histogram::{Histogram, ROWS_PER_ROW, SECONDS};

/// Maximum number of label combinations of one metric. Values with further combinations are not
/// counted.
const MAX_SERIES: usize = 1_000;

/// Reason why the server rejected a request before its handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Refusal {
    Url,
    Headers,
    Body,
    /// The host is not a host of this server.
    Host,
    /// The request comes from another site.
    Origin,
    /// The request has no valid token.
    Unauthorized,
    /// The client exceeds its rate limit.
    Rate,
    /// Too many requests are in progress.
    Concurrency,
    /// Too many requests of the token are in progress.
    TokenConcurrency,
    /// The body has a transfer coding that the server does not decode.
    Coding,
    /// The request would change the store, and the server is read-only.
    ReadOnly,
}

impl Refusal {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Url => "url",
            Self::Headers => "headers",
            Self::Body => "body",
            Self::Host => "host",
            Self::Origin => "origin",
            Self::Unauthorized => "unauthorized",
            Self::Rate => "rate",
            Self::Concurrency => "concurrency",
            Self::TokenConcurrency => "token_concurrency",
            Self::Coding => "coding",
            Self::ReadOnly => "read_only",
        }
    }
}

/// Labels of the request metrics. Requests with equal labels are counted together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RequestLabels {
    /// Pattern of the route, never a path, because paths contain keys.
    pub(crate) route: Arc<str>,
    pub(crate) method: &'static str,
    pub(crate) status: u16,
}

/// Metrics of pages whose plans have one shape, such as `merge + filter`.
#[derive(Debug)]
pub(crate) struct PageMetrics {
    pub(crate) seconds: Histogram,
    pub(crate) rows_scanned: AtomicU64,
    pub(crate) rows_returned: AtomicU64,
    pub(crate) seeks: AtomicU64,
    pub(crate) rows_per_row: Histogram,
}

#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) requests: Family<RequestLabels, Histogram>,
    pub(crate) pages: Family<PlanShape, PageMetrics>,
    pub(crate) store_errors: Family<&'static str, AtomicU64>,
    pub(crate) refusals: Family<&'static str, AtomicU64>,
    pub(crate) in_flight: AtomicU64,
    pub(crate) streaming: AtomicU64,
    pub(crate) connections: AtomicU64,
    pub(crate) connections_accepted: AtomicU64,
    pub(crate) slow_pages: AtomicU64,
    /// Number of changes that were rejected because another record has the values of unique fields.
    pub(crate) unique_conflicts: AtomicU64,
    pub(crate) scrub: ScrubMetrics,
}

/// Metrics of the scrub, which checks stored data for damage in the background.
#[derive(Debug, Default)]
pub(crate) struct ScrubMetrics {
    pub(crate) bytes: AtomicU64,
    pub(crate) rows: AtomicU64,
    /// End of the last complete scrub, in seconds since 1970; 0 before the first.
    pub(crate) finished_seconds: AtomicU64,
    pub(crate) problems: AtomicU64,
    /// Number of damaged parts of the store that requests found, not the scrub.
    pub(crate) met: AtomicU64,
}

impl ScrubMetrics {
    pub(crate) fn is_damaged(&self) -> bool {
        self.problems.load(Ordering::Relaxed) > 0 || self.met.load(Ordering::Relaxed) > 0
    }
}

impl Metrics {
    pub(crate) fn request(&self, labels: RequestLabels, seconds: f64) {
        if let Some(histogram) = self.requests.of(labels, || Histogram::new(SECONDS)) {
            histogram.observe(seconds);
        }
    }

    pub(crate) fn page(&self, reply: &PageReply, rows: usize, seconds: f64) {
        let make = || PageMetrics {
            seconds: Histogram::new(SECONDS),
            rows_scanned: AtomicU64::new(0),
            rows_returned: AtomicU64::new(0),
            seeks: AtomicU64::new(0),
            rows_per_row: Histogram::new(ROWS_PER_ROW),
        };
        let metrics = reply.shape.and_then(|shape| self.pages.of(shape, make));
        let Some(metrics) = metrics else {
            return;
        };
        let (scanned, returned) = (reply.cost.rows_read, rows as u64);
        metrics.seconds.observe(seconds);
        metrics.rows_scanned.fetch_add(scanned, Ordering::Relaxed);
        metrics.rows_returned.fetch_add(returned, Ordering::Relaxed);
        metrics
            .seeks
            .fetch_add(reply.cost.seeks.into(), Ordering::Relaxed);
        metrics
            .rows_per_row
            .observe(scanned as f64 / returned.max(1) as f64);
    }

    /// Counts an error that the store caused, and not the request. Returns whether the store caused
    /// the error.
    pub(crate) fn error(&self, kind: ErrorKind) -> bool {
        let name = match kind {
            ErrorKind::Unavailable => "unavailable",
            ErrorKind::Timeout => "timeout",
            ErrorKind::OutcomeUnknown => "outcome_unknown",
            ErrorKind::Unauthorized => "unauthorized",
            ErrorKind::Corrupt => "corrupt",
            ErrorKind::Io => "io",
            ErrorKind::Store => "store",
            _ => return false,
        };
        count(&self.store_errors, name);
        true
    }

    pub(crate) fn refused(&self, refusal: Refusal) {
        count(&self.refusals, refusal.name());
    }
}

fn count(family: &Family<&'static str, AtomicU64>, name: &'static str) {
    if let Some(counter) = family.of(name, || AtomicU64::new(0)) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Metric with labels, and one value (series) per combination of labels.
#[derive(Debug)]
pub(crate) struct Family<K, V>(RwLock<HashMap<K, Arc<V>>>);

impl<K, V> Default for Family<K, V> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<K: Eq + Hash + Clone, V> Family<K, V> {
    /// Returns the value of a metric for `labels`, and creates it if necessary. Returns `None` if
    /// the metric already has [`MAX_SERIES`] combinations of labels.
    fn of(&self, labels: K, make: impl FnOnce() -> V) -> Option<Arc<V>> {
        let found = self
            .0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&labels)
            .cloned();
        if found.is_some() {
            return found;
        }
        let mut series = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if series.len() >= MAX_SERIES && !series.contains_key(&labels) {
            return None;
        }
        Some(Arc::clone(
            series.entry(labels).or_insert_with(|| Arc::new(make())),
        ))
    }

    /// Returns all combinations of labels of a metric, each with its value.
    pub(crate) fn all(&self) -> Vec<(K, Arc<V>)> {
        let series = self.0.read().unwrap_or_else(PoisonError::into_inner);
        series
            .iter()
            .map(|(labels, value)| (labels.clone(), Arc::clone(value)))
            .collect()
    }
}

/// Guard that raises a gauge by one while it exists, for example for an open connection.
#[derive(Debug)]
pub(crate) struct Counted {
    observer: Arc<Observer>,
    gauge: fn(&Metrics) -> &AtomicU64,
}

impl Counted {
    pub(crate) fn enter(observer: &Arc<Observer>, gauge: fn(&Metrics) -> &AtomicU64) -> Self {
        gauge(&observer.metrics).fetch_add(1, Ordering::Relaxed);
        Self {
            observer: Arc::clone(observer),
            gauge,
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        (self.gauge)(&self.observer.metrics).fetch_sub(1, Ordering::Relaxed);
    }
}
