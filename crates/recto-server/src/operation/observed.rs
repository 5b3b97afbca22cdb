//! Session that records the time, cost and shape of pages, and errors.

mod queues;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::stream::BoxStream;
#[cfg(feature = "full")]
use recto::ErrorKind;
#[cfg(feature = "full")]
use recto::design::{LOG_MESSAGE, filter_shape, sort_shape};
use recto::schema::Schema;
use recto::session::{
    Applied, ApplyOptions, Backup, BucketList, BucketPartitions, BucketsRequest, CheckOutcome, Choices,
    CursorKey, ErrorHandler, Explanation, FindingHandler, JsonRecord, LoadProgress, LoadReport, LoadRequest,
    PageCost, PageReply, PageRequest, PageText, Pages, Progress, Queues, RebalanceProgress, RebalanceReport,
    RebalanceRequest, RecordChange, Records, RecoveryPass, RowSizes, ScanRequest, ScanStep, SchemaPlan,
    StoreDescription, StoreProgress, Tools, VerifyReport, VerifyRequest, Versioned, ViewProgress, ViewStatus,
    Written,
};
use recto::{Result, Session};
use serde_json::{Map, json};

use super::{Context, Deed, Failure, PageSpan};
use crate::problem::is_not_unique;

/// Maximum time for explaining a slow query. The explanation only plans the query, and reads no
/// rows.
const EXPLAIN_TIME: Duration = Duration::from_secs(1);
const NANOS_PER_SECOND: f64 = 1e9;
const MICROS_PER_MILLI: u64 = 1_000;

/// Session that is observed for one request.
pub(crate) struct Observed<S> {
    session: S,
    context: Option<Context>,
    /// Row filters of the token, by collection. They apply in addition to the filters of the
    /// request.
    rows: BTreeMap<String, String>,
}

impl<S: Session> Observed<S> {
    /// Observes a session for the request that the current task handles. Outside a request, nothing
    /// is recorded.
    pub(crate) fn new(session: S) -> Self {
        Self::of_rows(session, BTreeMap::new())
    }

    /// Observes a session that is restricted to the rows of these filters.
    pub(crate) fn of_rows(session: S, rows: BTreeMap<String, String>) -> Self {
        Self {
            session,
            context: Context::current(),
            rows,
        }
    }

    fn seen<T>(&self, result: Result<T>) -> Result<T> {
        if let (Err(error), Some(context)) = (&result, &self.context) {
            let metrics = &context.observer().metrics;
            if metrics.error(error.kind()) {
                context.note_failure(error);
            }
            if is_not_unique(error) {
                metrics.unique_conflicts.fetch_add(1, Ordering::Relaxed);
            }
        }
        result
    }

    /// Executes an operation and completes its entry in the audit log.
    async fn audited<T>(&self, mut deed: Deed, work: impl Future<Output = Result<T>>) -> Result<T> {
        let result = self.seen(work.await);
        deed.end(&result);
        result
    }

    /// Executes a maintenance operation and completes its entry in the audit log.
    async fn tool<'a, T, W: Future<Output = Result<T>>>(
        &'a self,
        deed: Deed,
        work: impl FnOnce(&'a dyn Tools) -> W,
    ) -> Result<T> {
        self.audited(deed, async { work(self.session.tools()?).await })
            .await
    }

    fn deed(&self, action: &'static str) -> Deed {
        Deed::begin(self.context.as_ref(), action, "unknown")
    }

    /// Begins a change of the store, which can have an effect from now on, even if its request is
    /// aborted.
    fn begin_change(&self, action: &'static str) -> Deed {
        if let Some(context) = &self.context {
            context.begin_write();
        }
        self.deed(action)
    }

    fn now_nanos(&self) -> u64 {
        let clock = |context: &Context| context.observer().environment.monotonic_nanos();
        self.context.as_ref().map_or(0, clock)
    }

    fn page_span(&self) -> Option<PageSpan> {
        let context = self.context.as_ref()?;
        Some(context.observer().traces.page(context.parent()))
    }

