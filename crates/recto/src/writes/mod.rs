//! Writes: changes to records, as mutations of partitions.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use recto_model::Cells;
use recto_store::check::MAX_TTL_SECONDS;
use recto_store::{
    Atomicity, Mutation, Operation, PartitionWrite, StoreError, StoreErrorKind, WriteOptions, WriteOutcome,
};

use crate::core::CollectionCore;
use crate::error::{Error, ErrorKind, Result};
use crate::shared::Shared;

/// The most changes of one batch.
pub const MAX_BATCH_CHANGES: usize = 10_000;
/// How often a write whose outcome is unknown is sent: the same write with the same stamp, which
/// changes nothing if an earlier attempt was applied.
const MAX_ATTEMPTS: u32 = 3;
/// About how long to wait before the second attempt; before each further one that much longer. What
/// is waited is drawn around it, so that those who failed together do not come again together.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

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

/// What the writes of a batch are about, one for each of them.
#[derive(Debug)]
struct Subject {
    core: Arc<CollectionCore>,
    /// For each mutation, which of the changes given it is.
    changes: Vec<usize>,
}

/// Changes to one or more collections that are applied together, all or none; or each for itself.
#[derive(Debug)]
pub(crate) struct Changes {
    shared: Arc<Shared>,
    writes: Vec<PartitionWrite>,
    /// What each of `writes` is about.
    subjects: Vec<Subject>,
    /// By table, as many columns of it as are known, and partition.
    by_partition: HashMap<(String, usize, Cells), usize>,
    /// The last mutation of each row: of which write, and its number there.
    by_row: HashMap<(usize, Cells), usize>,
    given: usize,
    repeated: usize,
    atomicity: Atomicity,
}

