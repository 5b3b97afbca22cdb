//! Operation of a server: health, readiness, metrics, logs and traces.

mod audit;
mod context;
mod exposition;
mod health;
mod histogram;
#[cfg(feature = "full")]
mod logs;
mod metrics;
mod observed;
mod queues;
mod request_id;
mod trace;

pub(crate) use audit::{Audit, AuditEvent};
pub(crate) use context::{Context, Failure, RequestClient};
pub(crate) use exposition::{CONTENT_TYPE as METRICS_TYPE, PlacesText};
pub(crate) use health::{Readiness, tell_applied};
#[cfg(feature = "full")]
pub use logs::start_logs;
pub(crate) use metrics::{Counted, Metrics, Refusal, RequestLabels};
pub(crate) use observed::Observed;
pub(crate) use queues::QueueFigures;
pub(crate) use request_id::{REQUEST_ID, RequestIds};
pub(crate) use trace::{PageSpan, Parent, Traces};

use std::sync::Arc;
use std::time::Duration;

use recto::Environment;

use crate::asked::AskedQueries;

/// Destinations of what the server reports about itself: metrics, traces, audit log and query
/// counts.
#[derive(Debug)]
pub(crate) struct Observer {
    pub(crate) environment: Environment,
    pub(crate) metrics: Metrics,
    pub(crate) traces: Traces,
    pub(crate) audit: Audit,
    /// Counters of received queries by collection, for the console's proposals of views.
    pub(crate) asked: Arc<AskedQueries>,
    /// Duration from which a page is logged with its plan.
    pub(crate) slow_query: Duration,
}
