//! The session over a store that this process has open.
//!
//! | module | holds |
//! |---|---|
//! | `each` | changes of records that have versions, each for itself |
//! | `pages` | pages, scans, partitions |
//! | `queues` | queues and their messages |
//! | `records` | single records, and changes to them |
//! | `tools` | what looks after the store |

mod each;
mod pages;
mod queues;
mod records;
mod tools;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use recto_model::schema::Schema;
use recto_store::{ClockStatus, StoreMetrics};

#[cfg(doc)]
use crate::error::ErrorKind;
use crate::error::{Error, Result};
use crate::open;
use crate::recto::Recto;
use crate::row_filter::{self, RowFilter, RowFilters, forbidden};
use crate::session::{
    BucketMetrics, QueueStatus, QueueTables, Queues, ScrubPosition, ScrubStep, Session, StoreDescription,
    Tools,
};
use crate::writer::WriterMetrics;
use tools::LocalTools;

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
/// # let store = Recto::open_with(folder.path().join("store"), OpenOptions::new().create()).await?;
/// # store.apply(&recto::schema_of([Event::collection()])).await?;
/// # let events = store.collection::<Event>()?;
/// # let event = |id| Event { day: "mon".into(), id, kind: if id % 9 == 0 { "alarm" } else { "tick" }.into() };
/// # events.put_all(&(0..60).map(event).collect::<Vec<_>>()).await?;
/// use recto::LocalSession;
/// use recto::session::{PageRequest, Pages};
///
/// let session = LocalSession::new(store);
/// let request = PageRequest { filter: r#"day = "mon""#.into(), page_size: Some(2), ..PageRequest::default() };
/// let page = session.page("events", &request).await?;
/// assert_eq!(serde_json::json!(page)["records"][1]["id"], "1");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct LocalSession {
    tools: LocalTools,
    /// None: the session may do everything.
    rows: Option<Arc<RowFilters>>,
    /// Whether it is told which record has the values of unique fields that another one was to have.
    tells_holders: bool,
}

impl LocalSession {
    /// The session of an open store.
    pub fn new(recto: Recto) -> Self {
        Self {
            tools: LocalTools { recto },
            rows: None,
            tells_holders: true,
        }
    }

    /// Tells other processes the address at which this process serves its store: as [`Recto::announce`].
    ///
    /// # Errors
    /// As of [`Recto::announce`].
    pub fn announce(&self, url: &str) -> Result<()> {
        self.recto().announce(url)
    }

    /// This session, restricted to rows: filter text by collection, which every row that is read or
    /// written through it satisfies. No filter, sort, cursor or key widens it. It cannot load files,
    /// change the schema or look after the store, and its refusals name no other collection.
    ///
    /// Records of a collection whose filter looks at fields outside the key can only be read, unless they have
    /// versions (`writes = "update"`): one that is written might take the place of a row that the filter hides. With
    /// versions, what is there is looked at first, and changed only as it was seen; a hidden record is as if it were not
    /// there, but that no other can be put in its place.
    #[must_use]
    pub fn restricted(&self, rows: BTreeMap<String, String>) -> Self {
        let mut all = self.rows.as_deref().cloned().unwrap_or_default();
        for (collection, text) in rows {
            all.entry(collection).or_default().push(text);
        }
        Self {
            tools: self.tools.clone(),
            rows: Some(Arc::new(all)),
            tells_holders: self.tells_holders,
        }
    }

    /// This session, for who may write and not read: where another record has the values of unique fields, it is not told which one.
    #[must_use]
    pub fn without_holders(&self) -> Self {
        Self {
            tells_holders: false,
            ..self.clone()
        }
    }

    /// Whether filter text can restrict sessions to rows of a collection, and, if it is for `writes`,
    /// whether any record can be written through it.
    ///
    /// # Errors
    /// There is no such collection; [`ErrorKind::Forbidden`], as such a session would say it, if the
    /// text is no filter of its fields, or is to be written through and looks at fields outside the key.
    pub fn check_row_filter(&self, collection: &str, text: &str, writes: bool) -> Result<()> {
        let core = self.recto().core(collection)?;
        let texts = [text.to_owned()];
        let rows = RowFilter::new(&core.definition, &texts)?;
        if writes { rows.check_writable() } else { Ok(()) }
    }

