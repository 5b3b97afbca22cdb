//! A collection: typed or dynamic records to read and write.

mod read;

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use recto_model::record::Record;
use recto_model::schema::Collection as Definition;
use recto_model::{Cells, cell};

use crate::change::{Change, Update};
use crate::core::CollectionCore;
use crate::error::Result;
use crate::handle::Handle;
use crate::key::{Key, key_cells};
use crate::query::{Decode, PageQuery};
use crate::record::{CheckCell, DynamicRecord, check_typed, decode_typed, row_of};
use crate::scan::Scan;
use crate::writes::{Changes, RowChange, ttl_seconds};

/// The cells of a record, in the base table's column order, and the collection as the record knows it.
type Encode<T> = fn(Arc<CollectionCore>, &T) -> Result<(Arc<CollectionCore>, Cells)>;

/// A collection of an open store, whose records are `T`s. Cheap to clone.
///
/// It follows the store's schema, as this process knows it: by [`Recto::apply`](crate::Recto::apply) through any handle of
/// the open store, or by [`Recto::refresh`](crate::Recto::refresh). Queries that were made before, and kept, are planned
/// anew then; cursors and streams go on wherever the query is served in their order. If the collection is removed, every
/// call is an error of kind [`ErrorKind::NotFound`](crate::ErrorKind::NotFound); if another of its name is made that `T` does not fit,
/// [`ErrorKind::SchemaMismatch`](crate::ErrorKind::SchemaMismatch).
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
    check_cell: CheckCell,
    records: PhantomData<fn() -> T>,
}

impl<T> Clone for Collection<T> {
    fn clone(&self) -> Self {
        Self {
            handle: Arc::clone(&self.handle),
            decode: self.decode,
            encode: self.encode,
            check_cell: self.check_cell,
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
            check_cell: check_typed::<T>,
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
            check_cell: |_, _, _| Ok(()),
            records: PhantomData,
        }
    }
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

    /// Stores a record that is not there yet.
    ///
    /// # Errors
    /// As [`put`](Self::put). [`ErrorKind::Exists`](crate::ErrorKind::Exists): one with its key is there, of the version that the error
    /// [tells](crate::Error::version). [`ErrorKind::NotOffered`](crate::ErrorKind::NotOffered): records of the collection do not change.
    pub fn insert(&self, record: &T) -> Change {
        Change::insert(self.encoded(record))
    }

    /// Stores a record. Durable when it returns.
    ///
    /// It takes the place of one with its key. In a collection with `writes = "append"`, whose records
    /// are never changed, that is a conflict, unless it is the same record: then it is done. (On
    /// Cassandra it is a mistake that goes unnoticed: the fields that are not null take the place of
    /// those that were there.)
    ///
    /// # Errors
    /// As [`WriteBatch::put`](crate::WriteBatch::put) and [`WriteBatch::commit`](crate::WriteBatch::commit). In a collection
    /// with `writes = "update"`, [`ErrorKind::Changed`](crate::ErrorKind::Changed) if another [version](Change::if_version) is there than was asked for.
    pub fn put(&self, record: &T) -> Change {
        Change::put(self.encoded(record))
    }

    /// Stores a record that lives for a time (whole seconds, at least one).
    ///
    /// In a collection with `writes = "append"`, a record that is there already lives for the longer of
    /// the two times (on Cassandra, for the later given).
    ///
    /// # Errors
    /// As [`put`](Self::put); [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument): the time is no time a record can live.
    pub fn put_for(&self, record: &T, time_to_live: Duration) -> Change {
        self.put(record).lives_for(time_to_live)
    }

    /// Gives some fields of a record new values, by [`Update::set`], and keeps the others. It lives for as long as it would
    /// have.
    ///
    /// ```
    /// # use recto::{OpenOptions, Record, Recto};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> recto::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let store = Recto::open_with(folder.path().join("store"), OpenOptions::new().create()).await?;
    /// use recto::{ErrorKind, FieldType};
    ///
    /// #[derive(Debug, Clone, Copy, PartialEq, FieldType)]
    /// enum Status {
    ///     Open,
    ///     Closed,
    /// }
    ///
    /// #[derive(Debug, Clone, Record)]
    /// #[record(collection = "tickets", key = ["id"])]
    /// struct Ticket {
    ///     id: i64,
    ///     title: String,
    ///     status: Status,
    /// }
    /// # store.apply(&recto::schema_of([Ticket::collection()])).await?;
    /// # let tickets = store.collection::<Ticket>()?;
    /// tickets.put(&Ticket { id: 7, title: "Printer".into(), status: Status::Open }).await?;
    ///
    /// // The compiler checks the value of a field of the type.
    /// tickets.update(7).set(Ticket::FIELDS.status, Status::Closed).await?;
    /// // `set` checks the value of a field by its name before anything is sent.
    /// tickets.update(7).set("title", "Printer jam").await?;
    /// let error = tickets.update(7).set("status", "Lost").await.unwrap_err();
    /// assert_eq!((error.kind(), error.field()), (ErrorKind::InvalidRecord, Some("status")));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// - [`ErrorKind::InvalidRecord`](crate::ErrorKind::InvalidRecord): the key is no key of the collection; the collection has no such field, or the field is
    ///   part of the key; the value is not of the field's type, or the record type cannot represent it.
    /// - [`ErrorKind::NotFound`](crate::ErrorKind::NotFound): there is no such record.
    /// - [`ErrorKind::Changed`](crate::ErrorKind::Changed): another [version](Update::if_version) is there than was asked for.
    /// - [`ErrorKind::LimitExceeded`](crate::ErrorKind::LimitExceeded): the record would be too large, in itself or for a view.
    /// - [`ErrorKind::NotOffered`](crate::ErrorKind::NotOffered): records of the collection do not change.
    /// - As [`WriteBatch::commit`](crate::WriteBatch::commit).
    pub fn update(&self, key: impl Key) -> Update<T> {
        Update::new(self.key(&key), self.check_cell)
    }

    fn encoded(&self, record: &T) -> Result<(Arc<CollectionCore>, Cells)> {
        (self.encode)(self.now()?, record)
    }

    pub(crate) fn key(&self, key: &impl Key) -> Result<(Arc<CollectionCore>, Cells)> {
        let core = self.now()?;
        let cells = key_cells(&core, key)?;
        Ok((core, cells))
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
        changes.commit().await.map(drop)
    }

    pub(crate) fn add_put(
        &self,
        changes: &mut Changes,
        record: &T,
        time_to_live: Option<Duration>,
    ) -> Result<()> {
        let (core, cells) = self.encoded(record)?;
        let ttl_seconds = time_to_live.map(ttl_seconds).transpose()?;
        changes.add(&core, RowChange::Put { cells, ttl_seconds })
    }

    pub(crate) fn add_delete(&self, changes: &mut Changes, key: &impl Key) -> Result<()> {
        let (core, key) = self.key(key)?;
        changes.add(&core, RowChange::Delete { key })
    }

    /// Deletes the record with this key; nothing if there is none.
    ///
    /// # Errors
    /// As [`update`](Self::update), but for a record that is not there.
    pub fn delete(&self, key: impl Key) -> Change {
        Change::delete(self.key(&key))
    }
}
