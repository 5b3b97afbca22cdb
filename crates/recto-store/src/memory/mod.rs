//! Reference store for tests: all functions of a [`Store`] in memory, in code that is easy to verify.
//!
//! It keeps every write of a partition and merges the writes at each read. It is therefore slow, and grows
//! without bound. It distinguishes partitions by their bytes, keeps rows in the order of
//! [`recto_model::order`], and uses no key codec.

mod partition;
mod snapshot;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use recto_model::{Cells, Environment, Slice, Table};

use self::partition::{Met, Partition};
use self::snapshot::MemorySnapshot;
use crate::check::no_transactions;
use crate::tables::{added_columns, serves};
use crate::{
    Atomicity, Cas, CasCondition, CasOutcome, ConsistencyLevel, Limits, Mutation, Operation, PartitionWrite,
    ReadOptions, RowsMet, Snapshot, Stamp, Store, StoreError, StoreErrorKind, StoreKind, TableOutcome,
    TransactionOutcome, WriteOptions, WriteOutcome,
};

/// Default limits of one request to a [`MemoryStore`].
pub const DEFAULT_LIMITS: Limits = Limits {
    mutation_bytes: 8 << 20,
    batch_bytes: 1 << 20,
    key_bytes: 65_535,
    remote: false,
    leaves_tombstones: false,
    sees_conflicts: true,
    transactions: true,
    counts_rows: false,
};

/// Key of a partition: its cells, none of which is null.
type PartitionKey = Vec<Vec<u8>>;

/// Definition of a table, and its partitions.
#[derive(Debug, Clone)]
struct Contents {
    table: Arc<Table>,
    partitions: BTreeMap<PartitionKey, Arc<Partition>>,
}

/// All tables and the newest write timestamps, at one moment.
#[derive(Debug, Clone)]
struct State {
    tables: BTreeMap<String, Arc<Contents>>,
    /// Newest write timestamp of a conditional write, in microseconds; 0 before the first one.
    newest_cas: i64,
    /// Newest write timestamp of a plain write, in microseconds; `None` before the first one.
    newest_stamp: Option<i64>,
}

/// Store in memory. Clones share their tables.
#[derive(Clone)]
pub struct MemoryStore {
    environment: Environment,
    limits: Limits,
    state: Arc<Mutex<Arc<State>>>,
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryStore")
    }
}

impl MemoryStore {
    /// Returns an empty store whose snapshots do not change. Rows expire by the clock of `environment`.
    pub fn new(environment: Environment) -> Self {
        Self::with_limits(environment, DEFAULT_LIMITS)
    }

