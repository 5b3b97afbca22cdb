//! The others, who go on, and what holds for them.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use recto_jobs::{NewMessage, Queue, Queues, Settled};

use super::moved_on::all_moved_on;
use super::process::{VISIBILITY, body};

/// How often it is looked again.
const PAUSE: Duration = Duration::from_millis(50);
/// How long it may take until something is as it is to be.
const LIMIT: Duration = Duration::from_secs(60);
const AT_ONCE: usize = 10;

/// What is known of the messages of a scenario.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// Confirmed to who sent them.
    sent: BTreeSet<String>,
    /// An acknowledgement was.
    done: BTreeSet<String>,
    /// Messages that the process may be done with that was cut off: it is not known, unless it said so.
    acking: BTreeSet<String>,
    /// Handed out to the process that was cut off, after it was let go.
    begun: BTreeSet<String>,
}

impl Known {
    /// Takes down what the process said that is cut off.
    pub(crate) fn hear(&mut self, line: &str) {
        match line.split_once(' ') {
            Some(("sent", body)) => drop(self.sent.insert(body.to_owned())),
            Some(("done", body)) => drop(self.done.insert(body.to_owned())),
            Some(("acking", body)) => drop(self.acking.insert(body.to_owned())),
            Some(("begun", body)) => drop(self.begun.insert(body.to_owned())),
            Some(("lost", count)) => assert_eq!(count, "0", "bodies are lost"),
            _ => {}
        }
    }

    /// Nothing was handed out to the process that was paused for longer than it could have had it.
    pub(crate) fn begun_late(&self) -> &BTreeSet<String> {
        &self.begun
    }

    /// What it was about to be done with it is not done with.
    pub(crate) fn acks_nothing(&mut self) {
        self.acking.clear();
    }

    pub(crate) async fn send(&mut self, queue: &Queue, name: &str, count: usize) {
        for number in 0..count {
            let body = format!("{name}/{number}-{}", self.sent.len());
            let sent = queue.shards.send(vec![NewMessage::new(body.clone())]).await;
            assert!(sent[0].is_ok(), "{sent:?}");
            self.sent.insert(body);
        }
    }

    /// Works until all that was confirmed is done with, and nothing is left.
    pub(crate) async fn drain(&mut self, queues: &[Queue]) {
        let begun = Instant::now();
        loop {
            let mut left = 0;
            // Where messages go comes behind where they are, so that none is missed on its way.
            for queue in queues.iter().rev() {
                self.work(queue).await;
                left += queue.shards.stats().await.unwrap().messages;
            }
            let is_done = |body: &&String| self.done.contains(*body) || self.acking.contains(*body);
            let lost: Vec<_> = self.sent.iter().filter(|body| !is_done(body)).collect();
            if left == 0 {
                assert!(lost.is_empty(), "{lost:?} are lost");
                return;
            }
            assert!(
                begun.elapsed() < LIMIT,
                "{left} are left, and {lost:?} not done with"
            );
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Receives what there is, and is done with it.
    async fn work(&mut self, queue: &Queue) {
        let received = queue.shards.receive(AT_ONCE, Some(VISIBILITY), Duration::ZERO);
        let received = received.await.unwrap();
        for message in &received {
            let body = body(message);
            assert!(!self.done.contains(&body), "{body} came after it was done with");
        }
        let receipts: Vec<_> = received.iter().map(|message| message.receipt).collect();
        if receipts.is_empty() {
            return;
        }
        let settled = queue.shards.ack(&receipts).await.unwrap();
        for (message, settled) in received.iter().zip(settled) {
            if settled == Settled::Done {
                self.done.insert(body(message));
            }
        }
    }
}

/// Segments that are done with leave, and no body was lost.
pub(crate) async fn come_to_rest(queues: &[Queue]) {
    let begun = Instant::now();
    for queue in queues {
        while queue.shards.segments().await.unwrap() > queue.shards.count() {
            let received = queue.shards.receive(1, None, Duration::ZERO).await.unwrap();
            assert!(received.is_empty(), "{received:?}");
            assert!(begun.elapsed() < LIMIT, "{} has segments yet", queue.name);
            tokio::time::sleep(PAUSE).await;
        }
        assert_eq!(queue.shards.totals().bodies_lost, 0);
    }
}

/// Waits until each table that is in use now was emptied, or replaced.
pub(crate) async fn ring_goes_on(queues: &Queues) {
    let begun = Instant::now();
    let before = queues.ring().await.unwrap();
    loop {
        let ring = queues.ring().await.unwrap();
        if all_moved_on(&before, &ring) {
            return;
        }
        assert!(
            begun.elapsed() < LIMIT,
            "the ring stands still: {before:?} is {ring:?}"
        );
        tokio::time::sleep(PAUSE).await;
    }
}
