//! Handles the messages that are in the queues after all child processes were killed, and compares
//! them with the lines that the processes printed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use recto::Environment;
use recto_queues::{MAX_BATCH, PeekedContent, Settled, Shards};

use super::children::{DEAD, GROUPS, JOBS, NEAR};
use super::ring::Bed;
use super::said::{Clocks, MessageReports};

/// Maximum time until all remaining messages of the queues are handled.
const DRAINED: Duration = Duration::from_secs(300);
const WAIT: Duration = Duration::from_millis(200);
const VISIBILITY: Duration = Duration::from_secs(600);
/// Number of messages of a queue that a meaningful test must exceed.
const FEW: usize = 50;

/// Lines that all child processes printed: events of the messages of each queue, and errors that
/// must not occur.
pub(crate) struct AllSaid {
    queues: BTreeMap<String, MessageReports>,
    wrong: Vec<String>,
}

/// Parses the lines that child processes printed. A line is `EVENT QUEUE ID …` or `wrong …`.
pub(crate) fn hear_all(lines: Receiver<String>) -> AllSaid {
    let mut all = AllSaid {
        queues: [JOBS, GROUPS, NEAR]
            .map(|name| (name.to_owned(), MessageReports::default()))
            .into(),
        wrong: Vec::new(),
    };
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["wrong", ..] => all.wrong.push(line),
            [what, queue, ref rest @ ..] => all.hear(queue, &[&[what], rest].concat()),
            _ => {}
        }
    }
    all
}

impl AllSaid {
    fn hear(&mut self, queue: &str, words: &[&str]) {
        if let Some(said) = self.queues.get_mut(queue) {
            said.hear(words);
        }
    }

    /// Asserts that the events of each queue are possible, and that no process printed an error.
    pub(crate) fn check(&self) {
        assert!(self.wrong.is_empty(), "{:?}", self.wrong);
        for (name, said) in &self.queues {
            let counts = said.counts();
            let unseen = said.unseen();
            println!("{name}: sent, begun, done, dead letters: {counts:?}; moved back unseen: {unseen}");
            let clocks = if name == NEAR { Clocks::Near } else { Clocks::Apart };
            let found = said.check(name != JOBS, clocks);
            found.unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
            assert!(counts[0] > FEW, "little was sent to {name}");
            assert!(name != JOBS || counts[3] > 0, "no message was a dead letter");
        }
    }
}

/// Handles the remaining messages of all queues, without other processes. Asserts that each of them
/// is delivered exactly once, and adds its events to `said`.
pub(crate) async fn drain(bed: &Bed, said: &mut AllSaid) {
    let begun = Instant::now();
    let dead = bed.queues.find(DEAD).await.unwrap();
    for name in [JOBS, GROUPS, NEAR] {
        let queue = bed.queues.find(name).await.unwrap();
        let mut left = counted(&queue.shards).await;
        if name == JOBS {
            left.extend(counted(&dead.shards).await);
        }
        let mut worked = Vec::new();
        while queue.shards.stats().await.unwrap().messages + dead.shards.stats().await.unwrap().messages > 0 {
            assert!(
                begun.elapsed() < DRAINED,
                "{name}: {:?}",
                queue.shards.stats().await
            );
            if name == JOBS {
                for number in peeked(&dead.shards).await {
                    said.hear(name, &["dead", &number.to_string()]);
                }
                bed.queues.redrive(&dead, &queue, None).await.unwrap();
            }
            worked.extend(work(&queue.shards, name, said).await);
        }
        println!(
            "{name}: {} were left, done after {:.1?}",
            left.len(),
            begun.elapsed()
        );
        let totals = queue.shards.totals();
        let count = worked.len() as u64;
        assert_eq!(
            (totals.received, totals.acked, totals.bodies_lost),
            (count, count, 0),
            "{name}"
        );
        let distinct: BTreeSet<u64> = worked.iter().copied().collect();
        assert_eq!((distinct.len(), &distinct), (worked.len(), &left), "{name}");
    }
}

/// Returns the ids of the messages in a queue. Asserts that the queue reports their exact count.
async fn counted(shard: &Shards) -> BTreeSet<u64> {
    let stats = shard.stats().await.unwrap();
    assert!(stats.is_exact, "{stats:?}");
    let numbers = peeked(shard).await;
    assert_eq!(stats.messages, numbers.len() as u64);
    numbers
}

async fn peeked(shard: &Shards) -> BTreeSet<u64> {
    let peeked = shard.peek(MAX_BATCH).await.unwrap();
    let body = |content: &PeekedContent| String::from_utf8_lossy(&content.body).parse().unwrap();
    let numbers = peeked.iter().map(|one| body(one.content.as_ref().unwrap()));
    numbers.collect()
}

/// Receives messages once and acknowledges them. Returns their ids, and adds the events to `said`.
async fn work(shard: &Shards, name: &str, said: &mut AllSaid) -> Vec<u64> {
    let clock = Environment::system();
    let asked_at = clock.now_micros().to_string();
    let received = shard.receive(MAX_BATCH, Some(VISIBILITY), WAIT).await.unwrap();
    let receipts: Vec<_> = received.iter().map(|message| message.receipt).collect();
    let at = clock.now_micros().to_string();
    let bodies = received
        .iter()
        .map(|message| String::from_utf8_lossy(&message.body).into_owned());
    for (number, message) in bodies.clone().zip(&received) {
        let (id, attempts) = (message.id.0.to_string(), message.attempts.to_string());
        said.hear(name, &["begun", &number, &asked_at, &at, &id, &attempts]);
        said.hear(name, &["acking", &number, &at]);
    }
    let settled = shard.ack(&receipts).await.unwrap();
    assert!(settled.iter().all(|settled| *settled == Settled::Done));
    let done_at = clock.now_micros().to_string();
    bodies
        .map(|number| {
            said.hear(name, &["done", &number, &done_at]);
            number.parse().unwrap()
        })
        .collect()
}
