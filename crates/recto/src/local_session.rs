//! The session over a store that this process has open.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::{BoxStream, StreamExt, TryStreamExt};
use recto_model::json;
use recto_model::schema::Schema;
use recto_store::StoreMetrics;

use crate::batch::WriteBatch;
use crate::collection::Collection;
use crate::error::{Error, ErrorKind, Result};
use crate::explain;
use crate::key::KeyText;
use crate::open;
use crate::page::Page;
use crate::page_text;
use crate::paging::Place;
use crate::partitions;
use crate::query::PageQuery;
use crate::record::{DynamicRecord, check_fields};
use crate::recto::Recto;
use crate::row_filter::{self, RowFilter, RowFilters, forbidden};
use crate::scan;
use crate::session::{
    Applied, ApplyOptions, Backup, CheckOutcome, CursorKey, Explanation, JsonRecord, LoadProgress,
    LoadReport, LoadRequest, PageReply, PageRequest, PageText, Progress, RecordChange, ScanRequest, ScanStep,
    SchemaPlan, ScrubPosition, ScrubStep, Session, StoreDescription, StoreProgress, Written,
};

/// A [`Session`] over a store that this process has open.
///
/// ```
/// # use recto::{OpenOptions, Record, Recto};
/// # #[derive(Debug, Clone, PartialEq, Record)]
/// # #[record(collection = "events", key = ["day", "id"], partition = ["day"], order = ["id"], writes = "append")]
/// # struct Event { day: String, id: i64, kind: String }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> recto::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let mut store = Recto::open_with(folder.path().join("store"), OpenOptions::new().create()).await?;
/// # store.apply(&recto::schema_of([Event::collection()])).await?;
/// # let events = store.collection::<Event>()?;
/// # let event = |id| Event { day: "mon".into(), id, kind: if id % 9 == 0 { "alarm" } else { "tick" }.into() };
/// # events.put_all(&(0..60).map(event).collect::<Vec<_>>()).await?;
/// use recto::session::PageRequest;
/// use recto::{LocalSession, Session};
///
/// let session = LocalSession::new(store);
/// let request = PageRequest { filter: r#"day = "mon""#.into(), page_size: Some(2), ..PageRequest::default() };
/// let page = session.page("events", &request).await?;
/// assert_eq!(page.to_json()["records"][1]["id"], "1");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct LocalSession {
    recto: Arc<tokio::sync::RwLock<Recto>>,
    /// None: the session may do everything.
    rows: Option<Arc<RowFilters>>,
}

impl LocalSession {
    /// The session of an open store.
    pub fn new(recto: Recto) -> Self {
        Self {
            recto: Arc::new(tokio::sync::RwLock::new(recto)),
            rows: None,
        }
    }

    /// This session, restricted to rows: filter text by collection, which every row that is read or
    /// written through it satisfies. No filter, sort, cursor or key widens it. It cannot load files,
    /// change the schema or look after the store, and its refusals name no other collection.
    ///
    /// Records of a collection whose filter looks at fields outside the key can only be read: one
    /// that is written might take the place of a row that the filter hides.
    #[must_use]
    pub fn restricted(&self, rows: BTreeMap<String, String>) -> Self {
        let mut all = self.rows.as_deref().cloned().unwrap_or_default();
        for (collection, text) in rows {
            all.entry(collection).or_default().push(text);
        }
        Self {
            recto: Arc::clone(&self.recto),
            rows: Some(Arc::new(all)),
        }
    }

    /// Whether filter text can restrict sessions to rows of a collection, and, if it is for `writes`,
    /// whether any record can be written through it.
    ///
    /// # Errors
    /// There is no such collection; [`ErrorKind::Forbidden`], as such a session would say it, if the
    /// text is no filter of its fields, or is to be written through and looks at fields outside the key.
    pub async fn check_row_filter(&self, collection: &str, text: &str, writes: bool) -> Result<()> {
        let core = self.recto().await.core(collection)?;
        let texts = [text.to_owned()];
        let rows = RowFilter::new(&core.definition, &texts)?;
        if writes { rows.check_writable() } else { Ok(()) }
    }

