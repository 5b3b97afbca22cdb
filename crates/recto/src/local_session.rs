//! The session over a store that this process has open.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::{BoxStream, StreamExt};
use recto_model::schema::{Collection as Definition, Schema};

use crate::collection::KeyText;
use crate::error::{Error, ErrorKind, Result};
use crate::explain;
use crate::open;
use crate::page::Page;
use crate::query::PageQuery;
use crate::record::{DynamicRecord, no_field};
use crate::recto::Recto;
use crate::scan;
use crate::session::{
    Applied, CheckOutcome, Explanation, JsonRecord, LoadProgress, LoadReport, LoadRequest, PageReply,
    PageRequest, Progress, ScanRequest, ScanStep, SchemaPlan, Session, StoreDescription, StoreProgress,
};

/// A [`Session`] over a store that this process has open.
#[derive(Debug, Clone)]
pub struct LocalSession {
    recto: Arc<tokio::sync::RwLock<Recto>>,
}

impl LocalSession {
    /// The session of an open store.
    pub fn new(recto: Recto) -> Self {
        Self {
            recto: Arc::new(tokio::sync::RwLock::new(recto)),
        }
    }

    async fn recto(&self) -> Recto {
        self.recto.read().await.clone()
    }

    async fn query(&self, collection: &str, request: &PageRequest) -> Result<PageQuery<DynamicRecord>> {
        let collection = self.recto().await.dynamic(collection)?;
        check_fields(collection.definition(), &request.fields)?;
        let mut query = collection
            .query()
            .filter(&request.filter)
            .order_by(&request.order_by)
            .page_size(page_size(request.page_size)?);
        if request.allow_residual {
            query = query.allow_residual();
        }
        if request.edges_both {
            query = query.both_edges();
        }
        if !request.page_token.is_empty() {
            query = query.page_token(&request.page_token);
        }
        if request.last {
            let size = page_size(request.page_size)?;
            query = query.last(size);
        }
        if let Some(from) = &request.from {
            query = query.from_json(from);
        }
        if let Some(around) = &request.around {
            query = query.around(around);
        }
        Ok(query)
    }
}

/// AIP-158: absent or 0 is the default, negative is refused, above the most is coerced.
fn page_size(asked: Option<i64>) -> Result<u32> {
    match asked.unwrap_or(0) {
        negative if negative < 0 => Err(Error::new(
            ErrorKind::InvalidQuery,
            format!("page_size is {negative}; it cannot be negative"),
        )
        .with_field("page_size")),
        asked => Ok(u32::try_from(asked).unwrap_or(u32::MAX)),
    }
}

fn check_fields(definition: &Definition, fields: &[String]) -> Result<()> {
    match fields.iter().find(|name| definition.field(name).is_none()) {
        None => Ok(()),
        Some(unknown) => Err(no_field(ErrorKind::InvalidQuery, definition, unknown)),
    }
}

/// A record's JSON with the fields asked for; all of them if none is named.
fn masked(record: &DynamicRecord, fields: &[String]) -> JsonRecord {
    let mut json = record.to_json();
    if !fields.is_empty() {
        json.retain(|name, _| fields.iter().any(|field| field == name));
    }
    json
}

fn reply(page: &Page<DynamicRecord>, request: &PageRequest) -> PageReply {
    let text = |cursor: Option<recto_plan::cursor::Cursor>| cursor.map(String::from).unwrap_or_default();
    PageReply {
        records: page
            .items()
            .iter()
            .map(|record| masked(record, &request.fields))
            .collect(),
        next_page_token: text(page.next_cursor()),
        previous_page_token: text(page.previous_cursor()),
        stop: page.stop().map(|stop| stop.name().to_owned()),
        row_tokens: request.row_tokens.then(|| {
            (0..page.len())
                .map(|index| page.cursor(index).into_string())
                .collect()
        }),
        cost: page.cost(),
    }
}