    /// Returns an empty store with other limits. If `limits` have `remote`, each read of a snapshot sees the
    /// newest writes, as on Cassandra.
    pub fn with_limits(environment: Environment, limits: Limits) -> Self {
        let state = State {
            tables: BTreeMap::new(),
            newest_cas: 0,
            newest_stamp: None,
        };
        Self {
            environment,
            limits,
            state: Arc::new(Mutex::new(Arc::new(state))),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Arc<State>> {
        // Ignore the poison of the lock. Except with `remote` limits, `change` works on a copy of the state,
        // so a panic leaves no incomplete state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies `change` to the state as a whole, or not at all if `change` fails.
    fn change<T, E>(&self, change: impl FnOnce(&mut State, i64) -> Result<T, E>) -> Result<T, E> {
        let mut guard = self.lock();
        let now = self.environment.now_micros();
        if self.limits.remote && !self.limits.sees_conflicts {
            // Change the state without a copy. Snapshots of a store with `remote` limits read the newest
            // state, so they need no copy. A call that fails does so before it changes anything.
            return change(Arc::make_mut(&mut guard), now);
        }
        let mut state = State::clone(&guard);
        let value = change(&mut state, now)?;
        *guard = Arc::new(state);
        Ok(value)
    }

    fn write_all(&self, writes: &[PartitionWrite], row_by_row: bool) -> Result<WriteOutcome, StoreError> {
        let row_by_row = row_by_row && self.limits.sees_conflicts;
        match self.change(|state, now| self.write_in(state, now, writes, row_by_row)) {
            Ok(found) if row_by_row => Ok(WriteOutcome::Counted(found)),
            Ok(_) => Ok(WriteOutcome::Done),
            Err(NotWritten::Conflict(number)) => Ok(WriteOutcome::Conflict(number)),
            Err(NotWritten::Conditions(_)) => unreachable!("plain writes have no conditions"),
            Err(NotWritten::Failed(error)) => Err(error),
        }
    }

    /// Applies the mutations in ascending order of their stamps. At equal stamps, deletions are applied last.
    fn write_in(
        &self,
        state: &mut State,
        now: i64,
        writes: &[PartitionWrite],
        row_by_row: bool,
    ) -> Result<RowsMet, NotWritten> {
        let mut mutations: Vec<(i64, bool, usize, &PartitionWrite, &Mutation)> = Vec::new();
        for write in writes {
            for mutation in &write.mutations {
                let stamp = mutation.stamp.expect("writes without stamps were refused").0;
                let number = mutations.len();
                mutations.push((stamp, mutation.operation.deletes(), number, write, mutation));
            }
        }
        mutations.sort_by_key(|(stamp, deletes, number, ..)| (*stamp, *deletes, *number));
        let mut found = RowsMet::default();
        for write in writes {
            state.contents_mut(&write.table)?;
        }
        for (stamp, _, number, write, mutation) in mutations {
            let partition = state.contents_mut(&write.table)?.partition_mut(&write.partition);
            let met = match &mutation.operation {
                Operation::Put { .. } if self.limits.sees_conflicts => {
                    partition.meet(&write.table, mutation, stamp, now)
                }
                _ => Met::Nothing,
            };
            let inserts = matches!(mutation.operation, Operation::Put { replace: false, .. });
            match met {
                Met::Nothing | Met::Own => {}
                Met::Same => found.repeated += 1,
                Met::Other if !inserts => found.replaced += 1,
                Met::Other if row_by_row => found.conflicts.push(number),
                Met::Other => return Err(NotWritten::Conflict(number)),
            }
            match met {
                Met::Other if inserts => {}
                Met::Same if inserts => partition.prolong(&write.table, mutation, now),
                _ => partition.apply(&write.table, mutation, stamp, now),
            }
            state.newest_stamp = state.newest_stamp.max(Some(stamp));
        }
        Ok(found)
    }

    /// Applies all writes of a transaction if all conditions hold. Checks the conditions before it applies
    /// anything.
    fn transact_all(&self, conditional: &[Cas], plain: &[PartitionWrite]) -> Result<(), NotWritten> {
        self.change(|state, now| {
            let current = conditional.iter().map(|cas| state.current(cas, now));
            let current = current.collect::<Result<Vec<_>, _>>()?;
            let mut each = conditional.iter().zip(&current);
            if !each.all(|(cas, current)| cas.holds(current)) {
                return Err(NotWritten::Conditions(current));
            }
            self.write_in(state, now, plain, false)?;
            for cas in conditional {
                state.apply(cas, now)?;
            }
            Ok(())
        })
    }
}

/// Reason why no write of a call was applied.
enum NotWritten {
    /// An insert conflicts. Contains its index among the mutations of the call.
    Conflict(usize),
    /// A condition does not hold. Contains, for each conditional write, the current values of the columns in
    /// its conditions.
    Conditions(Vec<Vec<Option<Vec<u8>>>>),
    Failed(StoreError),
}

impl From<StoreError> for NotWritten {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

fn no_table(name: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Table, format!("there is no table {name}"))
}

fn in_time(timeout: Duration) -> Result<(), StoreError> {
    if timeout.is_zero() {
        return Err(StoreError::new(
            StoreErrorKind::Timeout,
            "the deadline passed before the call began",
        ));
    }
    Ok(())
}

fn partition_key(partition: &Cells) -> PartitionKey {
    partition
        .iter()
        .map(|cell| cell.expect("null key parts were refused").to_vec())
        .collect()
}

impl State {
    fn contents(&self, table: &Table) -> Result<&Arc<Contents>, StoreError> {
        let contents = self
            .tables
            .get(table.name())
            .ok_or_else(|| no_table(table.name()))?;
        if serves(&contents.table, table) {
            return Ok(contents);
        }
        Err(different(table))
    }

    fn contents_mut(&mut self, table: &Table) -> Result<&mut Contents, StoreError> {
        self.contents(table)?;
        let contents = self.tables.get_mut(table.name());
        Ok(Arc::make_mut(contents.ok_or_else(|| no_table(table.name()))?))
    }
}

impl State {
    /// Returns the current values of the columns that the conditions of a conditional write compare.
    fn current(&self, cas: &Cas, now: i64) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        let partitions = &self.contents(&cas.table)?.partitions;
        let partition = partitions.get(&partition_key(&cas.partition));
        let column = |condition: &CasCondition| {
            partition
                .and_then(|partition| partition.column(&cas.table, &condition.row, condition.column, now))
        };
        Ok(cas.conditions.iter().map(column).collect())
    }

    /// Applies a conditional write after its conditions were checked.
    fn apply(&mut self, cas: &Cas, now: i64) -> Result<(), StoreError> {
        let stamp = now.max(self.newest_cas + 1);
        let contents = self.contents_mut(&cas.table)?;
        if !cas.mutations.is_empty() {
            let partition = contents.partition_mut(&cas.partition);
            for mutation in &cas.mutations {
                partition.apply(&cas.table, mutation, stamp, now);
            }
        }
        self.newest_cas = stamp;
        Ok(())
    }
}

fn different(given: &Table) -> StoreError {
    let message = format!("table {} exists with other columns or options", given.name());
    StoreError::new(StoreErrorKind::Table, message)
}

impl Contents {
    fn partition_mut(&mut self, partition: &Cells) -> &mut Partition {
        let table = &self.table;
        let entry = self.partitions.entry(partition_key(partition));
        Arc::make_mut(entry.or_insert_with(|| Arc::new(Partition::new(table))))
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn kind(&self) -> StoreKind {
        StoreKind::Memory
    }

    fn describe(&self) -> String {
        "memory".to_owned()
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn serial_consistency(&self) -> Option<ConsistencyLevel> {
        self.limits.remote.then_some(ConsistencyLevel::LocalSerial)
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>, StoreError> {
        let snapshot = (!self.limits.remote).then(|| self.lock().clone());
        Ok(Arc::new(MemorySnapshot::new(self.clone(), snapshot)))
    }

    async fn write(&self, write: PartitionWrite, options: WriteOptions) -> Result<WriteOutcome, StoreError> {
        self.write_many(vec![write], Atomicity::Each, options).await
    }

    async fn write_many(
        &self,
        writes: Vec<PartitionWrite>,
        atomicity: Atomicity,
        options: WriteOptions,
    ) -> Result<WriteOutcome, StoreError> {
        if let Err(error) = self.limits.check_writes(&writes, atomicity == Atomicity::Logged) {
            return Ok(WriteOutcome::Refused(error));
        }
        in_time(options.timeout)?;
        self.write_all(&writes, options.row_by_row)
    }

    async fn cas(&self, cas: Cas, options: WriteOptions) -> Result<CasOutcome, StoreError> {
        if let Err(error) = self.limits.check_cas(&cas) {
            return Ok(CasOutcome::Refused(error));
        }
        in_time(options.timeout)?;
        self.change(|state, now| {
            let current = state.current(&cas, now)?;
            if !cas.holds(&current) {
                return Ok(CasOutcome::NotApplied { current });
            }
            state.apply(&cas, now)?;
            Ok(CasOutcome::Applied)
        })
    }

    async fn transact(
        &self,
        conditional: Vec<Cas>,
        plain: Vec<PartitionWrite>,
        options: WriteOptions,
    ) -> Result<TransactionOutcome, StoreError> {
        if !self.limits.transactions {
            return Ok(TransactionOutcome::Refused(no_transactions(self.kind())));
        }
        if let Err(error) = self.limits.check_transaction(&conditional, &plain, &options) {
            return Ok(TransactionOutcome::Refused(error));
        }
        in_time(options.timeout)?;
        match self.transact_all(&conditional, &plain) {
            Ok(()) => Ok(TransactionOutcome::Applied),
            Err(NotWritten::Conflict(number)) => Ok(TransactionOutcome::Conflict(number)),
            Err(NotWritten::Conditions(current)) => Ok(TransactionOutcome::NotApplied { current }),
            Err(NotWritten::Failed(error)) => Err(error),
        }
    }

    async fn create_table(&self, table: &Table) -> Result<TableOutcome, StoreError> {
        self.limits.check_table(table)?;
        self.change(|state, _| {
            if let Some(contents) = state.tables.get(table.name()) {
                if *contents.table != *table {
                    return Err(different(table));
                }
                return Ok(TableOutcome::Done);
            }
            let contents = Contents {
                table: Arc::new(table.clone()),
                partitions: BTreeMap::new(),
            };
            state.tables.insert(table.name().to_owned(), Arc::new(contents));
            Ok(TableOutcome::Done)
        })
    }

    async fn add_columns(&self, recorded: &Table, table: &Table) -> Result<TableOutcome, StoreError> {
        added_columns(recorded, table)?;
        self.change(|state, _| {
            let contents = state.tables.get_mut(table.name());
            let contents = contents.ok_or_else(|| no_table(table.name()))?;
            if !added_columns(&contents.table, table)?.is_empty() {
                Arc::make_mut(contents).table = Arc::new(table.clone());
            }
            Ok(TableOutcome::Done)
        })
    }

    async fn drop_table(&self, name: &str) -> Result<TableOutcome, StoreError> {
        self.change(|state, _| {
            state.tables.remove(name);
            Ok(TableOutcome::Done)
        })
    }

    async fn empty_table(&self, table: &Table) -> Result<TableOutcome, StoreError> {
        self.change(|state, _| {
            state.contents_mut(table)?.partitions.clear();
            Ok(TableOutcome::Done)
        })
    }

    async fn list_tables(&self) -> Result<Vec<Table>, StoreError> {
        let state = self.lock().clone();
        Ok(state
            .tables
            .values()
            .map(|contents| Table::clone(&contents.table))
            .collect())
    }

    fn newest_stamp(&self) -> Option<Stamp> {
        self.lock().newest_stamp.map(Stamp)
    }

    fn describe_slice(&self, slice: &Slice, _options: &ReadOptions) -> Vec<String> {
        vec![format!(
            "table {}: at most {} rows, {:?}",
            slice.table.name(),
            slice.limit,
            slice.direction
        )]
    }
}
