//! One run of the simulation: processes on a faulty store start, crash and end. After the faults, the run
//! checks the remaining state.

use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use recto_model::Environment;
use recto_model::Slice;
use recto_protocol::buckets::sampling::hash;
use recto_protocol::buckets::sizing::counted_bytes;
use recto_store::faults::{FaultRates, FaultyStore};
use recto_store::memory::{DEFAULT_LIMITS, MemoryStore};
use recto_store::wrapper::{SnapshotWrapper, StoreWrapper};
use recto_store::{
    Atomicity, Cas, CasOutcome, Limits, Operation, PartitionWrite, ReadOptions, RowsRead, Snapshot, Stamp,
    Store, StoreError, WriteOptions, WriteOutcome,
};
use tokio::task::LocalSet;
use tokio::time::Instant;

use crate::clock::{Clocks, Random};
use crate::history::History;
use crate::process::{Process, Role, SAMPLES, Setting, key_of};

const PROCESSES: u64 = 3;
/// Maximum error of a wall clock, in microseconds.
const OFF_MICROS: u64 = 60_000_000;
/// Maximum duration of a repeated stop of a clock, in milliseconds. The duration is below the one
/// that the protocol allows for.
const STANDSTILL_MILLIS: u64 = 2_900;
/// Duration of the part of a run with faults.
const STORM: Duration = Duration::from_secs(100);
/// Maximum time for which a request remains under way after its process has crashed.
const ENDED: Duration = Duration::from_secs(1);
/// Maximum pause of a process, in milliseconds.
const PAUSE_MILLIS: u64 = 15_000;
/// Maximum number of checks whether all work is done, and the interval between them.
const CALM_ROUNDS: u32 = 60;
const CALM: Duration = Duration::from_secs(600);

/// Part of the protocol that a run leaves out, to check that the simulation detects it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The splitter waits by a clock that is a thousand times too fast.
    Waits,
    /// Copied rows are not written.
    Copies,
    /// Rows are copied with the current timestamp instead of their own.
    Stamps,
    /// Clocks of writers and readers stop for longer than the protocol allows.
    Lives,
    /// Conditional writes are applied regardless of their conditions.
    Conditions,
}

/// Runs the simulation with one seed. Returns a summary that is equal for equal runs, or the error that it
/// found.
pub(crate) async fn run(seed: u64, broken: Option<Broken>) -> Result<String, String> {
    LocalSet::new().run_until(storm(seed, broken)).await
}

async fn storm(seed: u64, broken: Option<Broken>) -> Result<String, String> {
    let (start, random) = (Instant::now(), Random::new(seed));
    let limits = Limits {
        remote: true,
        leaves_tombstones: true,
        sees_conflicts: false,
        transactions: false,
        ..DEFAULT_LIMITS
    };
    let memory = MemoryStore::with_limits(Environment::new(Clocks::right(start, seed)), limits);
    let faulty = FaultyStore::new(Arc::new(memory), seed, FaultRates::NONE);
    let setting = Rc::new(Setting::drawn(&random));
    let history = Rc::new(History::default());
    faulty
        .create_table(&setting.pieced.table())
        .await
        .expect("there are no faults yet");
    let begin = async |index: u64| {
        // If the test breaks a part of the protocol, only one process splits.
        let role = match broken {
            // Conditions only matter if two processes split at once, so all processes split.
            None | Some(Broken::Conditions) => Role::All,
            Some(_) if index == 0 => Role::Cuts,
            Some(_) => Role::Uses,
        };
        let clocks = clocks(start, &random, role, broken);
        let inner: Arc<dyn Store> = Arc::new(faulty.clone());
        let environment = Environment::new(clocks);
        let paused = Arc::new(Paused {
            inner,
            until: Arc::new(Mutex::new(start)),
            broken: broken.filter(|_| role != Role::Uses),
            environment: environment.clone(),
        });
        let until = Arc::clone(&paused.until);
        let process = Process::start(paused, environment, &setting, &history, random.bits(), role).await;
        process.map(|process| (process, until))
    };
    let mut processes = Vec::new();
    for index in 0..PROCESSES {
        processes.push(begin(index).await.expect("there are no faults yet"));
    }
    let mut rates = FaultRates::all(0.01 + 0.01 * random.below(3) as f64);
    rates.delay = 0.3;
    rates.max_delay = Duration::from_millis(200);
    faulty.set_rates(rates);
    for (process, _) in &mut processes {
        process.work();
    }
    while start.elapsed() < STORM && !history.is_wrong() {
        tokio::time::sleep(Duration::from_millis(500) + random.millis(6_000)).await;
        let index = random.below(PROCESSES);
        let (process, until) = &mut processes[usize::try_from(index).unwrap()];
        if random.one_in(2) {
            *until.lock().unwrap() = Instant::now() + random.millis(PAUSE_MILLIS);
            continue;
        }
        process.crash();
        if let Some(mut begun) = begin(index).await {
            begun.0.work();
            processes[usize::try_from(index).unwrap()] = begun;
        }
    }
    for (process, _) in &mut processes {
        process.crash();
    }
    tokio::time::sleep(ENDED).await;
    if history.is_wrong() {
        return history.end();
    }
    // Let each late request arrive or not, at most one per call.
    faulty.set_rates(FaultRates {
        arrive: 0.5,
        ..FaultRates::NONE
    });
    let (mut last, _) = begin(0).await.ok_or("the store can be opened when it is calm")?;
    last.cuts();
    settle(&last, &setting).await?;
    last.page_through(false).await;
    last.page_through(true).await;
    let told = history.end()?;
    Ok(format!("{told}; {} pieces", last.directory().await?.pieces.len()))
}

