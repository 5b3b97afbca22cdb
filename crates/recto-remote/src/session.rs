//! Session of a running server: collections, records and maintenance.

use std::path::{Component, Path};
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use recto::schema::{Collection, Schema, StoreQueues, WriteMode};
use recto::session::{
    Action, Applied, ApplyOptions, Backup, BucketList, BucketPartitions, BucketsRequest, CheckOutcome,
    CommitLog, CursorKey, ErrorHandler, Explanation, FindingHandler, JsonRecord, LoadProgress, LoadReport,
    LoadRequest, Outcome, PageCost, PageReply, PageRequest, Pages, Progress, Queues, RebalanceProgress,
    RebalanceReport, RebalanceRequest, RecordChange, Records, RecoveryPass, RowSizes, ScanRequest, ScanStep,
    SchemaPlan, StoreDescription, StoreProgress, Tools, VerifyReport, VerifyRequest, Versioned, ViewProgress,
    ViewStatus, Written, json_of_text,
};
use recto::{Error, ErrorKind, HttpAddress, Result, Session, check_load_file, no_collection};
use recto_api::loads::LoadOptions;
use recto_api::pages::ExplainOptions;
use recto_api::records::{BatchResult, ChangeOutcome};
use recto_api::store::{
    BackupRequest, CompareRequest, CursorKeys, RotateRequest, SchemaRequest, StoreSchema,
};
use recto_api::views::ViewList;
use recto_client::header::ETAG;
use recto_client::{
    Client, HeaderMap, Method, Query, Request, Response, collection_path, error_of_problem, record_path,
    unexpected_reply,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};

use crate::rejects::RejectFile;
use crate::{export, work};

/// Hint of the error if the reply to an operation is lost and the server completes the operation.
const CONTINUES: &str = "see the server's log for the outcome: the server completes the operation";
/// Hint of the error if the reply to a load is lost.
const STOPS: &str = "run the same command again to continue; stored rows remain";
/// Hint of the error if the reply to an operation is lost and the server stops the operation.
const ENDS: &str = "run the same command again; with --checkpoint it continues. The server stopped the \
                    operation, and repaired entries remain";

/// [`Session`] that sends its requests to a running server.
#[derive(Debug)]
pub struct HttpSession {
    pub(crate) client: Client,
}

impl HttpSession {
    /// Returns a session of the server at an address. The session connects when it sends the first
    /// request.
    ///
    /// # Errors
    /// The token or the certificate authorities cannot be used.
    pub fn new(address: &HttpAddress) -> Result<Self> {
        Ok(Self {
            client: Client::new(address)?,
        })
    }

    pub(crate) async fn fetch<R: DeserializeOwned>(&self, target: &str) -> Result<R> {
        self.request(&Request::get(target)).await
    }

    pub(crate) async fn request<R: DeserializeOwned>(&self, request: &Request) -> Result<R> {
        Ok(self.client.read(request).await?.body)
    }

    async fn recorded(&self) -> Result<StoreSchema> {
        self.fetch("/v1/schema").await
    }

    /// Requests the schema from the server, including the settings of queues.
    pub(crate) async fn recorded_schema(&self) -> Result<Schema> {
        let recorded = self.recorded().await?;
        self.parse(&recorded)
    }

    fn parse(&self, recorded: &StoreSchema) -> Result<Schema> {
        Schema::parse(&recorded.toml)
            .map_err(|errors| unexpected_reply(self.client.server()).with_source(errors))
    }

    /// Replaces a "not found" error by one that names the missing collection, as sessions of an
    /// open store report it.
    async fn about(&self, collection: &str, error: Error) -> Error {
        if error.kind() != ErrorKind::NotFound {
            return error;
        }
        match self.schema().await {
            Ok(schema) if schema.collection(collection).is_none() => no_collection(&schema, collection),
            _ => error,
        }
    }

    /// Requests a report about the buckets of a collection. `report` is the last part of the URL's
    /// path.
    async fn report_buckets<R: DeserializeOwned>(
        &self,
        collection: &str,
        report: &str,
        request: &BucketsRequest,
    ) -> Result<R> {
        let target = Query::of(request).after(&collection_path(collection, &format!("/{report}")));
        match self.fetch(&target).await {
            Ok(reply) => Ok(reply),
            Err(error) => Err(self.about(collection, error).await),
        }
    }

