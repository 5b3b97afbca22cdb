//! Session on a store that this process has open.
//!
//! | module | content |
//! |---|---|
//! | `each` | independent changes of records that have versions |
//! | `pages` | pages, scans, partitions |
//! | `queues` | queues and their messages |
//! | `records` | single records, and changes to them |
//! | `tools` | maintenance of the store |

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
    BucketMetrics, ClusterStatus, CommitLog, QueueStatus, QueueTables, Queues, ScrubPosition, ScrubStep,
    Session, StoreDescription, Tools,
};
use crate::writer::WriterMetrics;
use tools::LocalTools;

/// [`Session`] of a store that this process has open.
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
    /// Row filters that restrict the session. `None`: the session may do everything.
    rows: Option<Arc<RowFilters>>,
    /// True if an error about a duplicate unique value names the record that has the value.
    tells_holders: bool,
}

impl LocalSession {
    /// Creates an unrestricted session on an open store.
    pub fn new(recto: Recto) -> Self {
        Self {
            tools: LocalTools { recto },
            rows: None,
            tells_holders: true,
        }
    }

    /// Announces to other processes the address at which this process serves its store; see [`Recto::announce`].
    ///
    /// # Errors
    /// The errors of [`Recto::announce`].
    pub fn announce(&self, url: &str) -> Result<()> {
        self.recto().announce(url)
    }

    /// Returns this session, restricted to rows. `rows` maps a collection to a filter. Every row that is read
    /// or written through the session must satisfy the filter of its collection. No filter, sort, cursor or
    /// key can circumvent the restriction. The session cannot load files, change the schema or maintain the
    /// store. Its errors name no other collection.
    ///
    /// If the filter of a collection uses fields outside the key, its records can only be read,
    /// because a written record could replace a hidden row. Records with versions
    /// (`writes = "update"`) can also be written. A record with a version is read before it is
    /// changed, and the change is made only if the record is unchanged. A hidden record behaves as
    /// if it did not exist, except that no other record with its key can be put.
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

    /// Returns this session for a client that may write and not read. If another record has the values of unique
    /// fields, the error does not name that record.
    #[must_use]
    pub fn without_holders(&self) -> Self {
        Self {
            tells_holders: false,
            ..self.clone()
        }
    }

    /// Checks that a filter can restrict sessions to rows of a collection. If `writes` is true, also checks
    /// that a restricted session can write records.
    ///
    /// # Errors
    /// - The collection does not exist.
    /// - [`ErrorKind::Forbidden`], the error that a restricted session would return: the text is not a filter
    ///   of the collection's fields.
    /// - [`ErrorKind::Forbidden`], if `writes` is true: the filter uses fields outside the key, and
    ///   records of the collection have no versions.
    pub fn check_row_filter(&self, collection: &str, text: &str, writes: bool) -> Result<()> {
        let core = self.recto().core(collection)?;
        let texts = [text.to_owned()];
        let rows = RowFilter::new(&core.definition, &texts)?;
        if writes { rows.check_writable() } else { Ok(()) }
    }

    /// Returns whether a view serves a filter that restricts sessions to rows of a collection. Without such a view,
    /// queries of the session need `allow_filter_scan`, because they read hidden rows and omit them.
    ///
    /// # Errors
    /// The errors of [`check_row_filter`](Self::check_row_filter).
    pub fn is_row_filter_served(&self, collection: &str, text: &str) -> Result<bool> {
        let core = self.recto().core(collection)?;
        let conditions = row_filter::conditions(&core.definition, &[text.to_owned()])?;
        Ok(row_filter::is_served(
            &core.definition,
            &core.sort_orders,
            &conditions,
        ))
    }

    /// Adopts the changes of the schema and of the cursor keys that another process made; see [`Recto::refresh`].
    ///
    /// # Errors
    /// The errors of [`Recto::refresh`].
    pub async fn refresh(&self) -> Result<bool> {
        self.recto().refresh().await
    }

