//! Tests of workers of queues. A worker calls a handler for several messages concurrently. It keeps
//! each message hidden from other workers while its handler runs, and acknowledges messages in
//! groups.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use recto::queues::{
    DeadLetters, ERROR_ATTRIBUTE, Failure, Message, NewMessage, Queue, QueueName, QueueOptions,
    QueueSettings, Receipt, Receive, Settled, Source, WorkEvent, Worker,
};
use recto::{Error, ErrorKind, OpenOptions, Recto, Result};
use tokio::sync::Notify;

use crate::common::children::path_of;

async fn jobs(folder: &tempfile::TempDir, options: QueueOptions) -> (Recto, Queue) {
    let path = folder.path().join("store");
    let recto = Recto::open_with(path, OpenOptions::new().create()).await.unwrap();
    let queues = recto.queues().await.unwrap();
    queues.create("dead", QueueOptions::default()).await.unwrap();
    let jobs = queues.create("jobs", options).await.unwrap();
    (recto, jobs)
}

fn with_dead_letters(attempts: u16) -> QueueOptions {
    QueueOptions {
        dead_letters: Some(DeadLetters {
            queue: QueueName::new("queue", "dead").unwrap(),
            attempts,
        }),
        ..QueueOptions::default()
    }
}

async fn send(queue: &Queue, count: usize) {
    let messages = (0..count).map(|number| NewMessage::new(number.to_string()));
    for sent in queue.send_all(messages.collect()).await {
        sent.unwrap();
    }
}

/// Source of messages for a worker that wraps a queue. It counts acknowledgments and can report
/// errors.
struct FaultySource {
    queue: Queue,
    acks: Arc<AtomicUsize>,
    /// Number of receives that fail, from the first receive of the source.
    unreachable: AtomicUsize,
    /// True if each extension of a message's lease reports that the lease is lost.
    is_lost: bool,
}

impl FaultySource {
    fn new(queue: &Queue) -> Self {
        Self {
            queue: queue.clone(),
            acks: Arc::default(),
            unreachable: AtomicUsize::new(0),
            is_lost: false,
        }
    }
}

#[async_trait]
impl Source for FaultySource {
    type Message = Message;
    type Receipt = Receipt;

    fn receipt(message: &Message) -> Receipt {
        message.receipt
    }

    fn attempts(message: &Message) -> u16 {
        message.attempts
    }

    fn visibility(&self) -> Duration {
        Source::visibility(&self.queue)
    }

