//! Wrapper that makes any store fail as a cluster does. A seed determines the failures.
//!
//! The wrapper fails, delays and repeats calls. It returns an unknown outcome for writes that were applied,
//! were not applied, or will be applied at an arbitrary later moment. It makes reads time out. As with Paxos,
//! a conditional write can be *decided* before it is *learned*, which means visible to all reads. Until then,
//! reads that are not serial miss it. An emptying can also take effect after later writes, and decided values
//! of conditional writes can come back after it. The wrapper never violates the guarantees of a store. An
//! acknowledged write exists, and a failed write is never applied. A [`Logged`](Atomicity::Logged) write or a
//! transaction is applied as a whole or not at all.
//!
//! Sequential calls with the same seed have the same faults. The wrapper records the faults, so that a failed
//! test can print them ([`FaultyStore::report`]).

mod plan;
mod revived;
mod snapshot;

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use recto_model::{Cells, Slice, Table};

use self::plan::{Fate, Plan};
pub use self::plan::{Fault, FaultKind, FaultRates, MAX_RECORDED_FAULTS};
pub use self::revived::MAX_REVIVED_ROWS;
use self::revived::decided_rows;
use self::snapshot::FaultySnapshot;
use crate::{
    Atomicity, Cas, CasOutcome, ClockGuard, ConsistencyLevel, Limits, PartitionWrite, ReadOptions, Snapshot,
    Stamp, Store, StoreError, StoreErrorKind, StoreKind, StoreMetrics, TableOutcome, TableState,
    TransactionOutcome, WriteOptions, WriteOutcome,
};

/// Maximum number of late writes (writes with an unknown outcome that a later call applies). At this number,
/// the next call applies one late write.
pub const MAX_LATE_WRITES: usize = 10_000;

/// Change that a later call applies: a write with an unknown outcome, or a value that survived the emptying
/// of its table.
enum Late {
    Plain(Vec<PartitionWrite>, Atomicity),
    Conditional(Cas),
    Transaction(Vec<Cas>, Vec<PartitionWrite>),
    Emptying(Table),
    Revived(Cas),
}

impl Late {
    fn describe(&self) -> String {
        match self {
            Self::Plain(writes, _) => describe_writes(writes),
            Self::Conditional(cas) => describe_cas(cas),
            Self::Transaction(conditional, plain) => describe_transaction(conditional, plain),
            Self::Emptying(table) => describe_emptying(table),
            Self::Revived(cas) => format!("a decided write to table {} reappears", cas.table.name()),
        }
    }
}

/// Chooser of faults, and the writes that are not applied yet.
struct State {
    plan: Plan,
    late: Vec<Late>,
    /// Conditional writes that are decided but not yet learned (visible to all reads), in the order of their
    /// decision.
    decided: Vec<Cas>,
}

/// Store whose calls fail as its seed determines. Clones share the seed, the record of faults, and the late
/// writes.
#[derive(Clone)]
pub struct FaultyStore {
    inner: Arc<dyn Store>,
    seed: u64,
    state: Arc<Mutex<State>>,
}

impl fmt::Debug for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultyStore(seed {}, {})", self.seed, self.inner.describe())
    }
}

fn describe_writes(writes: &[PartitionWrite]) -> String {
    match writes {
        [] => "a write of nothing".to_owned(),
        [write] => format!("a write to {}", write.table.name()),
        [first, ..] => format!(
            "a write of {} partitions, {} first",
            writes.len(),
            first.table.name()
        ),
    }
}

fn describe_cas(cas: &Cas) -> String {
    format!("a conditional write to {}", cas.table.name())
}

fn describe_transaction(conditional: &[Cas], plain: &[PartitionWrite]) -> String {
    let first = conditional.first().map(|cas| cas.table.name());
    let first = first.or_else(|| plain.first().map(|write| write.table.name()));
    format!(
        "a transaction of {} conditional and {} plain writes, to {} first",
        conditional.len(),
        plain.len(),
        first.unwrap_or("nothing")
    )
}