    /// Returns metrics of the store's nodes as this process has observed them; see
    /// [`Recto::store_metrics`].
    pub fn store_metrics(&self) -> StoreMetrics {
        self.recto().store_metrics()
    }

    /// Returns the versions of the cluster's nodes; see [`Recto::cluster_status`].
    pub fn cluster_status(&self) -> Option<ClusterStatus> {
        self.recto().cluster_status()
    }

    /// Returns the state of the commit log; see [`Recto::commit_log`].
    pub fn commit_log(&self) -> Option<CommitLog> {
        self.recto().commit_log()
    }

    /// Checks the local clock; see [`Recto::check_clock`].
    pub async fn check_clock(&self) -> ClockStatus {
        self.recto().check_clock().await
    }

    /// Returns the state of the local clock at its last check; see [`Recto::clock_status`].
    pub fn clock_status(&self) -> ClockStatus {
        self.recto().clock_status()
    }

    /// Returns the metrics of this process as a writer; see [`Recto::writer_metrics`]. Returns `None` for a
    /// store with transactions, in which no process leaves unfinished work.
    pub fn writer_metrics(&self) -> Option<WriterMetrics> {
        let recto = self.recto();
        (!recto.store().limits().transactions).then(|| recto.writer_metrics())
    }

    /// Makes this process recover the work of processes that died: changes of records, as in
    /// [`Recto::recover_in_background`], and messages of queues. Creates nothing in a store without queues.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub async fn recover_in_background(&self) -> Result<()> {
        self.recto().recover_in_background().await?;
        self.recto().queues_there().await.map(drop)
    }

    /// Returns an error for each collection that is unavailable because of its tables; see
    /// [`Recto::unavailable_collections`].
    pub fn unavailable_collections(&self) -> Vec<Error> {
        self.recto().unavailable_collections()
    }

    /// Reads the next `most_bytes` bytes of an embedded store's file from `position` on, and verifies every
    /// page and row in them. The step advances `position`, and the last step resets `position` to the
    /// beginning. Returns `None` for a store on Cassandra. Other reads and writes continue during a step, and
    /// no snapshot is kept between steps.
    ///
    /// # Errors
    /// The file cannot be read, or the session is restricted to rows. Damage is not an error; the step reports it.
    pub async fn scrub_step(
        &self,
        position: &mut ScrubPosition,
        most_bytes: u64,
    ) -> Result<Option<ScrubStep>> {
        let recto = &self.unrestricted()?.recto;
        open::scrub_step(recto.operations(), position, most_bytes).await
    }

    /// Returns the state of the first `most` queues, by name, and the number of all queues. Returns `None`
    /// for a store without queues, and creates nothing in it.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn queue_metrics(&self, most: usize) -> Result<Option<(Vec<QueueStatus>, usize)>> {
        match self.recto().queues_there().await? {
            Some(queues) => self.tools.first_queues(&queues, most).await.map(Some),
            None => Ok(None),
        }
    }

    /// Returns the state of the tables of message bodies, without numbers of messages. Returns `None` for a
    /// store that needs no such tables or has no queues, and creates nothing in it.
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

    /// Returns the work that this process has done on buckets since the store was opened. Returns `None` if
    /// this process does not maintain buckets.
    pub fn bucket_metrics(&self) -> Option<BucketMetrics> {
        self.recto().bucket_metrics()
    }

    /// Returns the row filters that restrict the session in a collection; `None` if the collection has none.
    fn filters(&self, collection: &str) -> Option<&[String]> {
        self.rows.as_ref()?.get(collection).map(Vec::as_slice)
    }

    /// Returns the maintenance operations of the store, or an error if the session is restricted to rows.
    fn unrestricted(&self) -> Result<&LocalTools> {
        match self.rows {
            None => Ok(&self.tools),
            Some(_) => Err(forbidden(
                "maintenance of the store (its schema, loads, copies, keys) needs a session without row \
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
            cluster: recto.cluster_status(),
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
            Some(_) => Err(forbidden("queues need a session without row filters")),
        }
    }
}
