//! Test of processes that send and receive on an embedded store. Each process is killed at a random moment,
//! and the next one continues. The test checks that no confirmed message is lost, and that no message with a
//! confirmed acknowledgment is received again.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use recto_embedded::{EmbeddedOptions, EmbeddedStore};
use recto_model::Environment;
use recto_protocol::queues::QueueOptions;
use recto_queues::{Created, NewMessage, Queues, Settled, Shards};

use crate::children;

/// Environment variable with the store's folder, for a child process.
const FOLDER: &str = "RECTO_TEST_FOLDER";
/// Environment variable with the number of the first message, for a child process.
const FIRST: &str = "RECTO_TEST_FIRST";
const PROCESSES: u64 = 20;
const MESSAGES_OF_A_PROCESS: u64 = 1_000_000;
const SENDERS: u64 = 4;
const WORKERS: u64 = 4;
/// Minimum and maximum number of acknowledgments after which a process is killed, and the maximum further
/// delay.
const MIN_ACKED: u64 = 10;
const MAX_ACKED: u64 = 100;
const MAX_LATER_MICROS: u64 = 20_000;
const VISIBILITY: Duration = Duration::from_secs(1);
/// Wait of a receive that is longer than the visibility timeouts of a killed process.
const WAIT: Duration = Duration::from_secs(8);

async fn open(folder: &Path) -> Shards {
    let environment = Environment::system();
    let store = EmbeddedStore::open(folder, EmbeddedOptions::default(), environment.clone()).unwrap();
    let queues = Queues::open(store, environment, Duration::from_secs(10))
        .await
        .unwrap();
    match queues.create("jobs", QueueOptions::default()).await.unwrap() {
        Created::New(queue) | Created::Existing(queue) => queue.shards,
    }
}

async fn send(shard: Shards, first: u64) {
    for number in (first..).step_by(usize::try_from(SENDERS).unwrap()) {
        println!("sending {number}");
        let sent = shard.send(vec![NewMessage::new(number.to_string())]).await;
        assert!(sent[0].is_ok(), "{sent:?}");
        println!("sent {number}");
    }
}

async fn work(shard: Shards) {
    loop {
        let received = shard.receive(3, Some(VISIBILITY), VISIBILITY).await.unwrap();
        for message in received {
            let body = String::from_utf8(message.body).unwrap();
            println!("received {body}");
            // Leave some messages unacknowledged after their first receive, so that they are received again.
            if body.ends_with('7') && message.attempts == 1 {
                continue;
            }
            println!("acking {body}");
            if shard.ack(&[message.receipt]).await.unwrap() == [Settled::Done] {
                println!("acked {body}");
            }
        }
    }
}

#[test]
#[ignore = "child: started by confirmed_operations_survive_kills"]
fn worker_that_gets_killed() {
    let variable = |name: &str| std::env::var(name).unwrap();
    let first: u64 = variable(FIRST).parse().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let shard = open(Path::new(&variable(FOLDER))).await;
        let senders = (0..SENDERS).map(|sender| tokio::spawn(send(shard.clone(), first + sender)));
        let workers = (0..WORKERS).map(|_| tokio::spawn(work(shard.clone())));
        for task in senders.chain(workers).collect::<Vec<_>>() {
            task.await.unwrap();
        }
    });
}

/// Numbers of messages that the child processes printed.
#[derive(Default)]
struct ProcessOutput {
    sent: BTreeSet<u64>,
    acking: BTreeSet<u64>,
    acked: BTreeSet<u64>,
}

impl ProcessOutput {
    fn hear(&mut self, line: &str) {
        let Some((what, Ok(number))) = line.split_once(' ').map(|(what, number)| (what, number.parse()))
        else {
            return;
        };
        match what {
            "sent" => assert!(self.sent.insert(number)),
            "acking" => drop(self.acking.insert(number)),
            "acked" => drop(self.acked.insert(number)),
            "received" => assert!(!self.acked.contains(&number), "{number} was done with"),
            _ => {}
        }
    }
}

#[test]
fn confirmed_operations_survive_kills() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut said = ProcessOutput::default();
    for process in 0..PROCESSES {
        let (lines, heard) = mpsc::channel();
        let first = process * MESSAGES_OF_A_PROCESS;
        let variables = [
            (FOLDER, path.to_str().unwrap().to_owned()),
            (FIRST, first.to_string()),
        ];
        let mut child = children::spawn(children::path_of(worker_that_gets_killed), &variables, &lines);
        drop(lines);
        let drawn = u64::from_be_bytes(Environment::system().random());
        let wanted = said.acked.len() as u64 + MIN_ACKED + drawn % (MAX_ACKED - MIN_ACKED);
        while (said.acked.len() as u64) < wanted {
            said.hear(&heard.recv().unwrap());
        }
        std::thread::sleep(Duration::from_micros(drawn / MAX_ACKED % MAX_LATER_MICROS));
        children::kill(&mut child);
        for line in heard {
            said.hear(&line);
        }
    }
    println!("{} sent, {} done with", said.sent.len(), said.acked.len());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let left: BTreeSet<u64> = runtime.block_on(async {
        let shard = open(&path).await;
        let mut left = BTreeSet::new();
        loop {
            let received = shard.receive(1_000, Some(WAIT * 10), WAIT).await.unwrap();
            if received.is_empty() {
                return left;
            }
            let numbers = received
                .iter()
                .map(|message| String::from_utf8(message.body.clone()).unwrap());
            left.extend(numbers.map(|number| number.parse::<u64>().unwrap()));
            let receipts: Vec<_> = received.iter().map(|message| message.receipt).collect();
            shard.ack(&receipts).await.unwrap();
        }
    });
    let lost: Vec<_> = said
        .sent
        .iter()
        .filter(|one| !said.acking.contains(one) && !left.contains(one))
        .collect();
    assert!(lost.is_empty(), "{lost:?} are lost");
    let again: Vec<_> = left.intersection(&said.acked).collect();
    assert!(again.is_empty(), "{again:?} came again");
}
