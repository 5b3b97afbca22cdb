//! Writes: changes to records, as mutations of partitions.

pub(crate) mod mutation;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use recto_model::{Cells, Table};
use recto_store::check::{CELL_OVERHEAD_BYTES, MAX_TTL_SECONDS, MUTATION_OVERHEAD_BYTES};
use recto_store::{
    Atomicity, Mutation, PartitionWrite, Stamp, StoreError, StoreErrorKind, WriteOptions, WriteOutcome,
};

use crate::core::CollectionCore;
use crate::error::{Error, ErrorKind, Result};
use crate::settle::{Attempt, Policy, settle};
use crate::shared::Shared;

/// The most changes of one batch.
pub const MAX_BATCH_CHANGES: usize = 10_000;

/// One change to a collection.
#[derive(Debug)]
pub(crate) enum RowChange {
    /// Stores a record: its cells in the base table's column order.
    Put {
        /// All cells.
        cells: Cells,
        /// How long it lives.
        ttl_seconds: Option<u32>,
    },
    /// Deletes a record.
    Delete {
        /// The cells of its key, in the order of the base table's key columns.
        key: Cells,
    },
}

impl RowChange {
    /// The cells of the record, or of its key.
    fn row(&self) -> &Cells {
        match self {
            Self::Put { cells, .. } => cells,
            Self::Delete { key } => key,
        }
    }

    /// Whether two puts are of the same record; this one then lives for the longer of both times.
    fn prolong_same(&mut self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Put { cells, ttl_seconds },
                Self::Put {
                    cells: other,
                    ttl_seconds: other_seconds,
                },
            ) if cells == other => {
                *ttl_seconds = ttl_seconds.zip(*other_seconds).map(|(one, other)| one.max(other));
                true
            }
            _ => false,
        }
    }
}

/// A change that is not applied yet.
#[derive(Debug)]
struct Pending {
    core: Arc<CollectionCore>,
    change: RowChange,
    /// The one it was committed with first, which it keeps.
    stamp: Option<Stamp>,
    /// Which of the changes given it is.
    number: usize,
}

impl Pending {
    fn partition(&self) -> Cells {
        mutation::partition(&self.core, self.change.row())
    }

    fn mutation(&self, stamp: Stamp) -> Mutation {
        match &self.change {
            RowChange::Put { cells, ttl_seconds } => mutation::put(&self.core, cells, stamp, *ttl_seconds),
            RowChange::Delete { key } => mutation::delete(&self.core, key, stamp),
        }
    }

    /// Whether it is all there is to know of its record's key.
    fn is_whole_put(&self) -> bool {
        let is_whole = || !self.core.replaces() || self.core.known_columns().is_none();
        matches!(self.change, RowChange::Put { .. }) && is_whole()
    }

    fn key_text(&self) -> String {
        let row = self.change.row();
        let partition = mutation::partition(&self.core, row);
        self.core
            .key_text(&partition, &mutation::clustering(&self.core, row))
    }
}

/// The changes to one partition.
struct Group {
    table: Arc<Table>,
    partition: Cells,
    /// Which of the pending changes.
    changes: Vec<usize>,
}

/// Changes to one or more collections that are applied together, all or none; or each for itself.
///
/// They are kept as what they mean. Which partitions they are written to and what their stamps are is
/// decided when they are committed; each keeps its stamp from then on, so that committing them again
/// after an unknown outcome settles it.
#[derive(Debug)]
pub(crate) struct Changes {
    shared: Arc<Shared>,
    pending: Vec<Pending>,
    /// The last change of each key (table as it is known, partition, clustering), as a number of `pending`.
    last_of_key: HashMap<(usize, Cells, Cells), usize>,
    /// The tables, each with as many columns as are known, which `last_of_key` has by number.
    tables: Vec<Arc<Table>>,
    given: usize,
    repeated: usize,
    atomicity: Atomicity,
}

