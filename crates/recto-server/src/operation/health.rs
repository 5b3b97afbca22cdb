//! Health and readiness of the server: `/healthz` and `/readyz`.

use std::sync::Arc;
use std::time::Duration;

use recto::session::{ClusterStatus, Session as _};
use recto::{Environment, LocalSession};
use tokio::sync::Mutex;

use super::exposition::{BucketText, ClockText, LogText, RefusedText, StoreText, WriterText};
use super::{Observer, QueueFigures};

/// Maximum time that a readiness check waits for the store's reply.
pub(crate) const READY_TIME: Duration = Duration::from_secs(2);
/// Time for which the result of a readiness check is cached, so that frequent checks do not load
/// the store.
const READY_CACHE: Duration = Duration::from_secs(1);

/// Readiness check of the store, and source of the store's metrics.
#[derive(Debug)]
pub(crate) struct Readiness {
    session: LocalSession,
    environment: Environment,
    observer: Arc<Observer>,
    /// True if `/readyz` fails while the store is known to be damaged.
    damage_fails: bool,
    /// Time of the last check in nanoseconds of the monotonic clock, and whether the store replied.
    last: Mutex<Option<(u64, bool)>>,
    pub(crate) queues: QueueFigures,
}

impl Readiness {
    pub(crate) fn new(
        session: LocalSession,
        environment: Environment,
        observer: Arc<Observer>,
        damage_fails: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            queues: QueueFigures::new(session.clone(), environment.clone()),
            session,
            environment,
            observer,
            damage_fails,
            last: Mutex::new(None),
        })
    }

    /// Returns the store's metrics as Prometheus text: unavailable collections, nodes, clock,
    /// writers, buckets and commit log. Sends no request to the store.
    pub(crate) fn store_metrics(&self) -> String {
        let refused = RefusedText(self.unavailable_collections());
        let nodes = self.session.store_metrics();
        let writer = WriterText(self.session.writer_metrics());
        let buckets = BucketText(self.session.bucket_metrics());
        let clock = ClockText(self.session.clock_status());
        let log = LogText(self.session.commit_log());
        format!("{refused}{}{clock}{writer}{buckets}{log}", StoreText(&nodes))
    }

    /// Returns the number of collections that are unavailable because their tables differ from the schema.
    pub(crate) fn unavailable_collections(&self) -> usize {
        self.session.unavailable_collections().len()
    }

    /// Returns the versions of the cluster's nodes and what the cluster cannot do, if the store is on a cluster.
    pub(crate) fn cluster_status(&self) -> Option<ClusterStatus> {
        self.session.cluster_status()
    }

    /// Returns the warning about the clock of this machine, if there is one.
    pub(crate) fn clock_warning(&self) -> Option<String> {
        self.session.clock_status().warning()
    }

    /// Returns why the store cannot serve requests, as a line of text; `None` if it can.
    pub(crate) async fn obstacle(&self) -> Option<&'static str> {
        if self.damage_fails && self.observer.metrics.scrub.is_damaged() {
            return Some("the store is damaged\n");
        }
        (!self.is_there().await).then_some("the store does not answer\n")
    }

    /// Checks whether the store replies to small reads, at the consistency level of a page. Reads
    /// at a serial level also need the other data centers, so they would fail on a server that can
    /// serve requests.
    async fn is_there(&self) -> bool {
        let mut last = self.last.lock().await;
        let now = self.environment.monotonic_nanos();
        if let Some((asked, ready)) = *last
            && u128::from(now.saturating_sub(asked)) < READY_CACHE.as_nanos()
        {
            return ready;
        }
        let answered = tokio::time::timeout(READY_TIME, self.session.refresh()).await;
        let ready = matches!(answered, Ok(Ok(_)));
        if matches!(answered, Ok(Ok(true))) {
            tell_applied(&self.session, &self.observer).await;
        }
        if let Ok(Err(error)) = &answered {
            crate::log::warn!(kind = ?error.kind(), "the store is not ready");
        } else if answered.is_err() {
            crate::log::warn!(kind = "Timeout", "the store is not ready");
        }
        *last = Some((self.environment.monotonic_nanos(), ready));
        ready
    }
}

/// Logs that another process applied a schema, which this process now uses. Adds a line to the
/// audit log.
pub(crate) async fn tell_applied(session: &LocalSession, observer: &Observer) {
    crate::log::info!("another process applied a schema");
    if let Ok(store) = session.describe().await {
        observer.audit.schema(store.generation);
    }
}