    /// Replaces a "not found" error by one that names the first missing collection, as sessions of
    /// an open store report it.
    async fn about_all(&self, collections: &[String], error: Error) -> Error {
        if error.kind() != ErrorKind::NotFound {
            return error;
        }
        match self.schema().await {
            Ok(schema) => {
                let mut names = collections.iter();
                let missing = names.find(|name| schema.collection(name).is_none());
                missing.map_or(error, |name| no_collection(&schema, name))
            }
            _ => error,
        }
    }

    /// Starts an operation on the server, reports its progress, and returns its result. If the
    /// reply is lost, the error has the hint `lost_hint`.
    async fn work<P: DeserializeOwned, R: DeserializeOwned>(
        &self,
        target: &str,
        body: Option<&Json>,
        progress: &(dyn Fn(P) + Send + Sync),
        lost_hint: &'static str,
    ) -> Result<R> {
        let response = self.client.call(&Request::work(target, body, lost_hint)).await?;
        let mut ignore = |_: &[u8]| Ok(());
        work::result(&self.client, response, progress, &mut ignore, lost_hint).await
    }

    /// Reads the reply to a request that wrote `changes`.
    async fn written(&self, response: Response<'_>, changes: &[RecordChange]) -> Result<Written> {
        let body: BatchResult = match self.client.rest(response).await {
            Ok(reply) => reply.body,
            Err(error) if error.kind() == ErrorKind::Store => return Err(error),
            Err(_) => return self.written_without_reply(changes).await,
        };
        if !body.outcomes.is_empty() && body.outcomes.len() != changes.len() {
            return Err(unexpected_reply(self.client.server()));
        }
        Ok(Written {
            puts: body.puts,
            updates: body.updates.unwrap_or(0),
            deletes: body.deletes,
            repeated: body.repeated,
            outcomes: body.outcomes.into_iter().map(outcome).collect(),
        })
    }

    /// Returns the result of a write whose reply had a successful status, but lost its body.
    /// Without versions, the status means that all changes were made. With versions, the server may
    /// have rejected some changes, so the result is an error.
    async fn written_without_reply(&self, changes: &[RecordChange]) -> Result<Written> {
        let schema = self.schema().await.unwrap_or_default();
        let has_version = |change: &RecordChange| {
            let definition = schema.collection(&change.collection);
            is_of_version(change) || definition.is_some_and(|one| one.writes == WriteMode::Update)
        };
        if changes.iter().any(has_version) {
            let message = "the server processed the changes, but its answer was lost: it may have rejected \
                           some changes";
            return Err(Error::new(ErrorKind::OutcomeUnknown, message)
                .with_hint("read the records to see their state"));
        }
        let mut written = Written::default();
        for change in changes {
            written.count(&change.action);
        }
        Ok(written)
    }
}

/// Returns whether the change is possible only in collections whose records have versions.
fn is_of_version(change: &RecordChange) -> bool {
    let action = &change.action;
    change.if_version.is_some() || matches!(action, Action::Insert { .. } | Action::Update { .. })
}

/// Converts a change to JSON, as the body of a batch has it.
fn change_json(schema: &Schema, change: &RecordChange) -> Result<Json> {
    let key_json = |key: &[String]| {
        let definition = schema.collection(&change.collection);
        let definition = definition.ok_or_else(|| no_collection(schema, &change.collection))?;
        Ok::<_, Error>(key_json(definition, key))
    };
    let mut json = match &change.action {
        Action::Insert { record, ttl_seconds } => json!({ "insert": record, "ttl_seconds": ttl_seconds }),
        Action::Put { record, ttl_seconds } => json!({ "put": record, "ttl_seconds": ttl_seconds }),
        Action::Update { key, fields } => json!({ "update": key_json(key)?, "set": fields }),
        Action::Delete { key } => json!({ "delete": key_json(key)? }),
    };
    json["collection"] = change.collection.as_str().into();
    if let Some(version) = change.if_version {
        json["if_version"] = version.to_string().into();
    }
    Ok(json)
}

/// Converts a key to a JSON array of its values. `key` has one text per key field.
fn key_json(definition: &Collection, key: &[String]) -> Vec<Json> {
    let values = key.iter().enumerate().map(|(index, text)| {
        let field = definition.key.get(index).and_then(|name| definition.field(name));
        field.map_or_else(
            || text.as_str().into(),
            |(_, field)| json_of_text(&field.ty, text),
        )
    });
    values.collect()
}

