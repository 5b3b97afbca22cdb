//! Tests of dead-lettering by the maintenance: messages that were received too often become dead letters,
//! even if no process uses their queue.

use std::sync::atomic::Ordering;
use std::time::Duration;

use recto_protocol::queues::QueueOptions;
use recto_protocol::queues::options::DeadLetters;
use recto_queues::{ATTEMPTS_ATTRIBUTE, ERROR_ATTRIBUTE, NewMessage, Queue, Queues};

use crate::queues::{made, with_dead_letters};
use crate::stores::Bed;
use crate::{LATER, LONG, NOW, VISIBILITY, bodies, receive, send};

/// Slightly more than the interval between two runs of the maintenance.
const TURN: Duration = Duration::from_secs(31);
/// Time that other processes add to the end of a visibility timeout.
const MARGIN: Duration = Duration::from_secs(5);

/// Creates a queue whose messages become dead letters after `attempts` receives. Returns the queue and its
/// dead-letter queue.
async fn jobs(queues: &Queues, attempts: u16) -> (Queue, Queue) {
    let dead = made(queues, "dead", QueueOptions::default()).await;
    let jobs = made(queues, "jobs", dying_after(attempts)).await;
    (jobs, dead)
}

/// Creates the queues of `jobs`, with one message that was received and given back.
async fn given_back(queues: &Queues, attempts: u16) -> (Queue, Queue) {
    let (jobs, dead) = jobs(queues, attempts).await;
    send(&jobs.shards, NewMessage::new("a")).await;
    let received = receive(&jobs.shards, 1).await.remove(0);
    let nacked = jobs.shards.nack(&[received.receipt], NOW, "no disk").await;
    nacked.unwrap();
    (jobs, dead)
}

fn dying_after(attempts: u16) -> QueueOptions {
    let options = with_dead_letters("dead");
    let dead_letters = options.dead_letters.map(|dead_letters| DeadLetters {
        attempts,
        ..dead_letters
    });
    QueueOptions {
        dead_letters,
        ..options
    }
}

/// Returns the number of unresolved messages of a queue.
async fn count(queue: &Queue) -> u64 {
    queue.shards.stats().await.unwrap().messages
}

pub(crate) async fn moves_dead_letters_without_a_receiver(bed: Bed) {
    let queues = bed.open_queues().await;
    let (jobs, dead) = jobs(&queues, 2).await;
    send(&jobs.shards, NewMessage::new("a")).await;
    tokio::time::sleep(TURN * 3).await;
    for attempts in 1..=2 {
        let received = receive(&jobs.shards, 1).await.remove(0);
        assert_eq!(received.attempts, attempts);
        tokio::time::sleep(if attempts < 2 { LATER } else { NOW }).await;
    }
    send(&jobs.shards, NewMessage::new("b")).await;
    assert_eq!(bodies(&receive(&jobs.shards, 1).await), ["b"]);
    tokio::time::sleep(VISIBILITY + TURN).await;
    assert_eq!((count(&jobs).await, count(&dead).await), (1, 1));
    assert_eq!(jobs.shards.totals().dead_lettered, 1);
    let letter = dead.shards.receive(1, Some(LONG), NOW).await.unwrap().remove(0);
    assert_eq!(letter.body, b"a");
    assert_eq!(letter.attributes[ATTEMPTS_ATTRIBUTE], "2");
    assert!(letter.attributes[ERROR_ATTRIBUTE].contains("not acknowledged in time"));
    assert_eq!(bodies(&receive(&jobs.shards, 5).await), ["b"]);
}

pub(crate) async fn moves_dead_letters_of_a_crashed_process(bed: Bed) {
    let kept = TURN * 2;
    {
        let queues = bed.open_queues().await;
        let (jobs, _) = jobs(&queues, 1).await;
        send(&jobs.shards, NewMessage::new("a")).await;
        jobs.shards.receive(1, Some(kept), NOW).await.unwrap();
    }
    let queues = bed.open_queues().await;
    let dead = queues.find("dead").await.unwrap();
    tokio::time::sleep(kept).await;
    assert_eq!(count(&dead).await, 0, "it may be worked on");
    tokio::time::sleep(MARGIN + TURN).await;
    assert_eq!(bodies(&receive(&dead.shards, 1).await), ["a"]);
}

pub(crate) async fn moves_dead_letters_after_the_limit_is_lowered(bed: Bed) {
    let queues = bed.open_queues().await;
    let (jobs, dead) = given_back(&queues, 5).await;
    tokio::time::sleep(TURN * 3).await;
    assert_eq!(count(&dead).await, 0);
    queues.change(jobs.id, None, dying_after(1)).await.unwrap();
    tokio::time::sleep(TURN).await;
    assert_eq!((count(&jobs).await, count(&dead).await), (0, 1));
}

