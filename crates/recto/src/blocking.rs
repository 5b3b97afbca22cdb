//! Recto for programs without async: the same calls, which return when they are done.
//!
//! ```
//! use recto::{OpenOptions, Record, blocking};
//!
//! #[derive(Debug, Record)]
//! #[record(collection = "notes", key = ["id"], writes = "overwrite")]
//! struct Note {
//!     id: i64,
//!     text: Option<String>,
//! }
//!
//! fn main() -> recto::Result<()> {
//!     # let folder = tempfile::tempdir().unwrap();
//!     let store = blocking::Recto::open_with(folder.path().join("notes"), OpenOptions::new().create())?;
//!     store.apply(&recto::schema_of([Note::collection()]))?;
//!     let notes = store.collection::<Note>()?;
//!     notes.put(&Note { id: 7, text: Some("seven".into()) })?;
//!
//!     let page = notes.query().filter("id = 7").first(20).fetch()?;
//!     assert_eq!(page.items()[0].text.as_deref(), Some("seven"));
//!     store.close()
//! }
//! ```
//!
//! The calls run on a runtime of Recto's own, of two threads, which is started with the first store and serves
//! all. They may be made anywhere, on a thread of an async runtime too, which then waits.

mod query;
mod queues;
mod runtime;

use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use recto_model::record::Record;
use recto_model::schema::{Collection as Definition, Schema};

use crate::address::StoreAddress;
use crate::error::{Error, Result};
use crate::key::Key;
use crate::options::OpenOptions;
use crate::record::DynamicRecord;
use crate::scan::ScanPart;
use crate::session::{Applied, ApplyOptions, SchemaPlan};
use crate::writes::Changed;
use crate::{batch, collection, recto};

pub use self::query::PageQuery;
pub use self::queues::{Queue, Queues};
use self::runtime::wait;

/// An open store: [`recto::Recto`](crate::Recto) without async.
#[derive(Debug, Clone)]
pub struct Recto {
    inner: recto::Recto,
}

impl Recto {
    /// Opens the store at an address, which must be there; see [`crate::Recto::open`].
    pub fn open<A>(address: A) -> Result<Self>
    where
        A: TryInto<StoreAddress>,
        Error: From<A::Error>,
    {
        Self::open_with(address, OpenOptions::default())
    }

    /// Opens the store at an address as the options say; see [`crate::Recto::open_with`].
    pub fn open_with<A>(address: A, options: OpenOptions) -> Result<Self>
    where
        A: TryInto<StoreAddress>,
        Error: From<A::Error>,
    {
        let address = address.try_into()?;
        let inner = wait(recto::Recto::open_at(&address, options))??;
        Ok(Self { inner })
    }

    /// The same store, for async code.
    pub fn asynchronous(&self) -> &recto::Recto {
        &self.inner
    }

    /// The schema that the store holds.
    pub fn schema(&self) -> Arc<Schema> {
        self.inner.schema()
    }

    /// What applying `schema` would do; see [`crate::Recto::plan`].
    pub fn plan(&self, schema: &Schema) -> Result<SchemaPlan> {
        wait(self.inner.plan(schema))?
    }

    /// Makes the store hold `schema`; see [`crate::Recto::apply`].
    pub fn apply(&self, schema: &Schema) -> Result<Applied> {
        wait(self.inner.apply(schema))?
    }

    /// Makes the store hold `schema`, and removes what the options name; see [`crate::Recto::apply_with`].
    pub fn apply_with(&self, schema: &Schema, options: &ApplyOptions) -> Result<Applied> {
        wait(self.inner.apply_with(schema, options))?
    }

    /// The collection whose records are `T`s; see [`crate::Recto::collection`].
    pub fn collection<T: Record>(&self) -> Result<Collection<T>> {
        self.inner.collection().map(Collection::new)
    }

    /// A collection by its name, with records known at run time.
    pub fn dynamic(&self, name: &str) -> Result<Collection<DynamicRecord>> {
        self.inner.dynamic(name).map(Collection::new)
    }

    /// An empty batch of writes.
    pub fn batch(&self) -> WriteBatch {
        WriteBatch {
            inner: self.inner.batch(),
        }
    }

    /// The queues of this store; see [`crate::Recto::queues`].
    pub fn queues(&self) -> Result<Queues> {
        Ok(Queues::new(wait(self.inner.queues())??))
    }