#[async_trait]
impl Session for LocalSession {
    async fn describe(&self) -> Result<StoreDescription> {
        let recto = self.recto().await;
        Ok(StoreDescription {
            store: recto.describe(),
            generation: recto.generation(),
            collections: recto
                .schema()
                .collections
                .iter()
                .map(|one| one.name.clone())
                .collect(),
        })
    }

    async fn schema(&self) -> Result<Arc<Schema>> {
        Ok(self.recto().await.schema())
    }

    async fn plan(&self, schema: &Schema) -> Result<SchemaPlan> {
        Ok(self.recto().await.plan(schema))
    }

    async fn apply(&self, schema: &Schema) -> Result<Applied> {
        self.recto.write().await.apply(schema).await
    }

    async fn page(&self, collection: &str, request: &PageRequest) -> Result<PageReply> {
        let page = self.query(collection, request).await?.await?;
        Ok(reply(&page, request))
    }

    async fn explain(&self, collection: &str, request: &PageRequest, run: bool) -> Result<Explanation> {
        let query = self.query(collection, request).await?;
        let planned = query.planned()?;
        let spec = query.spec(&planned.plan)?;
        let mut explanation = explain::explain(query.core(), &planned, &spec);
        if run {
            let page = query.await?;
            explanation.actual = Some(page.cost());
            explanation.actual_rows_returned = Some(page.len() as u64);
        }
        Ok(explanation)
    }

    async fn get(&self, collection: &str, key: &[String]) -> Result<Option<JsonRecord>> {
        let collection = self.recto().await.dynamic(collection)?;
        Ok(collection.get(KeyText(key)).await?.map(|record| record.to_json()))
    }

    async fn put(&self, collection: &str, records: Vec<JsonRecord>) -> Result<()> {
        let collection = self.recto().await.dynamic(collection)?;
        let definition = Arc::new(collection.definition().clone());
        let records: Vec<DynamicRecord> = records
            .iter()
            .map(|record| DynamicRecord::from_json(Arc::clone(&definition), record))
            .collect::<Result<_>>()?;
        collection.put_all(&records).await
    }

    async fn delete(&self, collection: &str, key: &[String]) -> Result<()> {
        self.recto().await.dynamic(collection)?.delete(KeyText(key)).await
    }

    fn scan<'a>(&'a self, collection: &str, request: &ScanRequest) -> BoxStream<'a, Result<ScanStep>> {
        let collection = collection.to_owned();
        let request = request.clone();
        let begin = async move {
            let core = self.recto().await.core(&collection)?;
            check_fields(&core.definition, &request.fields)?;
            let arrangement = Arc::clone(core.base());
            let steps = scan::scan(Arc::clone(&core), request.parallel, request.resume);
            Ok::<_, Error>(steps.map(move |step| {
                let step = step?;
                let records = step.rows.iter().map(|row| {
                    DynamicRecord::read(&core, &arrangement, row)
                        .map(|record| masked(&record, &request.fields))
                });
                Ok(ScanStep {
                    records: records.collect::<Result<_>>()?,
                    resume: step.resume,
                })
            }))
        };
        futures::stream::once(begin)
            .flat_map(|begun| match begun {
                Ok(steps) => steps.left_stream(),
                Err(error) => futures::stream::once(async { Err(error) }).right_stream(),
            })
            .boxed()
    }

    async fn load(&self, request: &LoadRequest, progress: Progress<'_, LoadProgress>) -> Result<LoadReport> {
        let recto = self.recto().await;
        let collections = request
            .collections
            .iter()
            .map(|name| recto.core(name))
            .collect::<Result<Vec<_>>>()?;
        crate::load::load(&collections, request, progress).await
    }

    async fn backup(&self, to: &Path, progress: Progress<'_, StoreProgress>) -> Result<u64> {
        open::backup(self.recto().await.operations(), to, progress).await
    }

    async fn compact(&self, progress: Progress<'_, StoreProgress>) -> Result<(u64, u64)> {
        open::compact(self.recto().await.operations(), progress).await
    }

    async fn check(&self, progress: Progress<'_, StoreProgress>) -> Result<CheckOutcome> {
        open::check(self.recto().await.operations(), progress).await
    }
}
