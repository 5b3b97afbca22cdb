//! Fake session for tests, which records its requests and returns fixed replies.

use std::path::Path;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use recto::schema::Schema;
use recto::session::{
    Action, Applied, ApplyOptions, Backup, BucketList, BucketPartitions, BucketsRequest, CheckOutcome,
    CommitLog, CursorKey, ErrorHandler, Explanation, FindingHandler, JsonRecord, LoadProgress, LoadReport,
    LoadRequest, PageReply, PageRequest, Pages, Progress, RebalanceProgress, RebalanceReport,
    RebalanceRequest, RecordChange, Records, RecoveryPass, RowSizes, ScanRequest, ScanStep, SchemaPlan,
    StoreDescription, StoreProgress, Tools, VerifyReport, VerifyRequest, Versioned, ViewProgress, ViewStatus,
    Written,
};
use recto::{Result, Session};
use serde_json::Value as Json;

use super::replies;

/// Fake session with fixed rows, which records its requests.
#[derive(Debug, Default)]
pub(crate) struct FakeSession {
    /// Recorded requests as text. Each starts with the name of the operation.
    pub(crate) requests: Mutex<Vec<String>>,
    /// True if the store has no schema.
    pub(crate) empty: bool,
    /// Number of pages. The token of a page is its index (from 0).
    pub(crate) pages: usize,
    /// Messages with which a plan of a schema change is rejected; empty to accept it.
    pub(crate) refused: Vec<String>,
    /// Number of rows that a load rejects.
    pub(crate) rejected: u64,
    /// True to fail a scan after its second step, and a recovery after its first pass.
    pub(crate) failing_scan: bool,
    /// Problems that a check of the store reports.
    pub(crate) problems: Vec<String>,
}

impl FakeSession {
    /// Creates a fake session with three pages.
    pub(crate) fn new() -> Self {
        Self {
            pages: 3,
            ..Self::default()
        }
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    /// Records a request, and returns the given reply.
    fn call<T>(&self, request: impl Into<String>, reply: T) -> T {
        self.requests.lock().unwrap().push(request.into());
        reply
    }

    fn recover_in_passes(
        &self,
        on_pass: FindingHandler<'_, RecoveryPass>,
        on_error: ErrorHandler<'_>,
    ) -> Result<Option<RecoveryPass>> {
        let mut last = None;
        let passes = replies::recovery(self.rejected > 0);
        for pass in passes.into_iter().filter(|_| !self.empty) {
            last = Some(pass);
            if !on_pass(pass) {
                break;
            }
            if self.failing_scan && pass.watched > 0 {
                on_error(replies::unavailable("try again"))?;
            }
        }
        Ok(last)
    }
}

#[async_trait]
impl Session for FakeSession {
    async fn describe(&self) -> Result<StoreDescription> {
        self.call("describe", Ok(replies::description(self.empty)))
    }

    async fn schema(&self) -> Result<Arc<Schema>> {
        let schema = if self.empty {
            Schema::default()
        } else {
            replies::flights()
        };
        self.call("schema", Ok(Arc::new(schema)))
    }

    fn tools(&self) -> Result<&dyn Tools> {
        Ok(self)
    }
}

#[async_trait]
impl Pages for FakeSession {
    async fn page(&self, collection: &str, request: &PageRequest) -> Result<PageReply> {
        replies::check_query(request)?;
        let page = replies::page_number(request, self.pages)?;
        let size = request.page_size;
        self.call(
            format!("page {page} of {collection} by {size:?}"),
            Ok(replies::page(request, page, self.pages)),
        )
    }

    async fn explain(&self, collection: &str, request: &PageRequest, run: bool) -> Result<Explanation> {
        replies::check_query(request)?;
        self.call(
            format!("explain {collection} {request:?}"),
            Ok(replies::explanation(request.allow_filter_scan, run)),
        )
    }

    fn scan<'a>(&'a self, _collection: &str, request: &ScanRequest) -> BoxStream<'a, Result<ScanStep>> {
        let steps = replies::scan(self.failing_scan);
        self.call(format!("scan {request:?}"), futures::stream::iter(steps).boxed())
    }
}

#[async_trait]
impl Records for FakeSession {
    async fn get(&self, _collection: &str, key: &[String]) -> Result<Option<Versioned<JsonRecord>>> {
        let found = (key[1] == "UA").then(|| Versioned {
            record: replies::records()[0].clone(),
            version: None,
        });
        self.call(format!("get {key:?}"), Ok(found))
    }

    async fn write(&self, changes: Vec<RecordChange>) -> Result<Written> {
        let mut written = Written::default();
        for change in &changes {
            written.count(&change.action);
        }
        let changes: Vec<_> = changes.iter().map(change_text).collect();
        self.call(changes.join("\n"), Ok(written))
    }
}

