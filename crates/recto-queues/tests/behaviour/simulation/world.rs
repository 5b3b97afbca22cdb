//! One run of the simulation: processes start, crash and end on a faulty store. Then the remaining state is
//! checked.

use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use recto_model::{Environment, Table};
use recto_protocol::queues::Phase;
use recto_store::faults::{FaultRates, FaultyStore};
use recto_store::memory::{DEFAULT_LIMITS, MemoryStore};
use recto_store::wrapper::StoreWrapper;
use recto_store::{
    Atomicity, Cas, CasOutcome, Limits, PartitionWrite, Store, StoreError, TableOutcome, WriteOptions,
    WriteOutcome,
};
use tokio::task::LocalSet;
use tokio::time::Instant;

use super::clock::{Clocks, Random};
use super::history::History;
use super::process::Process;

const PROCESSES: u64 = 3;
/// Number of shards in runs with several shards.
const SHARDS: u16 = 4;
/// Maximum difference between the clocks of two processes, in microseconds. It is smaller than the margin
/// that processes add to visibility timeouts of others.
const APART_MICROS: u64 = 4_000_000;
/// Time for which the store has faults.
const STORM: Duration = Duration::from_secs(25);
/// Maximum time until the store has executed a request whose process crashed after sending it.
const ENDED: Duration = Duration::from_secs(1);
/// Maximum number of checks of the remaining state, at intervals of at least one second.
const CALM_SECONDS: u32 = 60;

/// Guarantee of the store that a test breaks on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    /// Conditional writes are applied regardless of their conditions.
    Conditions,
    /// Some changes of segment states are confirmed but not executed.
    States,
    /// Some writes of bodies are confirmed but not executed.
    Bodies,
    /// A table that was confirmed to be empty is emptied again, after new rows were written to it.
    Emptying,
}

/// Runs the simulation with one seed. Returns a summary that can be compared with other runs, or the
/// inconsistency that it found.
pub(crate) async fn run(seed: u64, broken: Option<Broken>) -> Result<String, String> {
    LocalSet::new().run_until(storm(seed, broken)).await
}

async fn storm(seed: u64, broken: Option<Broken>) -> Result<String, String> {
    let (start, random) = (Instant::now(), Random::new(seed));
    // Use either one process on a store with transactions, as on the embedded store, or several processes.
    let is_alone = broken.is_none() && random.one_in(3);
    let limits = Limits {
        remote: !is_alone,
        transactions: is_alone,
        ..DEFAULT_LIMITS
    };
    let is_ordered = broken.is_none() && random.one_in(3);
    let shards = if random.one_in(3) { 1 } else { SHARDS };
    let moves_on = broken.is_none() && random.one_in(2);
    let count = if is_alone { 1 } else { PROCESSES };
    let clocks = |off_micros, seed| Clocks {
        start,
        off_micros,
        random: Random::new(seed),
    };
    let memory = MemoryStore::with_limits(Environment::new(clocks(0, seed)), limits);
    let faulty = FaultyStore::new(Arc::new(memory), seed, FaultRates::NONE);
    let store: Arc<dyn Store> = match broken {
        None => Arc::new(faulty.clone()),
        Some(broken) => Arc::new(Breaking {
            inner: Arc::new(faulty.clone()),
            broken,
            random: Random::new(seed),
            late: Mutex::default(),
        }),
    };
    let history = Rc::new(History::new(moves_on));
    let begin = async |number: u64| {
        let apart = i64::try_from(random.below(APART_MICROS)).unwrap();
        let clocks = clocks(apart, random.bits());
        let (store, seed) = (Arc::clone(&store), random.bits());
        Process::start(number, store, clocks, &history, seed, is_ordered).await
    };
    let founded = Process::found(Arc::clone(&store), clocks(0, random.bits()), is_ordered, shards);
    founded.await.expect("there are no faults yet");
    let mut processes = Vec::new();
    for number in 0..count {
        processes.push(begin(number).await.expect("there are no faults yet"));
    }
    let mut rates = FaultRates::all(0.02 + 0.01 * random.below(4) as f64);
    if is_alone {
        // With one process, the store executes or rejects each request before the process ends, so no request
        // is late or repeated.
        (rates.late, rates.repeat) = (0.0, 0.0);
    }
    rates.delay = 0.3;
    rates.max_delay = Duration::from_millis(200);
    faulty.set_rates(rates);
    processes.iter_mut().for_each(Process::work);
    let mut next = count;
    while start.elapsed() < STORM {
        tokio::time::sleep(Duration::from_millis(500 + random.below(4_000))).await;
        let index = usize::try_from(random.below(count)).unwrap();
        processes[index].crash();
        if is_alone {
            // Wait until all requests of the earlier process have ended, because only then may the next
            // process open the store.
            tokio::time::sleep(ENDED).await;
        }
        if let Some(mut process) = begin(next).await {
            process.work();
            processes[index] = process;
        }
        next += 1;
    }
    processes.iter_mut().for_each(Process::crash);
    tokio::time::sleep(ENDED).await;
    // From here on, there are no new faults. Late requests still arrive or get lost, at most one at each call
    // of the store.
    faulty.set_rates(FaultRates {
        arrive: 0.5,
        ..FaultRates::NONE
    });
    let last = begin(next)
        .await
        .ok_or("the store can be opened when it is calm")?;
    drain(&last, &history, is_ordered).await?;
    for shard in [&last.jobs, &last.dead] {
        let segments = shard.segments().await.map_err(|error| error.to_string())?;
        if segments > shard.count() {
            return Err(format!("{segments} segments are left"));
        }
    }
    if !is_alone {
        settle(&last).await?;
    }
    history.end()
}

