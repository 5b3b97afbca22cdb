//! Processes that send and work until they are killed, and what they say of it.

use std::process::Child;
use std::sync::mpsc::Sender;
use std::time::Duration;

use recto::queues::{NewMessage, Queue, Receive, Sent, Settled};
use recto::{Environment, Recto};

use crate::common::children;

/// The ignored test that is run in them.
const TEST: &str = "worker_that_gets_killed";
/// Says to a child process which store to open.
const ADDRESS: &str = "RECTO_TEST_ADDRESS";
/// Says to it at which number its messages begin.
const FIRST: &str = "RECTO_TEST_FIRST";
const MESSAGES_OF_A_PROCESS: u64 = 1_000_000;
pub(crate) const QUEUE: &str = "jobs";
const SENDERS: u64 = 2;
const WORKERS: usize = 2;
/// Sent, and received, at once.
const BATCH: u64 = 5;
/// One message of so many is delayed, into another slice.
const DELAYED: u64 = 20;
const DELAY: Duration = Duration::from_secs(12);
const BETWEEN_BATCHES: Duration = Duration::from_millis(100);
/// For how long messages are lost that a killed process had.
const VISIBILITY: Duration = Duration::from_secs(5);
const WAIT: Duration = Duration::from_secs(2);
/// How long one waits to whom something was refused.
const REFUSED_PAUSE: Duration = Duration::from_millis(100);

/// What a child process does.
pub(crate) async fn send_and_work_until_killed() {
    let variable = |name: &str| std::env::var(name).unwrap();
    let first: u64 = variable(FIRST).parse().unwrap();
    let queue = loop {
        match open(&variable(ADDRESS)).await {
            Ok(queue) => break queue,
            // A node may be down.
            Err(error) => println!("not opened: {error}"),
        }
    };
    let sending = (0..SENDERS).map(|sender| send(&queue, first + sender * BATCH));
    let working = (0..WORKERS).map(|_| work(&queue));
    futures::join!(
        futures::future::join_all(sending),
        futures::future::join_all(working)
    );
}

async fn open(address: &str) -> recto::Result<Queue> {
    let recto = Recto::open(address).await?;
    recto.queues().await?.get(QUEUE).await
}

async fn send(queue: &Queue, first: u64) {
    for first in (first..).step_by((SENDERS * BATCH) as usize) {
        let numbers = first..first + BATCH;
        let messages = numbers.clone().map(|number| NewMessage {
            delay: number.is_multiple_of(DELAYED).then_some(DELAY),
            ..NewMessage::new(number.to_string())
        });
        let sent = queue.send_all(messages.collect()).await;
        for (number, sent) in numbers.zip(sent) {
            if let Ok(Sent::New(_)) = sent {
                println!("sent {number} 0");
            }
        }
        tokio::time::sleep(BETWEEN_BATCHES).await;
    }
}

async fn work(queue: &Queue) {
    let clock = Environment::system();
    let receive = Receive::up_to(BATCH as usize).visibility(VISIBILITY).wait(WAIT);
    loop {
        let Ok(received) = queue.receive(receive).await else {
            tokio::time::sleep(REFUSED_PAUSE).await;
            continue;
        };
        let begun_at = clock.now_micros();
        for message in &received {
            println!("begun {} {begun_at}", String::from_utf8_lossy(&message.body));
        }
        let receipts: Vec<_> = received.iter().map(|message| message.receipt).collect();
        // What is not done with comes again.
        let Ok(settled) = queue.ack(&receipts).await else {
            continue;
        };
        let done_at = clock.now_micros();
        for (message, settled) in received.iter().zip(settled) {
            if settled == Settled::Done {
                println!("done {} {done_at}", String::from_utf8_lossy(&message.body));
            }
        }
    }
}

/// Child processes that a test starts and kills, and where what they say is heard.
pub(crate) struct Children {
    pub(crate) address: String,
    pub(crate) lines: Sender<String>,
}

impl Children {
    /// The process of this number.
    pub(crate) fn spawn(&self, number: u64) -> Child {
        let variables = [
            (ADDRESS, self.address.clone()),
            (FIRST, (number * MESSAGES_OF_A_PROCESS).to_string()),
        ];
        children::spawn(TEST, &variables, &self.lines)
    }
}
