//! Writes of records: changes of records become mutations (changes of rows) of partitions.

mod change;
mod claims;
mod ground;
pub(crate) mod mutation;
mod plain;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::stream::{self, StreamExt};
use recto_model::schema::WriteMode;
use recto_model::{Cells, Environment, Table};
use recto_store::check::{CELL_OVERHEAD_BYTES, MAX_TTL_SECONDS, MUTATION_OVERHEAD_BYTES};
use recto_store::{
    Atomicity, Mutation, Stamp, StoreError, StoreErrorKind, TransactionOutcome, WriteOptions, WriteOutcome,
};

pub use change::Changed;
pub(crate) use change::{
    Transacting, change, does_not_fit, exists_unseen, not_changed, refusal_of, refused_by, transact,
};
pub(crate) use claims::{claim_as_it_is, claims_of, has_claims, release_unheld, without_holder};
use ground::Ground;
use plain::{Gathering, MutationOrigin, Plain};

use crate::core::CollectionCore;
use crate::error::{Error, ErrorKind, Result};
use crate::settle::{Attempt, Policy, settle};
use crate::shared::{Shared, Writing};

/// Maximum number of changes in a batch.
pub const MAX_BATCH_CHANGES: usize = 10_000;

/// Maximum number of attempts of changes that depend on reads, if other writers change the same
/// data.
pub(crate) const MAX_LOOKS: u32 = 100;
/// Maximum wait before the next attempt of a change, after another writer changed the same data.
const MAX_LOST_PAUSE: Duration = Duration::from_millis(10);
/// Maximum number of independent changes that are written concurrently.
pub(crate) const MAX_AT_ONCE: usize = 32;

/// Change of one record of a collection that is written without versions.
#[derive(Debug)]
pub(crate) enum RowChange {
    Put {
        /// Cells (encoded values) of all columns, in the column order of the base table.
        cells: Cells,
        /// Time to live in seconds; `None`: the record does not expire.
        ttl_seconds: Option<u32>,
    },
    Delete {
        /// Cells of the key, in the order of the base table's key columns.
        key: Cells,
    },
}

impl RowChange {
    /// Returns the cells of the record, or of its key.
    fn row(&self) -> &Cells {
        match self {
            Self::Put { cells, .. } => cells,
            Self::Delete { key } => key,
        }
    }

    /// Returns whether both changes put the same record. If true, gives `self` the longer of the two TTLs.
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

/// Change that was added to a batch and is not applied yet.
#[derive(Debug)]
struct Pending {
    core: Arc<CollectionCore>,
    change: RowChange,
    /// Write timestamp. The first commit sets it, and further commits keep it.
    stamp: Option<Stamp>,
    /// Index of the change in the batch, in the order in which the caller added changes.
    number: usize,
}

impl Pending {
    fn partition(&self) -> Cells {
        mutation::partition(&self.core, self.change.row())
    }

    fn clustering(&self) -> Cells {
        mutation::clustering(&self.core, self.change.row())
    }

    /// Returns the position of the changed record: table, partition and clustering cells.
    fn place(&self) -> (String, Cells, Cells) {
        let table = self.core.written.name().to_owned();
        (table, self.partition(), self.clustering())
    }

    fn mutation(&self, stamp: Stamp) -> Mutation {
        match &self.change {
            RowChange::Put { cells, ttl_seconds } => mutation::put(&self.core, cells, stamp, *ttl_seconds),
            RowChange::Delete { key } => mutation::delete(&self.core, key, stamp),
        }
    }

    /// Returns whether the change alone determines the resulting record. It does if it puts all columns, or
    /// if records of the collection never change.
    fn is_whole_put(&self) -> bool {
        let is_whole = || !self.core.replaces() || self.core.known_columns().is_none();
        matches!(self.change, RowChange::Put { .. }) && is_whole()
    }