/// Waits until the maintenance has emptied or replaced the body tables that were in use.
async fn settle(last: &Process) -> Result<(), String> {
    let mut stands = String::new();
    for _ in 0..CALM_SECONDS {
        tokio::time::sleep(Duration::from_secs(10)).await;
        let ring = last.ring().await?;
        let count = |phase| ring.tables.iter().filter(|table| table.phase == phase).count();
        if count(Phase::Free) >= 2 && count(Phase::Retired) == 0 {
            return Ok(());
        }
        stands = format!("{ring:?}");
    }
    Err(format!("the ring stands still: {stands}"))
}

/// Receives and acknowledges all remaining messages of the queue and its dead-letter queue.
async fn drain(last: &Process, history: &History, is_ordered: bool) -> Result<(), String> {
    for _ in 0..CALM_SECONDS {
        let began = history.now();
        let second = Duration::from_secs(1);
        for shard in [&last.jobs, &last.dead] {
            let received = shard.receive(100, Some(Duration::from_secs(30)), second).await;
            let received = received.map_err(|error| format!("{error}: {error:?}"))?;
            for message in &received {
                history.receives(message, began);
                if is_ordered {
                    history.receives_in_order(message);
                }
                history.acknowledges(message);
                let settled = shard.ack(&[message.receipt]).await;
                if settled.map_err(|error| error.to_string())? == [recto_queues::Settled::Done] {
                    history.is_done(message, true);
                }
            }
        }
    }
    Ok(())
}

/// Store that breaks one guarantee on purpose.
struct Breaking {
    inner: Arc<dyn Store>,
    broken: Broken,
    random: Random,
    /// Table that the store empties again after the next write to it.
    late: Mutex<Option<Table>>,
}

#[async_trait::async_trait]
impl StoreWrapper for Breaking {
    fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    async fn on_cas(&self, mut cas: Cas, options: WriteOptions) -> Result<CasOutcome, StoreError> {
        match self.broken {
            Broken::Conditions => {
                let outcome = self.inner.cas(cas.clone(), options).await?;
                if let CasOutcome::NotApplied { current } = outcome {
                    for (condition, current) in cas.conditions.iter_mut().zip(current) {
                        condition.expected = current;
                    }
                    return self.inner.cas(cas, options).await;
                }
                Ok(outcome)
            }
            Broken::States if cas.table.name() == "recto_queue_state" && self.random.one_in(10) => {
                Ok(CasOutcome::Applied)
            }
            _ => self.inner.cas(cas, options).await,
        }
    }

    async fn on_writes(
        &self,
        writes: Vec<PartitionWrite>,
        atomicity: Atomicity,
        options: WriteOptions,
    ) -> Result<WriteOutcome, StoreError> {
        if self.broken == Broken::Bodies && self.random.one_in(10) {
            return Ok(WriteOutcome::Done);
        }
        let names: Vec<_> = writes.iter().map(|write| write.table.name().to_owned()).collect();
        let outcome = self.inner.write_many(writes, atomicity, options).await?;
        let late = self
            .late
            .lock()
            .unwrap()
            .take_if(|table| names.iter().any(|name| name == table.name()));
        if let Some(table) = late {
            let _ = self.inner.empty_table(&table).await;
        }
        Ok(outcome)
    }

    async fn on_empty_table(&self, table: &Table) -> Result<TableOutcome, StoreError> {
        let outcome = self.inner.empty_table(table).await?;
        if self.broken == Broken::Emptying {
            *self.late.lock().unwrap() = Some(table.clone());
        }
        Ok(outcome)
    }
}