impl Changes {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::clone(shared),
            pending: Vec::new(),
            last_of_key: HashMap::new(),
            tables: Vec::new(),
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
    pub(crate) fn add(&mut self, core: &Arc<CollectionCore>, change: RowChange) -> Result<()> {
        if self.given == MAX_BATCH_CHANGES {
            return Err(Error::new(
                ErrorKind::LimitExceeded,
                format!("a batch holds at most {MAX_BATCH_CHANGES} changes"),
            )
            .with_hint("commit it and begin another"));
        }
        let pending = Pending {
            core: Arc::clone(core),
            change,
            stamp: None,
            number: self.given,
        };
        let partition = pending.partition();
        let clustering = mutation::clustering(core, pending.change.row());
        self.check(&pending, &partition, &clustering)?;
        let key = (self.table(core), partition, clustering);
        let earlier = self.last_of_key.get(&key).copied();
        match earlier.map(|at| &mut self.pending[at]) {
            Some(there) if there.is_whole_put() && pending.is_whole_put() => {
                if core.replaces() {
                    *there = pending;
                } else if !there.change.prolong_same(&pending.change) {
                    return Err(conflict_within(there));
                }
                self.repeated += 1;
            }
            _ => {
                self.last_of_key.insert(key, self.pending.len());
                self.pending.push(pending);
            }
        }
        self.given += 1;
        Ok(())
    }

    /// Refuses a change that the store would refuse, whatever others it is committed with.
    fn check(&self, pending: &Pending, partition: &Cells, clustering: &Cells) -> Result<()> {
        let core = &pending.core;
        let table = &core.written;
        let limits = self.shared.store.limits();
        limits.check_partition(table, partition).map_err(invalid_key)?;
        limits.check_clustering(table, clustering).map_err(invalid_key)?;
        let row = pending.change.row();
        // The most it can be; seldom is it worth making the mutation to know exactly.
        let most = row.byte_len() + row.len() * CELL_OVERHEAD_BYTES + MUTATION_OVERHEAD_BYTES;
        if most <= limits.mutation_bytes {
            return Ok(());
        }
        let bytes = partition.byte_len() + pending.mutation(Stamp(0)).byte_len();
        if bytes <= limits.mutation_bytes {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::LimitExceeded,
            format!(
                "a record of {} has {bytes} bytes, {} are the most",
                core.definition.name, limits.mutation_bytes
            ),
        )
        .with_hint("store smaller records, or keep large values elsewhere"))
    }

    /// The number of the table that a collection's records are written to, known from now on.
    fn table(&mut self, core: &CollectionCore) -> usize {
        let known = self
            .tables
            .iter()
            .position(|known| is_one_table(known, &core.written));
        known.unwrap_or_else(|| {
            self.tables.push(Arc::clone(&core.written));
            self.tables.len() - 1
        })
    }

    /// Applies the changes; there are none then. On an error all of them are still there, to be committed
    /// again with the same stamps.
    pub(crate) async fn commit(&mut self) -> Result<()> {
        if !self.pending.is_empty() {
            let mut pending = self.pending.iter();
            pending.try_for_each(|one| one.core.check_still_held())?;
            for pending in &mut self.pending {
                pending.stamp.get_or_insert_with(|| self.shared.stamps.next());
            }
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
        let groups = self.groups();
        let attempt = |left| {
            let options = WriteOptions {
                timeout: left,
                ..options
            };
            self.attempt(&groups, options)
        };
        let sent = settle(&self.shared.environment, Policy::write(options.timeout), attempt).await;
        sent.map_err(|unsettled| {
            unsettled.or(|unknown| {
                Error::new(
                    ErrorKind::OutcomeUnknown,
                    "it is not known whether the write was applied",
                )
                .with_hint("it may be applied now or later; sending the same records again settles it")
                .with_source(unknown)
            })
        })
    }

    async fn attempt(&self, groups: &[Group], options: WriteOptions) -> Attempt<(), Error> {
        match self.send(groups, options).await {
            Ok(WriteOutcome::Done | WriteOutcome::Counted(_)) => Attempt::Known(()),
            Ok(WriteOutcome::Unknown(error)) => Attempt::Unknown(error),
            Ok(WriteOutcome::Conflict(number)) => Attempt::Refused(self.conflict(groups, number)),
            Ok(WriteOutcome::Refused(error)) => Attempt::Refused(refused(error)),
            Err(error) => Attempt::Failed(error.into()),
        }
    }

    /// Asks the store. What it is asked for is made for each attempt, so that no copy is kept while it waits.
    async fn send(&self, groups: &[Group], options: WriteOptions) -> Result<WriteOutcome, StoreError> {
        let store = &self.shared.store;
        match groups {
            [one] => store.write(self.write_of(one), options).await,
            many => {
                let writes = many.iter().map(|group| self.write_of(group)).collect();
                store.write_many(writes, self.atomicity, options).await
            }
        }
    }

    /// The changes by the partitions they are written to, in the order of the first of each.
    fn groups(&self) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        let mut by_partition: HashMap<(&str, usize, Cells), usize> = HashMap::new();
        for (number, pending) in self.pending.iter().enumerate() {
            let table = &pending.core.written;
            let partition = pending.partition();
            let place = (table.name(), table.columns().len(), partition.clone());
            let next = groups.len();
            let index = *by_partition.entry(place).or_insert(next);
            if index == next {
                groups.push(Group {
                    table: Arc::clone(table),
                    partition,
                    changes: Vec::new(),
                });
            }
            groups[index].changes.push(number);
        }
        groups
    }

    fn write_of(&self, group: &Group) -> PartitionWrite {
        let mutation = |&number: &usize| {
            let pending = &self.pending[number];
            pending.mutation(pending.stamp.expect("it was taken before anything is sent"))
        };
        PartitionWrite {
            table: Arc::clone(&group.table),
            partition: group.partition.clone(),
            mutations: group.changes.iter().map(mutation).collect(),
        }
    }

    /// The mutation of this number conflicts with what is stored.
    #[cold]
    fn conflict(&self, groups: &[Group], number: usize) -> Error {
        let Some(change) = groups.iter().flat_map(|group| &group.changes).nth(number) else {
            return Error::new(
                ErrorKind::Conflict,
                "there is another record with one of the keys",
            )
            .with_hint(CONFLICT_HINT);
        };
        let pending = &self.pending[*change];
        let (name, key) = (&pending.core.definition.name, pending.key_text());
        let message = format!("{name} holds another record with the key {key}");
        Error::new(ErrorKind::Conflict, message)
            .with_hint(CONFLICT_HINT)
            .with_change(pending.number)
    }
}