    /// Whether a view serves filter text that restricts sessions to rows of a collection. Where none does,
    /// lists through it need `allow_residual`: rows that it hides are read and left out.
    ///
    /// # Errors
    /// As [`check_row_filter`](Self::check_row_filter).
    pub async fn is_row_filter_served(&self, collection: &str, text: &str) -> Result<bool> {
        let core = self.recto().await.core(collection)?;
        let conditions = row_filter::conditions(&core.definition, &[text.to_owned()])?;
        Ok(row_filter::is_served(
            &core.definition,
            &core.arrangements,
            &conditions,
        ))
    }

    /// Takes over what another process changed in the store; see [`Recto::refresh`].
    ///
    /// # Errors
    /// As there.
    pub async fn refresh(&self) -> Result<bool> {
        self.recto().await.refresh().await
    }

    /// What the store has seen of the nodes it asks; see [`Recto::store_metrics`].
    pub async fn store_metrics(&self) -> StoreMetrics {
        self.recto().await.store_metrics()
    }

    /// The collections that are refused for their tables; see [`Recto::refused_collections`].
    pub async fn refused_collections(&self) -> Vec<Error> {
        self.recto().await.refused_collections()
    }

    /// Reads the next `most_bytes` of an embedded store's file, and verifies every page and every row in them;
    /// `position` says where to go on, after the last step at the beginning. None where the store is on
    /// Cassandra. Reads and writes go on meanwhile, and no snapshot is held between steps.
    ///
    /// # Errors
    /// The file cannot be read. Damage is no error but in the step. The session is restricted to rows.
    pub async fn scrub_step(
        &self,
        position: &mut ScrubPosition,
        most_bytes: u64,
    ) -> Result<Option<ScrubStep>> {
        self.check_unrestricted("scrubbing")?;
        open::scrub_step(self.recto().await.operations(), position, most_bytes).await
    }

    /// The row filters for a collection.
    fn filters(&self, collection: &str) -> Option<&[String]> {
        self.rows.as_ref()?.get(collection).map(Vec::as_slice)
    }

    /// Refuses what is about the store and not about rows.
    fn check_unrestricted(&self, what: &str) -> Result<()> {
        match self.rows {
            None => Ok(()),
            Some(_) => Err(forbidden(format!("{what} is for sessions without row filters"))),
        }
    }

    async fn recto(&self) -> Recto {
        self.recto.read().await.clone()
    }

    fn add_change(
        &self,
        batch: &mut WriteBatch,
        collection: &Collection<DynamicRecord>,
        change: &RecordChange,
    ) -> Result<()> {
        let definition = collection.definition();
        let rows = self
            .filters(&definition.name)
            .map(|filters| RowFilter::new(definition, filters))
            .transpose()?;
        match change {
            RecordChange::Put {
                record, ttl_seconds, ..
            } => {
                let record = DynamicRecord::from_json(Arc::clone(&collection.core().definition), record)?;
                rows.iter().try_for_each(|rows| rows.check_write(&record))?;
                match ttl_seconds {
                    None => batch.put(collection, &record)?,
                    Some(seconds) => {
                        batch.put_for(collection, &record, Duration::from_secs((*seconds).into()))?
                    }
                };
            }
            RecordChange::Delete { key, .. } => {
                if let Some(rows) = rows {
                    rows.check_write(&of_key(collection, key)?)?;
                }
                batch.delete(collection, KeyText(key))?;
            }
        }
        Ok(())
    }

