//! Child processes of the tests of queues. They send and handle messages until they are killed, and
//! print one line for each event.

use std::collections::BTreeMap;
use std::ops::Range;
use std::process::Child;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use recto::queues::{
    DeadLetters, Message, MessageId, NewMessage, PeekedStanding, Queue, QueueName, QueueOptions, Receive,
    Sent, Settled,
};
use recto::{Environment, ErrorKind, OpenOptions, Recto};
use recto_testkit::generate::Rng;

use crate::common::children;
use crate::common::clocks::Clocks;

/// Environment variable that tells a child process the address of the store.
const ADDRESS: &str = "RECTO_TEST_ADDRESS";
/// Environment variable that tells a child process its id, which no other process has.
const NUMBER: &str = "RECTO_TEST_NUMBER";
/// Environment variable that tells a child process the error of its wall clock, in microseconds.
const CLOCK_OFF: &str = "RECTO_TEST_CLOCK_OFF_MICROS";
const MESSAGES_OF_A_PROCESS: u64 = 1_000_000;
const MESSAGES_OF_A_SENDER: u64 = 100_000;

/// Name of the unordered queue. Some of its messages are delayed, and its dead letters are moved
/// back to it.
pub(crate) const JOBS: &str = "jobs";
/// Name of the queue that receives the dead letters of the queue `JOBS`.
pub(crate) const DEAD: &str = "dead";
/// Name of an ordered queue that all processes use.
pub(crate) const GROUPS: &str = "groups.fifo";
/// Name of an ordered queue that only processes with nearly correct clocks use.
pub(crate) const NEAR: &str = "near.fifo";

const SENDERS: u64 = 2;
const WORKERS: usize = 2;
/// Number of messages of one send, and maximum number of messages of one receive.
const BATCH: u64 = 5;
/// One in this number of messages of the queue `JOBS` is delayed by `DELAY`. The delay is longer
/// than a rotation interval, after which new bodies go to the next table.
const DELAYED: u64 = 20;
const DELAY: Duration = Duration::from_secs(12);
/// One in this number of messages is unlucky: a worker returns it to the queue at about half of its
/// deliveries, instead of acknowledging it.
const UNLUCKY: u64 = 7;
/// Number of attempts after which a message becomes a dead letter.
const ATTEMPTS: u16 = 3;
/// One in this number of batches is sent twice, to test deduplication.
const REPEATED: u64 = 8;
/// One in this number of received batches is neither acknowledged nor returned, as if its worker
/// had been killed.
const FORGOTTEN: u64 = 30;
const BETWEEN_BATCHES: Duration = Duration::from_millis(600);
/// Pause of a sender between two batches of an ordered group. It is longer than for other queues,
/// because only one message of a group is delivered at a time.
const BETWEEN_BATCHES_OF_A_GROUP: Duration = Duration::from_secs(2);
/// Number of messages in a queue above which senders wait.
const MAX_BACKLOG: u64 = 300;
const BETWEEN_LOOKS: Duration = Duration::from_secs(3);
const BETWEEN_REDRIVES: Duration = Duration::from_secs(4);
/// Time for which a delivered message stays hidden from other receivers.
pub(crate) const VISIBILITY: Duration = Duration::from_secs(5);
const WAIT: Duration = Duration::from_secs(1);
const NACKED_FOR: Duration = Duration::from_millis(700);
/// Maximum time for which a sender repeats a batch after errors. Recto deduplicates messages for
/// longer than this time, even between processes whose clocks are two minutes off.
const SETTLED: Duration = Duration::from_secs(40);
/// Pause after a request that failed.
const REFUSED_PAUSE: Duration = Duration::from_millis(100);

