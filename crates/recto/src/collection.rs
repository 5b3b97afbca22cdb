//! A collection: typed or dynamic records to read and write.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use recto_model::record::{NO_COLUMN, Record, RecordError};
use recto_model::schema::Collection as Definition;
use recto_model::{Cells, RowRef, cell};
use recto_plan::Arrangement;
use recto_store::{PointRead, Snapshot};

use crate::core::CollectionCore;
use crate::error::{Error, ErrorKind, Result};
use crate::handle::Handle;
use crate::key::{Key, key_cells};
use crate::query::{Decode, PageQuery};
use crate::record::{DynamicRecord, row_of};
use crate::scan::Scan;
use crate::writes::{Changes, RowChange, mutation, ttl_seconds};

/// The cells of a record, in the base table's column order, and the collection as the record knows it.
type Encode<T> = fn(Arc<CollectionCore>, &T) -> Result<(Arc<CollectionCore>, Cells)>;

/// A collection of an open store, whose records are `T`s. Cheap to clone.
///
/// It follows the store's schema, as this process knows it: by [`Recto::apply`](crate::Recto::apply) through any handle of
/// the open store, or by [`Recto::refresh`](crate::Recto::refresh). Queries that were made before, and kept, are planned
/// anew then; cursors and streams go on wherever the query is served in their order. If the collection is removed, every
/// call is an error of kind [`ErrorKind::NotFound`]; if another of its name is made that `T` does not fit,
/// [`ErrorKind::SchemaMismatch`].
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
/// // `Event` has the fields day, id and kind; its key is (day, id).
/// events.put(&event(60)).await?;
/// assert_eq!(events.get(("mon", 60)).await?, Some(event(60)));
/// events.delete(("mon", 60)).await?;
/// assert_eq!(events.get(("mon", 60)).await?, None);
/// assert_eq!(events.query().filter(r#"day = "mon""#).first(10).await?.len(), 10);
/// # Ok(())
/// # }
/// ```
pub struct Collection<T> {
    handle: Arc<Handle>,
    decode: Decode<T>,
    encode: Encode<T>,
    records: PhantomData<fn() -> T>,
}

impl<T> Clone for Collection<T> {
    fn clone(&self) -> Self {
        Self {
            handle: Arc::clone(&self.handle),
            decode: self.decode,
            encode: self.encode,
            records: PhantomData,
        }
    }
}

impl<T> std::fmt::Debug for Collection<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Collection")
            .field("name", &self.handle.name())
            .finish_non_exhaustive()
    }
}

impl<T: Record> Collection<T> {
    pub(crate) fn typed(handle: Handle) -> Self {
        Self {
            handle: Arc::new(handle),
            decode: decode_typed::<T>,
            encode: encode_typed::<T>,
            records: PhantomData,
        }
    }
}

impl Collection<DynamicRecord> {
    pub(crate) fn dynamic(handle: Arc<Handle>) -> Self {
        Self {
            handle,
            decode: DynamicRecord::read,
            encode: encode_dynamic,
            records: PhantomData,
        }
    }
}

fn decode_typed<T: Record>(core: &CollectionCore, arrangement: &Arrangement, row: RowRef<'_>) -> Result<T> {
    let columns = core.columns_in(arrangement);
    let read = if arrangement.derives_nulls() {
        let is_null = |column: u16| arrangement.cell(row, usize::from(column)).is_none();
        let columns = columns.iter().map(|&column| match column {
            NO_COLUMN => NO_COLUMN,
            column if is_null(column) => NO_COLUMN,
            column => column,
        });
        T::read(row, &columns.collect::<Vec<_>>())
    } else {
        T::read(row, columns)
    };
    read.map_err(|error| {
        let kind = match error {
            RecordError::Missing { .. } => ErrorKind::InvalidRecord,
            _ => ErrorKind::Corrupt,
        };
        Error::new(kind, format!("a row of {}: {error}", core.definition.name)).with_source(error)
    })
}

fn encode_typed<T: Record>(core: Arc<CollectionCore>, record: &T) -> Result<(Arc<CollectionCore>, Cells)> {
    let cells = row_of(&core, |field, out| {
        core.places[field].map_or(Ok(false), |place| record.write(place, out))
    })?;
    Ok((core, cells))
}

fn encode_dynamic(core: Arc<CollectionCore>, record: &DynamicRecord) -> Result<(Arc<CollectionCore>, Cells)> {
    let core = record.known_to(core)?;
    let cells = row_of(&core, |field, out| match &record.values()[field] {
        None => Ok(false),
        Some(value) => cell::encode(&core.definition.fields[field].ty, value, out).map(|()| true),
    })?;
    Ok((core, cells))
}

impl<T> Collection<T> {
    /// How it is declared; if it was removed, how it was when it was last used.
    pub fn definition(&self) -> Arc<Definition> {
        let core = self.handle.now().unwrap_or_else(|_| self.handle.known());
        Arc::clone(&core.definition)
    }

