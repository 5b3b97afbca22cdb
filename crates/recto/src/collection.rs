//! Collection of an open store, with methods that read and write its records.

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

/// Function that encodes a record of type `T` for a write. Returns the state of the collection adapted to the
/// fields of `T`, and the record's cells (encoded values) in the column order of the base table.
type Encode<T> = fn(Arc<CollectionCore>, &T) -> Result<(Arc<CollectionCore>, Cells)>;

/// A collection of an open store, whose records have the type `T`. A clone is cheap.
///
/// A collection follows the store's schema as this process knows it. The schema changes by
/// [`Recto::apply`](crate::Recto::apply) through any handle of the open store, or by
/// [`Recto::refresh`](crate::Recto::refresh). After a change, existing queries are planned again. Cursors and
/// streams continue if the query is still served in their order. If the collection was removed, every call
/// fails with [`ErrorKind::NotFound`](crate::ErrorKind::NotFound). If a collection with the same name was
/// created that `T` does not fit, calls fail with
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
    /// Returns the declaration of the collection. If the collection was removed, returns the declaration at
    /// the last use of the collection.
    pub fn definition(&self) -> Arc<Definition> {
        let core = self.handle.now().unwrap_or_else(|_| self.handle.known());
        Arc::clone(&core.definition)
    }

    pub(crate) fn now(&self) -> Result<Arc<CollectionCore>> {
        self.handle.now()
    }

    /// Returns a query over all records. Awaiting the query returns its first page.
    pub fn query(&self) -> PageQuery<T> {
        PageQuery::new(Arc::clone(&self.handle), self.decode)
    }

    /// Returns a scan of every record, or of every record that a filter matches, in no particular
    /// order. A scan suits exports, copies and counts.
    pub fn scan(&self) -> Scan<T> {
        Scan::new(Arc::clone(&self.handle), self.decode)
    }

    /// Stores a record whose key does not exist yet.
    ///
    /// # Errors
    /// - The errors of [`put`](Self::put).
    /// - [`ErrorKind::Exists`](crate::ErrorKind::Exists): a record with this key exists. The error contains
    ///   its [version](crate::Error::version).
    /// - [`ErrorKind::NotOffered`](crate::ErrorKind::NotOffered): the collection does not have `writes =
    ///   "update"`.
    pub fn insert(&self, record: &T) -> Change {
        Change::insert(self.encoded(record))
    }

    /// Stores a record. The record is durable when the call returns.
    ///
    /// The record replaces an existing record with the same key. A collection with `writes = "append"`, whose
    /// records never change, rejects a different record with the same key as a conflict, and accepts an equal
    /// record. (On Cassandra such a conflict goes unnoticed: the non-null fields overwrite the fields of the
    /// existing record.)
    ///
    /// # Errors
    /// - The errors of [`WriteBatch::put`](crate::WriteBatch::put) and
    ///   [`WriteBatch::commit`](crate::WriteBatch::commit).
    /// - [`ErrorKind::Changed`](crate::ErrorKind::Changed): in a collection with `writes = "update"`, the
    ///   stored record has a different version than [`if_version`](Change::if_version) requires.
    pub fn put(&self, record: &T) -> Change {
        Change::put(self.encoded(record))
    }

    /// Stores a record with a time to live (whole seconds, at least one).
    ///
    /// In a collection with `writes = "append"`, an equal record may exist. The equal record then lives for
    /// the longer of its own and the new time (on Cassandra, for the time that was given last).
    ///
    /// # Errors
    /// The errors of [`put`](Self::put), and
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument): the time is not a valid time to
    /// live.
    pub fn put_for(&self, record: &T, time_to_live: Duration) -> Change {
        self.put(record).lives_for(time_to_live)
    }

    /// Changes some fields of a record with [`Update::set`], and keeps the other fields. The record's time to
    /// live stays unchanged.
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
    /// - [`ErrorKind::InvalidRecord`](crate::ErrorKind::InvalidRecord): the key does not fit the
    ///   collection. Or the field does not exist, or is part of the key. Or the value does not have
    ///   the field's type, or the record type cannot represent it.
    /// - [`ErrorKind::NotFound`](crate::ErrorKind::NotFound): the record does not exist.
    /// - [`ErrorKind::Changed`](crate::ErrorKind::Changed): the stored record has a different version than
    ///   [`if_version`](Update::if_version) requires.
    /// - [`ErrorKind::LimitExceeded`](crate::ErrorKind::LimitExceeded): the record would be too large for the
    ///   collection or for a view.
    /// - [`ErrorKind::NotOffered`](crate::ErrorKind::NotOffered): the collection does not have `writes =
    ///   "update"`.
    /// - The errors of [`WriteBatch::commit`](crate::WriteBatch::commit).
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

    /// Stores either all records or none: in one transaction on the embedded store, in one logged batch on
    /// Cassandra. A batch above Cassandra's size limit is rejected before anything is sent.
    ///
    /// # Errors
    /// The errors of [`WriteBatch::put`](crate::WriteBatch::put) and
    /// [`WriteBatch::commit`](crate::WriteBatch::commit).
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

    /// Deletes the record with the given key. Does nothing if the record does not exist.
    ///
    /// # Errors
    /// The errors of [`update`](Self::update), except for a missing record.
    pub fn delete(&self, key: impl Key) -> Change {
        Change::delete(self.key(&key))
    }
}
