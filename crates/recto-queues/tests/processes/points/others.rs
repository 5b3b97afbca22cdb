//! Other processes of a scenario: they continue the work of the cut-off process, and check that no message is
//! lost or repeated.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use recto_queues::{NewMessage, Queue, Queues, Settled};

use super::moved_on::all_moved_on;
use super::process::{VISIBILITY, body};

/// Pause between two checks of a condition.
const PAUSE: Duration = Duration::from_millis(50);
/// Time limit for a condition to become true.
const LIMIT: Duration = Duration::from_secs(60);
const AT_ONCE: usize = 10;

/// Messages of a scenario, by the confirmations that they got.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// Messages whose sending was confirmed.
    sent: BTreeSet<String>,
    /// Messages whose acknowledgment was confirmed.
    done: BTreeSet<String>,
    /// Messages that the cut-off process may have acknowledged. The result is unknown unless the process printed it.
    acking: BTreeSet<String>,
    /// Messages that were handed out to the cut-off process after it continued.
    begun: BTreeSet<String>,
}

impl Known {
    /// Records a line of the cut-off process's output.
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

    /// Returns the messages that the process handed out after a pause that was longer than their visibility
    /// timeout. There must be none.
    pub(crate) fn begun_late(&self) -> &BTreeSet<String> {
        &self.begun
    }

    /// Records that the cut-off process did not send its acknowledgment.
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

    /// Receives and acknowledges messages until all confirmed messages are acknowledged and the queues are
    /// empty.
    pub(crate) async fn drain(&mut self, queues: &[Queue]) {
        let begun = Instant::now();
        loop {
            let mut left = 0;
            // Read the dead-letter queue after the other queue, so that a message that moves between them is
            // not missed.
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

    /// Receives the available messages of a queue, and acknowledges them.
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

/// Waits until resolved segments are released, and checks that no message body was lost.
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

/// Waits until each body table that is in use now was emptied or replaced.
pub(crate) async fn ring_goes_on(queues: &Queues) {
    let begun = Instant::now();
    let before = queues.rotation().await.unwrap();
    loop {
        let ring = queues.rotation().await.unwrap();
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
