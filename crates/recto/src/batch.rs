//! Batches of writes.

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

/// Puts and deletes, of one or more collections, applied together by [`commit`](Self::commit): all
/// or none.
///
/// On the embedded store that is one transaction. On Cassandra it is one logged batch: all of it
/// is applied in the end, whatever crashes, but a reader may see a part first.
///
/// Changes of one key act in the order they are given in. Of two puts of one key the later one
/// stands; in a collection with `writes = "append"`, whose records are never changed, the second must be of the
/// same record. [`repeated`](Self::repeated) counts such puts.
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

    /// Stores a record. It takes the place of one with its key; in a collection with `writes = "append"`
    /// it must not be there as another.
    ///
    /// # Errors
    /// The batch is then as it was before.
    /// - [`ErrorKind::InvalidRecord`]: a key field is null, or a value cannot be stored.
    /// - [`ErrorKind::Conflict`]: an earlier put of this batch has the same key and another record, and
    ///   the collection is one of `writes = "append"`.
    /// - [`ErrorKind::LimitExceeded`]: the record is larger than the store takes, or the batch is full
    ///   ([`MAX_BATCH_CHANGES`]).
    pub fn put<T>(&mut self, collection: &Collection<T>, record: &T) -> Result<&mut Self> {
        collection.add_put(&mut self.0, record, None)?;
        Ok(self)
    }

    /// Stores a record that lives for a time (whole seconds, at least one).
    ///
    /// # Errors
    /// As [`put`](Self::put); [`ErrorKind::InvalidArgument`]: the time is no time a record can live.
    pub fn put_for<T>(
        &mut self,
        collection: &Collection<T>,
        record: &T,
        time_to_live: Duration,
    ) -> Result<&mut Self> {
        collection.add_put(&mut self.0, record, Some(time_to_live))?;
        Ok(self)
    }

    /// Deletes the record with this key.
    ///
    /// # Errors
    /// The batch is then as it was before. [`ErrorKind::InvalidRecord`]: that is no key of the
    /// collection. [`ErrorKind::LimitExceeded`]: the batch is full ([`MAX_BATCH_CHANGES`]).
    pub fn delete<T>(&mut self, collection: &Collection<T>, key: impl Key) -> Result<&mut Self> {
        collection.add_delete(&mut self.0, &key)?;
        Ok(self)
    }

    /// Applies each record's change for itself on Cassandra, without a batch log and its size
    /// limit: after an error, any subset of the changes may be applied. On the embedded store a
    /// batch is always one transaction.
    pub fn each_for_itself(&mut self) -> &mut Self {
        self.0.each_for_itself();
        self
    }

    /// How many changes were given to it.
    pub fn len(&self) -> usize {
        self.0.given()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.0.given() == 0
    }

    /// How many of the puts given store no record of their own: another put of the batch has the same
    /// key, and stands in its place or is of the same record.
    pub fn repeated(&self) -> usize {
        self.0.repeated()
    }

    /// Applies the changes. Durable when it returns; the batch is then empty.
    ///
    /// It takes as long as a request may take (10 s unless the store was opened with another
    /// `request_timeout`), however often it is sent: up to three times where nobody knows whether it was applied.
    ///
    /// # Errors
    /// The batch then holds its changes, and may be committed again: with the same stamps, so that
    /// what was applied after all is not applied anew over what others wrote since. Nothing was written, but for the last two:
    /// - [`ErrorKind::Conflict`]: a put of a collection with `writes = "append"` is of a key that the store
    ///   holds another record of. Only the embedded store knows that; on Cassandra the fields
    ///   that are not null take the place of those that were there.
    /// - [`ErrorKind::LimitExceeded`]: the batch is larger than the store takes.
    /// - [`ErrorKind::InvalidArgument`]: the store is open read-only, or cannot serve such a write.
    /// - [`ErrorKind::Timeout`], [`ErrorKind::Unavailable`]: the store did not answer in time, cannot be
    ///   reached, or has too few replicas alive.
    /// - [`ErrorKind::Unauthorized`]: the store's credentials do not allow it.
    /// - [`ErrorKind::NotFound`], [`ErrorKind::SchemaMismatch`]: a collection was removed since the change was given, or
    ///   another of its name made. (One that has new fields since is no error: what was given leaves them alone.)
    /// - [`ErrorKind::Corrupt`]: what is stored in its place is damaged.
    /// - [`ErrorKind::Store`]: the disk failed, or the collection's table is gone or has changed.
    /// - [`ErrorKind::OutcomeUnknown`]: all changes may be applied, now or later, or none. Committing again settles it.
    /// - After [`each_for_itself`](Self::each_for_itself), on Cassandra: any of these, and any subset of the changes may be applied.
    pub async fn commit(&mut self) -> Result<()> {
        self.0.commit().await.map(drop)
    }
}