fn clocks(start: Instant, random: &Random, role: Role, broken: Option<Broken>) -> Clocks {
    let sign = |micros: u64| {
        let micros = i64::try_from(micros).unwrap();
        if random.one_in(2) { micros } else { -micros }
    };
    let mut clocks = Clocks {
        off_micros: sign(random.below(OFF_MICROS)),
        set: (random.millis(200_000), sign(random.below(OFF_MICROS))),
        standstill: random.millis(STANDSTILL_MILLIS),
        ..Clocks::right(start, random.bits())
    };
    match (broken, role) {
        (Some(Broken::Waits), Role::Cuts) => clocks.speed = 1_000,
        (Some(Broken::Lives), Role::Uses) => {
            clocks.standstill = Duration::from_secs(29);
            clocks.set = (Duration::MAX, 0);
        }
        _ => {}
    }
    clocks
}

/// Waits until no split or join is unfinished, all old buckets are cleared, all inner edges are removed, no bucket has
/// enough samples for a split, and every row that must have a sample has one.
async fn settle(last: &Process, setting: &Setting) -> Result<(), String> {
    let mut stands = String::new();
    for _ in 0..CALM_ROUNDS {
        last.look().await?;
        tokio::time::sleep(CALM).await;
        let directory = last.directory().await?;
        if directory.is_being_cut() || directory.is_to_be_cleared() || directory.inner_edge().is_some() {
            stands = format!("{directory:?}");
            continue;
        }
        let (rows, mut fullest) = (last.rows().await?, 0);
        for (span, piece) in directory.spans() {
            let keys = rows
                .iter()
                .map(|(at, bytes)| (key_of(setting, *at), counted_bytes(8 + bytes)));
            let keys =
                keys.filter(|(key, counted)| span.has(key) && piece.sampling.is_sampled(hash(key), *counted));
            let keys: Vec<_> = keys.map(|(key, _)| key).collect();
            let sampled = last.sampled(piece.roles.read).await?;
            if let Some(key) = keys.iter().find(|key| !sampled.contains(*key)) {
                return Err(format!("{key:?} is not counted in {:?}", piece.roles.read));
            }
            fullest = fullest.max(keys.len());
        }
        if fullest * 2 < SAMPLES as usize * 3 {
            return Ok(());
        }
        stands = format!("{fullest} samples in a bucket of {directory:?}");
    }
    Err(format!("not all is cut, or cleared: {stands}"))
}

/// Store of one process that pauses at times. During a pause, requests that were sent remain under way,
/// and the process receives their results after the pause.
struct Paused {
    inner: Arc<dyn Store>,
    until: Arc<Mutex<Instant>>,
    broken: Option<Broken>,
    environment: Environment,
}

struct PausedSnapshot {
    inner: Arc<dyn Snapshot>,
    until: Arc<Mutex<Instant>>,
}

async fn pass(until: &Mutex<Instant>) {
    loop {
        let until = *until.lock().unwrap();
        if until <= Instant::now() {
            return;
        }
        tokio::time::sleep_until(until).await;
    }
}

#[async_trait::async_trait]
impl StoreWrapper for Paused {
    fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    async fn pass(&self) {
        pass(&self.until).await;
    }

    fn on_snapshot(&self, snapshot: Arc<dyn Snapshot>) -> Arc<dyn Snapshot> {
        Arc::new(PausedSnapshot {
            inner: snapshot,
            until: Arc::clone(&self.until),
        })
    }

    async fn on_cas(&self, mut cas: Cas, options: WriteOptions) -> Result<CasOutcome, StoreError> {
        let outcome = self.inner.cas(cas.clone(), options).await?;
        if let (Some(Broken::Conditions), CasOutcome::NotApplied { current }) = (self.broken, &outcome) {
            for (condition, current) in cas.conditions.iter_mut().zip(current) {
                condition.expected.clone_from(current);
            }
            return self.inner.cas(cas, options).await;
        }
        Ok(outcome)
    }

    async fn on_writes(
        &self,
        mut writes: Vec<PartitionWrite>,
        atomicity: Atomicity,
        options: WriteOptions,
    ) -> Result<WriteOutcome, StoreError> {
        let mut puts = writes.iter_mut().flat_map(|write| &mut write.mutations);
        match self.broken {
            Some(Broken::Copies) if puts.any(|one| matches!(one.operation, Operation::Put { .. })) => {
                Ok(WriteOutcome::Done)
            }
            Some(Broken::Stamps) => {
                let now = Stamp(self.environment.now_micros());
                puts.for_each(|one| one.stamp = Some(now));
                self.inner.write_many(writes, atomicity, options).await
            }
            _ => self.inner.write_many(writes, atomicity, options).await,
        }
    }
}

#[async_trait::async_trait]
impl SnapshotWrapper for PausedSnapshot {
    fn inner(&self) -> &Arc<dyn Snapshot> {
        &self.inner
    }

    async fn on_slice(&self, slice: &Slice, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        self.inner.slice(slice, options).await
    }

    async fn pass(&self) {
        pass(&self.until).await;
    }
}