fn describe_emptying(table: &Table) -> String {
    format!("emptying table {}", table.name())
}

fn unavailable(what: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, format!("{what} failed, as planned"))
}

fn timeout(what: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Timeout, format!("{what} timed out, as planned"))
}

impl FaultyStore {
    /// Wraps the store `inner`. `seed` and `rates` determine which calls have which faults.
    pub fn new(inner: Arc<dyn Store>, seed: u64, rates: FaultRates) -> Self {
        let state = State {
            plan: Plan::new(seed, rates),
            late: Vec::new(),
            decided: Vec::new(),
        };
        Self {
            inner,
            seed,
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Sets the rates of faults from now on. Late writes continue to wait until they are applied.
    pub fn set_rates(&self, rates: FaultRates) {
        self.lock().plan.rates = rates;
    }

    /// Returns the number of writes that are not applied yet: late writes, and decided conditional writes
    /// that are not visible to all reads yet.
    pub fn pending(&self) -> usize {
        let state = self.lock();
        state.late.len() + state.decided.len()
    }

    /// Applies every late write, in an order that the seed determines, and makes every decided conditional
    /// write visible. Returns the number of these writes. Writes that the store now rejects, because their
    /// table was dropped, are discarded.
    pub async fn settle(&self) -> usize {
        let mut settled = 0;
        loop {
            settled += self.learn(|_| true).await;
            if !self.arrive().await {
                return settled;
            }
            settled += 1;
        }
    }

    /// Returns the number of faults that occurred, by kind.
    pub fn counts(&self) -> BTreeMap<FaultKind, u64> {
        self.lock().plan.counts()
    }

    /// Returns the last [`MAX_RECORDED_FAULTS`] faults, oldest first.
    pub fn faults(&self) -> Vec<Fault> {
        self.lock().plan.recorded()
    }

    /// Returns the seed and every fault, one per line, for the message of a failed test.
    pub fn report(&self) -> String {
        let mut report = format!("{self:?}\n");
        for fault in self.faults() {
            writeln!(report, "{fault}").expect("writing to a string cannot fail");
        }
        report
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a call. The seed decides whether the call first applies a late write of an earlier call, makes
    /// a decided conditional write visible, or waits. A wait as long as the timeout makes the call fail.
    async fn begin(&self, what: &str, timeout_of_call: Duration) -> Result<(), StoreError> {
        let (arrives, learns, delay) = {
            let mut state = self.lock();
            state.plan.begin_call();
            let rate = state.plan.rates.arrive;
            let full = state.late.len() >= MAX_LATE_WRITES;
            let arrives = state.plan.chance(rate) || full;
            let learns = state.plan.chance(rate);
            let delay = state.plan.delay();
            if delay.is_some() {
                state.plan.record(FaultKind::Delayed, what);
            }
            (arrives, learns, delay)
        };
        if arrives {
            self.arrive().await;
        }
        if learns {
            self.learn_first(|_| true).await;
        }
        let Some(delay) = delay else {
            return Ok(());
        };
        tokio::time::sleep(delay.min(timeout_of_call)).await;
        if delay < timeout_of_call {
            Ok(())
        } else {
            Err(timeout(what))
        }
    }

    /// Applies one late write: a write whose call has already returned an unknown outcome. Returns false if
    /// no late write exists.
    async fn arrive(&self) -> bool {
        let late = {
            let mut state = self.lock();
            if state.late.is_empty() {
                return false;
            }
            let count = state.late.len();
            let index = state.plan.below(count);
            let late = state.late.swap_remove(index);
            state.plan.record(FaultKind::Arrived, &late.describe());
            late
        };
        let options = WriteOptions::default();
        match late {
            // Ignore the outcome of a late write, because its call has already returned an unknown
            // outcome.
            Late::Plain(writes, atomicity) => {
                drop(self.inner.write_many(writes, atomicity, options).await);
            }
            Late::Conditional(cas) => {
                self.learn(|decided| same_partition(decided, &cas.table, &cas.partition))
                    .await;
                drop(self.inner.cas(cas, options).await);
            }
            Late::Transaction(conditional, plain) => {
                self.learn_all(&conditional).await;
                drop(self.inner.transact(conditional, plain, options).await);
            }
            Late::Emptying(table) => drop(self.empty(&table).await),
            Late::Revived(cas) => drop(self.inner.cas(cas, options).await),
        }
        true
    }

    /// Makes decided conditional writes visible to all reads: applies those for which `which` returns true,
    /// in the order of their decision. Returns their number.
    ///
    /// The store checks the conditions again at this late time, which does not change the result. Only
    /// conditional writes change the columns in the conditions, and each one first learns the earlier ones of
    /// its partition.
    async fn learn(&self, which: impl Fn(&Cas) -> bool) -> usize {
        let mut learned = 0;
        while self.learn_first(&which).await {
            learned += 1;
        }
        learned
    }

    async fn learn_first(&self, which: impl Fn(&Cas) -> bool) -> bool {
        let cas = {
            let mut state = self.lock();
            let Some(index) = state.decided.iter().position(which) else {
                return false;
            };
            let cas = state.decided.remove(index);
            state.plan.record(FaultKind::Learned, &describe_cas(&cas));
            cas
        };
        drop(self.inner.cas(cas, WriteOptions::default()).await);
        true
    }

    /// Makes decided conditional writes visible to all reads, in the partitions that `conditional` writes.
    async fn learn_all(&self, conditional: &[Cas]) {
        self.learn(|decided| {
            conditional
                .iter()
                .any(|cas| same_partition(decided, &cas.table, &cas.partition))
        })
        .await;
    }

    /// Empties a table, after its decided conditional writes were applied. Values that conditional writes set
    /// can come back later, as on Cassandra.
    async fn empty(&self, table: &Table) -> Result<TableOutcome, StoreError> {
        self.learn(|decided| decided.table.name() == table.name()).await;
        // If the table cannot be read, `empty_table` below reports the error.
        let decided = decided_rows(&*self.inner, table).await.unwrap_or_default();
        let outcome = self.inner.empty_table(table).await?;
        for cas in decided {
            let comes_back = {
                let mut state = self.lock();
                let rate = state.plan.rates.revive;
                state.plan.chance(rate)
            };
            if comes_back {
                self.keep(FaultKind::Revived, Late::Revived(cas));
            }
        }
        Ok(outcome)
    }

    /// Discards the values of a dropped table that would come back later. A later table of the same name has
    /// its own Paxos state, so the values must not appear in it.
    fn forget_revived(&self, name: &str) {
        let mut state = self.lock();
        state
            .late
            .retain(|late| !matches!(late, Late::Revived(cas) if cas.table.name() == name));
    }

    fn fate(&self, conditional: bool) -> Fate {
        self.lock().plan.fate(conditional)
    }

    fn record(&self, kind: FaultKind, what: &str) {
        self.lock().plan.record(kind, what);
    }

    fn keep(&self, kind: FaultKind, late: Late) {
        let mut state = self.lock();
        state.plan.record(kind, &late.describe());
        state.late.push(late);
    }

    /// Applies each write now, applies it later, or loses it, as the seed determines. Used for writes of
    /// several partitions without a common atomicity; the caller reports an unknown outcome. Returns an error
    /// of the inner store, if there was one.
    async fn scatter(&self, writes: Vec<PartitionWrite>, options: WriteOptions) -> Option<StoreError> {
        self.record(FaultKind::Scattered, &describe_writes(&writes));
        for write in writes {
            let drawn = self.lock().plan.below(3);
            match drawn {
                0 => match self.inner.write(write, options).await {
                    Ok(WriteOutcome::Refused(error)) | Err(error) => return Some(error),
                    Ok(_) => {}
                },
                1 => self.keep(FaultKind::Late, Late::Plain(vec![write], Atomicity::Each)),
                _ => self.record(FaultKind::Lost, &describe_writes(&[write])),
            }
        }
        None
    }

    /// Chooses the fault of a call that creates, extends, drops or empties a table, before the call is sent.
    async fn table_fate(&self, what: &str) -> Result<Fate, StoreError> {
        self.begin(what, Duration::MAX).await?;
        let fate = self.fate(false);
        match fate {
            Fate::Fail => {
                self.record(FaultKind::Failed, what);
                Err(unavailable(what))
            }
            Fate::Lose => {
                self.record(FaultKind::Lost, what);
                Ok(fate)
            }
            Fate::Unanswered => {
                self.record(FaultKind::Unanswered, what);
                Ok(fate)
            }
            Fate::Late => Ok(fate),
            Fate::Normal | Fate::Repeat | Fate::Decide => Ok(Fate::Normal),
        }
    }
}

fn same_partition(cas: &Cas, table: &Table, partition: &Cells) -> bool {
    cas.table.name() == table.name() && cas.partition == *partition
}

fn unanswered(outcome: TableOutcome, fate: Fate, what: &str) -> TableOutcome {
    match fate {
        Fate::Unanswered => TableOutcome::Unknown(timeout(what)),
        _ => outcome,
    }
}

#[async_trait]
impl Store for FaultyStore {
    fn kind(&self) -> StoreKind {
        self.inner.kind()
    }

    fn describe(&self) -> String {
        format!("{}, failing by seed {}", self.inner.describe(), self.seed)
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn keeps_buckets(&self) -> bool {
        self.inner.keeps_buckets()
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.inner.close().await
    }

    fn check_decisions(&self) -> Result<(), StoreError> {
        self.inner.check_decisions()
    }

    fn serial_consistency(&self) -> Option<ConsistencyLevel> {
        self.inner.serial_consistency()
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>, StoreError> {
        let snapshot = self.inner.snapshot()?;
        Ok(Arc::new(FaultySnapshot::new(self.clone(), snapshot)))
    }

    async fn write(&self, write: PartitionWrite, options: WriteOptions) -> Result<WriteOutcome, StoreError> {
        // The write needs no check of its atomicity, because a write of one partition is always
        // atomic.
        if let Err(error) = self.limits().check_write(&write) {
            return Ok(WriteOutcome::Refused(error));
        }
        self.write_whole(vec![write], Atomicity::Each, options).await
    }

    async fn write_many(
        &self,
        writes: Vec<PartitionWrite>,
        atomicity: Atomicity,
        options: WriteOptions,
    ) -> Result<WriteOutcome, StoreError> {
        if let Err(error) = self
            .limits()
            .check_writes(&writes, atomicity == Atomicity::Logged)
        {
            return Ok(WriteOutcome::Refused(error));
        }
        self.write_whole(writes, atomicity, options).await
    }

    async fn cas(&self, cas: Cas, options: WriteOptions) -> Result<CasOutcome, StoreError> {
        if let Err(error) = self.limits().check_cas(&cas) {
            return Ok(CasOutcome::Refused(error));
        }
        let what = describe_cas(&cas);
        self.begin(&what, options.timeout).await?;
        let fate = self.fate(true);
        if matches!(fate, Fate::Normal | Fate::Unanswered | Fate::Decide) {
            self.learn(|decided| same_partition(decided, &cas.table, &cas.partition))
                .await;
        }
        match fate {
            Fate::Normal | Fate::Repeat => self.inner.cas(cas, options).await,
            Fate::Fail => {
                self.record(FaultKind::Failed, &what);
                Err(unavailable(&what))
            }
            Fate::Lose => {
                self.record(FaultKind::Lost, &what);
                Ok(CasOutcome::Unknown(timeout(&what)))
            }
            Fate::Unanswered => match self.inner.cas(cas, options).await? {
                CasOutcome::Refused(error) => Ok(CasOutcome::Refused(error)),
                CasOutcome::Applied | CasOutcome::NotApplied { .. } | CasOutcome::Unknown(_) => {
                    self.record(FaultKind::Unanswered, &what);
                    Ok(CasOutcome::Unknown(timeout(&what)))
                }
            },
            Fate::Late => {
                self.keep(FaultKind::Late, Late::Conditional(cas));
                Ok(CasOutcome::Unknown(timeout(&what)))
            }
            Fate::Decide => {
                let mut state = self.lock();
                state.plan.record(FaultKind::Decided, &what);
                state.decided.push(cas);
                Ok(CasOutcome::Unknown(timeout(&what)))
            }
        }
    }

    async fn transact(
        &self,
        conditional: Vec<Cas>,
        plain: Vec<PartitionWrite>,
        options: WriteOptions,
    ) -> Result<TransactionOutcome, StoreError> {
        let limits = self.limits();
        if !limits.transactions {
            return self.inner.transact(conditional, plain, options).await;
        }
        if let Err(error) = limits.check_transaction(&conditional, &plain, &options) {
            return Ok(TransactionOutcome::Refused(error));
        }
        let what = describe_transaction(&conditional, &plain);
        self.begin(&what, options.timeout).await?;
        let fate = self.fate(false);
        if matches!(
            fate,
            Fate::Normal | Fate::Repeat | Fate::Unanswered | Fate::Decide
        ) {
            self.learn_all(&conditional).await;
        }
        match fate {
            Fate::Normal | Fate::Repeat | Fate::Decide => {
                self.inner.transact(conditional, plain, options).await
            }
            Fate::Fail => {
                self.record(FaultKind::Failed, &what);
                Err(unavailable(&what))
            }
            Fate::Lose => {
                self.record(FaultKind::Lost, &what);
                Ok(TransactionOutcome::Unknown(timeout(&what)))
            }
            Fate::Unanswered => {
                let outcome = self.inner.transact(conditional, plain, options).await?;
                if matches!(outcome, TransactionOutcome::Refused(_)) {
                    return Ok(outcome);
                }
                self.record(FaultKind::Unanswered, &what);
                Ok(TransactionOutcome::Unknown(timeout(&what)))
            }
            Fate::Late => {
                self.keep(FaultKind::Late, Late::Transaction(conditional, plain));
                Ok(TransactionOutcome::Unknown(timeout(&what)))
            }
        }
    }

    async fn create_table(&self, table: &Table) -> Result<TableOutcome, StoreError> {
        let what = format!("making table {}", table.name());
        let fate = self.table_fate(&what).await?;
        if fate == Fate::Lose {
            return Ok(TableOutcome::Unknown(timeout(&what)));
        }
        let outcome = self.inner.create_table(table).await?;
        Ok(unanswered(outcome, fate, &what))
    }

    async fn add_columns(&self, recorded: &Table, table: &Table) -> Result<TableOutcome, StoreError> {
        let what = format!("adding columns to table {}", table.name());
        let fate = self.table_fate(&what).await?;
        if fate == Fate::Lose {
            return Ok(TableOutcome::Unknown(timeout(&what)));
        }
        let outcome = self.inner.add_columns(recorded, table).await?;
        Ok(unanswered(outcome, fate, &what))
    }

    async fn drop_table(&self, name: &str) -> Result<TableOutcome, StoreError> {
        let what = format!("dropping table {name}");
        let fate = self.table_fate(&what).await?;
        if fate == Fate::Lose {
            return Ok(TableOutcome::Unknown(timeout(&what)));
        }
        self.learn(|decided| decided.table.name() == name).await;
        let outcome = self.inner.drop_table(name).await?;
        self.forget_revived(name);
        Ok(unanswered(outcome, fate, &what))
    }

    async fn empty_table(&self, table: &Table) -> Result<TableOutcome, StoreError> {
        let what = describe_emptying(table);
        let fate = self.table_fate(&what).await?;
        match fate {
            Fate::Lose => return Ok(TableOutcome::Unknown(timeout(&what))),
            Fate::Late => {
                self.keep(FaultKind::Late, Late::Emptying(table.clone()));
                return Ok(TableOutcome::Unknown(timeout(&what)));
            }
            _ => {}
        }
        let outcome = self.empty(table).await?;
        Ok(unanswered(outcome, fate, &what))
    }

    async fn list_tables(&self) -> Result<Vec<Table>, StoreError> {
        self.inner.list_tables().await
    }

    async fn compare_tables(&self, tables: &[Table]) -> Result<Vec<TableState>, StoreError> {
        self.inner.compare_tables(tables).await
    }

    async fn tables_version(&self) -> Result<Option<String>, StoreError> {
        self.inner.tables_version().await
    }

    fn describe_slice(&self, slice: &Slice, options: &ReadOptions) -> Vec<String> {
        self.inner.describe_slice(slice, options)
    }

    fn clock_guard(&self) -> Option<&dyn ClockGuard> {
        self.inner.clock_guard()
    }

    fn newest_stamp(&self) -> Option<Stamp> {
        self.inner.newest_stamp()
    }

    fn expected_round_trips(&self, slice: &Slice, options: &ReadOptions) -> u32 {
        self.inner.expected_round_trips(slice, options)
    }

    fn metrics(&self) -> StoreMetrics {
        self.inner.metrics()
    }

    fn check_partition(&self, table: &Table, partition: &Cells) -> Result<(), StoreError> {
        self.inner.check_partition(table, partition)
    }
}

impl FaultyStore {
    /// Sends plain writes to the inner store, with the fault that the seed determines. The caller has checked
    /// their limits.
    async fn write_whole(
        &self,
        writes: Vec<PartitionWrite>,
        atomicity: Atomicity,
        options: WriteOptions,
    ) -> Result<WriteOutcome, StoreError> {
        let what = describe_writes(&writes);
        self.begin(&what, options.timeout).await?;
        match self.fate(false) {
            Fate::Normal | Fate::Decide => self.inner.write_many(writes, atomicity, options).await,
            Fate::Fail => {
                self.record(FaultKind::Failed, &what);
                Err(unavailable(&what))
            }
            Fate::Repeat => {
                self.record(FaultKind::Repeated, &what);
                match self.inner.write_many(writes.clone(), atomicity, options).await? {
                    WriteOutcome::Done | WriteOutcome::Counted(_) => {}
                    other => return Ok(other),
                }
                // The first write is applied already, so if the second write fails, the outcome is
                // unknown.
                match self.inner.write_many(writes, atomicity, options).await {
                    Ok(WriteOutcome::Unknown(error) | WriteOutcome::Refused(error)) | Err(error) => {
                        Ok(WriteOutcome::Unknown(error))
                    }
                    // Another writer wrote between the first and the second write, so the outcome
                    // is unknown.
                    Ok(WriteOutcome::Conflict(_)) => Ok(WriteOutcome::Unknown(timeout(&what))),
                    done => done,
                }
            }
            Fate::Lose => {
                self.record(FaultKind::Lost, &what);
                Ok(WriteOutcome::Unknown(timeout(&what)))
            }
            Fate::Unanswered => match self.inner.write_many(writes, atomicity, options).await? {
                WriteOutcome::Refused(error) => Ok(WriteOutcome::Refused(error)),
                WriteOutcome::Conflict(number) => Ok(WriteOutcome::Conflict(number)),
                WriteOutcome::Done | WriteOutcome::Counted(_) | WriteOutcome::Unknown(_) => {
                    self.record(FaultKind::Unanswered, &what);
                    Ok(WriteOutcome::Unknown(timeout(&what)))
                }
            },
            Fate::Late if atomicity == Atomicity::Each && writes.len() > 1 => {
                let error = self.scatter(writes, options).await;
                Ok(WriteOutcome::Unknown(error.unwrap_or_else(|| timeout(&what))))
            }
            Fate::Late => {
                self.keep(FaultKind::Late, Late::Plain(writes, atomicity));
                Ok(WriteOutcome::Unknown(timeout(&what)))
            }
        }
    }
}