/// Returns the names and options of all queues, in an order in which they can be created. The queue
/// for dead letters comes before the queue that names it.
pub(crate) fn queues() -> [(&'static str, QueueOptions); 4] {
    let dead_letters = DeadLetters {
        queue: QueueName::new("queue", DEAD).unwrap(),
        attempts: ATTEMPTS,
    };
    let jobs = QueueOptions {
        dead_letters: Some(dead_letters),
        ..QueueOptions::default()
    };
    [
        (DEAD, QueueOptions::default()),
        (JOBS, jobs),
        (GROUPS, QueueOptions::ordered()),
        (NEAR, QueueOptions::ordered()),
    ]
}

/// Returns the group of the message with this id, in an ordered queue. Each sender has its own
/// group, and sends the messages of the group one after another.
pub(crate) fn group(number: u64) -> u64 {
    number / MESSAGES_OF_A_SENDER
}

/// Runs in a child process: sends and handles messages until the process is killed.
pub(crate) async fn send_and_work_until_killed() {
    let variable = |name: &str| std::env::var(name).unwrap();
    let number: u64 = variable(NUMBER).parse().unwrap();
    let off_micros: i64 = variable(CLOCK_OFF).parse().unwrap();
    let environment = Clocks::off_by(off_micros).environment();
    let options = OpenOptions::new().environment(environment);
    let recto = loop {
        match Recto::open_with(&*variable(ADDRESS), options.clone()).await {
            Ok(recto) => break recto,
            // A node may be down, so try again.
            Err(error) => println!("not opened: {error}"),
        }
    };
    let is_near = off_micros.abs() < 60_000_000;
    let names = [JOBS, GROUPS, NEAR]
        .into_iter()
        .filter(|name| is_near || *name != NEAR);
    let all = names.map(|name| serve(&recto, name, number));
    // Only the process with the correct clock moves dead letters back. It prints their ids, so that
    // the test knows them.
    let redriving = async {
        if off_micros == 0 {
            redrive(&recto).await;
        }
    };
    futures::future::join(futures::future::join_all(all), redriving).await;
}

async fn find(recto: &Recto, name: &str) -> Queue {
    loop {
        let found = async { recto.queues().await?.get(name).await };
        match found.await {
            Ok(queue) => return queue,
            Err(error) => says_if_wrong(&error),
        }
        tokio::time::sleep(REFUSED_PAUSE).await;
    }
}

async fn serve(recto: &Recto, name: &str, process: u64) {
    let queue = find(recto, name).await;
    let of = |part: u64| recto_testkit::generate::rng(process * 1_000 + part);
    let first = |sender: u64| process * MESSAGES_OF_A_PROCESS + sender * MESSAGES_OF_A_SENDER;
    let backlog = AtomicU64::new(0);
    let sending = (0..SENDERS).map(|sender| send(&queue, first(sender), of(sender), &backlog));
    let working = (0..WORKERS).map(|worker| work(&queue, of(100 + worker as u64)));
    futures::future::join3(
        futures::future::join_all(sending),
        futures::future::join_all(working),
        look(&queue, &backlog),
    )
    .await;
}

/// Regularly updates `backlog` with the number of messages in the queue. Prints an error if the
/// body of a message was lost.
async fn look(queue: &Queue, backlog: &AtomicU64) {
    loop {
        tokio::time::sleep(BETWEEN_LOOKS).await;
        match queue.stats().await {
            Ok(stats) if stats.totals.bodies_lost > 0 => {
                println!(
                    "wrong {} bodies of {} are lost",
                    stats.totals.bodies_lost,
                    queue.name()
                );
            }
            Ok(stats) => backlog.store(stats.messages, Ordering::Relaxed),
            Err(error) => says_if_wrong(&error),
        }
    }
}

/// Prints an error that must not occur even while nodes are down or processes are killed.
fn says_if_wrong(error: &recto::Error) {
    if matches!(
        error.kind(),
        ErrorKind::Corrupt | ErrorKind::InvalidArgument | ErrorKind::LimitExceeded
    ) {
        println!("wrong {error}");
    }
}

async fn send(queue: &Queue, first: u64, mut random: Rng, backlog: &AtomicU64) {
    for first in (first..).step_by(BATCH as usize) {
        while backlog.load(Ordering::Relaxed) > MAX_BACKLOG {
            tokio::time::sleep(BETWEEN_BATCHES).await;
        }
        let mut ids = BTreeMap::new();
        let is_settled = settle(queue, first..first + BATCH, &mut ids).await;
        if is_settled && random.u64(0..REPEATED) == 0 {
            settle(queue, first..first + BATCH, &mut ids).await;
        }
        let is_ordered = queue.options().is_ordered;
        if !is_settled && is_ordered {
            // In an ordered queue, stop sending after a message whose outcome is unknown, because a
            // later message must not overtake it.
            return;
        }
        let pause = if is_ordered {
            BETWEEN_BATCHES_OF_A_GROUP
        } else {
            BETWEEN_BATCHES
        };
        tokio::time::sleep(pause).await;
    }
}

fn message(queue: &Queue, number: u64) -> NewMessage {
    let is_ordered = queue.options().is_ordered;
    NewMessage {
        delay: (!is_ordered && number.is_multiple_of(DELAYED)).then_some(DELAY),
        group: is_ordered.then(|| group(number).to_string()),
        deduplication_id: Some(number.to_string()),
        ..NewMessage::new(number.to_string())
    }
}

/// Sends the messages with these ids repeatedly, until each of them is stored for certain. Returns
/// false if the time [`SETTLED`] is over first.
async fn settle(queue: &Queue, numbers: Range<u64>, ids: &mut BTreeMap<u64, MessageId>) -> bool {
    let begun = Instant::now();
    let mut left: Vec<u64> = numbers.collect();
    while begun.elapsed() < SETTLED {
        let messages = left.iter().map(|number| message(queue, *number));
        let sent = queue.send_all(messages.collect()).await;
        let mut unsettled = Vec::new();
        for (number, sent) in left.into_iter().zip(sent) {
            match sent {
                Ok(Sent::New(id) | Sent::Duplicate(id)) => {
                    if ids.insert(number, id).is_some_and(|before| before != id) {
                        println!("wrong {} {number} was sent as two messages", queue.name());
                    }
                    println!("sent {} {number}", queue.name());
                }
                Err(error) => {
                    says_if_wrong(&error);
                    unsettled.push(number);
                }
            }
        }
        left = unsettled;
        if left.is_empty() {
            return true;
        }
        tokio::time::sleep(REFUSED_PAUSE).await;
    }
    false
}

async fn work(queue: &Queue, mut random: Rng) {
    let clock = Environment::system();
    let receive = Receive::up_to(BATCH as usize).visibility(VISIBILITY).wait(WAIT);
    loop {
        let asked_at = clock.now_micros();
        let received = match queue.receive(receive).await {
            Ok(received) => received,
            Err(error) => {
                says_if_wrong(&error);
                tokio::time::sleep(REFUSED_PAUSE).await;
                continue;
            }
        };
        let begun_at = clock.now_micros();
        for message in &received {
            println!(
                "begun {} {asked_at} {begun_at} {} {}",
                named(queue, message),
                message.id.0,
                message.attempts
            );
        }
        if random.u64(0..FORGOTTEN) == 0 {
            continue;
        }
        let is_unlucky = |message: &Message| number(message).is_multiple_of(UNLUCKY);
        let (unlucky, lucky): (Vec<_>, Vec<_>) = received
            .into_iter()
            .partition(|message| is_unlucky(message) && random.bool());
        give_back(queue, &clock, &unlucky).await;
        finish(queue, &clock, &lucky).await;
    }
}

async fn give_back(queue: &Queue, clock: &Environment, messages: &[Message]) {
    let now = clock.now_micros();
    for message in messages {
        println!("nacking {} {now}", named(queue, message));
    }
    if let Err(error) = queue.nack(&receipts(messages), NACKED_FOR, "no luck").await {
        says_if_wrong(&error);
    }
}

async fn finish(queue: &Queue, clock: &Environment, messages: &[Message]) {
    let now = clock.now_micros();
    for message in messages {
        println!("acking {} {now}", named(queue, message));
    }
    let settled = match queue.ack(&receipts(messages)).await {
        Ok(settled) => settled,
        // The error does not matter here, because the queue delivers messages without an
        // acknowledgment again. Report only errors that must not occur.
        Err(error) => return says_if_wrong(&error),
    };
    let done_at = clock.now_micros();
    for (message, settled) in messages.iter().zip(settled) {
        if settled == Settled::Done {
            println!("done {} {done_at}", named(queue, message));
        }
    }
}

fn receipts(messages: &[Message]) -> Vec<recto::queues::Receipt> {
    messages.iter().map(|message| message.receipt).collect()
}

fn number(message: &Message) -> u64 {
    String::from_utf8_lossy(&message.body).parse().unwrap()
}

fn named(queue: &Queue, message: &Message) -> String {
    format!("{} {}", queue.name(), number(message))
}

/// Moves dead letters back to the queue `JOBS` regularly. Prints the ids of some dead letters
/// before each move. Recto may move other dead letters, because it takes the first messages of a
/// shard, and messages may arrive after the print.
async fn redrive(recto: &Recto) {
    let (dead, jobs) = (find(recto, DEAD).await, find(recto, JOBS).await);
    loop {
        tokio::time::sleep(BETWEEN_REDRIVES).await;
        let Ok(peeked) = dead.peek(100).await else {
            continue;
        };
        let ready = peeked.iter().filter(|one| one.standing == PeekedStanding::Ready);
        let mut count = 0;
        for content in ready.filter_map(|one| one.content.as_ref().ok()) {
            println!("dead {JOBS} {}", String::from_utf8_lossy(&content.body));
            count += 1;
        }
        if count > 0
            && let Err(error) = dead.redrive(&jobs, Some(count)).await
        {
            says_if_wrong(&error);
        }
    }
}

/// Starter of child processes. A test receives the lines that they print through the channel
/// `lines`.
pub(crate) struct Children {
    pub(crate) address: String,
    pub(crate) lines: Sender<String>,
}

impl Children {
    /// Starts the child process with the id `number`. Its wall clock differs by `off_micros`
    /// microseconds from a correct clock.
    pub(crate) fn spawn(&self, number: usize, off_micros: i64) -> Child {
        let variables = [
            (ADDRESS, self.address.clone()),
            (NUMBER, number.to_string()),
            (CLOCK_OFF, off_micros.to_string()),
        ];
        children::spawn(
            children::path_of(super::worker_that_gets_killed),
            &variables,
            &self.lines,
        )
    }
}
