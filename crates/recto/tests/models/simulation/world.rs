//! One run of the simulation of processes on a faulty store. In the first part, processes start,
//! crash, freeze and continue, and requests fail. In the second part, there are no faults, and the
//! run checks the stored rows.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use recto::session::{VerifiedBuckets, VerifyRequest};
use recto::store::faults::{FaultRates, FaultyStore};
use recto::store::memory::{DEFAULT_LIMITS, MemoryStore};
use recto::store::{Limits, Stamp, Store};
use recto::{Environment, OpenOptions, Recto};
use recto_buckets::BucketedStore;
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep};

use super::broken::{Broken, BrokenStore};
use super::check;
use super::clock::{Clock, Clocks, Random};
use super::history::History;
use super::process::Process;
use super::reader::{self, Reader};
use super::records::{self, COLLECTION, RECORDS, STAYING, Tables};

/// Limits of a simulated store that behaves like Cassandra.
pub(crate) const LIMITS: Limits = Limits {
    remote: true,
    leaves_tombstones: true,
    sees_conflicts: false,
    transactions: false,
    ..DEFAULT_LIMITS
};
const PROCESSES: u64 = 3;
/// Duration of the first part of a run, in which processes and requests fail.
const WORK: Duration = Duration::from_secs(45);
/// Maximum number of seconds between two events. In an event, a process crashes and is replaced, or
/// a process freezes, or nothing happens.
const MAX_QUIET_SECONDS: u64 = 15;
/// Maximum number of seconds for which a process freezes. They are more than the time after which
/// other processes regard the process as dead.
const MAX_FROZEN_SECONDS: u64 = 45;
/// Maximum number of seconds from the start of a run until a process begins to change the schema.
/// They are fewer than the seconds of `WORK`, so that writes happen during the change.
const MAX_BEFORE_CHANGE_SECONDS: u64 = 20;
/// Maximum number of seconds for which other processes freeze when a process begins to change the
/// schema. They are fewer than the seconds of a lease, so that the frozen processes continue with
/// valid leases and the old schema.
const MAX_UNAWARE_SECONDS: u64 = 15;
/// Time from the end of the faults until all views must agree with the base rows.
const HEALING: Duration = Duration::from_secs(75);
/// Time in which processes must remove the rows that dead processes left, once these rows are old
/// enough. These rows include intents (records of changes in progress) and claims (reservations of
/// unique values).
pub(crate) const RECOVERING: Duration = Duration::from_secs(20);
/// Time by which the run moves all clocks forward, in microseconds: 25 hours. The rows that dead
/// processes left, such as intents and claims, are then old enough to be removed.
pub(crate) const LATER_MICROS: i64 = 25 * 3_600 * 1_000_000;
/// Maximum error of a process's wall clock, in microseconds. The clocks of two processes can differ
/// by twice this time.
const MAX_OFF_MICROS: u64 = 1_790_000_000;

/// Number of random lists that are read and checked at the end of a run.
const LAST_LISTS: u32 = 3;

pub(crate) struct World {
    start: Instant,
    random: Random,
    /// Environment with a correct clock, for the processes that check the result.
    right: Environment,
    /// Time from the start of the run until a process begins to change the schema. `None`: the run
    /// does not change the schema.
    changes_schema_after: Option<Duration>,
    memory: Arc<MemoryStore>,
    /// True if views are in buckets (parts of about equal size). The first value is for the time
    /// before the change of the schema, and the second is for the time after it.
    in_buckets: [bool; 2],
    store: Arc<FaultyStore>,
    tables: Rc<Tables>,
    history: Rc<History>,
    /// True if the monotonic clock of any frozen process has stood still. Such a process continues
    /// in the belief that its lease is valid.
    stood_still: Cell<bool>,
    /// Promise that the store breaks on purpose. `None`: it keeps all promises.
    broken: Option<Broken>,
}

impl World {
    /// Executes the run with the given seed. Returns a summary of the run as text, or the first
    /// violated expectation as an error. `broken` is a promise that the store breaks on purpose, or
    /// `None`.
    pub(crate) async fn run(seed: u64, broken: Option<Broken>) -> Result<String, String> {
        let world = Self::new(seed, broken).await;
        LocalSet::new().run_until(world.live()).await
    }