    /// Times and traces a page in any form. `told` returns the reply without its rows, and the
    /// number of rows.
    async fn watched<P>(
        &self,
        collection: &str,
        request: &PageRequest,
        page: impl Future<Output = Result<P>>,
        told: fn(&P) -> (&PageReply, usize),
    ) -> Result<P> {
        let started = self.now_nanos();
        let span = self.page_span();
        let page = self.seen(page.await);
        if let Some(span) = span {
            span.end(collection, page.as_ref().map(told));
        }
        self.note_asked(collection, request, page.as_ref().err());
        let page = page?;
        let (reply, rows) = told(&page);
        self.note(collection, request, reply, rows, started).await;
        Ok(page)
    }

    /// Counts a successful page of `rows` rows, and logs it if it was slow.
    async fn note(
        &self,
        collection: &str,
        request: &PageRequest,
        reply: &PageReply,
        rows: usize,
        started: u64,
    ) {
        let Some(context) = &self.context else {
            return;
        };
        let observer = context.observer();
        let nanos = self.now_nanos().saturating_sub(started);
        observer
            .metrics
            .page(reply, rows, nanos as f64 / NANOS_PER_SECOND);
        if Duration::from_nanos(nanos) >= observer.slow_query {
            self.log_slow(context, collection, request, reply, rows).await;
        }
    }

    /// Counts and logs the shape of a query: its filter and sort order without values, for
    /// `recto design`. Only queries that were answered or that no view serves are counted.
    #[cfg(feature = "full")]
    fn note_asked(&self, collection: &str, request: &PageRequest, error: Option<&recto::Error>) {
        let is_told = error.is_none_or(|error| error.kind() == ErrorKind::NoPlan);
        let Some(context) = self.context.as_ref().filter(|_| is_told) else {
            return;
        };
        let rows = self.rows.get(collection);
        let filters = rows.into_iter().chain([&request.filter]).map(String::as_str);
        // Neither conversion fails, because a query that was answered or that no view serves has
        // valid texts.
        let filter = filter_shape(filters).unwrap_or_default();
        let order_by = sort_shape(&request.order_by).unwrap_or_default();
        let is_served = error.is_none();
        crate::log::debug!(collection, filter, order_by, is_served, "{LOG_MESSAGE}");
        context.observer().asked.count(collection, filter, order_by);
    }

    #[cfg(not(feature = "full"))]
    #[allow(clippy::unused_self)] // the other build uses it
    fn note_asked(&self, _: &str, _: &PageRequest, _: Option<&recto::Error>) {}

    /// Logs an error that ended a scan after its first step. The response of an export already has
    /// the status 200 then.
    fn log_cut_short(&self, error: &recto::Error) {
        if let Some(context) = &self.context {
            let (who, failure) = (context.request_client(), Failure::of(error));
            crate::log::warn!(
                request_id = who.request_id,
                bearer = &*who.name,
                client = %who.client,
                kind = failure.kind,
                detail = failure.detail,
                node = failure.node,
                table = failure.table,
                "a scan was cut short"
            );
        }
    }

    /// Logs a slow page with its plan. The line contains no filter, cursor or bounds, because they
    /// contain values.
    async fn log_slow(
        &self,
        context: &Context,
        collection: &str,
        request: &PageRequest,
        reply: &PageReply,
        rows: usize,
    ) {
        context
            .observer()
            .metrics
            .slow_pages
            .fetch_add(1, Ordering::Relaxed);
        let explained = self.session.explain(collection, request, false);
        let explained = tokio::time::timeout(EXPLAIN_TIME, explained).await;
        let plan = explained.ok().and_then(std::result::Result::ok);
        let plan = plan.as_ref();
        let cost = &reply.cost;
        let who = context.request_client();
        crate::log::warn!(
            request_id = who.request_id,
            bearer = &*who.name,
            client = %who.client,
            collection,
            shape = reply.shape.map(tracing::field::display),
            sort_order = plan.map(|plan| tracing::field::display(&plan.sort_order)),
            table = plan.map(|plan| plan.table.as_str()),
            sources = plan.map(|plan| plan.sources.len()),
            page_size = request.page_size.unwrap_or(0),
            rows_read = cost.rows_read,
            rows_returned = rows,
            bytes_read = cost.bytes_read,
            round_trips = cost.round_trips,
            tombstones = cost.tombstones,
            stop = reply.stop.map_or("", recto::Stop::name),
            ms = cost.time_micros / MICROS_PER_MILLI,
            "slow query"
        );
    }
}