/// Returns the name of a backup. It must be one file name and not a path, because the server
/// chooses the folder.
fn backup_name(to: &Path) -> Result<&str> {
    let mut steps = to.components();
    match (steps.next(), steps.next()) {
        (Some(Component::Normal(name)), None) => name.to_str(),
        _ => None,
    }
    .ok_or_else(|| {
        let message = format!("{} is not a valid backup name for a server", to.display());
        Error::new(ErrorKind::InvalidArgument, message)
            .with_hint("use a name without a path: the server creates the backup in its backup folder")
    })
}

/// Returns the progress of a load including the transfer of its file. The server first receives the
/// file (`sent` bytes), then loads it, so each byte counts twice.
fn whole(progress: LoadProgress, sent: u64) -> LoadProgress {
    LoadProgress {
        bytes_consumed: sent + progress.bytes_consumed,
        bytes_total: sent + progress.bytes_total,
        ..progress
    }
}

/// Result of a compaction, as the server reports it.
#[derive(Debug, Deserialize)]
struct CompactBody {
    bytes_before: u64,
    bytes_after: u64,
}

/// Result of a load, as the server reports it.
#[derive(Debug, Deserialize)]
struct LoadBody {
    #[serde(flatten)]
    report: LoadReport,
    /// Extension of the file of rejected rows; `None` if no row was rejected.
    rejects: Option<String>,
}

/// Parses the version of a record from text in a JSON reply.
pub(crate) fn number(text: Option<String>) -> Option<i64> {
    text?.parse().ok()
}

/// Parses the version of a record from the header `ETag`.
fn version(headers: &HeaderMap) -> Option<i64> {
    let tag = headers.get(ETAG)?.to_str().ok()?;
    tag.strip_prefix('"')?.strip_suffix('"')?.parse().ok()
}

/// Adds the cost to a page, from the header `recto-cost` of its reply.
fn with_cost(page: PageReply, headers: &HeaderMap) -> PageReply {
    let cost = headers.get(PageCost::HEADER);
    PageReply {
        cost_hidden: cost.is_none(),
        cost: cost
            .and_then(|value| value.to_str().ok())
            .map(PageCost::of_header)
            .unwrap_or_default(),
        ..page
    }
}

fn outcome(outcome: ChangeOutcome) -> Result<Outcome> {
    match outcome {
        ChangeOutcome::Rejected(rejection) => Err(error_of_problem(rejection.problem)),
        ChangeOutcome::Made(made) => Ok(Outcome {
            version: number(made.version),
            pending: made.pending,
        }),
    }
}

/// Returns the body of a request that plans or applies a schema.
fn schema_body(schema: &Schema, options: &ApplyOptions) -> Json {
    json!(SchemaRequest {
        toml: schema.to_toml(),
        remove: options.remove.clone(),
        rows_per_second: options.rows_per_second,
        allow_misfits: options.allow_misfits,
    })
}

#[async_trait]
impl Session for HttpSession {
    async fn describe(&self) -> Result<StoreDescription> {
        let recorded = self.recorded().await?;
        let collections = self.parse(&recorded)?.collections;
        Ok(StoreDescription {
            store: self.client.server().to_owned(),
            generation: recorded.generation,
            collections: collections.iter().map(|one| one.name.clone()).collect(),
            unavailable: recorded.unavailable,
            cluster: recorded.cluster,
        })
    }

    async fn schema(&self) -> Result<Arc<Schema>> {
        let mut schema = self.recorded_schema().await?;
        // Remove the settings of queues, which are not part of the recorded schema. The server only
        // reports them with it.
        schema.queues = StoreQueues::default();
        Ok(Arc::new(schema))
    }

    fn tools(&self) -> Result<&dyn Tools> {
        Ok(self)
    }

    fn queues(&self) -> Result<&dyn Queues> {
        Ok(self)
    }
}

#[async_trait]
impl Pages for HttpSession {
    async fn page(&self, collection: &str, request: &PageRequest) -> Result<PageReply> {
        let path = |rest| collection_path(collection, rest);
        let request = Query::of(request).request(&path("/records"), &path("/records:query"));
        match self.client.read::<PageReply>(&request).await {
            Ok(reply) => Ok(with_cost(reply.body, &reply.headers)),
            Err(error) => Err(self.about(collection, error).await),
        }
    }

