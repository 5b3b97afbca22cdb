//! Writes: batches of puts and deletes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use recto_model::Cells;
use recto_store::{Atomicity, Mutation, Operation, PartitionWrite, StoreErrorKind, WriteOutcome};

use crate::collection::{Collection, Key, key_cells};
use crate::core::{CollectionCore, Shared};
use crate::error::{Error, ErrorKind, Result};

/// The most changes of one batch.
pub const MAX_BATCH_CHANGES: usize = 10_000;
/// How often a write whose outcome is unknown is sent: the same write with the same stamp, which
/// changes nothing if an earlier attempt was applied.
const MAX_ATTEMPTS: u32 = 3;

/// One change to a collection.
#[derive(Debug)]
pub(crate) enum Change {
    /// Stores a row: its cells in the base table's column order.
    Put {
        /// All cells.
        cells: Cells,
        /// How long it lives.
        time_to_live: Option<Duration>,
    },
    /// Deletes a row: its key's cells in the order of the key columns.
    Delete {
        /// The key's cells.
        key: Cells,
    },
}

/// Puts and deletes, of one or more collections, applied together by [`commit`](Self::commit): all
/// or none.
///
/// On the embedded store that is one transaction. On Cassandra it is one logged batch: all of it
/// is applied in the end, whatever crashes, but a reader may see a part first.
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
/// let mut batch = store.batch();
/// batch.put(&events, &event(60))?;
/// batch.delete(&events, ("mon", 0))?;
/// batch.commit().await?;
/// assert!(events.get(("mon", 60)).await?.is_some() && events.get(("mon", 0)).await?.is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct WriteBatch {
    shared: Arc<Shared>,
    writes: Vec<PartitionWrite>,
    by_partition: HashMap<(String, Cells), usize>,
    changes: usize,
    atomicity: Atomicity,
}

impl WriteBatch {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::clone(shared),
            writes: Vec::new(),
            by_partition: HashMap::new(),
            changes: 0,
            atomicity: Atomicity::Logged,
        }
    }

    /// Stores a record, in the place of one with its key.
    pub fn put<T>(&mut self, collection: &Collection<T>, record: &T) -> Result<&mut Self> {
        let change = collection.put_change(record)?;
        self.add(collection.core(), change)?;
        Ok(self)
    }

    /// Deletes the record with this key.
    pub fn delete<T>(&mut self, collection: &Collection<T>, key: impl Key) -> Result<&mut Self> {
        let key = key_cells(collection.core(), &key)?;
        self.add(collection.core(), Change::Delete { key })?;
        Ok(self)
    }

    /// Applies each record's change for itself on Cassandra, without a batch log and its size
    /// limit: after an error, any subset of the changes may be applied. On the embedded store a
    /// batch is always one transaction.
    pub fn each_for_itself(&mut self) -> &mut Self {
        self.atomicity = Atomicity::Each;
        self
    }

    /// How many changes it holds.
    pub fn len(&self) -> usize {
        self.changes
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.changes == 0
    }

    pub(crate) fn add(&mut self, core: &Arc<CollectionCore>, change: Change) -> Result<()> {
        if self.changes == MAX_BATCH_CHANGES {
            return Err(Error::new(
                ErrorKind::LimitExceeded,
                format!("a batch holds at most {MAX_BATCH_CHANGES} changes"),
            )
            .with_hint("commit it and begin another"));
        }
        let table = Arc::clone(&core.base().table);
        let (partition, clustering, cells) = match &change {
            Change::Put { cells, .. } => core.split(cells),
            Change::Delete { key } => core.split(key),
        };
        let limits = self.shared.store.limits();
        limits.check_partition(&table, &partition).map_err(invalid_key)?;
        limits
            .check_clustering(&table, &clustering)
            .map_err(invalid_key)?;
        let stamp = Some(self.shared.next_stamp());
        let mutation = match change {
            Change::Put { time_to_live, .. } => Mutation {
                operation: Operation::Put {
                    clustering,
                    cells,
                    replace: core.replaces(),
                },
                stamp,
                ttl_seconds: time_to_live.map(ttl_seconds).transpose()?,
            },
            Change::Delete { .. } => Mutation {
                operation: Operation::DeleteRow { clustering },
                stamp,
                ttl_seconds: None,
            },
        };
        let next = self.writes.len();
        let index = *self
            .by_partition
            .entry((table.name().to_owned(), partition.clone()))
            .or_insert(next);
        if index == next {
            self.writes.push(PartitionWrite {
                table,
                partition,
                mutations: Vec::new(),
            });
        }
        self.writes[index].mutations.push(mutation);
        self.changes += 1;
        Ok(())
    }

    /// Applies the changes. Durable when it returns.
    ///
    /// # Errors
    /// [`ErrorKind::LimitExceeded`]: nothing was sent. [`ErrorKind::OutcomeUnknown`]: the changes
    /// may be applied, now or later; sending the same records again settles it.
    pub async fn commit(&mut self) -> Result<()> {
        let writes = std::mem::take(&mut self.writes);
        self.by_partition.clear();
        self.changes = 0;
        if writes.is_empty() {
            return Ok(());
        }
        let mut unknown = None;
        for _ in 0..MAX_ATTEMPTS {
            let outcome = match self.send(&writes).await {
                // Of this attempt nothing is applied; of the one before, nobody knows.
                Err(_) if unknown.is_some() => continue,
                outcome => outcome?,
            };
            match outcome {
                WriteOutcome::Done => return Ok(()),
                WriteOutcome::Refused(_) if unknown.is_some() => break,
                WriteOutcome::Refused(error) if error.kind() == StoreErrorKind::Table => {
                    return Err(error.into());
                }
                WriteOutcome::Refused(error) => {
                    return Err(Error::new(ErrorKind::LimitExceeded, error.to_string())
                        .with_hint(error.hint().unwrap_or("nothing was written").to_owned())
                        .with_source(error));
                }
                WriteOutcome::Unknown(error) => unknown = Some(error),
            }
        }
        let mut error = Error::new(
            ErrorKind::OutcomeUnknown,
            "it is not known whether the write was applied",
        )
        .with_hint("it may be applied now or later; sending the same records again settles it");
        if let Some(unknown) = unknown {
            error = error.with_source(unknown);
        }
        Err(error)
    }

    async fn send(&self, writes: &[PartitionWrite]) -> Result<WriteOutcome> {
        let options = self.shared.write_options();
        Ok(match writes {
            [one] => self.shared.store.write(one.clone(), options).await?,
            many => {
                self.shared
                    .store
                    .write_many(many.to_vec(), self.atomicity, options)
                    .await?
            }
        })
    }
}

fn invalid_key(error: recto_store::StoreError) -> Error {
    Error::new(ErrorKind::InvalidRecord, error.to_string()).with_source(error)
}

fn ttl_seconds(time_to_live: Duration) -> Result<u32> {
    match u32::try_from(time_to_live.as_secs()) {
        Ok(seconds) if seconds > 0 => Ok(seconds),
        _ => Err(Error::new(
            ErrorKind::InvalidArgument,
            format!("a time to live is at least one second and fits in 32 bits, not {time_to_live:?}"),
        )),
    }
}
