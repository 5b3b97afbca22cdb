//! The questions as requests.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use hyper::Method;
use recto::schema::{Collection, Schema};
use recto::session::{
    Applied, CheckOutcome, CursorKey, Explanation, JsonRecord, LoadProgress, LoadReport, LoadRequest,
    PageReply, PageRequest, Progress, RecordChange, ScanRequest, ScanStep, SchemaPlan, StoreDescription,
    StoreProgress,
};
use recto::{Error, ErrorKind, HttpAddress, Result, Session, Type, no_collection};
use serde_json::{Value as Json, json};

use crate::export;
use crate::replies::{self, ExplanationBody, PageBody, SchemaBody, misunderstood};
use crate::target::{self, Query};
use crate::transport::Transport;

/// A [`Session`] over a running server.
#[derive(Debug)]
pub struct HttpSession {
    transport: Transport,
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

    async fn recorded(&self) -> Result<SchemaBody> {
        let reply = self.transport.get("/v1/schema").await?;
        replies::read(self.transport.server(), &reply.body)
    }

    fn parse(&self, recorded: &SchemaBody) -> Result<Schema> {
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

    async fn change(&self, collection: &str, changes: Vec<Json>) -> Result<()> {
        let target = target::of_collection(collection, "/records:batchWrite");
        let body = json!({ "changes": changes });
        match self.transport.change(Method::POST, &target, Some(&body)).await {
            Ok(()) => Ok(()),
            Err(error) => Err(self.about(collection, error).await),
        }
    }
}

/// A change as it stands in a batch.
fn change_json(schema: &Schema, change: RecordChange) -> Result<Json> {
    match change {
        RecordChange::Put { collection, record } => Ok(json!({ "collection": collection, "put": record })),
        RecordChange::Delete { collection, key } => {
            let definition = schema.collection(&collection);
            let definition = definition.ok_or_else(|| no_collection(schema, &collection))?;
            Ok(json!({ "collection": collection, "delete": key_json(definition, &key) }))
        }
    }
}

/// The record JSON that key texts stand for. Text that is no value of its type stays text, which the
/// server refuses.
fn key_json(definition: &Collection, key: &[String]) -> Vec<Json> {
    let values = key.iter().enumerate().map(|(index, text)| {
        let field = definition.key.get(index).and_then(|name| definition.field(name));
        let value = match field.map(|(_, field)| &field.ty) {
            Some(Type::Boolean) => text.parse().ok().map(Json::Bool),
            Some(Type::TinyInt | Type::SmallInt | Type::Int) => text.parse::<i64>().ok().map(Json::from),
            Some(Type::Float | Type::Double) => {
                let number = text.parse().ok().and_then(serde_json::Number::from_f64);
                number.map(Json::Number)
            }
            _ => None,
        };
        value.unwrap_or_else(|| text.as_str().into())
    });
    values.collect()
}

/// A page's question as query parameters.
fn question(request: &PageRequest) -> Query {
    let mut query = Query::default();
    query.add_text("filter", &request.filter);
    query.add_text("order_by", &request.order_by);
    if let Some(size) = request.page_size {
        query.add("page_size", size);
    }
    query.add_text("page_token", &request.page_token);
    query.add_flag("last", request.last);
    if let Some(from) = &request.from {
        // What is no JSON array is refused in the words of the server.
        let values = serde_json::from_str::<Vec<Json>>(from).map(Json::from);
        query.add("from", values.unwrap_or_else(|_| from.as_str().into()));
    }
    if let Some(around) = &request.around {
        query.add("around", around.as_str());
    }
    query.add_names("fields", &request.fields);
    query.add_flag("allow_residual", request.allow_residual);
    query.add_flag("row_tokens", request.row_tokens);
    if request.edges_both {
        query.add("edges", "both");
    }
    query
}

/// What a server does not do for whom asks it.
#[cold]
fn not_offered<T>(what: &str) -> Result<T> {
    Err(Error::new(
        ErrorKind::Unsupported,
        format!("{what} is not done through a server"),
    )
    .with_hint(
        "do it where the store is, with --store naming its folder or cassandra://…; an embedded store's \
             server must be stopped first",
    ))
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
        })
    }

    async fn schema(&self) -> Result<Arc<Schema>> {
        let recorded = self.recorded().await?;
        self.parse(&recorded).map(Arc::new)
    }

    async fn plan(&self, _: &Schema) -> Result<SchemaPlan> {
        not_offered("changing the schema")
    }

    async fn apply(&self, _: &Schema) -> Result<Applied> {
        not_offered("changing the schema")
    }

    async fn page(&self, collection: &str, request: &PageRequest) -> Result<PageReply> {
        let path = |rest| target::of_collection(collection, rest);
        let ask = question(request).ask(&path("/records"), &path("/records:query"));
        let reply = match self.transport.ask(&ask).await {
            Ok(reply) => reply,
            Err(error) => return Err(self.about(collection, error).await),
        };
        let body: PageBody = replies::read(self.transport.server(), &reply.body)?;
        Ok(body.into_reply(&reply.headers))
    }

    async fn explain(&self, collection: &str, request: &PageRequest, run: bool) -> Result<Explanation> {
        let mut query = question(request);
        query.add_flag("run", run);
        let path = target::of_collection(collection, "/records:explain");
        let reply = match self.transport.ask(&query.ask(&path, &path)).await {
            Ok(reply) => reply,
            Err(error) => return Err(self.about(collection, error).await),
        };
        let body: ExplanationBody = replies::read(self.transport.server(), &reply.body)?;
        Ok(body.into())
    }

    async fn get(&self, collection: &str, key: &[String]) -> Result<Option<JsonRecord>> {
        let target = target::of_record(collection, key);
        match self.transport.get(&target).await {
            Ok(reply) => replies::read(self.transport.server(), &reply.body).map(Some),
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

    async fn put(&self, collection: &str, records: Vec<JsonRecord>) -> Result<()> {
        let changes = records.into_iter().map(|record| json!({ "put": record }));
        self.change(collection, changes.collect()).await
    }

    async fn delete(&self, collection: &str, key: &[String]) -> Result<()> {
        let target = target::of_record(collection, key);
        if target.len() > target::MAX_TARGET_CHARACTERS {
            let key = key.to_vec();
            let collection = collection.to_owned();
            return self.write(vec![RecordChange::Delete { collection, key }]).await;
        }
        match self.transport.change(Method::DELETE, &target, None).await {
            Ok(()) => Ok(()),
            Err(error) => Err(self.about(collection, error).await),
        }
    }

    async fn write(&self, changes: Vec<RecordChange>) -> Result<()> {
        let Some(first) = changes.first() else {
            return Ok(());
        };
        let collection = first.collection().to_owned();
        let schema = self.schema().await?;
        let changes = changes.into_iter().map(|change| change_json(&schema, change));
        self.change(&collection, changes.collect::<Result<_>>()?).await
    }

    fn scan<'a>(&'a self, collection: &str, request: &ScanRequest) -> BoxStream<'a, Result<ScanStep>> {
        export::steps(&self.transport, collection, request)
    }

    async fn load(&self, _: &LoadRequest, _: Progress<'_, LoadProgress>) -> Result<LoadReport> {
        not_offered("loading a file")
    }

    async fn backup(&self, _: &Path, _: Progress<'_, StoreProgress>) -> Result<u64> {
        not_offered("backup")
    }

    async fn compact(&self, _: Progress<'_, StoreProgress>) -> Result<(u64, u64)> {
        not_offered("compact")
    }

    async fn cursor_keys(&self) -> Result<Vec<CursorKey>> {
        not_offered("looking at cursor keys")
    }

    async fn rotate_cursor_keys(&self, _: u32) -> Result<Vec<CursorKey>> {
        not_offered("rotating cursor keys")
    }

    async fn check(&self, _: Progress<'_, StoreProgress>) -> Result<CheckOutcome> {
        not_offered("check")
    }
}