    async fn new(seed: u64, broken: Option<Broken>) -> Self {
        let start = Instant::now();
        let random = Random::new(seed);
        let right = Environment::new(Clocks(Arc::new(Clock::new(start, 0, seed))));
        let memory = Arc::new(MemoryStore::with_limits(right.clone(), LIMITS));
        let in_buckets = [1, 2].map(|bit| seed & bit > 0 && broken.is_none());
        let tables = Tables::new(in_buckets[0]);
        let history = History::default();
        let options = OpenOptions::new().environment(right.clone());
        let first = Recto::with_store(Arc::clone(&memory) as Arc<dyn Store>, options);
        let first = first.await.unwrap();
        first.apply(&tables.schema).await.unwrap();
        for id in RECORDS..RECORDS + STAYING {
            reader::put_staying(&first, &history, id).await;
        }
        first.close().await.unwrap();
        let store = FaultyStore::new(
            Arc::clone(&memory) as Arc<dyn Store>,
            random.bits(),
            FaultRates::NONE,
        );
        Self {
            start,
            changes_schema_after: random
                .one_in(2)
                .then(|| Duration::from_secs(random.below(MAX_BEFORE_CHANGE_SECONDS))),
            random,
            right,
            memory,
            in_buckets,
            store: Arc::new(store),
            tables: Rc::new(tables),
            history: Rc::new(history),
            stood_still: Cell::new(false),
            broken,
        }
    }

    async fn live(self) -> Result<String, String> {
        let rate = [0.0, 0.01, 0.03, 0.08][self.random.below(4) as usize];
        let mut rates = FaultRates::all(rate);
        (rates.delay, rates.max_delay) = (rate, Duration::from_secs(4));
        let mut processes = Vec::new();
        for _ in 0..PROCESSES {
            processes.push(self.start_process().await);
        }
        self.store.set_rates(rates);
        for process in &processes {
            process.work();
        }
        let mut all = processes.clone();
        let mut changes_after = self.changes_schema_after;
        while self.start.elapsed() < WORK {
            sleep(Duration::from_secs(1 + self.random.below(MAX_QUIET_SECONDS))).await;
            if changes_after.is_some_and(|after| self.start.elapsed() > after) {
                changes_after = None;
                let changes = self.random.below(PROCESSES) as usize;
                processes[changes].change_schema(self.in_buckets[1]);
                // Freeze most of the other processes, so that they do not learn of the new schema.
                // They continue before their leases expire.
                let others = processes.iter().enumerate().filter(|(one, _)| *one != changes);
                for (_, other) in others.filter(|_| self.random.below(4) > 0) {
                    self.freeze(other, self.random.below(MAX_UNAWARE_SECONDS));
                }
            }
            let index = self.random.below(PROCESSES) as usize;
            let process = &mut processes[index];
            match self.random.below(3) {
                0 => {}
                1 => {
                    process.gate.open(false);
                    self.store.set_rates(FaultRates::NONE);
                    *process = self.start_process().await;
                    self.store.set_rates(rates);
                    process.work();
                    all.push(Rc::clone(process));
                }
                _ => self.freeze(process, 1 + self.random.below(MAX_FROZEN_SECONDS)),
            }
        }
        // The second part of the run begins: the store causes no faults, no process starts or
        // crashes, and clients send no requests.
        self.store.set_rates(FaultRates::NONE);
        for process in &all {
            process.rest();
        }
        sleep(Duration::from_secs(MAX_FROZEN_SECONDS)).await;
        sleep(HEALING).await;
        let tables = match self.changes_schema_after {
            Some(_) => Some(self.change_schema_at_last().await?),
            None => None,
        };
        let tables = tables.as_ref().unwrap_or(&self.tables);
        let checked = self.check(&all, tables).await;
        checked.map_err(|wrong| format!("{wrong}\n{}", self.store.report()))
    }

    /// Completes the change of the schema in a new process, because the process that began the
    /// change may have crashed.
    async fn change_schema_at_last(&self) -> Result<Tables, String> {
        let recto = self.open_rightly().await;
        let changed = records::change_schema(&recto, self.in_buckets[1]).await;
        changed.map_err(|error| format!("the schema is not changed: {error}"))?;
        let tables = records::changed_tables(&recto, self.in_buckets[1]).await;
        recto.close().await.unwrap();
        Ok(tables)
    }

    async fn open_rightly(&self) -> Recto {
        let options = OpenOptions::new().environment(self.right.clone());
        let store = Arc::clone(&self.memory) as Arc<dyn Store>;
        Recto::with_store(store, options).await.unwrap()
    }

