//! The questions as requests.

use std::path::{Component, Path};
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use hyper::Method;
use recto::schema::{Collection, Schema, StoreQueues, WriteMode};
use recto::session::{
    Action, Applied, ApplyOptions, Backup, Bears, BucketList, BucketPartitions, BucketsRequest, CheckOutcome,
    CursorKey, Explanation, GoesOn, JsonRecord, LoadProgress, LoadReport, LoadRequest, PageReply,
    PageRequest, Pages, Progress, Queues, RebalanceProgress, RebalanceReport, RebalanceRequest, RecordChange,
    Records, RecoveryPass, RowSizes, ScanRequest, ScanStep, SchemaPlan, StoreDescription, StoreProgress,
    Tools, VerifyReport, VerifyRequest, Versioned, ViewProgress, ViewStatus, Written, json_of_text,
};
use recto::{Error, ErrorKind, HttpAddress, Result, Session, check_load_file, no_collection};
use recto_api::loads::LoadOptions;
use recto_api::pages::ExplainOptions;
use recto_api::store::{
    BackupRequest, CompareRequest, CursorKeys, RotateRequest, SchemaRequest, StoreSchema,
};
use recto_api::views::ViewList;
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};

use crate::export;
use crate::replies::upkeep::{CompactBody, LoadBody};
use crate::replies::{self, misunderstood};
use crate::target::{self, Ask, Query};
use crate::transport::Transport;
use crate::upkeep::{self, Heard, RejectFile};

/// A [`Session`] over a running server.
#[derive(Debug)]
pub struct HttpSession {
    pub(crate) transport: Transport,
}

impl HttpSession {
    /// The session of the server at an address. Nothing is asked of it yet.
    ///
    /// # Errors
    /// The token or the certificate authorities cannot be used.
    pub fn new(address: &HttpAddress) -> Result<Self> {
        Ok(Self {
            transport: Transport::new(address)?,
        })
    }

    async fn recorded(&self) -> Result<StoreSchema> {
        let reply = self.transport.get("/v1/schema").await?;
        replies::read(self.transport.server(), &reply.body)
    }

    /// The schema as the server tells it.
    pub(crate) async fn recorded_schema(&self) -> Result<Schema> {
        let recorded = self.recorded().await?;
        self.parse(&recorded)
    }

    fn parse(&self, recorded: &StoreSchema) -> Result<Schema> {
        Schema::parse(&recorded.toml)
            .map_err(|errors| misunderstood(self.transport.server()).with_source(errors))
    }

    /// An error about a collection that is not there, in the words of every session.
    async fn about(&self, collection: &str, error: Error) -> Error {
        if error.kind() != ErrorKind::NotFound {
            return error;
        }
        match self.schema().await {
            Ok(schema) if schema.collection(collection).is_none() => no_collection(&schema, collection),
            _ => error,
        }
    }

    /// What is told of the buckets of a collection.
    async fn of_buckets<R: DeserializeOwned>(
        &self,
        collection: &str,
        what: &str,
        request: &BucketsRequest,
    ) -> Result<R> {
        let target = Query::of(request).after(&target::of_collection(collection, &format!("/{what}")));
        match self.transport.get(&target).await {
            Ok(reply) => replies::read(self.transport.server(), &reply.body),
            Err(error) => Err(self.about(collection, error).await),
        }
    }

    /// An error about one of several collections that is not there.
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

    /// Has work done that goes on to its end; returns its result.
    async fn work<P: DeserializeOwned, R: DeserializeOwned>(
        &self,
        target: &str,
        body: Option<&Json>,
        progress: &(dyn Fn(P) + Send + Sync),
    ) -> Result<R> {
        self.work_until(target, body, progress, RUNS_ON).await
    }

    /// The same, of work of which `cut_hint` says what becomes of it when its answer is cut.
    async fn work_until<P: DeserializeOwned, R: DeserializeOwned>(
        &self,
        target: &str,
        body: Option<&Json>,
        progress: &(dyn Fn(P) + Send + Sync),
        cut_hint: &'static str,
    ) -> Result<R> {
        let response = self.transport.begin(target, body, cut_hint).await?;
        let heard = Heard {
            progress,
            rejects: &mut |_| Ok(()),
            cut_hint,
        };
        upkeep::result(&self.transport, response, heard).await
    }