    async fn receive(&self, receive: Receive) -> Result<Vec<Message>> {
        let fails = |left: usize| left.checked_sub(1);
        let failed = self
            .unreachable
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fails);
        match failed {
            Ok(_) => Err(Error::new(ErrorKind::Unavailable, "the store cannot be reached")),
            Err(_) => self.queue.receive(receive).await,
        }
    }

    async fn ack(&self, receipts: &[Receipt]) -> Result<Vec<Settled>> {
        self.acks.fetch_add(1, Ordering::Relaxed);
        self.queue.ack(receipts).await
    }

    async fn nack(&self, receipt: &Receipt, delay: Duration, error: &str) -> Result<Settled> {
        Source::nack(&self.queue, receipt, delay, error).await
    }

    async fn give_back(&self, receipt: &Receipt) -> Result<Settled> {
        Source::give_back(&self.queue, receipt).await
    }

    async fn extend(&self, receipts: &[Receipt], visibility: Duration) -> Result<Vec<Settled>> {
        if self.is_lost {
            return Ok(vec![Settled::Stale; receipts.len()]);
        }
        self.queue.extend(receipts, visibility).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_are_done_once_and_no_more_at_a_time_than_was_said() {
    let folder = tempfile::tempdir().unwrap();
    let (_recto, jobs) = jobs(&folder, QueueOptions::default()).await;
    send(&jobs, 500).await;
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::new(Mutex::new(BTreeMap::<Vec<u8>, usize>::new()));
    let source = FaultySource::new(&jobs);
    let acks = Arc::clone(&source.acks);
    let handler = {
        let (now, most, seen) = (Arc::clone(&now), Arc::clone(&most), Arc::clone(&seen));
        move |message: Message| {
            let (now, most, seen) = (Arc::clone(&now), Arc::clone(&most), Arc::clone(&seen));
            async move {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(2)).await;
                now.fetch_sub(1, Ordering::SeqCst);
                *seen.lock().unwrap().entry(message.body).or_default() += 1;
                Ok(())
            }
        }
    };
    let worker = Worker::new(source, handler).concurrency(50).until_empty();
    assert_eq!(worker.run().await.unwrap().done, 500);
    let seen = seen.lock().unwrap().clone();
    assert!(
        seen.len() == 500 && seen.values().all(|times| *times == 1),
        "{seen:?}"
    );
    assert!((2..=50).contains(&most.load(Ordering::SeqCst)));
    assert!(acks.load(Ordering::Relaxed) < 400, "acks are sent in groups");
    assert_eq!(jobs.stats().await.unwrap().messages, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_kept_as_long_as_its_handler_runs() {
    let folder = tempfile::tempdir().unwrap();
    let (_recto, jobs) = jobs(&folder, QueueOptions::default()).await;
    send(&jobs, 1).await;
    let worker = jobs.worker(|_| async {
        tokio::time::sleep(Duration::from_secs(7)).await;
        Ok(())
    });
    let worker = worker.visibility(Duration::from_secs(3)).until_empty();
    let working = tokio::spawn(worker.run());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let meanwhile = jobs
        .receive(Receive::up_to(1).wait(Duration::from_secs(5)))
        .await
        .unwrap();
    assert_eq!(meanwhile, [], "its lease was extended");
    let worked = working.await.unwrap().unwrap();
    assert_eq!((worked.done, worked.lost), (1, 0));
}

#[tokio::test]
async fn backs_off_and_moves_failures_to_dead_letters() {
    let folder = tempfile::tempdir().unwrap();
    let (recto, jobs) = jobs(&folder, with_dead_letters(3)).await;
    send(&jobs, 2).await;
    let delays = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&delays);
    let worker = jobs.worker(|message| async move {
        assert!(message.body != b"0", "no zero");
        let number: u32 = "x".parse()?;
        Err(Failure::new(number.to_string()))
    });
    let worker = worker
        .backoff(Duration::from_millis(50), Duration::from_millis(80))
        .observe(move |event| {
            if let WorkEvent::Failed { attempts, delay, .. } = event {
                told.lock().unwrap().push((*attempts, *delay));
            }
        });
    let stop = async {
        let dead = recto.queues().await.unwrap().get("dead").await.unwrap();
        while dead.stats().await.unwrap().messages < 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let worked = worker.run_until(stop).await.unwrap();
    assert_eq!((worked.failed, worked.done), (6, 0));
    for (attempts, delay) in delays.lock().unwrap().iter() {
        let longest = if *attempts == 1 { 50 } else { 80 };
        let right = Duration::from_millis(longest / 2)..=Duration::from_millis(longest);
        assert!(right.contains(delay), "{attempts}: {delay:?}");
    }
    let dead = recto.queues().await.unwrap().get("dead").await.unwrap();
    let mut errors: Vec<_> = dead.receive(Receive::up_to(10)).await.unwrap();
    errors.sort_by(|a, b| a.body.cmp(&b.body));
    let errors: Vec<_> = errors
        .iter()
        .map(|letter| letter.attributes[ERROR_ATTRIBUTE].as_str())
        .collect();
    assert_eq!(
        errors,
        ["the handler panicked: no zero", "invalid digit found in string"]
    );
}

#[tokio::test]
async fn finishes_or_gives_back_messages_on_stop() {
    let folder = tempfile::tempdir().unwrap();
    // Each message is at its last allowed attempt. A message that the worker gives back must
    // nevertheless not become a dead letter.
    let (_recto, jobs) = jobs(&folder, with_dead_letters(1)).await;
    send(&jobs, 3).await;
    let begun = Arc::new(Notify::new());
    let telling = Arc::clone(&begun);
    let worker = jobs.worker(move |message| {
        let begun = Arc::clone(&telling);
        async move {
            begun.notify_one();
            let time = if message.body == b"0" { 60_000 } else { 300 };
            tokio::time::sleep(Duration::from_millis(time)).await;
            Ok(())
        }
    });
    let worker = worker.concurrency(2).stop_within(Duration::from_secs(2));
    let worked = worker.run_until(begun.notified()).await.unwrap();
    assert_eq!((worked.given_back, worked.done), (1, 1));
    let left = jobs.receive(Receive::up_to(10)).await.unwrap();
    let mut bodies: Vec<_> = left.iter().map(|message| message.body.clone()).collect();
    bodies.sort();
    assert_eq!(bodies, [b"0", b"2"], "at once, though a lease is 30 s");
}

/// Counter of dropped handlers. A handler owns it, and its drop increments the count.
struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Runs a worker whose handlers never end, until one of the handlers is dropped. Returns the counts
/// of the worker.
async fn run_until_dropped<S: Source>(source: S, lease: Duration) -> recto::queues::Worked {
    let dropped = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&dropped);
    let worker = Worker::new(source, move |_| {
        let guard = Dropped(Arc::clone(&counter));
        async move {
            let _guard = guard;
            std::future::pending().await
        }
    });
    let is_dropped = async {
        while dropped.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let worked = worker.visibility(lease).run_until(is_dropped);
    let worked = tokio::time::timeout(Duration::from_secs(20), worked).await;
    worked.unwrap().unwrap()
}

#[tokio::test]
async fn waits_while_too_many_messages_are_in_flight() {
    let folder = tempfile::tempdir().unwrap();
    let options = QueueOptions {
        max_in_flight: 1,
        ..QueueOptions::default()
    };
    let (_recto, jobs) = jobs(&folder, options).await;
    send(&jobs, 2).await;
    let held = jobs.receive(Receive::up_to(1)).await.unwrap().remove(0);
    let acking = jobs.clone();
    let acked = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        acking.ack(&[held.receipt]).await.unwrap()
    });
    let reported = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&reported);
    let worker = jobs
        .worker(|_| async { Ok(()) })
        .until_empty()
        .observe(move |event| {
            if let WorkEvent::TooManyInFlight(_) = event {
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
    assert_eq!(worker.run().await.unwrap().done, 1);
    assert_eq!(acked.await.unwrap(), [Settled::Done]);
    assert_eq!(reported.load(Ordering::SeqCst), 1, "once, however long it waits");
}

#[tokio::test]
async fn reports_the_limit_in_flight_once() {
    let folder = tempfile::tempdir().unwrap();
    let options = QueueOptions {
        max_in_flight: 2,
        ..QueueOptions::default()
    };
    let (_recto, jobs) = jobs(&folder, options).await;
    send(&jobs, 6).await;
    let reported = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&reported);
    let worker = jobs
        .worker(|_| async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            Ok(())
        })
        .concurrency(4)
        .until_empty()
        .observe(move |event| {
            if let WorkEvent::TooManyInFlight(_) = event {
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
    assert_eq!(worker.run().await.unwrap().done, 6);
    assert_eq!(reported.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn reports_a_pause_once() {
    let folder = tempfile::tempdir().unwrap();
    let options = QueueOptions {
        is_paused: true,
        ..QueueOptions::default()
    };
    let (_recto, mut jobs) = jobs(&folder, options).await;
    send(&jobs, 1).await;
    let told = Arc::new(AtomicUsize::new(0));
    let count = || {
        let counted = Arc::clone(&told);
        move |event: &WorkEvent<'_>| {
            if let WorkEvent::Paused = event {
                counted.fetch_add(1, Ordering::SeqCst);
            }
        }
    };
    let worker = jobs.worker(|_| async { Ok(()) }).until_empty().observe(count());
    assert_eq!(worker.run().await.unwrap().done, 0);
    assert_eq!(told.load(Ordering::SeqCst), 1);
    let end = QueueSettings {
        paused: Some(false),
        ..QueueSettings::default()
    };
    jobs.change(end).await.unwrap();
    let worker = jobs.worker(|_| async { Ok(()) }).until_empty().observe(count());
    assert_eq!(worker.run().await.unwrap().done, 1);
    assert_eq!(told.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn stops_handler_of_removed_message() {
    let folder = tempfile::tempdir().unwrap();
    let (_recto, jobs) = jobs(&folder, QueueOptions::default()).await;
    send(&jobs, 1).await;
    let removing = jobs.clone();
    let removed = tokio::spawn(async move {
        loop {
            let peeked = removing.peek(1).await.unwrap();
            if peeked[0].attempts > 0 {
                return removing.remove(peeked[0].position).await.unwrap();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    let worked = run_until_dropped(jobs.clone(), Duration::from_secs(2)).await;
    assert!(removed.await.unwrap());
    assert_eq!((worked.lost, worked.done, worked.given_back), (1, 0, 0));
}

#[tokio::test]
async fn a_handler_whose_message_is_lost_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let (_recto, jobs) = jobs(&folder, QueueOptions::default()).await;
    send(&jobs, 1).await;
    let source = FaultySource {
        is_lost: true,
        ..FaultySource::new(&jobs)
    };
    let worked = run_until_dropped(source, Duration::from_secs(2)).await;
    assert_eq!((worked.lost, worked.done, worked.given_back), (1, 0, 0));
}

#[tokio::test]
async fn retries_unreachable_stores_but_not_deleted_queues() {
    let folder = tempfile::tempdir().unwrap();
    let (recto, jobs) = jobs(&folder, QueueOptions::default()).await;
    send(&jobs, 1).await;
    let source = FaultySource {
        unreachable: AtomicUsize::new(2),
        ..FaultySource::new(&jobs)
    };
    let unreachable = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&unreachable);
    let worker = Worker::new(source, |_| async { Ok(()) })
        .until_empty()
        .observe(move |event| {
            if let WorkEvent::Unreachable(_) = event {
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
    assert_eq!(worker.run().await.unwrap().done, 1);
    assert_eq!(unreachable.load(Ordering::SeqCst), 2);
    recto.queues().await.unwrap().delete("jobs").await.unwrap();
    let error = jobs.worker(|_| async { Ok(()) }).run().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let error = jobs
        .worker(|_| async { Ok(()) })
        .concurrency(0)
        .run()
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.field()),
        (ErrorKind::InvalidArgument, Some("concurrency"))
    );
}

#[tokio::test]
async fn moves_undecodable_bodies_to_dead_letters() {
    let folder = tempfile::tempdir().unwrap();
    let (recto, jobs) = jobs(&folder, with_dead_letters(1)).await;
    let numbers = jobs.of::<Vec<u8>>();
    numbers.send(&vec![1, 2]).await.unwrap();
    jobs.send(NewMessage::new("[1,300]")).await.unwrap();
    let sum = Arc::new(AtomicUsize::new(0));
    let adding = Arc::clone(&sum);
    let worker = numbers.worker(move |numbers, _| {
        let sum = Arc::clone(&adding);
        async move {
            sum.fetch_add(
                numbers.iter().map(|number| usize::from(*number)).sum(),
                Ordering::SeqCst,
            );
            Ok(())
        }
    });
    let worked = worker.until_empty().run().await.unwrap();
    assert_eq!(
        (worked.done, worked.failed, sum.load(Ordering::SeqCst)),
        (1, 1, 3)
    );
    let dead = recto.queues().await.unwrap().get("dead").await.unwrap();
    let letters = dead.receive(Receive::up_to(1)).await.unwrap();
    assert!(letters[0].attributes[ERROR_ATTRIBUTE].starts_with("the body is not a value of this type: "));
}

#[tokio::test(flavor = "multi_thread")]
async fn fails_workers_and_sends_at_once_after_close() {
    let folder = tempfile::tempdir().unwrap();
    let (recto, jobs) = jobs(&folder, QueueOptions::default()).await;
    send(&jobs, 1).await;
    let begun = Arc::new(Notify::new());
    let telling = Arc::clone(&begun);
    let worker = jobs.worker(move |_| {
        let begun = Arc::clone(&telling);
        async move {
            begun.notify_one();
            Ok(())
        }
    });
    let working = tokio::spawn(worker.run());
    begun.notified().await;
    recto.close().await.unwrap();
    let ended = async {
        let worked = working.await.unwrap().unwrap_err();
        assert_eq!(worked.kind(), ErrorKind::Unavailable, "{worked}");
        let sent = jobs.send(NewMessage::new("late")).await.unwrap_err();
        assert_eq!(sent.kind(), ErrorKind::Unavailable, "nothing was sent: {sent}");
    };
    // The request must fail sooner than after 10 s, the maximum duration of a request.
    tokio::time::timeout(Duration::from_secs(5), ended).await.unwrap();
}

#[tokio::test]
async fn a_lease_is_as_long_as_it_is_extended_for() {
    let folder = tempfile::tempdir().unwrap();
    let (_recto, mut jobs) = jobs(&folder, QueueOptions::default()).await;
    send(&jobs, 1).await;
    let worker = jobs.worker(|_| async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        Ok(())
    });
    let shorter = QueueOptions {
        visibility_seconds: 1,
        ..jobs.options().clone()
    };
    jobs.change(shorter).await.unwrap();
    let working = tokio::spawn(worker.until_empty().run());
    tokio::time::sleep(Duration::from_millis(500)).await;
    let meanwhile = jobs
        .receive(Receive::up_to(1).wait(Duration::from_secs(2)))
        .await
        .unwrap();
    assert_eq!(meanwhile, []);
    let worked = working.await.unwrap().unwrap();
    assert_eq!((worked.done, worked.lost), (1, 0));
}

#[tokio::test]
async fn does_not_count_attempts_that_were_not_begun() {
    let folder = tempfile::tempdir().unwrap();
    let (_recto, jobs) = jobs(&folder, with_dead_letters(1)).await;
    send(&jobs, 1).await;
    let times = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&times);
    let worker = jobs.worker(move |message| {
        let time = counter.fetch_add(1, Ordering::SeqCst);
        async move {
            assert_eq!(message.attempts, 1);
            if time < 3 {
                return Err(Failure::not_begun());
            }
            Ok(())
        }
    });
    let worked = worker.until_empty().run().await.unwrap();
    assert_eq!((worked.given_back, worked.done, worked.failed), (3, 1, 0));
}

/// Environment variable that tells a child process the folder of the store with the queue.
const FOLDER: &str = "RECTO_TEST_WORKER_FOLDER";

/// Checks that a message that kills its worker process becomes a dead letter. Recto stores each
/// attempt before it delivers the message, so it knows the number of attempts.
#[tokio::test]
async fn moves_a_message_that_kills_workers_to_dead_letters() {
    let folder = tempfile::tempdir().unwrap();
    let (recto, jobs) = jobs(&folder, with_dead_letters(3)).await;
    jobs.send(NewMessage::new("deadly")).await.unwrap();
    jobs.send(NewMessage::new("harmless")).await.unwrap();
    recto.close().await.unwrap();
    drop((jobs, recto));
    let mut killed = 0;
    for _ in 0..8 {
        let mut process = Command::new(std::env::current_exe().unwrap());
        process.args(["--ignored", "--exact", path_of(worker_that_gets_killed)]);
        let ended = process.env(FOLDER, folder.path()).output().unwrap();
        killed += usize::from(ended.status.signal().is_some());
        if ended.status.success() {
            break;
        }
    }
    assert_eq!(killed, 3, "at every attempt, and then no more");
    let (recto, jobs) = self::jobs(&folder, with_dead_letters(3)).await;
    assert_eq!(jobs.stats().await.unwrap().messages, 0);
    let dead = recto.queues().await.unwrap().get("dead").await.unwrap();
    let letters = dead.receive(Receive::up_to(10)).await.unwrap();
    let bodies: Vec<_> = letters.iter().map(|letter| letter.body.as_slice()).collect();
    assert_eq!(bodies, [b"deadly"]);
}

#[tokio::test]
#[ignore = "child: started by moves_a_message_that_kills_workers_to_dead_letters"]
async fn worker_that_gets_killed() {
    let path = std::env::var_os(FOLDER).unwrap();
    let recto = Recto::open(PathBuf::from(path).join("store")).await.unwrap();
    let queues = recto.queues().await.unwrap();
    let jobs = queues.get("jobs").await.unwrap();
    let dead = queues.get("dead").await.unwrap();
    let worker = jobs.worker(|message| async move {
        if message.body == b"deadly" {
            std::process::abort();
        }
        Ok(())
    });
    // The worker must wait until the visibility timeout of the killed process ends. Its own
    // visibility timeout is long enough for a slow machine to call the handler.
    let worker = worker.concurrency(1).visibility(Duration::from_secs(4));
    let stop = async {
        while dead.stats().await.unwrap().messages == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    worker.run_until(stop).await.unwrap();
}
