//! Whether the server should be asked: `/healthz` and `/readyz`.

use std::sync::Arc;
use std::time::Duration;

use recto::session::Session as _;
use recto::{Environment, LocalSession};
use tokio::sync::Mutex;

use super::exposition::{BucketText, ClockText, RefusedText, StoreText, WriterText};
use super::{Observer, QueueFigures};

/// How long the store may take to answer that it is there.
pub(crate) const READY_TIME: Duration = Duration::from_secs(2);
/// How long what it answered holds: so that asking often costs the store nothing.
const READY_CACHE: Duration = Duration::from_secs(1);

/// Whether the store answers.
#[derive(Debug)]
pub(crate) struct Readiness {
    session: LocalSession,
    environment: Environment,
    observer: Arc<Observer>,
    /// Whether a store that is known to be damaged is not ready.
    damage_fails: bool,
    /// When it was last asked (nanoseconds of the monotonic clock), and whether it answered.
    last: Mutex<Option<(u64, bool)>>,
    /// How its queues are.
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

    /// Returns the store's figures as text for `/metrics`: rejected collections, nodes, the clock, writers and buckets. Asks the
    /// store nothing.
    pub(crate) fn store_metrics(&self) -> String {
        let refused = RefusedText(self.unavailable_collections());
        let nodes = self.session.store_metrics();
        let writer = WriterText(self.session.writer_metrics());
        let buckets = BucketText(self.session.bucket_metrics());
        let clock = ClockText(self.session.clock_status());
        format!("{refused}{}{clock}{writer}{buckets}", StoreText(&nodes))
    }

    /// How many collections are refused, because their tables are not what the schema says.
    pub(crate) fn unavailable_collections(&self) -> usize {
        self.session.unavailable_collections().len()
    }

    /// Returns the warning about the clock of this machine, if there is one.
    pub(crate) fn clock_warning(&self) -> Option<String> {
        self.session.clock_status().warning()
    }

    /// Why the store cannot be asked, if it cannot: a line of text.
    pub(crate) async fn obstacle(&self) -> Option<&'static str> {
        if self.damage_fails && self.observer.metrics.scrub.is_damaged() {
            return Some("the store is damaged\n");
        }
        (!self.is_there().await).then_some("the store does not answer\n")
    }

    /// Asks the store what it holds: small reads that every store answers from where it keeps its data, at
    /// the consistency of a page. (One at the serial level would ask the other data centres, too, and
    /// call a server unready that can serve.)
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

/// Tells that the schema is taken over which another process applied: whoever takes it over is told so once.
pub(crate) async fn tell_applied(session: &LocalSession, observer: &Observer) {
    crate::log::info!("another process applied a schema");
    if let Ok(store) = session.describe().await {
        observer.audit.schema(store.generation);
    }
}