    fn key_text(&self) -> String {
        self.core.key_text(&self.partition(), &self.clustering())
    }
}

/// Changes of one or more collections, which are applied together or each independently.
///
/// The changes are stored in their logical form. Their partitions and timestamps are determined at
/// the commit. A change keeps its timestamp, so that a second commit after an unknown outcome
/// resolves the outcome.
#[derive(Debug)]
pub(crate) struct Changes {
    shared: Arc<Shared>,
    pending: Vec<Pending>,
    /// For each key, the index in `pending` of the last change of the key. A key is an index in `tables`,
    /// partition cells and clustering cells.
    last_of_key: HashMap<(usize, Cells, Cells), usize>,
    /// Tables of the changed records, for the keys of `last_of_key`. A table occurs once for each number of
    /// columns that its writers know.
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

    /// Applies each record's change independently on Cassandra, without a batch log and its size limit.
    pub(crate) fn each_for_itself(&mut self) {
        self.atomicity = Atomicity::Each;
    }

    /// Returns the number of changes that were added.
    pub(crate) fn given(&self) -> usize {
        self.given
    }

    /// Returns the number of added puts that store no record of their own, because another put of
    /// the batch has the same key.
    pub(crate) fn repeated(&self) -> usize {
        self.repeated
    }

    /// Adds a change. After an error, the batch is unchanged.
    pub(crate) fn add(&mut self, core: &Arc<CollectionCore>, change: RowChange) -> Result<()> {
        core.check_written_here()?;
        if self.given == MAX_BATCH_CHANGES {
            return Err(Error::new(
                ErrorKind::LimitExceeded,
                format!("a batch has at most {MAX_BATCH_CHANGES} changes"),
            )
            .with_hint("commit the batch, and begin another"));
        }
        if core.definition.writes == WriteMode::Update {
            return Err(not_together(&core.definition.name));
        }
        let pending = Pending {
            core: Arc::clone(core),
            change,
            stamp: None,
            number: self.given,
        };
        let partition = pending.partition();
        let clustering = pending.clustering();
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

    /// Rejects a change that the store would reject in any batch.
    fn check(&self, pending: &Pending, partition: &Cells, clustering: &Cells) -> Result<()> {
        let core = &pending.core;
        let table = &core.written;
        let limits = self.shared.store.limits();
        limits.check_partition(table, partition).map_err(invalid_key)?;
        limits.check_clustering(table, clustering).map_err(invalid_key)?;
        let row = pending.change.row();
        // Check an upper bound first, because the exact size requires the mutation and
        // is rarely necessary.
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
                "a record of {} has {bytes} bytes; at most {} are allowed",
                core.definition.name, limits.mutation_bytes
            ),
        )
        .with_hint("store smaller records, or keep large values elsewhere"))
    }

    /// Returns the index in `tables` of the table that stores a collection's records. Adds the table to
    /// `tables` if it is new.
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

    /// Applies the changes, and empties the batch. Returns the newest write timestamp; `None` if the batch
    /// was empty. After an error, all changes remain in the batch, and another commit uses the same
    /// timestamps.
    pub(crate) async fn commit(&mut self) -> Result<Option<Stamp>> {
        if !self.pending.is_empty() {
            let shared = Arc::clone(&self.shared);
            let mut writing = shared.writing_plainly(shared.write_options().timeout).await?;
            let mut pending = self.pending.iter();
            pending.try_for_each(|one| one.core.check_still_held())?;
            for pending in &mut self.pending {
                pending.stamp.get_or_insert_with(|| self.shared.stamps.next());
            }
            let settled = self.settle(&mut writing).await;
            if settled
                .as_ref()
                .is_err_and(|error| error.kind() == ErrorKind::OutcomeUnknown)
            {
                // A write of unknown outcome may still be under way, so do not announce its end to other
                // processes.
                drop(writing);
            } else {
                writing.ended();
            }
            settled?;
        }
        let newest = self.pending.iter().filter_map(|one| one.stamp).max();
        *self = Self {
            atomicity: self.atomicity,
            ..Self::new(&self.shared)
        };
        Ok(newest)
    }

    /// Sends the changes until they are applied or are known not to be applied. If an error follows an
    /// applied attempt, the error says that views may lack the changes.
    async fn settle(&mut self, writing: &mut Writing<'_>) -> Result<()> {
        let mut is_applied = false;
        let settled = self.send_until_applied(writing, &mut is_applied).await;
        settled.map_err(|error| {
            if is_applied {
                not_in_all_views(error)
            } else {
                error
            }
        })
    }

    async fn send_until_applied(&mut self, writing: &mut Writing<'_>, is_applied: &mut bool) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let (environment, options) = (&shared.environment, shared.write_options());
        let mut begun_nanos = environment.monotonic_nanos();
        let (mut reads_all, mut before) = (false, None);
        for _ in 0..MAX_LOOKS {
            let mut ground = Ground::look(&self.shared, &self.pending, reads_all).await?;
            if let Some(before) = before.take() {
                ground.recall(before);
            }
            self.check_ground(&ground)?;
            let spent = environment.monotonic_nanos().saturating_sub(begun_nanos);
            let left = options.timeout.saturating_sub(Duration::from_nanos(spent));
            let attempt = async |left| {
                let timeout = match writing.leased(left).await {
                    Ok(left) => left,
                    Err(error) => return Attempt::Failed(error),
                };
                let options = WriteOptions { timeout, ..options };
                self.attempt(&ground, reads_all, options).await
            };
            match settle(environment, Policy::write(left), attempt).await {
                Ok(Sent::Applied) => {
                    *is_applied = true;
                    if writing.is_all(&self.shared, options.timeout).await? {
                        return Ok(());
                    }
                    before = Some(ground);
                    begun_nanos = environment.monotonic_nanos();
                }
                Ok(Sent::MayBeThere) => reads_all = true,
                Ok(Sent::Moved) => {
                    self.take_stamps();
                    pause(environment).await;
                }
                Ok(Sent::OnOtherGround { schema }) => {
                    if schema {
                        self.shared.look_for_schema().await?;
                    }
                    pause(environment).await;
                }
                Err(unsettled) => return Err(unsettled.or(unknown)),
            }
        }
        Err(busy("the batch"))
    }

    /// Assigns newer timestamps, after rows moved to other buckets. Earlier writes may be in buckets that are
    /// no longer read for their keys, so they must be repeated.
    fn take_stamps(&mut self) {
        for pending in &mut self.pending {
            pending.stamp = Some(self.shared.stamps.next());
        }
    }

    /// Checks that the changes are allowed: a put must not differ from an existing record that
    /// never changes, and no record may become a misfit (a record that a view or constraint cannot
    /// store).
    fn check_ground(&self, ground: &Ground) -> Result<()> {
        let sees_conflicts = self.shared.store.limits().sees_conflicts;
        let mut pending = self.pending.iter().enumerate();
        let another = pending.find(|(number, pending)| {
            let stored = ground.stored(*number);
            sees_conflicts && stored.is_some_and(|stored| plain::is_another(pending, stored))
        });
        another.map_or(Ok(()), |(number, _)| Err(self.conflict(Some(number))))?;
        let misfits = self.pending.iter().zip(&ground.new_misfits);
        let mut misfits = misfits.filter_map(|(pending, misfit)| Some((pending, (*misfit)?)));
        misfits.next().map_or(Ok(()), |(pending, misfit)| {
            Err(does_not_fit(&pending.core, misfit).with_change(pending.number))
        })
    }

    async fn attempt(&self, ground: &Ground, reads_all: bool, options: WriteOptions) -> Attempt<Sent, Error> {
        let limits = self.shared.store.limits();
        let all = || Gathering::new(&self.pending, ground, limits).writes_of(0..self.pending.len());
        if !ground.has_views() {
            return self.send(all(), self.atomicity, options).await;
        }
        if limits.transactions {
            return self.transact(all(), ground, reads_all, options).await;
        }
        if self.atomicity == Atomicity::Logged {
            return self.send(all(), Atomicity::Logged, options).await;
        }
        // The changes are independent of each other, so send each one separately,
        // together with its entries.
        let sent = (0..self.pending.len()).map(|number| {
            let one = Gathering::new(&self.pending, ground, limits).writes_of(number..number + 1);
            self.send(one, Atomicity::Logged, options).boxed()
        });
        let sent: Vec<_> = sent.collect();
        let worse = |one, other| match (one, other) {
            (Attempt::Unknown(error), _) | (_, Attempt::Unknown(error)) => Attempt::Unknown(error),
            (moved @ Attempt::Known(Sent::Moved), Attempt::Known(_)) => moved,
            (Attempt::Known(_), other) => other,
            (one, _) => one,
        };
        let all = Attempt::Known(Sent::Applied);
        let sent = stream::iter(sent).buffer_unordered(MAX_AT_ONCE);
        sent.fold(all, |all, one| std::future::ready(worse(all, one)))
            .await
    }

    async fn transact(
        &self,
        plain: Plain,
        ground: &Ground,
        reads_all: bool,
        options: WriteOptions,
    ) -> Attempt<Sent, Error> {
        let Plain { writes, of } = plain;
        let conditions = ground.conditions();
        let schema = conditions.first().filter(|_| ground.has_schema()).cloned();
        match self.shared.store.transact(conditions, writes, options).await {
            Ok(TransactionOutcome::Applied) => Attempt::Known(Sent::Applied),
            Ok(TransactionOutcome::NotApplied { current }) => Attempt::Known(Sent::OnOtherGround {
                schema: schema
                    .zip(current.first())
                    .is_some_and(|(cas, current)| !cas.holds(current)),
            }),
            Ok(TransactionOutcome::Conflict(number)) => match of.into_iter().flatten().nth(number) {
                // An entry with another timestamp exists. It belongs to the record of this change, or to
                // another record with the same key. So the caller must read the stored record.
                Some(MutationOrigin::Entry(_)) if !reads_all => Attempt::Known(Sent::MayBeThere),
                of => Attempt::Refused(self.conflict(of.map(MutationOrigin::change))),
            },
            Ok(TransactionOutcome::Unknown(error)) => Attempt::Unknown(error),
            Ok(TransactionOutcome::Refused(error)) => Attempt::Refused(refused(error)),
            Err(error) => Attempt::Failed(error.into()),
        }
    }

    async fn send(&self, plain: Plain, atomicity: Atomicity, options: WriteOptions) -> Attempt<Sent, Error> {
        let Plain { mut writes, of } = plain;
        let store = &self.shared.store;
        let one = if writes.len() == 1 { writes.pop() } else { None };
        let outcome = match one {
            Some(one) => store.write(one, options).await,
            None => store.write_many(writes, atomicity, options).await,
        };
        match outcome {
            Ok(WriteOutcome::Done | WriteOutcome::Counted(_)) => Attempt::Known(Sent::Applied),
            Ok(WriteOutcome::Unknown(error)) | Err(error) if error.kind() == StoreErrorKind::Moved => {
                Attempt::Known(Sent::Moved)
            }
            Ok(WriteOutcome::Unknown(error)) => Attempt::Unknown(error),
            Ok(WriteOutcome::Conflict(number)) => {
                let of = of.into_iter().flatten().nth(number);
                Attempt::Refused(self.conflict(of.map(MutationOrigin::change)))
            }
            Ok(WriteOutcome::Refused(error)) => Attempt::Refused(refused(error)),
            Err(error) => Attempt::Failed(error.into()),
        }
    }

    /// Returns the error for a put that conflicts with a stored record. `change` is the index in `pending` of
    /// the put, if it is known.
    #[cold]
    fn conflict(&self, change: Option<usize>) -> Error {
        let Some(pending) = change.and_then(|change| self.pending.get(change)) else {
            return Error::new(ErrorKind::Conflict, "another record has one of the keys")
                .with_hint(CONFLICT_HINT);
        };
        let (name, key) = (&pending.core.definition.name, pending.key_text());
        let message = format!("{name} has another record with the key {key}");
        Error::new(ErrorKind::Conflict, message)
            .with_hint(CONFLICT_HINT)
            .with_change(pending.number)
    }
}