    /// Checks that the store has exactly the expected tables of views, and that the command
    /// `verify` finds no errors in the views.
    async fn verify(&self, tables: &Tables) -> Result<(), String> {
        let recto = self.open_rightly().await;
        let report = recto.verify(&VerifyRequest::default(), &|_| {}).await.unwrap();
        recto.close().await.unwrap();
        let all = self.memory.list_tables().await.unwrap();
        let mut there: Vec<String> = all.iter().map(|table| table.name().to_owned()).collect();
        there.retain(|name| name.starts_with(COLLECTION));
        let mut expected: Vec<String> = tables.all().iter().map(|table| table.name().to_owned()).collect();
        there.sort();
        expected.sort();
        // If a process crashes after it wrote the sample of a new row of a bucket, but before it
        // wrote the row, the sample remains. Samples estimate the size of a bucket, so the bucket
        // is split slightly too early.
        let orphans = |one: &VerifiedBuckets| one.found.get("orphan_sample").copied();
        let orphans: u64 = report.buckets.iter().filter_map(orphans).sum();
        // If a process crashes after it reserved a unique value (claim), but before it wrote the
        // record, the claim remains. The next record with this value takes over the claim.
        let orphans = orphans + report.views.last().unwrap().orphan;
        let compared = tables.views.views().len() + tables.views.claims_tables().len();
        if report.wrong() > orphans || report.views.len() != compared || there != expected {
            return Err(format!("{report:?}, tables {there:?} of {expected:?}"));
        }
        Ok(())
    }

    /// Reads `lists` random lists through Recto, and checks their content.
    async fn read(&self, lists: u32) -> Result<(), String> {
        let recto = self.open_rightly().await;
        let reader = Reader::new(recto.clone(), Rc::clone(&self.history), self.random.bits());
        for _ in 0..lists {
            if !reader.traverse().await {
                self.history.is_wrong("a list cannot be read".to_owned());
            }
        }
        recto.close().await.unwrap();
        self.history.wrong()
    }

    async fn check(&self, all: &[Rc<Process>], tables: &Tables) -> Result<String, String> {
        let (right, stamp) = (self.right.clone(), AtomicI64::new(0));
        let stamps = move || {
            let now = right.now_micros();
            Stamp(now.max(stamp.fetch_max(now, Ordering::Relaxed) + 1))
        };
        let memory = Arc::clone(&self.memory) as Arc<dyn Store>;
        let scanned = BucketedStore::over(memory, self.right.clone(), Arc::new(stamps));
        let checked = check::Checked {
            scanned: &scanned,
            store: &*self.store,
            tables,
            history: &self.history,
        };
        // A process whose clock stood still may have continued to write after other processes
        // resolved its intents. The views may therefore be wrong until the clocks of the processes
        // are moved forward.
        if !self.stood_still.get() {
            checked.views().await?;
        }
        for process in all {
            process.clock.jump(LATER_MICROS);
        }
        sleep(RECOVERING).await;
        let text = checked
            .views()
            .await
            .map_err(|wrong| format!("a day later: {wrong}"))?;
        checked.remains().await?;
        if self.history.rows() == 0 {
            return Err("no page showed anything".to_owned());
        }
        // Execute the writes that the store has delayed so far. None of them may change the content
        // of the views.
        let late = self.store.settle().await;
        checked
            .views()
            .await
            .map_err(|wrong| format!("after {late} late writes: {wrong}"))?;
        self.verify(tables).await?;
        self.read(LAST_LISTS).await?;
        Ok(text + &self.history.text())
    }

    async fn start_process(&self) -> Rc<Process> {
        let off = self.random.below(2 * MAX_OFF_MICROS);
        let off = i64::try_from(off).unwrap() - i64::try_from(MAX_OFF_MICROS).unwrap();
        let clock = Arc::new(Clock::new(self.start, off, self.random.bits()));
        let mut store = Arc::clone(&self.store) as Arc<dyn Store>;
        if let Some(broken) = self.broken {
            store = Arc::new(BrokenStore::new(store, broken, &clock));
        }
        let started = Process::start(store, clock, self.random.bits(), &self.tables, &self.history);
        started.await.unwrap()
    }

    /// Freezes a process for `seconds` by closing its connection to the store. In one of eight
    /// cases, the monotonic clock of the process loses this time.
    fn freeze(&self, process: &Rc<Process>, seconds: u64) {
        let stands_still = self.random.one_in(8);
        self.stood_still.set(self.stood_still.get() || stands_still);
        let process = Rc::clone(process);
        process.gate.open(false);
        tokio::task::spawn_local(async move {
            sleep(Duration::from_secs(seconds)).await;
            if stands_still {
                process.clock.lose(seconds * 1_000_000_000);
            }
            process.gate.open(true);
        });
    }
}