    pub(crate) fn now(&self) -> Result<Arc<CollectionCore>> {
        self.handle.now()
    }

    /// A query over all its records; awaited, its first page.
    pub fn query(&self) -> PageQuery<T> {
        PageQuery::new(Arc::clone(&self.handle), self.decode)
    }

    /// Every record, or all of a filter, in no order: for exports, copies and counts.
    pub fn scan(&self) -> Scan<T> {
        Scan::new(Arc::clone(&self.handle), self.decode)
    }

    /// The record with this key, if there is one.
    ///
    /// # Errors
    /// The key has another number of values than the collection's, or values of other types.
    pub async fn get(&self, key: impl Key) -> Result<Option<T>> {
        let core = self.now()?;
        let cells = key_cells(&core, &key)?;
        let Some((rows, arrangement)) = point_read(&core, &cells).await? else {
            return Ok(None);
        };
        rows.iter()
            .next()
            .map(|row| (self.decode)(&core, &arrangement, row))
            .transpose()
    }

    /// Stores a record. Durable when it returns.
    ///
    /// It takes the place of one with its key. In a collection with `writes = "append"`, whose records
    /// are never changed, that is a conflict, unless it is the same record: then it is done. (On
    /// Cassandra it is a mistake that goes unnoticed: the fields that are not null take the place of
    /// those that were there.)
    ///
    /// # Errors
    /// As [`WriteBatch::put`](crate::WriteBatch::put) and [`WriteBatch::commit`](crate::WriteBatch::commit).
    pub async fn put(&self, record: &T) -> Result<()> {
        self.put_with(record, None).await
    }

    /// Stores a record that lives for a time (whole seconds, at least one).
    ///
    /// In a collection with `writes = "append"`, a record that is there already lives for the longer of
    /// the two times (on Cassandra, for the later given).
    ///
    /// # Errors
    /// As [`WriteBatch::put_for`](crate::WriteBatch::put_for) and [`WriteBatch::commit`](crate::WriteBatch::commit).
    pub async fn put_for(&self, record: &T, time_to_live: Duration) -> Result<()> {
        self.put_with(record, Some(time_to_live)).await
    }

    async fn put_with(&self, record: &T, time_to_live: Option<Duration>) -> Result<()> {
        let mut changes = Changes::new(self.handle.shared());
        self.add_put(&mut changes, record, time_to_live)?;
        changes.commit().await
    }

    /// Stores records, all or none: one transaction on the embedded store, one logged batch on
    /// Cassandra, which is refused above its size limit with nothing sent.
    ///
    /// # Errors
    /// As [`WriteBatch::put`](crate::WriteBatch::put) and [`WriteBatch::commit`](crate::WriteBatch::commit).
    pub async fn put_all<'a>(&self, records: impl IntoIterator<Item = &'a T>) -> Result<()>
    where
        T: 'a,
    {
        let mut changes = Changes::new(self.handle.shared());
        for record in records {
            self.add_put(&mut changes, record, None)?;
        }
        changes.commit().await
    }

    pub(crate) fn add_put(
        &self,
        changes: &mut Changes,
        record: &T,
        time_to_live: Option<Duration>,
    ) -> Result<()> {
        let (core, cells) = (self.encode)(self.now()?, record)?;
        let ttl_seconds = time_to_live.map(ttl_seconds).transpose()?;
        changes.add(&core, RowChange::Put { cells, ttl_seconds })
    }

    pub(crate) fn add_delete(&self, changes: &mut Changes, key: &impl Key) -> Result<()> {
        let core = self.now()?;
        let key = key_cells(&core, key)?;
        changes.add(&core, RowChange::Delete { key })
    }

    /// Deletes the record with this key; nothing if there is none.
    pub async fn delete(&self, key: impl Key) -> Result<()> {
        let mut changes = Changes::new(self.handle.shared());
        self.add_delete(&mut changes, &key)?;
        changes.commit().await
    }
}

pub(crate) async fn point_read(
    core: &CollectionCore,
    key: &Cells,
) -> Result<Option<(recto_model::RowSet, Arc<Arrangement>)>> {
    let arrangement = core.base();
    let (partition, clustering) = (mutation::partition(core, key), mutation::clustering(core, key));
    let limits = core.shared.store.limits();
    if limits.check_partition(&arrangement.table, &partition).is_err()
        || limits.check_clustering(&arrangement.table, &clustering).is_err()
    {
        // No record has a key that cannot be stored.
        return Ok(None);
    }
    let read = PointRead {
        table: Arc::clone(&arrangement.table),
        partition,
        clustering,
    };
    let snapshot: Arc<dyn Snapshot> = core.shared.store.snapshot()?;
    let found = snapshot.get(&read, &core.shared.read_options()).await?;
    Ok((!found.rows.is_empty()).then(|| (found.rows, Arc::clone(arrangement))))
}