/// Known outcome of an attempt to apply changes.
enum Sent {
    Applied,
    /// Nothing is applied, because the schema or a stored record has changed since it was read.
    OnOtherGround {
        /// True if the schema has changed.
        schema: bool,
    },
    /// Nothing is applied, because an entry already exists. The caller must read whether the
    /// entry's record exists.
    MayBeThere,
    /// Rows have moved to other buckets since the timestamps were assigned. The rows that were
    /// written must be written again with newer timestamps.
    Moved,
}

#[cold]
fn unknown(error: StoreError) -> Error {
    Error::new(
        ErrorKind::OutcomeUnknown,
        "it is not known whether the write was applied",
    )
    .with_hint("send the same records again to resolve the outcome: the write may be applied now or later")
    .with_source(error)
}

/// Returns the error for an applied write that views may lack. Other processes may have declared this process
/// dead, and added views that the write did not maintain.
#[cold]
fn not_in_all_views(error: Error) -> Error {
    Error::new(
        ErrorKind::OutcomeUnknown,
        "it is not known whether every view has the write: this process could not renew its registration in \
         time",
    )
    .with_hint("send the same records again to resolve the outcome")
    .with_source(error)
}

/// Returns the error for a change that failed in each attempt, because other writers changed the same data.
#[cold]
pub(crate) fn busy(what: &str) -> Error {
    Error::new(
        ErrorKind::Timeout,
        format!("other writers changed {what} during each attempt to write it"),
    )
    .with_hint("try again; nothing was written")
}

