//! Metrics and logs of pages: time, cost and shape of the plan.

use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::stream::BoxStream;
#[cfg(feature = "full")]
use recto::ErrorKind;
#[cfg(feature = "full")]
use recto::design::{LOG_MESSAGE, filter_shape, sort_shape};
use recto::session::{
    Choices, Explanation, JsonRecord, PageCost, PageReply, PageRequest, PageText, Pages, ScanRequest,
    ScanStep,
};
use recto::{Error, Result, Session};

use super::{Observed, Operation};
use crate::operation::{Context, Failure, PageSpan};

/// Maximum time to explain a slow query for the log. An explanation only plans, and reads no rows.
const EXPLAIN_TIME: Duration = Duration::from_secs(1);
const NANOS_PER_SECOND: f64 = 1e9;
const MICROS_PER_MILLI: u64 = 1_000;

#[async_trait]
impl<S: Session> Pages for Observed<S> {
    async fn page(&self, collection: &str, request: &PageRequest) -> Result<PageReply> {
        let read = async |session: &S| session.page(collection, request).await;
        let mut reply = self
            .call_page(collection, request, read, |reply| (reply, reply.records.len()))
            .await?;
        hide_cost(&mut reply);
        Ok(reply)
    }

    async fn page_text(&self, collection: &str, request: &PageRequest) -> Result<PageText> {
        let read = async |session: &S| session.page_text(collection, request).await;
        let mut text = self
            .call_page(collection, request, read, |text| (&text.reply, text.count))
            .await?;
        hide_cost(&mut text.reply);
        Ok(text)
    }

    async fn explain(&self, collection: &str, request: &PageRequest, run: bool) -> Result<Explanation> {
        let explain = async |session: &S| session.explain(collection, request, run).await;
        self.call(Operation::unaudited(), explain).await
    }

    async fn choices(&self, collection: &str, request: &PageRequest) -> Result<Choices> {
        let choose = async |session: &S| session.choices(collection, request).await;
        self.call(Operation::unaudited(), choose).await
    }

    fn scan<'a>(&'a self, collection: &str, request: &ScanRequest) -> BoxStream<'a, Result<ScanStep>> {
        let steps = self.stream(|session| session.scan(collection, request));
        let logged = steps.enumerate().map(|(number, step)| {
            if let (1.., Err(error)) = (number, &step) {
                self.log_cut_short(error);
            }
            step
        });
        logged.boxed()
    }

    fn partitions<'a>(&'a self, collection: &str) -> BoxStream<'a, Result<Vec<JsonRecord>>> {
        self.stream(|session| session.partitions(collection))
    }
}

/// Removes the cost from a reply, if only the operator may see it.
fn hide_cost(reply: &mut PageReply) {
    if reply.cost_hidden {
        reply.cost = PageCost::default();
    }
}

impl<S: Session> Observed<S> {
    /// Reads a page, and records its time, metrics and trace span. `outline` returns the reply
    /// without its rows, and the number of rows.
    async fn call_page<P>(
        &self,
        collection: &str,
        request: &PageRequest,
        read: impl AsyncFnOnce(&S) -> Result<P>,
        outline: fn(&P) -> (&PageReply, usize),
    ) -> Result<P> {
        let started = self.now_nanos();
        let span = self.page_span();
        let page = self.call(Operation::unaudited(), read).await;
        if let Some(span) = span {
            span.end(collection, page.as_ref().map(outline));
        }
        self.count_query(collection, request, page.as_ref().err());
        let page = page?;
        let (reply, rows) = outline(&page);
        self.count_page(collection, request, reply, rows, started).await;
        Ok(page)
    }

    fn now_nanos(&self) -> u64 {
        let clock = |context: &Context| context.observer().environment.monotonic_nanos();
        self.context.as_ref().map_or(0, clock)
    }

    fn page_span(&self) -> Option<PageSpan> {
        let context = self.context.as_ref()?;
        Some(context.observer().traces.page(context.parent()))
    }

    /// Records the metrics of a successful page of `rows` rows, and logs the page if it was slow.
    async fn count_page(
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

    /// Counts and logs the shape of a query (filter and sort order without values), as input for
    /// `recto design`. Counts only queries that succeeded or that no view serves.
    #[cfg(feature = "full")]
    fn count_query(&self, collection: &str, request: &PageRequest, error: Option<&Error>) {
        let is_counted = error.is_none_or(|error| error.kind() == ErrorKind::NoPlan);
        let Some(context) = self.context.as_ref().filter(|_| is_counted) else {
            return;
        };
        let rows = self.rows.get(collection);
        let filters = rows.into_iter().chain([&request.filter]).map(String::as_str);
        // Both conversions succeed, because a query that succeeded or that no view serves has valid
        // texts.
        let filter = filter_shape(filters).unwrap_or_default();
        let order_by = sort_shape(&request.order_by).unwrap_or_default();
        let is_served = error.is_none();
        crate::log::debug!(collection, filter, order_by, is_served, "{LOG_MESSAGE}");
        context.observer().asked.count(collection, filter, order_by);
    }

    #[cfg(not(feature = "full"))]
    #[allow(clippy::unused_self)] // the other build uses it
    fn count_query(&self, _: &str, _: &PageRequest, _: Option<&Error>) {}

    /// Logs an error that ended an export after its first step, when the reply already has status
    /// 200.
    fn log_cut_short(&self, error: &Error) {
        if let Some(context) = &self.context {
            let (client, failure) = (context.request_client(), Failure::of(error));
            crate::log::warn!(
                request_id = client.request_id,
                bearer = &*client.name,
                client = %client.client,
                kind = failure.kind,
                detail = failure.detail,
                node = failure.node,
                table = failure.table,
                "a scan was cut short"
            );
        }
    }

    /// Logs a slow page with its plan. The line has no filter, cursor or bounds, because they
    /// contain stored values.
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
        let explanation = self.unobserved().explain(collection, request, false);
        let explanation = tokio::time::timeout(EXPLAIN_TIME, explanation).await;
        let plan = explanation.ok().and_then(Result::ok);
        let plan = plan.as_ref();
        let cost = &reply.cost;
        let client = context.request_client();
        crate::log::warn!(
            request_id = client.request_id,
            bearer = &*client.name,
            client = %client.client,
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
