//! Batches of writes, which are applied together.

use std::sync::Arc;
use std::time::Duration;

use crate::collection::Collection;
#[cfg(doc)]
use crate::error::ErrorKind;
use crate::error::Result;
use crate::key::Key;
use crate::shared::Shared;
use crate::writes::Changes;
#[cfg(doc)]
use crate::writes::MAX_BATCH_CHANGES;

/// Puts and deletes in one or more collections, applied together by [`commit`](Self::commit): all or none.
///
/// On the embedded store, a batch is one transaction. On Cassandra it is one logged batch: all of it is
/// applied in the end, even after crashes, but a reader may see a part first.
///
/// Changes of the same key apply in the order in which they were added. If a key is put twice, the later put
/// wins. In a collection with `writes = "append"`, whose records never change, both puts must store the same
/// record. [`repeated`](Self::repeated) counts puts of repeated keys.
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
/// let mut batch = store.batch();
/// batch.put(&events, &event(60))?;
/// batch.delete(&events, ("mon", 0))?;
/// batch.commit().await?;
/// assert!(events.get(("mon", 60)).await?.is_some() && events.get(("mon", 0)).await?.is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct WriteBatch(Changes);

impl WriteBatch {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Self(Changes::new(shared))
    }

    /// Adds a put of a record, which replaces an existing record with the same key. In a collection with
    /// `writes = "append"`, no different record with the same key may exist.
    ///
    /// # Errors
    /// The batch is unchanged after an error.
    /// - [`ErrorKind::InvalidRecord`]: a key field is null, or a value cannot be stored.
    /// - [`ErrorKind::Conflict`]: in a collection with `writes = "append"`, an earlier put of this batch
    ///   stores a different record with the same key.
    /// - [`ErrorKind::LimitExceeded`]: the record is larger than the store accepts, or the batch is full
    ///   ([`MAX_BATCH_CHANGES`]).
    pub fn put<T>(&mut self, collection: &Collection<T>, record: &T) -> Result<&mut Self> {
        collection.add_put(&mut self.0, record, None)?;
        Ok(self)
    }

    /// Adds a put of a record with a time to live (whole seconds, at least one).
    ///
    /// # Errors
    /// The errors of [`put`](Self::put). Or [`ErrorKind::InvalidArgument`]: `time_to_live` is not a valid
    /// time to live.
    pub fn put_for<T>(
        &mut self,
        collection: &Collection<T>,
        record: &T,
        time_to_live: Duration,
    ) -> Result<&mut Self> {
        collection.add_put(&mut self.0, record, Some(time_to_live))?;
        Ok(self)
    }

    /// Adds a delete of the record with the given key.
    ///
    /// # Errors
    /// The batch is unchanged after an error.
    /// - [`ErrorKind::InvalidRecord`]: the key does not fit the collection.
    /// - [`ErrorKind::LimitExceeded`]: the batch is full ([`MAX_BATCH_CHANGES`]).
    pub fn delete<T>(&mut self, collection: &Collection<T>, key: impl Key) -> Result<&mut Self> {
        collection.add_delete(&mut self.0, &key)?;
        Ok(self)
    }

    /// Lets Cassandra apply each record's change independently, without a batch log and its size limit. After
    /// an error, any subset of the changes may be applied. On the embedded store, a batch is always one
    /// transaction.
    pub fn each_for_itself(&mut self) -> &mut Self {
        self.0.each_for_itself();
        self
    }

    /// Returns the number of changes that were added.
    pub fn len(&self) -> usize {
        self.0.given()
    }

    /// Returns whether the batch has no changes.
    pub fn is_empty(&self) -> bool {
        self.0.given() == 0
    }

    /// Returns the number of puts that store no record of their own, because another put of the batch has the
    /// same key. Only one put of each key is stored.
    pub fn repeated(&self) -> usize {
        self.0.repeated()
    }

    /// Applies the changes, which are durable when the call returns. The batch is then empty.
    ///
    /// The call takes at most the time of one request: 10 s, or the `request_timeout` with which the store
    /// was opened. The time includes resending. While the outcome is unknown, the batch is sent up to three
    /// times.
    ///
    /// # Errors
    /// After an error, the batch still contains its changes and can be committed again. The second commit
    /// uses the same write timestamps. Changes of the first commit that were applied after all do not
    /// overwrite later writes of others. Nothing was written, except in the last two cases:
    /// - [`ErrorKind::Conflict`]: a put in a collection with `writes = "append"` has the key of a different
    ///   stored record. Only the embedded store detects this. On Cassandra, the non-null fields overwrite the
    ///   fields of the stored record.
    /// - [`ErrorKind::LimitExceeded`]: the batch is larger than the store accepts.
    /// - [`ErrorKind::InvalidArgument`]: the store is open read-only, or does not support such a write.
    /// - [`ErrorKind::Timeout`], [`ErrorKind::Unavailable`]: the store did not answer in time, is
    ///   unreachable, or has too few live replicas.
    /// - [`ErrorKind::Unauthorized`]: the store's credentials do not permit the write.
    /// - [`ErrorKind::NotFound`], [`ErrorKind::SchemaMismatch`]: since the change was added, a collection was
    ///   removed, or another one with its name was created. (New fields of a collection are no error: the
    ///   changes leave them unset.)
    /// - [`ErrorKind::Corrupt`]: the stored data at the key is damaged.
    /// - [`ErrorKind::Store`]: the disk failed, or the collection's table was dropped or changed.
    /// - [`ErrorKind::OutcomeUnknown`]: either all changes are applied, now or later, or none. Committing
    ///   again resolves the outcome.
    /// - After [`each_for_itself`](Self::each_for_itself), on Cassandra: any of these errors, and any subset
    ///   of the changes may be applied.
    pub async fn commit(&mut self) -> Result<()> {
        self.0.commit().await.map(drop)
    }
}
