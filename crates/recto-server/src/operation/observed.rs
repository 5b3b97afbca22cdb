//! Session wrapper that records metrics and logs: time, cost and plan shape of pages, errors, and
//! changes. Its modules:
//!
//! | module | content |
//! |---|---|
//! | `call` | the functions that every operation uses, and the description of an operation |
//! | `pages` | time, cost and shape of pages |
//! | `queues` | operations on queues |

mod call;
mod pages;
mod queues;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use recto::schema::Schema;
use recto::session::{
    Applied, ApplyOptions, Backup, BucketList, BucketPartitions, BucketsRequest, CheckOutcome, CommitLog,
    CursorKey, ErrorHandler, FindingHandler, JsonRecord, LoadProgress, LoadReport, LoadRequest, Progress,
    Queues, RebalanceProgress, RebalanceReport, RebalanceRequest, RecordChange, Records, RecoveryPass,
    RowSizes, SchemaPlan, StoreDescription, StoreProgress, Tools, VerifyReport, VerifyRequest, Versioned,
    ViewProgress, ViewStatus, Written,
};
use recto::{Result, Session};
use serde_json::{Map, Value as Json, json};

pub(crate) use call::Observed;
use call::{Operation, errors_of};

#[async_trait]
impl<S: Session> Session for Observed<S> {
    async fn describe(&self) -> Result<StoreDescription> {
        self.call(Operation::unaudited(), async |session| session.describe().await)
            .await
    }

    async fn schema(&self) -> Result<Arc<Schema>> {
        self.call(Operation::unaudited(), async |session| session.schema().await)
            .await
    }

    fn tools(&self) -> Result<&dyn Tools> {
        self.part(|session| session.tools())?;
        Ok(self)
    }

    fn queues(&self) -> Result<&dyn Queues> {
        self.part(|session| session.queues())?;
        Ok(self)
    }
}

#[async_trait]
impl<S: Session> Records for Observed<S> {
    async fn get(&self, collection: &str, key: &[String]) -> Result<Option<Versioned<JsonRecord>>> {
        let get = async |session: &S| session.get(collection, key).await;
        self.call(Operation::unaudited(), get).await
    }

    async fn write(&self, changes: Vec<RecordChange>) -> Result<Written> {
        let mut operation =
            Operation::change("write").item_errors(|written: &Written| errors_of(&written.outcomes));
        if self.has_audit() {
            operation = operation.detail("collections", change_counts(&changes));
        }
        self.call(operation, async |session| session.write(changes).await)
            .await
    }
}

/// Returns the number of changes by collection and kind, for the audit log.
fn change_counts(changes: &[RecordChange]) -> Json {
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
    counts.collect::<Map<_, _>>().into()
}

#[async_trait]
impl<S: Session> Tools for Observed<S> {
    async fn plan(&self, schema: &Schema, options: &ApplyOptions) -> Result<SchemaPlan> {
        let plan = async |session: &S| session.tools()?.plan(schema, options).await;
        self.call(Operation::unaudited(), plan).await
    }

    async fn apply(
        &self,
        schema: &Schema,
        options: &ApplyOptions,
        progress: Progress<'_, ViewProgress>,
    ) -> Result<Applied> {
        let operation = Operation::change("apply")
            .reply_detail(|applied: &Applied| Some(("generation", applied.generation.into())));
        let apply = async |session: &S| session.tools()?.apply(schema, options, progress).await;
        self.call(operation, apply).await
    }

    async fn views(&self) -> Result<Vec<ViewStatus>> {
        let list = async |session: &S| session.tools()?.views().await;
        self.call(Operation::unaudited(), list).await
    }

    async fn verify(
        &self,
        request: &VerifyRequest,
        progress: Progress<'_, ViewProgress>,
    ) -> Result<VerifyReport> {
        let operation = if request.repair {
            Operation::change("repair")
        } else {
            Operation::audited("verify")
        };
        let verify = async |session: &S| session.tools()?.verify(request, progress).await;
        self.call(operation, verify).await
    }

    async fn recover(
        &self,
        on_pass: FindingHandler<'_, RecoveryPass>,
        on_error: ErrorHandler<'_>,
    ) -> Result<Option<RecoveryPass>> {
        let recover = async |session: &S| session.tools()?.recover(on_pass, on_error).await;
        self.call(Operation::unaudited(), recover).await
    }

    async fn load(&self, request: &LoadRequest, progress: Progress<'_, LoadProgress>) -> Result<LoadReport> {
        let load = async |session: &S| session.tools()?.load(request, progress).await;
        self.call(Operation::change("load"), load).await
    }

    async fn backup(&self, to: &Path, progress: Progress<'_, StoreProgress>) -> Result<Backup> {
        let back_up = async |session: &S| session.tools()?.backup(to, progress).await;
        self.call(Operation::audited("backup"), back_up).await
    }

    async fn compact(&self, progress: Progress<'_, StoreProgress>) -> Result<(u64, u64)> {
        let compact = async |session: &S| session.tools()?.compact(progress).await;
        self.call(Operation::change("compact"), compact).await
    }

    async fn commit_log(&self) -> Result<Option<CommitLog>> {
        let read = async |session: &S| session.tools()?.commit_log().await;
        self.call(Operation::unaudited(), read).await
    }

    async fn cursor_keys(&self) -> Result<Vec<CursorKey>> {
        let list = async |session: &S| session.tools()?.cursor_keys().await;
        self.call(Operation::unaudited(), list).await
    }

    async fn rotate_cursor_keys(&self, earlier: u32) -> Result<Vec<CursorKey>> {
        let rotate = async |session: &S| session.tools()?.rotate_cursor_keys(earlier).await;
        self.call(Operation::change("rotate cursor keys"), rotate).await
    }

    async fn row_sizes(&self, collection: &str) -> Result<RowSizes> {
        let measure = async |session: &S| session.tools()?.row_sizes(collection).await;
        self.call(Operation::unaudited(), measure).await
    }

    async fn bucket_partitions(
        &self,
        collection: &str,
        request: &BucketsRequest,
    ) -> Result<BucketPartitions> {
        let list = async |session: &S| session.tools()?.bucket_partitions(collection, request).await;
        self.call(Operation::unaudited(), list).await
    }

    async fn buckets(&self, collection: &str, request: &BucketsRequest) -> Result<BucketList> {
        let list = async |session: &S| session.tools()?.buckets(collection, request).await;
        self.call(Operation::unaudited(), list).await
    }

    async fn rebalance_buckets(
        &self,
        collection: &str,
        request: &RebalanceRequest,
        progress: Progress<'_, RebalanceProgress>,
    ) -> Result<RebalanceReport> {
        let rebalance = async |session: &S| {
            let tools = session.tools()?;
            tools.rebalance_buckets(collection, request, progress).await
        };
        self.call(Operation::change("rebalance buckets"), rebalance).await
    }

    async fn check(&self, progress: Progress<'_, StoreProgress>) -> Result<CheckOutcome> {
        let check = async |session: &S| session.tools()?.check(progress).await;
        self.call(Operation::audited("check"), check).await
    }
}