impl Changes {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::clone(shared),
            writes: Vec::new(),
            subjects: Vec::new(),
            by_partition: HashMap::new(),
            by_row: HashMap::new(),
            given: 0,
            repeated: 0,
            atomicity: Atomicity::Logged,
        }
    }

    /// Applies each record's change for itself on Cassandra, without a batch log and its size limit.
    pub(crate) fn each_for_itself(&mut self) {
        self.atomicity = Atomicity::Each;
    }

    /// How many changes were given.
    pub(crate) fn given(&self) -> usize {
        self.given
    }

    /// How many of the puts given store no record of their own.
    pub(crate) fn repeated(&self) -> usize {
        self.repeated
    }

    /// Adds a change. On an error there are those there were before.
    pub(crate) fn add(&mut self, core: &Arc<CollectionCore>, change: Change) -> Result<()> {
        if self.given == MAX_BATCH_CHANGES {
            return Err(Error::new(
                ErrorKind::LimitExceeded,
                format!("a batch holds at most {MAX_BATCH_CHANGES} changes"),
            )
            .with_hint("commit it and begin another"));
        }
        let (partition, mutation) = self.mutation(core, change)?;
        let row = mutation.operation.row().cloned().unwrap_or_default();
        let index = self.write_of(core, partition);
        let mutations = &mut self.writes[index].mutations;
        let earlier = self.by_row.get(&(index, row.clone())).copied();
        match earlier.map(|at| (at, &mut mutations[at])) {
            Some((at, there)) if is_put(there) && is_put(&mutation) => {
                if core.replaces() {
                    *there = mutation;
                    self.subjects[index].changes[at] = self.given;
                } else if !prolong_same(there, &mutation) {
                    return Err(self.conflict_within(index, at));
                }
                self.repeated += 1;
            }
            _ => {
                self.by_row.insert((index, row), mutations.len());
                mutations.push(mutation);
                self.subjects[index].changes.push(self.given);
            }
        }
        self.given += 1;
        Ok(())
    }

    /// The partition a change is of, and the change as the store makes it.
    fn mutation(&self, core: &Arc<CollectionCore>, change: Change) -> Result<(Cells, Mutation)> {
        core.shared.check_table(&core.definition.name)?;
        let table = &core.written;
        let (partition, clustering, cells) = match &change {
            Change::Put { cells, .. } => core.split(cells),
            Change::Delete { key } => core.split(key),
        };
        let limits = self.shared.store.limits();
        limits.check_partition(table, &partition).map_err(invalid_key)?;
        limits.check_clustering(table, &clustering).map_err(invalid_key)?;
        let stamp = Some(self.shared.stamps.next());
        let mutation = match change {
            Change::Put { time_to_live, .. } => Mutation {
                operation: put_operation(core, clustering, cells),
                stamp,
                ttl_seconds: time_to_live.map(ttl_seconds).transpose()?,
            },
            Change::Delete { .. } => Mutation {
                operation: Operation::DeleteRow { clustering },
                stamp,
                ttl_seconds: None,
            },
        };
        let bytes = partition.byte_len() + mutation.byte_len();
        if bytes > limits.mutation_bytes {
            return Err(Error::new(
                ErrorKind::LimitExceeded,
                format!(
                    "a record of {} has {bytes} bytes, {} are the most",
                    core.definition.name, limits.mutation_bytes
                ),
            )
            .with_hint("store smaller records, or keep large values elsewhere"));
        }
        Ok((partition, mutation))
    }

    /// The number of the write to a partition, begun if there is none.
    fn write_of(&mut self, core: &Arc<CollectionCore>, partition: Cells) -> usize {
        let table = &core.written;
        let next = self.writes.len();
        let place = (table.name().to_owned(), table.columns().len(), partition.clone());
        let index = *self.by_partition.entry(place).or_insert(next);
        if index == next {
            self.writes.push(PartitionWrite {
                table: Arc::clone(table),
                partition,
                mutations: Vec::new(),
            });
            self.subjects.push(Subject {
                core: Arc::clone(core),
                changes: Vec::new(),
            });
        }
        index
    }

    /// Applies the changes; there are none then. On an error all of them are still there, to be committed
    /// again with the same stamps.
    pub(crate) async fn commit(&mut self) -> Result<()> {
        if !self.writes.is_empty() {
            self.settle().await?;
        }
        *self = Self {
            atomicity: self.atomicity,
            ..Self::new(&self.shared)
        };
        Ok(())
    }

    /// Sends the changes until they are applied, or it is known that they are not.
    async fn settle(&self) -> Result<()> {
        let options = self.shared.write_options();
        let environment = &self.shared.environment;
        let timeout_nanos = u64::try_from(options.timeout.as_nanos()).unwrap_or(u64::MAX);
        let deadline_nanos = environment.monotonic_nanos().saturating_add(timeout_nanos);
        let mut unknown: Option<StoreError> = None;
        for attempt in 1..=MAX_ATTEMPTS {
            let left_nanos = deadline_nanos.saturating_sub(environment.monotonic_nanos());
            if attempt > 1 && left_nanos == 0 {
                break;
            }
            let options = WriteOptions {
                timeout: Duration::from_nanos(left_nanos),
                ..options
            };
            match (self.send(options).await, &unknown) {
                (Ok(WriteOutcome::Done | WriteOutcome::Counted(_)), _) => return Ok(()),
                (Ok(WriteOutcome::Unknown(error)), _) => unknown = Some(error),
                (Ok(WriteOutcome::Conflict(number)), None) => return Err(self.conflict(number)),
                (Ok(WriteOutcome::Refused(error)), None) => return Err(refused(error)),
                (Err(error), None) => return Err(error.into()),
                // Of this attempt nothing is applied; of the one before, nobody knows.
                (Err(_), Some(_)) => {}
                (Ok(WriteOutcome::Conflict(_) | WriteOutcome::Refused(_)), Some(_)) => break,
            }
            let left = Duration::from_nanos(deadline_nanos.saturating_sub(environment.monotonic_nanos()));
            if attempt < MAX_ATTEMPTS {
                tokio::time::sleep(self.pause(attempt).min(left)).await;
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

    /// How long to wait after an attempt: between half and one and a half of what is due.
    fn pause(&self, attempt: u32) -> Duration {
        let [drawn] = self.shared.environment.random::<1>();
        RETRY_PAUSE * attempt / 2 + RETRY_PAUSE * attempt * u32::from(drawn) / 256
    }

    async fn send(&self, options: WriteOptions) -> Result<WriteOutcome, StoreError> {
        match self.writes.as_slice() {
            [one] => self.shared.store.write(one.clone(), options).await,
            many => {
                let store = &self.shared.store;
                store.write_many(many.to_vec(), self.atomicity, options).await
            }
        }
    }

    /// The mutation of this number conflicts with what is stored.
    #[cold]
    fn conflict(&self, number: usize) -> Error {
        let mut left = number;
        for (index, write) in self.writes.iter().enumerate() {
            if let Some(after) = left.checked_sub(write.mutations.len()) {
                left = after;
                continue;
            }
            let subject = &self.subjects[index];
            let key = self.key_text(index, left);
            let name = &subject.core.definition.name;
            let message = format!("{name} holds another record with the key {key}");
            return Error::new(ErrorKind::Conflict, message)
                .with_hint(CONFLICT_HINT)
                .with_change(subject.changes[left]);
        }
        Error::new(
            ErrorKind::Conflict,
            "there is another record with one of the keys",
        )
        .with_hint(CONFLICT_HINT)
    }

    /// A put of the row of mutation `at` of write `index` is of another record than that.
    #[cold]
    fn conflict_within(&self, index: usize, at: usize) -> Error {
        let name = &self.subjects[index].core.definition.name;
        let key = self.key_text(index, at);
        Error::new(
            ErrorKind::Conflict,
            format!("two records with the key {key} of {name} are put at once, and they differ"),
        )
        .with_hint(CONFLICT_HINT)
    }

    fn key_text(&self, index: usize, at: usize) -> String {
        let write = &self.writes[index];
        let row = write.mutations[at].operation.row().cloned().unwrap_or_default();
        self.subjects[index].core.key_text(&write.partition, &row)
    }
}

/// What puts a row. A record type that does not know all fields leaves the others as they are.
fn put_operation(core: &CollectionCore, clustering: Cells, cells: Cells) -> Operation {
    match core.known_columns().filter(|_| core.replaces()) {
        None => Operation::Put {
            clustering,
            cells: cells.iter().take(core.written.regular().len()).collect(),
            replace: core.replaces(),
        },
        Some(columns) => Operation::Patch {
            clustering,
            cells: columns.iter().map(|&column| cells.get(column.into())).collect(),
            columns,
        },
    }
}

/// What to do about a record of an append collection that is there as another.
const CONFLICT_HINT: &str = "nothing was written; a record of a collection with writes = \"append\" is never \
                             changed: delete it first, or use a collection with writes = \"overwrite\"";

fn is_put(mutation: &Mutation) -> bool {
    matches!(mutation.operation, Operation::Put { .. })
}

/// Whether two puts are of the same record; the first then lives for the longer of both times.
fn prolong_same(there: &mut Mutation, put: &Mutation) -> bool {
    let is_same = there.operation == put.operation;
    if is_same {
        there.ttl_seconds = there
            .ttl_seconds
            .zip(put.ttl_seconds)
            .map(|(one, other)| one.max(other));
    }
    is_same
}

#[cold]
fn refused(error: StoreError) -> Error {
    if error.kind() == StoreErrorKind::Table {
        return error.into();
    }
    Error::new(ErrorKind::LimitExceeded, error.to_string())
        .with_hint(error.hint().unwrap_or("nothing was written").to_owned())
        .with_source(error)
}

fn invalid_key(error: StoreError) -> Error {
    Error::new(ErrorKind::InvalidRecord, error.to_string()).with_source(error)
}

fn ttl_seconds(time_to_live: Duration) -> Result<u32> {
    match u32::try_from(time_to_live.as_secs()) {
        Ok(seconds) if (1..=MAX_TTL_SECONDS).contains(&seconds) => Ok(seconds),
        _ => Err(Error::new(
            ErrorKind::InvalidArgument,
            format!("a record lives for 1 to {MAX_TTL_SECONDS} seconds (20 years), not for {time_to_live:?}"),
        )
        .with_hint("without a time to live it is kept until it is deleted")),
    }
}