    /// What a write did whose answer was lost after its status, which says that it was done: all that was asked. But
    /// of records that have versions nobody knows which changes were refused.
    async fn written_unheard(&self, changes: &[RecordChange]) -> Result<Written> {
        let schema = self.schema().await.unwrap_or_default();
        let has_version = |change: &RecordChange| {
            let definition = schema.collection(&change.collection);
            is_of_version(change) || definition.is_some_and(|one| one.writes == WriteMode::Update)
        };
        if changes.iter().any(has_version) {
            let message =
                "the server made the changes, but its answer was lost: it is not known which it refused";
            return Err(
                Error::new(ErrorKind::OutcomeUnknown, message).with_hint("read the records to find out")
            );
        }
        let mut written = Written::default();
        for change in changes {
            written.count(&change.action);
        }
        Ok(written)
    }
}

/// Whether a change is of a record that has a version, whatever its collection.
fn is_of_version(change: &RecordChange) -> bool {
    let action = &change.action;
    change.if_version.is_some() || matches!(action, Action::Insert { .. } | Action::Update { .. })
}

/// A change as it stands in a batch.
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

/// The record JSON that key texts stand for.
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

/// What to do when the answer to work that runs on is cut.
const RUNS_ON: &str = "what the server began goes on to its end, which its log tells";
/// What to do when a load is cut.
const STOPS: &str = "what was stored stays, and the same command goes on where this one stopped";

/// What to do when the answer to work is cut that begins anew.
const ENDS: &str =
    "the server stops it, and what was repaired stays so; with a checkpoint the same command goes on";

/// The name of a backup, which has no path: where it is made is the server's to choose.
fn backup_name(to: &Path) -> Result<&str> {
    let mut steps = to.components();
    match (steps.next(), steps.next()) {
        (Some(Component::Normal(name)), None) => name.to_str(),
        _ => None,
    }
    .ok_or_else(|| {
        let message = format!("{} is not a name for a backup made by a server", to.display());
        Error::new(ErrorKind::InvalidArgument, message).with_hint(
            "give a name without a path: it is made in the folder that the server's operator named",
        )
    })
}

/// A file is sent, then loaded: both count.
fn whole(progress: LoadProgress, sent: u64) -> LoadProgress {
    LoadProgress {
        bytes_consumed: sent + progress.bytes_consumed,
        bytes_total: sent + progress.bytes_total,
        ..progress
    }
}

/// Returns the body of a request about a schema.
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
            store: self.transport.server().to_owned(),
            generation: recorded.generation,
            collections: collections.iter().map(|one| one.name.clone()).collect(),
            unavailable: recorded.unavailable,
        })
    }

    async fn schema(&self) -> Result<Arc<Schema>> {
        let mut schema = self.recorded_schema().await?;
        // What holds for queues is told with it, and not recorded with it.
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
        let path = |rest| target::of_collection(collection, rest);
        let ask = Query::of(request).ask(&path("/records"), &path("/records:query"));
        let reply = match self.transport.ask(&ask).await {
            Ok(reply) => reply,
            Err(error) => return Err(self.about(collection, error).await),
        };
        let page = replies::read(self.transport.server(), &reply.body)?;
        Ok(replies::with_cost(page, &reply.headers))
    }

    async fn explain(&self, collection: &str, request: &PageRequest, run: bool) -> Result<Explanation> {
        let query = Query::of(request).and(&ExplainOptions { run });
        let path = target::of_collection(collection, "/records:explain");
        let reply = match self.transport.ask(&query.ask(&path, &path)).await {
            Ok(reply) => reply,
            Err(error) => return Err(self.about(collection, error).await),
        };
        replies::read(self.transport.server(), &reply.body)
    }

    fn scan<'a>(&'a self, collection: &str, request: &ScanRequest) -> BoxStream<'a, Result<ScanStep>> {
        export::steps(&self.transport, collection, request)
    }
}