/// Hides a cost that only the operator may see.
fn keep_cost(reply: &mut PageReply) {
    if reply.cost_hidden {
        reply.cost = PageCost::default();
    }
}

/// Adds to the audit entry the number of changes of each collection.
fn count_changes(deed: &mut Deed, changes: &[RecordChange]) {
    if !deed.is_noted() {
        return;
    }
    let mut counts: BTreeMap<&str, Written> = BTreeMap::new();
    for change in changes {
        counts
            .entry(&change.collection)
            .or_default()
            .count(&change.action);
    }
    let counts = counts.into_iter().map(|(collection, counted)| {
        let mut counts = json!({ "puts": counted.puts, "deletes": counted.deletes });
        if counted.updates > 0 {
            counts["updates"] = counted.updates.into();
        }
        (collection.to_owned(), counts)
    });
    deed.detail("collections", counts.collect::<Map<_, _>>());
}

#[async_trait]
impl<S: Session> Session for Observed<S> {
    async fn describe(&self) -> Result<StoreDescription> {
        self.seen(self.session.describe().await)
    }

    async fn schema(&self) -> Result<Arc<Schema>> {
        self.seen(self.session.schema().await)
    }

    fn tools(&self) -> Result<&dyn Tools> {
        self.seen(self.session.tools())?;
        Ok(self)
    }

    fn queues(&self) -> Result<&dyn Queues> {
        self.seen(self.session.queues())?;
        Ok(self)
    }
}

#[async_trait]
impl<S: Session> Pages for Observed<S> {
    async fn page(&self, collection: &str, request: &PageRequest) -> Result<PageReply> {
        let page = self.session.page(collection, request);
        let mut reply = self
            .watched(collection, request, page, |reply| (reply, reply.records.len()))
            .await?;
        keep_cost(&mut reply);
        Ok(reply)
    }

    async fn page_text(&self, collection: &str, request: &PageRequest) -> Result<PageText> {
        let page = self.session.page_text(collection, request);
        let mut text = self
            .watched(collection, request, page, |text| (&text.reply, text.count))
            .await?;
        keep_cost(&mut text.reply);
        Ok(text)
    }

    async fn explain(&self, collection: &str, request: &PageRequest, run: bool) -> Result<Explanation> {
        self.seen(self.session.explain(collection, request, run).await)
    }

    async fn choices(&self, collection: &str, request: &PageRequest) -> Result<Choices> {
        self.seen(self.session.choices(collection, request).await)
    }

    fn scan<'a>(&'a self, collection: &str, request: &ScanRequest) -> BoxStream<'a, Result<ScanStep>> {
        let mut has_begun = false;
        let steps = self.session.scan(collection, request);
        let watched = steps.map(move |step| {
            let step = self.seen(step);
            if let (true, Err(error)) = (has_begun, &step) {
                self.log_cut_short(error);
            }
            has_begun = true;
            step
        });
        watched.boxed()
    }

    fn partitions<'a>(&'a self, collection: &str) -> BoxStream<'a, Result<Vec<JsonRecord>>> {
        let steps = self.session.partitions(collection);
        steps.map(|step| self.seen(step)).boxed()
    }
}

#[async_trait]
impl<S: Session> Records for Observed<S> {
    async fn get(&self, collection: &str, key: &[String]) -> Result<Option<Versioned<JsonRecord>>> {
        self.seen(self.session.get(collection, key).await)
    }