/// Waits for a random time, so that writers that collided do not collide again.
async fn pause(environment: &Environment) {
    let [drawn] = environment.random::<1>();
    tokio::time::sleep(MAX_LOST_PAUSE * u32::from(drawn) / 256).await;
}

/// Returns the error for a batch with a change of a record that has a version. Each such change has its own
/// condition, and a store cannot apply several conditional changes all or none.
#[cold]
fn not_together(collection: &str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("records of {collection} change one by one, not all or none of them"),
    )
    .with_hint("make each change by itself (`change_each`), which returns the outcome of each")
}

/// Returns the error for two puts of a batch that have the same key and different records.
#[cold]
fn conflict_within(there: &Pending) -> Error {
    let (name, key) = (&there.core.definition.name, there.key_text());
    Error::new(
        ErrorKind::Conflict,
        format!("the batch has two different records with the key {key} of {name}"),
    )
    .with_hint(CONFLICT_HINT)
}

/// Returns whether two definitions describe the same table with the same number of columns.
fn is_one_table(one: &Arc<Table>, other: &Arc<Table>) -> bool {
    Arc::ptr_eq(one, other) || (one.name() == other.name() && one.columns().len() == other.columns().len())
}

/// Hint of the error for a different record with the same key in an append-only collection.
const CONFLICT_HINT: &str = "delete the record first, or use a collection with writes = \"overwrite\": \
    records with writes = \"append\" never change; nothing was written";

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

/// Converts a time to live to whole seconds, as stores expect it. Rejects less than a second and more than 20
/// years.
pub(crate) fn ttl_seconds(time_to_live: Duration) -> Result<u32> {
    match u32::try_from(time_to_live.as_secs()) {
        Ok(seconds) if (1..=MAX_TTL_SECONDS).contains(&seconds) => Ok(seconds),
        _ => Err(Error::new(
            ErrorKind::InvalidArgument,
            format!("a record lives for 1 to {MAX_TTL_SECONDS} seconds (20 years), not for {time_to_live:?}"),
        )
        .with_hint("leave out the time to live to keep the record until it is deleted")),
    }
}