pub(crate) async fn a_turn_moves_so_many_and_the_next_one_goes_on(bed: Bed) {
    let queues = bed.open_queues().await;
    let dead = made(&queues, "dead", QueueOptions::default()).await;
    for name in ["a", "b", "c"] {
        let queue = made(&queues, name, with_dead_letters("dead")).await;
        queue.shards.send(vec![NewMessage::new("x"); 600]).await;
        assert_eq!(receive(&queue.shards, 600).await.len(), 600);
    }
    tokio::time::sleep(TURN).await;
    // A run of the maintenance inspects no more segments after 1,024 messages, but moves the messages of a
    // segment together. The first run therefore moves the messages of two queues.
    assert_eq!(count(&dead).await, 1_200);
    tokio::time::sleep(TURN).await;
    assert_eq!(count(&dead).await, 1_800);
}

pub(crate) async fn turns_go_round_all_queues(bed: Bed) {
    let queues = bed.open_queues().await;
    made(&queues, "dead", QueueOptions::default()).await;
    // One run of the maintenance does not cover all 600 queues, and each of the queues needs work
    // repeatedly.
    for number in 0..600 {
        let queue = made(&queues, &format!("q{number}"), with_dead_letters("dead")).await;
        send(&queue.shards, NewMessage::new("x")).await;
        queue.shards.receive(1, Some(LONG), NOW).await.unwrap();
    }
    let last = made(&queues, "z", with_dead_letters("dead")).await;
    send(&last.shards, NewMessage::new("a")).await;
    receive(&last.shards, 1).await;
    tokio::time::sleep(TURN).await;
    assert_eq!(count(&last).await, 1, "others come before");
    tokio::time::sleep(TURN).await;
    assert_eq!(count(&last).await, 0);
}

pub(crate) async fn caches_nothing_for_queues_without_receivers(bed: Bed) {
    let queues = bed.open_queues().await;
    let (jobs, _) = jobs(&queues, 1).await;
    send(&jobs.shards, NewMessage::new("a")).await;
    tokio::time::sleep(TURN * 4).await;
    let read = || bed.watch.state_reads.load(Ordering::Relaxed);
    let before = read();
    tokio::time::sleep(TURN * 4).await;
    assert_eq!(read(), before, "it was looked at once");
    assert_eq!(count(&jobs).await, 1);
    assert_eq!(read(), before + 1, "and forgotten");
}

pub(crate) async fn maintenance_completes_an_interrupted_redrive(bed: Bed) {
    let queues = bed.open_queues().await;
    let (jobs, dead) = given_back(&queues, 1).await;
    bed.watch.refused_appends.store(1, Ordering::Relaxed);
    let cut_off = queues.redrive(&dead, &jobs, None).await;
    assert!(cut_off.is_err());
    tokio::time::sleep(TURN).await;
    let back = receive(&jobs.shards, 1).await.remove(0);
    assert_eq!((back.body, back.attributes.len()), (b"a".to_vec(), 0));
    assert_eq!((count(&dead).await, dead.shards.totals().dead_lettered), (0, 0));
}

pub(crate) async fn a_redrive_goes_on_with_one_that_was_cut_off(bed: Bed) {
    let queues = bed.open_queues().await;
    let (jobs, dead) = given_back(&queues, 1).await;
    bed.watch.refused_appends.store(1, Ordering::Relaxed);
    assert!(queues.redrive(&dead, &jobs, None).await.is_err());
    assert_eq!(queues.redrive(&dead, &jobs, None).await.unwrap(), 1);
    let back = receive(&jobs.shards, 1).await.remove(0);
    assert_eq!((back.body, back.attributes.len()), (b"a".to_vec(), 0));
    assert_eq!(
        (
            count(&dead).await,
            queues.redrive(&dead, &jobs, None).await.unwrap()
        ),
        (0, 0)
    );
}

pub(crate) async fn moves_dead_letters_of_work_units(bed: Bed) {
    let queues = bed.open_queues().await;
    let (jobs, dead) = jobs(&queues, 1).await;
    let unit = queues.begin_unit(jobs.id, "night").await.unwrap();
    send(&unit.shards, NewMessage::new("a")).await;
    receive(&unit.shards, 1).await;
    tokio::time::sleep(TURN + VISIBILITY).await;
    assert_eq!((count(&unit).await, count(&dead).await), (0, 1));
}