/// Returns a change of a record as short text, for the list of requests.
fn change_text(change: &RecordChange) -> String {
    let collection = &change.collection;
    let stored = |action: &str, record: &JsonRecord, ttl_seconds: &Option<u32>| {
        let ttl = ttl_seconds.map(|seconds| format!(" for {seconds} s"));
        let record = Json::Object(record.clone());
        format!("{action} {collection} {record}{}", ttl.unwrap_or_default())
    };
    let text = match &change.action {
        Action::Insert { record, ttl_seconds } => stored("insert", record, ttl_seconds),
        Action::Put { record, ttl_seconds } => stored("put", record, ttl_seconds),
        Action::Update { key, fields } => format!("update {key:?} {}", Json::Object(fields.clone())),
        Action::Delete { key } => format!("delete {key:?}"),
    };
    match change.if_version {
        None => text,
        Some(version) => format!("{text} if {version}"),
    }
}

#[async_trait]
impl Tools for FakeSession {
    async fn plan(&self, _: &Schema, _: &ApplyOptions) -> Result<SchemaPlan> {
        self.call("plan", Ok(replies::plan(self.empty, &self.refused)))
    }

    async fn apply(
        &self,
        schema: &Schema,
        _: &ApplyOptions,
        _: Progress<'_, ViewProgress>,
    ) -> Result<Applied> {
        let applied = Applied {
            generation: 1,
            changes: replies::plan(self.empty, &self.refused).changes,
            ..Applied::default()
        };
        self.call(format!("apply {}", schema.collections.len()), Ok(applied))
    }

    async fn views(&self) -> Result<Vec<ViewStatus>> {
        let views = if self.empty { Vec::new() } else { replies::views() };
        self.call("views", Ok(views))
    }

    async fn verify(
        &self,
        request: &VerifyRequest,
        progress: Progress<'_, ViewProgress>,
    ) -> Result<VerifyReport> {
        progress(ViewProgress {
            resume: Some("so-far".into()),
            ..ViewProgress::default()
        });
        self.call(
            format!("{request:?}"),
            Ok(replies::verify_report(request, self.rejected)),
        )
    }

    async fn recover(
        &self,
        on_pass: FindingHandler<'_, RecoveryPass>,
        on_error: ErrorHandler<'_>,
    ) -> Result<Option<RecoveryPass>> {
        self.call("recover", self.recover_in_passes(on_pass, on_error))
    }

    async fn load(&self, request: &LoadRequest, progress: Progress<'_, LoadProgress>) -> Result<LoadReport> {
        progress(LoadProgress {
            rows_read: 10,
            bytes_consumed: 5,
            bytes_total: 10,
            ..LoadProgress::default()
        });
        self.call(
            format!("load {request:?}"),
            Ok(replies::load_report(request, self.rejected)),
        )
    }

    async fn backup(&self, to: &Path, _: Progress<'_, StoreProgress>) -> Result<Backup> {
        let folder = to.display().to_string();
        let bytes = 514_000_000;
        self.call(format!("backup {folder}"), Ok(Backup { bytes, folder }))
    }

    async fn compact(&self, _: Progress<'_, StoreProgress>) -> Result<(u64, u64)> {
        self.call("compact", Ok((1_028_000_000, 514_000_000)))
    }

    async fn commit_log(&self) -> Result<Option<CommitLog>> {
        self.call("commit_log", Ok((!self.empty).then_some(replies::COMMIT_LOG)))
    }

    async fn cursor_keys(&self) -> Result<Vec<CursorKey>> {
        self.call("cursor_keys", Ok(replies::cursor_keys(self.empty)))
    }

    async fn rotate_cursor_keys(&self, earlier: u32) -> Result<Vec<CursorKey>> {
        self.call(
            format!("rotate, keep {earlier}"),
            Ok(replies::cursor_keys(self.empty)),
        )
    }

    async fn row_sizes(&self, collection: &str) -> Result<RowSizes> {
        self.call(format!("row_sizes {collection}"), Ok(replies::ROW_SIZES))
    }

    async fn bucket_partitions(
        &self,
        collection: &str,
        request: &BucketsRequest,
    ) -> Result<BucketPartitions> {
        self.call(
            format!("bucket partitions of {collection} {request:?}"),
            Ok(replies::bucket_partitions(collection)),
        )
    }

    async fn buckets(&self, collection: &str, request: &BucketsRequest) -> Result<BucketList> {
        self.call(
            format!("buckets of {collection} {request:?}"),
            replies::buckets(collection, request),
        )
    }

    async fn rebalance_buckets(
        &self,
        collection: &str,
        request: &RebalanceRequest,
        progress: Progress<'_, RebalanceProgress>,
    ) -> Result<RebalanceReport> {
        progress(RebalanceProgress::default());
        let report = RebalanceReport {
            partitions: 1,
            buckets: 3,
            created: 2,
            ..RebalanceReport::default()
        };
        self.call(format!("rebalance {collection} {request:?}"), Ok(report))
    }

    async fn check(&self, _: Progress<'_, StoreProgress>) -> Result<CheckOutcome> {
        self.call("check", Ok(replies::check(&self.problems)))
    }
}