    async fn write(&self, changes: Vec<RecordChange>) -> Result<Written> {
        let mut deed = self.begin_change("write");
        count_changes(&mut deed, &changes);
        let mut written = self.seen(self.session.write(changes).await);
        deed.end(&written);
        if let Ok(written) = &mut written {
            let outcomes = std::mem::take(&mut written.outcomes);
            written.outcomes = outcomes.into_iter().map(|outcome| self.seen(outcome)).collect();
            let refused: Vec<_> = written
                .outcomes
                .iter()
                .filter_map(|one| one.as_ref().err())
                .collect();
            if let Some(error) = refused.first() {
                deed.failed(error);
                deed.detail("refused", refused.len());
            }
        }
        written
    }
}

#[async_trait]
impl<S: Session> Tools for Observed<S> {
    async fn plan(&self, schema: &Schema, options: &ApplyOptions) -> Result<SchemaPlan> {
        self.seen(self.session.tools()?.plan(schema, options).await)
    }

    async fn apply(
        &self,
        schema: &Schema,
        options: &ApplyOptions,
        progress: Progress<'_, ViewProgress>,
    ) -> Result<Applied> {
        let mut deed = self.begin_change("apply");
        let applied = self.seen(self.session.tools()?.apply(schema, options, progress).await);
        deed.end(&applied);
        if let Ok(applied) = &applied {
            deed.detail("generation", applied.generation);
        }
        applied
    }

    async fn views(&self) -> Result<Vec<ViewStatus>> {
        self.seen(self.session.tools()?.views().await)
    }

    async fn verify(
        &self,
        request: &VerifyRequest,
        progress: Progress<'_, ViewProgress>,
    ) -> Result<VerifyReport> {
        let deed = if request.repair {
            self.begin_change("repair")
        } else {
            self.deed("verify")
        };
        self.tool(deed, |tools| tools.verify(request, progress)).await
    }

    async fn recover(
        &self,
        goes_on: FindingHandler<'_, RecoveryPass>,
        bears: ErrorHandler<'_>,
    ) -> Result<Option<RecoveryPass>> {
        self.seen(self.session.tools()?.recover(goes_on, bears).await)
    }

    async fn load(&self, request: &LoadRequest, progress: Progress<'_, LoadProgress>) -> Result<LoadReport> {
        let deed = self.begin_change("load");
        self.tool(deed, |tools| tools.load(request, progress)).await
    }

    async fn backup(&self, to: &Path, progress: Progress<'_, StoreProgress>) -> Result<Backup> {
        let deed = self.deed("backup");
        self.tool(deed, |tools| tools.backup(to, progress)).await
    }

    async fn compact(&self, progress: Progress<'_, StoreProgress>) -> Result<(u64, u64)> {
        let deed = self.begin_change("compact");
        self.tool(deed, |tools| tools.compact(progress)).await
    }

    async fn cursor_keys(&self) -> Result<Vec<CursorKey>> {
        self.seen(self.session.tools()?.cursor_keys().await)
    }

    async fn rotate_cursor_keys(&self, earlier: u32) -> Result<Vec<CursorKey>> {
        let deed = self.begin_change("rotate cursor keys");
        self.tool(deed, |tools| tools.rotate_cursor_keys(earlier)).await
    }

    async fn row_sizes(&self, collection: &str) -> Result<RowSizes> {
        self.seen(self.session.tools()?.row_sizes(collection).await)
    }

    async fn bucket_partitions(
        &self,
        collection: &str,
        request: &BucketsRequest,
    ) -> Result<BucketPartitions> {
        self.seen(self.session.tools()?.bucket_partitions(collection, request).await)
    }

    async fn buckets(&self, collection: &str, request: &BucketsRequest) -> Result<BucketList> {
        self.seen(self.session.tools()?.buckets(collection, request).await)
    }

    async fn rebalance_buckets(
        &self,
        collection: &str,
        request: &RebalanceRequest,
        progress: Progress<'_, RebalanceProgress>,
    ) -> Result<RebalanceReport> {
        let deed = self.begin_change("rebalance buckets");
        self.tool(deed, |tools| {
            tools.rebalance_buckets(collection, request, progress)
        })
        .await
    }

    async fn check(&self, progress: Progress<'_, StoreProgress>) -> Result<CheckOutcome> {
        let deed = self.deed("check");
        self.tool(deed, |tools| tools.check(progress)).await
    }
}