    async fn explain(&self, collection: &str, request: &PageRequest, run: bool) -> Result<Explanation> {
        let query = Query::of(request).and(&ExplainOptions { run });
        let path = collection_path(collection, "/records:explain");
        match self.request(&query.request(&path, &path)).await {
            Ok(explanation) => Ok(explanation),
            Err(error) => Err(self.about(collection, error).await),
        }
    }

    fn scan<'a>(&'a self, collection: &str, request: &ScanRequest) -> BoxStream<'a, Result<ScanStep>> {
        export::steps(&self.client, collection, request)
    }
}

#[async_trait]
impl Records for HttpSession {
    async fn get(&self, collection: &str, key: &[String]) -> Result<Option<Versioned<JsonRecord>>> {
        let request = Request::get(record_path(collection, key));
        match self.client.read(&request).await {
            Ok(reply) => Ok(Some(Versioned {
                record: reply.body,
                version: version(&reply.headers),
            })),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let schema = self.schema().await?;
                match schema.collection(collection) {
                    Some(_) => Ok(None),
                    None => Err(no_collection(&schema, collection)),
                }
            }
            Err(error) => Err(error),
        }
    }

    async fn write(&self, changes: Vec<RecordChange>) -> Result<Written> {
        let Some(first) = changes.first() else {
            return Ok(Written::default());
        };
        let has_key =
            |change: &RecordChange| matches!(change.action, Action::Update { .. } | Action::Delete { .. });
        let schema = if changes.iter().any(has_key) {
            self.schema().await?
        } else {
            Arc::default()
        };
        let body: Vec<Json> = changes
            .iter()
            .map(|change| change_json(&schema, change))
            .collect::<Result<_>>()?;
        let body = json!({ "changes": body });
        let target = collection_path(&first.collection, "/records:batchWrite");
        match self
            .client
            .call(&Request::change(Method::POST, target, Some(&body)))
            .await
        {
            Ok(response) => self.written(response, &changes).await,
            Err(error) => {
                let collections: Vec<String> = changes.into_iter().map(|change| change.collection).collect();
                Err(self.about_all(&collections, error).await)
            }
        }
    }
}

#[async_trait]
impl Tools for HttpSession {
    async fn plan(&self, schema: &Schema, options: &ApplyOptions) -> Result<SchemaPlan> {
        let body = schema_body(schema, options);
        self.request(&Request::query("/v1/store:plan", &body)).await
    }

    async fn apply(
        &self,
        schema: &Schema,
        options: &ApplyOptions,
        progress: Progress<'_, ViewProgress>,
    ) -> Result<Applied> {
        let body = schema_body(schema, options);
        self.work("/v1/store:apply", Some(&body), progress, CONTINUES)
            .await
    }

    async fn views(&self) -> Result<Vec<ViewStatus>> {
        let list: ViewList = self.fetch("/v1/collections/-/views").await?;
        Ok(list.views)
    }