    /// Whether a view serves filter text that restricts sessions to rows of a collection. Where none does,
    /// lists through it need `allow_filter_scan`: rows that it hides are read and left out.
    ///
    /// # Errors
    /// As [`check_row_filter`](Self::check_row_filter).
    pub fn is_row_filter_served(&self, collection: &str, text: &str) -> Result<bool> {
        let core = self.recto().core(collection)?;
        let conditions = row_filter::conditions(&core.definition, &[text.to_owned()])?;
        Ok(row_filter::is_served(
            &core.definition,
            &core.sort_orders,
            &conditions,
        ))
    }

    /// Takes over what another process changed in the store; see [`Recto::refresh`].
    ///
    /// # Errors
    /// As there.
    pub async fn refresh(&self) -> Result<bool> {
        self.recto().refresh().await
    }

    /// What the store has seen of the nodes it asks; see [`Recto::store_metrics`].
    pub fn store_metrics(&self) -> StoreMetrics {
        self.recto().store_metrics()
    }

    /// Checks the local clock; see [`Recto::check_clock`].
    pub async fn check_clock(&self) -> ClockStatus {
        self.recto().check_clock().await
    }

    /// Returns the state of the local clock when it was checked last; see [`Recto::clock_status`].
    pub fn clock_status(&self) -> ClockStatus {
        self.recto().clock_status()
    }

    /// How this process is as one of those that change records; none where transactions change them, since nothing is left
    /// behind then. See [`Recto::writer_metrics`].
    pub fn writer_metrics(&self) -> Option<WriterMetrics> {
        let recto = self.recto();
        (!recto.store().limits().transactions).then(|| recto.writer_metrics())
    }

    /// Has this process look after what others leave that die: changes, as of [`Recto::recover_in_background`], and messages of queues, of
    /// which nothing is made where there are none.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub async fn recover_in_background(&self) -> Result<()> {
        self.recto().recover_in_background().await?;
        self.recto().queues_there().await.map(drop)
    }

    /// The collections that are refused for their tables; see [`Recto::unavailable_collections`].
    pub fn unavailable_collections(&self) -> Vec<Error> {
        self.recto().unavailable_collections()
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
        let recto = &self.unrestricted()?.recto;
        open::scrub_step(recto.operations(), position, most_bytes).await
    }

    /// How the first `most` queues are, by name, and how many there are; none of a store without queues, in which nothing is
    /// made for that.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn queue_metrics(&self, most: usize) -> Result<Option<(Vec<QueueStatus>, usize)>> {
        match self.recto().queues_there().await? {
            Some(queues) => self.tools.first_queues(&queues, most).await.map(Some),
            None => Ok(None),
        }
    }

    /// How the tables of bodies stand, with nothing in them counted; none of a store that needs no such tables, or has no queues,
    /// in which nothing is made for that.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn table_metrics(&self) -> Result<Option<QueueTables>> {
        match self.recto().queues_there().await? {
            Some(queues) => {
                let ring = self.tools.table_words(queues.tables_at_a_glance().await?);
                Ok(Some(ring).filter(|ring| ring.needed))
            }
            None => Ok(None),
        }
    }

    /// What was done for buckets in this process since the store was opened; none where none are kept here.
    pub fn bucket_metrics(&self) -> Option<BucketMetrics> {
        self.recto().bucket_metrics()
    }

    /// The row filters for a collection.
    fn filters(&self, collection: &str) -> Option<&[String]> {
        self.rows.as_ref()?.get(collection).map(Vec::as_slice)
    }

    /// What is about the store and not about rows.
    fn unrestricted(&self) -> Result<&LocalTools> {
        match self.rows {
            None => Ok(&self.tools),
            Some(_) => Err(forbidden(
                "looking after the store (its schema, files that are loaded, copies, keys) is for sessions without row \
                 filters",
            )),
        }
    }

    fn recto(&self) -> &Recto {
        &self.tools.recto
    }
}

#[async_trait]
impl Session for LocalSession {
    async fn describe(&self) -> Result<StoreDescription> {
        let recto = self.recto();
        Ok(StoreDescription {
            store: recto.describe(),
            generation: recto.generation(),
            collections: recto
                .schema()
                .collections
                .iter()
                .map(|one| one.name.clone())
                .collect(),
            unavailable: recto.refused(),
        })
    }

    async fn schema(&self) -> Result<Arc<Schema>> {
        Ok(self.recto().schema())
    }

    fn tools(&self) -> Result<&dyn Tools> {
        Ok(self.unrestricted()?)
    }

    fn queues(&self) -> Result<&dyn Queues> {
        match self.rows {
            None => Ok(&self.tools),
            Some(_) => Err(forbidden("queues are for sessions without row filters")),
        }
    }
}