    async fn query(&self, collection: &str, request: &PageRequest) -> Result<PageQuery<DynamicRecord>> {
        let collection = self.recto().await.dynamic(collection)?;
        check_fields(collection.definition(), &request.fields)?;
        let mut query = collection
            .query()
            .filter(&request.filter)
            .order_by(&request.order_by)
            .view(&request.view)
            .looking_at(&request.fields)
            .page_size(page_size(request.page_size)?);
        if self.rows.is_some() {
            let filters = self.filters(&collection.definition().name);
            query = query.restricted(filters.unwrap_or_default());
        }
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

/// An error as those say it who know cursors as tokens: of pages, or of rows.
fn told(error: Error, request: &PageRequest) -> Error {
    if error.kind() != ErrorKind::InvalidCursor {
        return error;
    }
    let token = match request.around {
        Some(_) => "row token",
        None => "page token",
    };
    // The keys keep the name that `recto cursor-keys` knows them by.
    let words = |text: &str| {
        let text = text.replace("cursor key", "\0");
        text.replace("cursor", token).replace('\0', "cursor key")
    };
    let said = Error::new(error.kind(), words(error.message()));
    match error.hint() {
        Some(hint) => said.with_hint(words(hint)),
        None => said,
    }
}

/// What is told of a page beside its records.
fn reply<T>(page: &Page<T>, request: &PageRequest) -> PageReply {
    let text = |cursor: Option<recto_plan::cursor::Cursor>| cursor.map(String::from).unwrap_or_default();
    PageReply {
        records: Vec::new(),
        next_page_token: text(page.next_cursor()),
        previous_page_token: text(page.previous_cursor()),
        stop: page.stop().map(|stop| stop.name().to_owned()),
        row_tokens: request.row_tokens.then(|| {
            (0..page.len())
                .map(|index| page.cursor(index).into_string())
                .collect()
        }),
        shape: page.shape(),
        cost: page.cost(),
        cost_hidden: page.hides(),
    }
}

/// A record of which only the key is known.
fn of_key(collection: &Collection<DynamicRecord>, key: &[String]) -> Result<DynamicRecord> {
    let definition = &collection.core().definition;
    let json = definition.key.iter().zip(key).map(|(name, text)| {
        let field = definition.field(name).map(|(_, field)| field);
        let value = field.and_then(|field| json::from_text(&field.ty, text).ok().map(|value| (field, value)));
        value.map(|(field, value)| (name.clone(), json::to_json(&field.ty, &value)))
    });
    // What is no key is refused where the key is read.
    DynamicRecord::from_json(Arc::clone(definition), &json.flatten().collect())
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

    async fn plan(&self, schema: &Schema, options: &ApplyOptions) -> Result<SchemaPlan> {
        self.check_unrestricted("changing the schema")?;
        self.recto().await.plan_with(schema, options).await
    }

    async fn apply(&self, schema: &Schema, options: &ApplyOptions) -> Result<Applied> {
        self.check_unrestricted("changing the schema")?;
        // Of a handle of its own: meanwhile all goes on.
        let mut recto = self.recto().await;
        recto.apply_with(schema, options).await
    }

    async fn page(&self, collection: &str, request: &PageRequest) -> Result<PageReply> {
        let page = self.query(collection, request).await?.await;
        let page = page.map_err(|error| told(error, request))?;
        let masked = |record: &DynamicRecord| record.to_json_of(&request.fields);
        Ok(PageReply {
            records: page.items().iter().map(masked).collect(),
            ..reply(&page, request)
        })
    }

    async fn page_text(&self, collection: &str, request: &PageRequest) -> Result<PageText> {
        let query = self.query(collection, request).await?;
        // The rows are written as they are stored: no record is made of them.
        let page = query.decoded_by(|_, _, _| Ok(())).await;
        let page = page.map_err(|error| told(error, request))?;
        let records = page_text::records(&page, &request.fields)?;
        Ok(PageText {
            digest: Some(page.core().shared.keys.ring().digest(records.as_bytes())),
            records,
            count: page.len(),
            reply: reply(&page, request),
        })
    }

    async fn explain(&self, collection: &str, request: &PageRequest, run: bool) -> Result<Explanation> {
        let query = self.query(collection, request).await?;
        let spec = query.spec(&query.planned()?).await;
        let (planned, mut spec) = spec.map_err(|error| told(error, request))?;
        if planned.hides {
            // A page that ended among hidden rows goes on at the key of one.
            spec.place = Place::First;
        }
        let mut explanation = explain::explain(query.core(), &planned, &spec);
        if run && !planned.hides {
            let page = query.await?;
            explanation.actual = Some(page.cost());
            explanation.actual_rows_returned = Some(page.len() as u64);
        }
        Ok(explanation)
    }

    async fn get(&self, collection: &str, key: &[String]) -> Result<Option<JsonRecord>> {
        let collection = self.recto().await.dynamic(collection)?;
        let Some(record) = collection.get(KeyText(key)).await? else {
            return Ok(None);
        };
        if let Some(filters) = self.filters(&collection.definition().name)
            && !RowFilter::new(collection.definition(), filters)?.matches(&record)
        {
            return Ok(None);
        }
        Ok(Some(record.to_json()))
    }

    async fn put(
        &self,
        collection: &str,
        records: Vec<JsonRecord>,
        ttl_seconds: Option<u32>,
    ) -> Result<Written> {
        let put = |record| RecordChange::Put {
            collection: collection.to_owned(),
            record,
            ttl_seconds,
        };
        self.write(records.into_iter().map(put).collect()).await
    }

    async fn delete(&self, collection: &str, key: &[String]) -> Result<()> {
        let delete = RecordChange::Delete {
            collection: collection.to_owned(),
            key: key.to_vec(),
        };
        self.write(vec![delete]).await.map(drop)
    }

    async fn write(&self, changes: Vec<RecordChange>) -> Result<Written> {
        let recto = self.recto().await;
        let mut collections: BTreeMap<String, Collection<DynamicRecord>> = BTreeMap::new();
        let mut batch = recto.batch();
        for (index, change) in changes.iter().enumerate() {
            let name = change.collection();
            if !collections.contains_key(name) {
                collections.insert(name.to_owned(), recto.dynamic(name)?);
            }
            self.add_change(&mut batch, &collections[name], change)
                .map_err(|error| match error.kind() {
                    // What the session may not do is said of it, and not of the change.
                    ErrorKind::Forbidden => error,
                    _ => error.with_change(index),
                })?;
        }
        let deletes = changes.iter().filter(|change| !change.is_put()).count();
        let written = Written {
            puts: (changes.len() - deletes - batch.repeated()) as u64,
            deletes: deletes as u64,
            repeated: batch.repeated() as u64,
        };
        batch.commit().await?;
        Ok(written)
    }

    fn scan<'a>(&'a self, collection: &str, request: &ScanRequest) -> BoxStream<'a, Result<ScanStep>> {
        let collection = collection.to_owned();
        let request = request.clone();
        let begin = async move {
            let core = self.recto().await.core(&collection)?;
            let filters = self.filters(&collection).unwrap_or_default().to_vec();
            Ok::<_, Error>(scan::steps(core, filters, request))
        };
        futures::stream::once(begin).try_flatten().boxed()
    }