    /// Takes over what other processes changed; see [`crate::Recto::refresh`].
    pub fn refresh(&self) -> Result<bool> {
        wait(self.inner.refresh())?
    }

    /// Closes the store, for every handle on it; see [`crate::Recto::close`].
    pub fn close(&self) -> Result<()> {
        wait(self.inner.close())?
    }
}

/// A collection of an open store: [`recto::Collection`](crate::Collection) without async.
#[derive(Debug)]
pub struct Collection<T> {
    inner: collection::Collection<T>,
}

impl<T> Clone for Collection<T> {
    fn clone(&self) -> Self {
        Self::new(self.inner.clone())
    }
}

impl<T> Collection<T> {
    fn new(inner: collection::Collection<T>) -> Self {
        Self { inner }
    }

    /// How it is declared; see [`crate::Collection::definition`].
    pub fn definition(&self) -> Arc<Definition> {
        self.inner.definition()
    }

    /// A query over all its records.
    pub fn query(&self) -> PageQuery<T> {
        PageQuery::new(self.inner.query())
    }
}

impl<T: Send + Sync> Collection<T> {
    /// The record with this key, if there is one; see [`crate::Collection::get`].
    pub fn get(&self, key: impl Key + Send) -> Result<Option<T>> {
        wait(self.inner.get(key))?
    }

    /// Stores a record that is not there yet; see [`crate::Collection::insert`].
    pub fn insert(&self, record: &T) -> Result<Changed> {
        self.change(|records| records.insert(record))
    }

    /// Stores a record; see [`crate::Collection::put`].
    pub fn put(&self, record: &T) -> Result<Changed> {
        self.change(|records| records.put(record))
    }

    /// Stores a record that lives for a time; see [`crate::Collection::put_for`].
    pub fn put_for(&self, record: &T, time_to_live: Duration) -> Result<Changed> {
        self.change(|records| records.put_for(record, time_to_live))
    }

    /// Makes a change that the collection for async code is asked for, such as an [update](crate::Collection::update):
    /// `users.change(|users| users.update(7).set("status", "away"))`.
    pub fn change<C>(&self, asked: impl FnOnce(&collection::Collection<T>) -> C) -> Result<Changed>
    where
        C: IntoFuture<Output = Result<Changed>, IntoFuture: Send>,
    {
        wait(asked(&self.inner).into_future())?
    }

    /// Stores records, all or none; see [`crate::Collection::put_all`].
    pub fn put_all<'a>(&self, records: impl IntoIterator<Item = &'a T, IntoIter: Send> + Send) -> Result<()>
    where
        T: 'a,
    {
        wait(self.inner.put_all(records))?
    }

    /// Deletes the record with this key; nothing if there is none.
    pub fn delete(&self, key: impl Key) -> Result<Changed> {
        self.change(|records| records.delete(key))
    }
}

impl<T: Send + 'static> Collection<T> {
    /// Every record, in parts and in no order; see [`crate::Scan`]. Nothing is read until it is asked for.
    pub fn scan(&self) -> Result<impl Iterator<Item = Result<ScanPart<T>>> + use<T>> {
        runtime::iterate(self.inner.scan().parts())
    }
}

/// Puts and deletes that are applied together: [`recto::WriteBatch`](crate::WriteBatch) without async.
#[derive(Debug)]
pub struct WriteBatch {
    inner: batch::WriteBatch,
}

impl WriteBatch {
    /// Stores a record; see [`crate::WriteBatch::put`].
    pub fn put<T>(&mut self, collection: &Collection<T>, record: &T) -> Result<&mut Self> {
        self.inner.put(&collection.inner, record)?;
        Ok(self)
    }

    /// Stores a record that lives for a time; see [`crate::WriteBatch::put_for`].
    pub fn put_for<T>(
        &mut self,
        collection: &Collection<T>,
        record: &T,
        time_to_live: Duration,
    ) -> Result<&mut Self> {
        self.inner.put_for(&collection.inner, record, time_to_live)?;
        Ok(self)
    }

    /// Deletes the record with this key.
    pub fn delete<T>(&mut self, collection: &Collection<T>, key: impl Key) -> Result<&mut Self> {
        self.inner.delete(&collection.inner, key)?;
        Ok(self)
    }

    /// Applies the changes; see [`crate::WriteBatch::commit`].
    pub fn commit(&mut self) -> Result<()> {
        wait(self.inner.commit())?
    }
}