#[async_trait]
impl Records for HttpSession {
    async fn get(&self, collection: &str, key: &[String]) -> Result<Option<Versioned<JsonRecord>>> {
        let target = target::of_record(collection, key);
        match self.transport.get(&target).await {
            Ok(reply) => Ok(Some(Versioned {
                record: replies::read(self.transport.server(), &reply.body)?,
                version: replies::version(&reply.headers),
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
        let target = target::of_collection(&first.collection, "/records:batchWrite");
        match self.transport.change(Method::POST, &target, Some(&body)).await {
            Ok(answer) => match self.transport.read_whole(answer).await {
                Ok(reply) => replies::written(self.transport.server(), &reply.body, changes.len()),
                Err(_) => self.written_unheard(&changes).await,
            },
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
        let ask = Ask::post("/v1/store:plan", &body);
        let reply = self.transport.ask(&ask).await?;
        replies::read(self.transport.server(), &reply.body)
    }

    async fn apply(
        &self,
        schema: &Schema,
        options: &ApplyOptions,
        progress: Progress<'_, ViewProgress>,
    ) -> Result<Applied> {
        let body = schema_body(schema, options);
        self.work("/v1/store:apply", Some(&body), progress).await
    }

    async fn views(&self) -> Result<Vec<ViewStatus>> {
        let reply = self.transport.get("/v1/collections/-/views").await?;
        let body: ViewList = replies::read(self.transport.server(), &reply.body)?;
        Ok(body.views)
    }

    async fn verify(
        &self,
        request: &VerifyRequest,
        progress: Progress<'_, ViewProgress>,
    ) -> Result<VerifyReport> {
        if request.memory_bytes.is_some() {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "how much memory a comparison takes is the server's to choose",
            )
            .with_hint("leave --memory-mib away"));
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
        let compared = self.work_until(target, Some(&body), progress, ENDS).await;
        match compared {
            Ok(report) => Ok(report),
            Err(error) => Err(self.about_all(&request.collections, error).await),
        }
    }

    async fn recover(&self, _: GoesOn<'_, RecoveryPass>, _: Bears<'_>) -> Result<Option<RecoveryPass>> {
        Err(
            Error::new(ErrorKind::Unsupported, "a server looks after its store by itself")
                .with_hint("its metrics tell of it (recto_writers_*); or name the store itself"),
        )
    }

    async fn load(&self, request: &LoadRequest, progress: Progress<'_, LoadProgress>) -> Result<LoadReport> {
        if request.buffer_bytes.is_some() {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "how much memory a load takes is the server's to choose",
            )
            .with_hint("leave --buffer-mib away"));
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
            .transport
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
        let heard = Heard {
            progress: &|at| progress(whole(at, bytes)),
            rejects: &mut |piece| rejects.add(piece),
            cut_hint: STOPS,
        };
        let body: LoadBody = upkeep::result(&self.transport, response, heard).await?;
        let rejects = rejects.finish(body.rejects.as_deref())?;
        Ok(LoadReport {
            rejects,
            ..body.report
        })
    }

    async fn backup(&self, to: &Path, progress: Progress<'_, StoreProgress>) -> Result<Backup> {
        let name = backup_name(to)?.to_owned();
        let body = json!(BackupRequest { name });
        self.work("/v1/store:backup", Some(&body), progress).await
    }

    async fn compact(&self, progress: Progress<'_, StoreProgress>) -> Result<(u64, u64)> {
        let done: CompactBody = self.work("/v1/store:compact", None, progress).await?;
        Ok((done.bytes_before, done.bytes_after))
    }

    async fn cursor_keys(&self) -> Result<Vec<CursorKey>> {
        let reply = self.transport.get("/v1/store:cursorKeys").await?;
        let body: CursorKeys = replies::read(self.transport.server(), &reply.body)?;
        Ok(body.keys)
    }

    async fn rotate_cursor_keys(&self, earlier: u32) -> Result<Vec<CursorKey>> {
        let body = json!(RotateRequest { earlier });
        let target = "/v1/store:rotateCursorKeys";
        let body = self.transport.change(Method::POST, target, Some(&body)).await?;
        let reply = self.transport.read_whole(body).await?;
        let body: CursorKeys = replies::read(self.transport.server(), &reply.body)?;
        Ok(body.keys)
    }

    async fn row_sizes(&self, _: &str) -> Result<RowSizes> {
        Err(
            Error::new(ErrorKind::Unsupported, "a server does not say how large rows are")
                .with_hint("name the store itself"),
        )
    }

    async fn bucket_partitions(
        &self,
        collection: &str,
        request: &BucketsRequest,
    ) -> Result<BucketPartitions> {
        self.of_buckets(collection, "partitions", request).await
    }

    async fn buckets(&self, collection: &str, request: &BucketsRequest) -> Result<BucketList> {
        self.of_buckets(collection, "buckets", request).await
    }

    async fn rebalance_buckets(
        &self,
        collection: &str,
        request: &RebalanceRequest,
        progress: Progress<'_, RebalanceProgress>,
    ) -> Result<RebalanceReport> {
        if request.clear {
            let message = "a server clears by itself what cuts left";
            return Err(Error::new(ErrorKind::Unsupported, message).with_hint("leave --clear away"));
        }
        let body = json!(request);
        let target = target::of_collection(collection, "/buckets:rebalance");
        let repaired = self.work(&target, Some(&body), progress).await;
        match repaired {
            Ok(report) => Ok(report),
            Err(error) => Err(self.about(collection, error).await),
        }
    }

    async fn check(&self, progress: Progress<'_, StoreProgress>) -> Result<CheckOutcome> {
        self.work("/v1/store:check", None, progress).await
    }
}
