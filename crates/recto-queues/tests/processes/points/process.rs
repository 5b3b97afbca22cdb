//! Child process that executes one operation and is killed or paused during it.

use std::time::Duration;

use recto_model::Environment;
use recto_protocol::queues::{DeadLetters, QueueName, QueueOptions, Seq};
use recto_queues::{Created, Message, NewMessage, Queue, QueueStore, Queues, Settled, Shards};
use recto_store::Store;
use tokio::runtime::Builder;

use std::sync::Arc;

use super::clock;
use super::cut::{CutOff, Point, Side, wait_for_word};
use super::point::Does;
use crate::keyspace;

/// Environment variables with the store and the task, for a child process.
pub(crate) const KEYSPACE: &str = "RECTO_TEST_KEYSPACE";
pub(crate) const CLOCK: &str = "RECTO_TEST_CLOCK_MICROS";
pub(crate) const QUEUE: &str = "RECTO_TEST_QUEUE";
pub(crate) const POINT: &str = "RECTO_TEST_POINT";
pub(crate) const SIDE: &str = "RECTO_TEST_SIDE";
/// Word that the process prints when its operation has ended.
pub(crate) const OVER: &str = "over";

/// Number of messages that a segment takes in the tests with stop points.
pub(crate) const SEGMENT_MESSAGES: Seq = 4;
/// Visibility timeout in the tests with stop points, by the fast clocks.
pub(crate) const VISIBILITY: Duration = Duration::from_secs(20);
/// Time limit of a request. The limit is long because the clocks run fast.
const REQUEST_TIME: Duration = Duration::from_secs(300);
/// Interval at which the process checks whether it has passed its stop point.
const PAUSE: Duration = Duration::from_millis(100);

/// Opens the queues of a keyspace.
pub(crate) async fn open(store: Arc<dyn Store>, environment: Environment) -> Queues {
    let store = QueueStore::open(store, environment, REQUEST_TIME).await.unwrap();
    Queues::from_store(store.with_segments_of(SEGMENT_MESSAGES))
        .await
        .unwrap()
}

/// Creates a queue, and its dead-letter queue if the operation needs one. The queue is the last element of
/// the result.
pub(crate) async fn queues(queues: &Queues, name: &str, does: Does) -> Vec<Queue> {
    let like = QueueOptions {
        shards: 1,
        ..QueueOptions::default()
    };
    let dead_name = format!("{name}-dead");
    let dead_letters = (does == Does::Move).then(|| DeadLetters {
        queue: QueueName::new("queue", &dead_name).unwrap(),
        attempts: 1,
    });
    let mut made = Vec::new();
    if dead_letters.is_some() {
        made.push(create(queues, &dead_name, like.clone()).await);
    }
    made.push(create(queues, name, QueueOptions { dead_letters, ..like }).await);
    made
}

async fn create(queues: &Queues, name: &str, options: QueueOptions) -> Queue {
    match queues.create(name, options).await.unwrap() {
        Created::New(queue) | Created::Existing(queue) => queue,
    }
}

/// Runs the child process on a single thread, so that a stop point pauses all of its tasks.
pub(crate) fn run() {
    let variable = |name: &str| std::env::var(name).unwrap();
    let point = Point::of(&variable(POINT));
    let side = if variable(SIDE) == "After" {
        Side::After
    } else {
        Side::Before
    };
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let inner = keyspace::store(&variable(KEYSPACE), Environment::system()).await;
        let store = CutOff::new(inner, side);
        let clock = clock::environment(variable(CLOCK).parse().unwrap());
        let opened = open(store.clone(), clock).await;
        let name = variable(QUEUE);
        let shard = queues(&opened, &name, point.does).await.pop().unwrap().shards;
        act(&shard, &store, point, &name).await;
        println!("lost {}", shard.totals().bodies_lost);
        println!("{OVER}");
        // Wait, because the maintenance of the process must continue until the process is killed.
        tokio::task::spawn_blocking(wait_for_word).await.unwrap();
    });
}

/// Sends and receives the messages that the operation needs, and executes the operation.
async fn act(shard: &Shards, store: &CutOff, point: Point, name: &str) {
    let before = match point.does {
        Does::Send => 0,
        Does::Claim | Does::Ack | Does::Move => 1,
        Does::Keep => 2,
        Does::Seal => usize::from(SEGMENT_MESSAGES),
        Does::Release => usize::from(SEGMENT_MESSAGES) + 1,
    };
    for number in 0..before {
        send(shard, &format!("{name}/{number}")).await;
    }
    let mut received = Vec::new();
    match point.does {
        Does::Ack | Does::Move => received = receive(shard, 1).await,
        Does::Release => {
            received = receive(shard, usize::from(SEGMENT_MESSAGES)).await;
            let last = received.split_off(received.len() - 1);
            ack(shard, &received).await;
            received = last;
        }
        Does::Send | Does::Claim | Does::Seal | Does::Keep => {}
    }
    store.arm(point);
    match point.does {
        Does::Send | Does::Seal => send(shard, &format!("{name}/last")).await,
        Does::Claim => {
            for message in receive(shard, 1).await {
                println!("begun {}", body(&message));
            }
        }
        Does::Ack | Does::Release => ack(shard, &received).await,
        Does::Move => {
            let receipts: Vec<_> = received.iter().map(|message| message.receipt).collect();
            let settled = shard.nack(&receipts, Duration::ZERO, "no").await;
            println!("nacked {settled:?}");
        }
        Does::Keep => {}
    }
    while matches!(point.does, Does::Keep | Does::Release) && !store.is_past() {
        tokio::time::sleep(PAUSE).await;
    }
}

async fn send(shard: &Shards, body: &str) {
    let sent = shard.send(vec![NewMessage::new(body)]).await;
    match &sent[0] {
        Ok(_) => println!("sent {body}"),
        Err(error) => println!("not-sent {body} {error}"),
    }
}

async fn receive(shard: &Shards, most: usize) -> Vec<Message> {
    shard
        .receive(most, Some(VISIBILITY), Duration::ZERO)
        .await
        .unwrap()
}

async fn ack(shard: &Shards, messages: &[Message]) {
    for message in messages {
        println!("acking {}", body(message));
    }
    let receipts: Vec<_> = messages.iter().map(|message| message.receipt).collect();
    let settled = shard.ack(&receipts).await.unwrap();
    for (message, settled) in messages.iter().zip(settled) {
        if settled == Settled::Done {
            println!("done {}", body(message));
        }
    }
}

pub(crate) fn body(message: &Message) -> String {
    String::from_utf8(message.body.clone()).unwrap()
}