    fn partitions<'a>(&'a self, collection: &str) -> BoxStream<'a, Result<Vec<JsonRecord>>> {
        let collection = collection.to_owned();
        let begin = async move {
            let core = self.recto().await.core(&collection)?;
            let filters = self.filters(&collection).unwrap_or_default().to_vec();
            Ok::<_, Error>(partitions::steps(core, filters))
        };
        futures::stream::once(begin).try_flatten().boxed()
    }

    async fn load(&self, request: &LoadRequest, progress: Progress<'_, LoadProgress>) -> Result<LoadReport> {
        self.check_unrestricted("loading files")?;
        let recto = self.recto().await;
        let collections = request
            .collections
            .iter()
            .map(|name| recto.core(name))
            .collect::<Result<Vec<_>>>()?;
        crate::load::load(&collections, request, progress).await
    }

    async fn backup(&self, to: &Path, progress: Progress<'_, StoreProgress>) -> Result<Backup> {
        self.check_unrestricted("backup")?;
        let bytes = open::backup(self.recto().await.operations(), to, progress).await?;
        let folder = to.display().to_string();
        Ok(Backup { bytes, folder })
    }

    async fn compact(&self, progress: Progress<'_, StoreProgress>) -> Result<(u64, u64)> {
        self.check_unrestricted("compact")?;
        open::compact(self.recto().await.operations(), progress).await
    }

    async fn cursor_keys(&self) -> Result<Vec<CursorKey>> {
        self.check_unrestricted("looking at cursor keys")?;
        self.recto().await.cursor_keys().await
    }

    async fn rotate_cursor_keys(&self, earlier: u32) -> Result<Vec<CursorKey>> {
        self.check_unrestricted("rotating cursor keys")?;
        self.recto().await.rotate_cursor_keys(earlier).await
    }

    async fn check(&self, progress: Progress<'_, StoreProgress>) -> Result<CheckOutcome> {
        self.check_unrestricted("check")?;
        let recto = self.recto().await;
        open::check(recto.operations(), &recto.schema(), progress).await
    }
}