    async fn verify(
        &self,
        request: &VerifyRequest,
        progress: Progress<'_, ViewProgress>,
    ) -> Result<VerifyReport> {
        if request.memory_bytes.is_some() {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "a server chooses the memory of a comparison itself",
            )
            .with_hint("leave --memory-mib out"));
        }
        let target = if request.repair {
            "/v1/store:repair"
        } else {
            "/v1/store:verify"
        };
        let body = json!(CompareRequest {
            collections: request.collections.clone(),
            rows_per_second: request.rows_per_second,
            resume_token: request.resume.clone(),
        });
        let compared = self.work(target, Some(&body), progress, ENDS).await;
        match compared {
            Ok(report) => Ok(report),
            Err(error) => Err(self.about_all(&request.collections, error).await),
        }
    }

    async fn recover(
        &self,
        _: FindingHandler<'_, RecoveryPass>,
        _: ErrorHandler<'_>,
    ) -> Result<Option<RecoveryPass>> {
        Err(Error::new(
            ErrorKind::Unsupported,
            "this command needs direct access to the store, not a server",
        )
        .with_hint(
            "name the store itself with --store; a server recovers changes by itself (metrics \
             recto_writers_*)",
        ))
    }

    async fn load(&self, request: &LoadRequest, progress: Progress<'_, LoadProgress>) -> Result<LoadReport> {
        if request.buffer_bytes.is_some() {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "a server chooses the memory of a load itself",
            )
            .with_hint("leave --buffer-mib out"));
        }
        let bytes = check_load_file(&request.file)?;
        let name = request.file.file_name().unwrap_or_default().to_string_lossy();
        let options = LoadOptions {
            collections: request.collections.clone(),
            name: name.into_owned(),
            again: request.again,
            ignore_unknown: request.ignore_unknown,
        };
        let target = Query::of(&options).and(&request.csv).after("/v1/store:load");
        let sending = |sent| {
            progress(LoadProgress {
                bytes_consumed: sent,
                bytes_total: 2 * bytes,
                ..LoadProgress::default()
            });
        };
        let sent = self
            .client
            .send_file(&target, &request.file, bytes, &sending)
            .await;
        let response = match sent {
            Ok(response) => response,
            Err(error) if error.kind() == ErrorKind::Unavailable && error.hint().is_none() => {
                return Err(error.with_hint(STOPS));
            }
            Err(error) => return Err(self.about_all(&request.collections, error).await),
        };
        let mut rejects = RejectFile::new(request.rejects.as_deref(), &request.file);
        let loaded = |at| progress(whole(at, bytes));
        let mut reject = |piece: &[u8]| rejects.add(piece);
        let body: LoadBody = work::result(&self.client, response, &loaded, &mut reject, STOPS).await?;
        let rejects = rejects.finish(body.rejects.as_deref())?;
        Ok(LoadReport {
            rejects,
            ..body.report
        })
    }

    async fn backup(&self, to: &Path, progress: Progress<'_, StoreProgress>) -> Result<Backup> {
        let name = backup_name(to)?.to_owned();
        let body = json!(BackupRequest { name });
        self.work("/v1/store:backup", Some(&body), progress, CONTINUES)
            .await
    }

    async fn compact(&self, progress: Progress<'_, StoreProgress>) -> Result<(u64, u64)> {
        let done: CompactBody = self.work("/v1/store:compact", None, progress, CONTINUES).await?;
        Ok((done.bytes_before, done.bytes_after))
    }

    async fn commit_log(&self) -> Result<Option<CommitLog>> {
        match self.fetch("/v1/store:commitLog").await {
            Ok(log) => Ok(Some(log)),
            Err(error) if error.kind() == ErrorKind::Unsupported => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn cursor_keys(&self) -> Result<Vec<CursorKey>> {
        let list: CursorKeys = self.fetch("/v1/store:cursorKeys").await?;
        Ok(list.keys)
    }

    async fn rotate_cursor_keys(&self, earlier: u32) -> Result<Vec<CursorKey>> {
        let body = json!(RotateRequest { earlier });
        let request = Request::change(Method::POST, "/v1/store:rotateCursorKeys", Some(&body));
        let list: CursorKeys = self.request(&request).await?;
        Ok(list.keys)
    }

    async fn row_sizes(&self, _: &str) -> Result<RowSizes> {
        Err(Error::new(
            ErrorKind::Unsupported,
            "a server does not report the sizes of rows",
        )
        .with_hint("name the store itself with --store"))
    }

    async fn bucket_partitions(
        &self,
        collection: &str,
        request: &BucketsRequest,
    ) -> Result<BucketPartitions> {
        self.report_buckets(collection, "partitions", request).await
    }

    async fn buckets(&self, collection: &str, request: &BucketsRequest) -> Result<BucketList> {
        self.report_buckets(collection, "buckets", request).await
    }

    async fn rebalance_buckets(
        &self,
        collection: &str,
        request: &RebalanceRequest,
        progress: Progress<'_, RebalanceProgress>,
    ) -> Result<RebalanceReport> {
        if request.clear {
            let message = "a server clears the leftovers of splits itself";
            return Err(Error::new(ErrorKind::Unsupported, message).with_hint("leave --clear out"));
        }
        let body = json!(request);
        let target = collection_path(collection, "/buckets:rebalance");
        match self.work(&target, Some(&body), progress, CONTINUES).await {
            Ok(report) => Ok(report),
            Err(error) => Err(self.about(collection, error).await),
        }
    }

    async fn check(&self, progress: Progress<'_, StoreProgress>) -> Result<CheckOutcome> {
        self.work("/v1/store:check", None, progress, CONTINUES).await
    }
}