/// A put of the key of `there` is of another record than that.
#[cold]
fn conflict_within(there: &Pending) -> Error {
    let (name, key) = (&there.core.definition.name, there.key_text());
    Error::new(
        ErrorKind::Conflict,
        format!("two records with the key {key} of {name} are put at once, and they differ"),
    )
    .with_hint(CONFLICT_HINT)
}

/// Whether two are one table with as many columns of it known.
fn is_one_table(one: &Arc<Table>, other: &Arc<Table>) -> bool {
    Arc::ptr_eq(one, other) || (one.name() == other.name() && one.columns().len() == other.columns().len())
}

/// What to do about a record of an append collection that is there as another.
const CONFLICT_HINT: &str = "nothing was written; a record of a collection with writes = \"append\" is never \
                             changed: delete it first, or use a collection with writes = \"overwrite\"";

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

/// How long a record lives, as a store is told.
pub(crate) fn ttl_seconds(time_to_live: Duration) -> Result<u32> {
    match u32::try_from(time_to_live.as_secs()) {
        Ok(seconds) if (1..=MAX_TTL_SECONDS).contains(&seconds) => Ok(seconds),
        _ => Err(Error::new(
            ErrorKind::InvalidArgument,
            format!("a record lives for 1 to {MAX_TTL_SECONDS} seconds (20 years), not for {time_to_live:?}"),
        )
        .with_hint("without a time to live it is kept until it is deleted")),
    }
}
