//! Simulated process: the engine with senders and receivers.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use recto_model::Environment;
use recto_protocol::queues::{DeadLetters, Protocol, QueueName, QueueOptions, Seq, StoreOptions};
use recto_queues::{
    Message, NewMessage, QueueErrorKind, QueueStore, Queues, RotationStatus, Settled, Shards,
};
use recto_store::Store;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::clock::{Clocks, Random};
use super::history::History;

const NAME: &str = "jobs";
const DEAD: &str = "dead";
/// Rotation interval of body tables in seconds. It is shorter than the receives of a message, so
/// that they span several intervals.
const SLICE_SECONDS: u32 = 10;
const MARGIN_SECONDS: u32 = 3;
/// Number of messages that a segment takes. The number is small, so that there are many segments.
const SEGMENT_MESSAGES: Seq = 8;
/// Limits in runs with segment merging: the number of messages that a segment takes, and the number of
/// segments above which merging starts.
const FEW_MESSAGES: Seq = 3;
const SCATTERED_SEGMENTS: usize = 2;
/// Maximum time between two runs of the maintenance in the simulation. With the usual interval, the
/// maintenance would not run during the faults.
const MAX_UPKEEP_MILLIS: u64 = 3_000;
/// Number of receives before a message goes to the dead-letter queue.
const ATTEMPTS: u16 = 3;
/// Time limit of a request to a queue.
const TIME: Duration = Duration::from_secs(3);
/// Minimum and maximum visibility timeout of a receive.
const MIN_VISIBILITY_MILLIS: u64 = 500;
const MAX_VISIBILITY_MILLIS: u64 = 6_000;
/// Number of messages that each sender sends.
const MESSAGES: u64 = 12;
/// Maximum number of attempts to send a message until the outcome is known.
const MAX_ATTEMPTS: u32 = 100;

pub(crate) struct Process {
    /// Open queues; `None` after a crash.
    queues: Option<Queues>,
    pub(crate) jobs: Shards,
    /// Dead-letter queue.
    pub(crate) dead: Shards,
    is_ordered: bool,
    number: u64,
    history: Rc<History>,
    random: Rc<Random>,
    tasks: Vec<JoinHandle<()>>,
}

impl Process {
    /// Creates the queues that all simulated processes use.
    pub(crate) async fn found(
        store: Arc<dyn Store>,
        clocks: Clocks,
        is_ordered: bool,
        shards: u16,
    ) -> Option<()> {
        let queues = open(store, clocks, false).await?;
        let slices = StoreOptions {
            rotation_seconds: SLICE_SECONDS,
            grace_seconds: MARGIN_SECONDS,
            ..StoreOptions::default()
        };
        queues.configure(slices).await.ok()?;
        let any = if is_ordered {
            QueueOptions::ordered()
        } else {
            QueueOptions::default()
        };
        let like = QueueOptions { shards, ..any };
        queues.create(DEAD, like.clone()).await.ok()?;
        let dead_letters = DeadLetters {
            queue: QueueName::new("dead_letters.queue", DEAD).ok()?,
            attempts: ATTEMPTS,
        };
        let options = QueueOptions {
            // An ordered queue gets no dead-letter queue: a dead letter lets later messages of its group
            // overtake it.
            dead_letters: (!is_ordered).then_some(dead_letters),
            ..like
        };
        queues.create(NAME, options).await.ok()?;
        Some(())
    }

    pub(crate) async fn start(
        number: u64,
        store: Arc<dyn Store>,
        clocks: Clocks,
        history: &Rc<History>,
        seed: u64,
        is_ordered: bool,
    ) -> Option<Self> {
        let queues = open(store, clocks, history.moves_on).await?;
        let (jobs, dead) = (queues.find(NAME).await.ok()?, queues.find(DEAD).await.ok()?);
        Some(Self {
            queues: Some(queues),
            jobs: jobs.shards,
            dead: dead.shards,
            is_ordered,
            number,
            history: Rc::clone(history),
            random: Rc::new(Random::new(seed)),
            tasks: Vec::new(),
        })
    }

    /// Returns the state of the ring of body tables.
    pub(crate) async fn ring(&self) -> Result<RotationStatus, String> {
        let queues = self.queues.as_ref().ok_or("it crashed")?;
        queues.rotation().await.map_err(|error| error.to_string())
    }

    /// Starts the senders and receivers of the process, which run until the process ends.
    pub(crate) fn work(&mut self) {
        let (shard, history, random) = (
            self.jobs.clone(),
            Rc::clone(&self.history),
            Rc::clone(&self.random),
        );
        let (number, is_ordered) = (self.number, self.is_ordered);
        self.tasks.push(tokio::task::spawn_local(async move {
            for first in (0..MESSAGES).step_by(3) {
                send(&shard, &history, &random, (number, is_ordered), first).await;
                tokio::time::sleep(Duration::from_millis(random.below(2_000))).await;
            }
        }));
        self.keeps_up();
        for from in [&self.jobs, &self.jobs, &self.dead] {
            let (shard, history, random) = (from.clone(), Rc::clone(&self.history), Rc::clone(&self.random));
            self.tasks.push(tokio::task::spawn_local(async move {
                loop {
                    receive(&shard, &history, &random, is_ordered).await;
                }
            }));
        }
    }

    /// Starts a task that runs the maintenance at random times, if the run tests segment merging.
    fn keeps_up(&mut self) {
        let Some(queues) = self.queues.clone().filter(|_| self.history.moves_on) else {
            return;
        };
        let random = Rc::clone(&self.random);
        self.tasks.push(tokio::task::spawn_local(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(random.below(MAX_UPKEEP_MILLIS))).await;
                queues.run_maintenance_now().await;
            }
        }));
    }

    /// Stops all tasks of the process. The store may still execute requests that the process has sent.
    pub(crate) fn crash(&mut self) {
        for task in self.tasks.drain(..) {
            task.abort();
        }
        self.queues = None;
    }
}

async fn open(store: Arc<dyn Store>, clocks: Clocks, moves_on: bool) -> Option<Queues> {
    let opened = QueueStore::open(store, Environment::new(clocks), TIME)
        .await
        .ok()?;
    let limits = |protocol: Protocol| {
        if moves_on {
            protocol
                .with_segments_of(FEW_MESSAGES)
                .with_scattered_segments(SCATTERED_SEGMENTS)
        } else {
            protocol.with_segments_of(SEGMENT_MESSAGES)
        }
    };
    Queues::from_store(opened.with_limits(limits)).await.ok()
}

/// Sends three messages with deduplication ids, and repeats the call until all of them are confirmed.
async fn send(shard: &Shards, history: &History, random: &Random, by: (u64, bool), first: u64) {
    let (process, is_ordered) = by;
    let bodies: Vec<_> = (first..first + 3)
        .map(|number| format!("p{process} m{number}"))
        .collect();
    let message = |body: &String| NewMessage {
        deduplication_id: Some(body.clone()),
        group: is_ordered.then(|| format!("p{process}")),
        delay: (!is_ordered && random.one_in(4)).then(|| Duration::from_millis(random.below(5_000))),
        ..NewMessage::new(body.clone())
    };
    let mut left: Vec<(String, NewMessage)> =
        bodies.iter().map(|body| (body.clone(), message(body))).collect();
    for body in &bodies {
        history.tries(body);
    }
    for _ in 0..MAX_ATTEMPTS {
        let messages = left.iter().map(|(_, message)| message.clone()).collect();
        let sent = shard.send(messages).await;
        let results = left.drain(..).zip(sent);
        let mut again = Vec::new();
        for ((body, message), result) in results {
            match result {
                Ok(sent) => history.confirms(&body, sent),
                Err(error) => {
                    if matches!(
                        error.kind(),
                        QueueErrorKind::Corrupt | QueueErrorKind::InvalidArgument | QueueErrorKind::Full
                    ) {
                        history.fails(format!("{body} was refused: {error}"));
                    }
                    again.push((body, message));
                }
            }
        }
        left = again;
        if left.is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100 + random.below(400))).await;
    }
}

/// Receives messages, and executes a random operation on each of them.
async fn receive(shard: &Shards, history: &History, random: &Random, is_ordered: bool) {
    let began = history.now();
    let visibility = MIN_VISIBILITY_MILLIS + random.below(MAX_VISIBILITY_MILLIS);
    let most = 1 + usize::try_from(random.below(4)).unwrap();
    let wait = Duration::from_millis(random.below(1_500));
    let begun = Instant::now();
    let receiving = shard.receive(most, Some(Duration::from_millis(visibility)), wait);
    // Some receivers stop waiting before the response arrives.
    let patience = Duration::from_millis(if random.one_in(6) {
        random.below(300)
    } else {
        60_000
    });
    let received = match tokio::time::timeout(patience, receiving).await {
        Ok(Ok(received)) => received,
        Ok(Err(error)) => {
            if error.kind() == QueueErrorKind::Corrupt {
                history.fails(error.to_string());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
            return;
        }
        Err(_) => return,
    };
    for message in &received {
        history.receives(message, began);
        if is_ordered {
            history.receives_in_order(message);
        }
    }
    // Some receivers work on their messages longer than the visibility timeout.
    tokio::time::sleep(Duration::from_millis(random.below(visibility * 3 / 2))).await;
    for message in received {
        let kept_until = begun + Duration::from_millis(visibility);
        finish(shard, history, random, &message, kept_until).await;
    }
}

async fn finish(shard: &Shards, history: &History, random: &Random, message: &Message, kept_until: Instant) {
    let receipt = [message.receipt];
    match random.below(10) {
        0 => drop(
            shard
                .nack(&receipt, Duration::from_millis(random.below(1_000)), "")
                .await,
        ),
        1 => drop(shard.extend(&receipt, Duration::from_secs(1)).await),
        2 => {}
        _ => {
            history.acknowledges(message);
            if shard
                .ack(&receipt)
                .await
                .is_ok_and(|settled| settled == [Settled::Done])
            {
                history.is_done(message, Instant::now() < kept_until);
            }
        }
    }
}
