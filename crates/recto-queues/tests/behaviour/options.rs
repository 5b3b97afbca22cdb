//! Tests of queue options: a change applies to all users of the queue.

use std::time::Duration;

use recto_api::queues::QueueSettings;
use recto_protocol::queues::QueueOptions;
use recto_queues::{NewMessage, Queue, QueueErrorKind, Queues, Settled, ShardOptions, Totals};

use crate::queues::{assert_refused, made, with_dead_letters};
use crate::stores::Bed;
use crate::{LATER, LONG, NOW, VISIBILITY, bodies, receive, send};

fn of(group: &str, body: &str) -> NewMessage {
    NewMessage {
        group: Some(group.into()),
        ..NewMessage::new(body)
    }
}

pub(crate) async fn applies_queue_options_by_default(bed: Bed) {
    let queues = bed.open_queues().await;
    let options = QueueOptions {
        delay_seconds: 1,
        visibility_seconds: 1,
        body_bytes: 5,
        ..QueueOptions::default()
    };
    let queue = made(&queues, "jobs", options).await;
    let now = NewMessage {
        delay: Some(NOW),
        ..NewMessage::new("now")
    };
    let sent = queue
        .shards
        .send(vec![NewMessage::new("later"), now, of("g", "large")])
        .await;
    let refused = sent[2].clone().unwrap_err();
    assert_eq!(refused.kind(), QueueErrorKind::InvalidArgument);
    assert!(refused.to_string().starts_with("body: 6 bytes"), "{refused}");
    let first = queue.shards.receive(5, None, NOW).await.unwrap();
    assert_eq!(bodies(&first), ["now"]);
    let second = queue.shards.receive(1, Some(LONG), LATER * 4).await.unwrap();
    let third = queue.shards.receive(1, Some(LONG), LATER * 4).await.unwrap();
    let both = [bodies(&second), bodies(&third)].concat();
    assert!(
        both.contains(&"later".to_owned()) && both.contains(&"now".to_owned()),
        "{both:?}"
    );
}

pub(crate) async fn in_an_ordered_queue_its_delay_holds(bed: Bed) {
    let queues = bed.open_queues().await;
    let options = QueueOptions {
        delay_seconds: 1,
        ..QueueOptions::ordered()
    };
    let queue = made(&queues, "jobs.fifo", options).await;
    let own = NewMessage {
        delay: Some(NOW),
        ..of("g", "own")
    };
    let sent = queue.shards.send(vec![of("g", "a"), own]).await;
    assert!(sent[0].is_ok());
    assert!(
        sent[1]
            .clone()
            .unwrap_err()
            .to_string()
            .starts_with("delay_seconds: ")
    );
    assert_eq!(receive(&queue.shards, 1).await, []);
    assert_eq!(
        bodies(&queue.shards.receive(1, None, LATER * 4).await.unwrap()),
        ["a"]
    );
}

pub(crate) async fn changed_options_apply_to_all_handles(bed: Bed) {
    let queues = bed.open_queues().await;
    let queue = made(&queues, "jobs", QueueOptions::default()).await;
    let before = queues.find("jobs").await.unwrap();
    let options = QueueOptions {
        delay_seconds: 600,
        visibility_seconds: 1,
        ..QueueOptions::default()
    };
    queues.change(queue.id, None, options).await.unwrap();
    assert_eq!(before.shards.options().visibility, VISIBILITY);
    send(&before.shards, NewMessage::new("a")).await;
    assert_eq!(receive(&queue.shards, 1).await, [], "it is delayed");
    // Options of an older version of the registry arrive after the change, so the queue ignores
    // them.
    before.shards.set_options(ShardOptions::default());
    assert_eq!(
        queue.shards.options().delay,
        LONG,
        "an older registry says nothing any more"
    );
}

pub(crate) async fn a_paused_queue_delivers_nothing(bed: Bed) {
    let queues = bed.open_queues().await;
    let queue = made(&queues, "jobs", QueueOptions::default()).await;
    let shards = &queue.shards;
    send(shards, NewMessage::new("a")).await;
    send(shards, NewMessage::new("b")).await;
    let first = shards.receive(1, Some(LONG), NOW).await.unwrap();
    let pause = |paused| QueueSettings {
        paused: Some(paused),
        ..QueueSettings::default()
    };
    queues.change(queue.id, None, pause(true)).await.unwrap();
    assert!(shards.options().is_paused);
    send(shards, NewMessage::new("c")).await;
    assert_eq!(receive(shards, 5).await, []);
    // Messages that were received before the pause can be extended, acknowledged and given back as usual.
    let receipts = [first[0].receipt];
    assert_eq!(
        shards.extend(&receipts, VISIBILITY).await.unwrap(),
        [Settled::Done]
    );
    assert_eq!(shards.ack(&receipts).await.unwrap(), [Settled::Done]);
    // A waiting receiver gets messages when the pause ends.
    let waiting = {
        let shards = shards.clone();
        tokio::spawn(async move { shards.receive(5, Some(LONG), Duration::from_secs(20)).await })
    };
    tokio::task::yield_now().await;
    queues.change(queue.id, None, pause(false)).await.unwrap();
    let mut all = bodies(&waiting.await.unwrap().unwrap());
    all.extend(bodies(&receive(shards, 5).await));
    let expected = if first[0].body == b"a" {
        ["b", "c"]
    } else {
        ["a", "c"]
    };
    all.sort();
    assert_eq!(all, expected);
}

async fn dies(queue: &Queue, body: &str) {
    send(&queue.shards, NewMessage::new(body)).await;
    let received = queue.shards.receive(1, Some(LONG), NOW).await.unwrap();
    queue.shards.nack(&[received[0].receipt], NOW, "").await.unwrap();
}

/// Deletes the dead-letter queue, lets another queue use its registry slot, and creates the
/// dead-letter queue again in another slot.
async fn made_elsewhere(queues: &Queues, dead: Queue) -> Queue {
    queues.delete(dead.id).await.unwrap();
    made(queues, "other", QueueOptions::default()).await;
    made(queues, "dead", QueueOptions::default()).await
}

pub(crate) async fn dead_letters_go_where_the_queue_of_that_name_is_now(bed: Bed) {
    let queues = bed.open_queues().await;
    let dead = made(&queues, "dead", QueueOptions::default()).await;
    let jobs = made(&queues, "jobs", with_dead_letters("dead")).await;
    dies(&jobs, "a").await;
    assert_eq!(bodies(&receive(&dead.shards, 5).await), ["a"]);
    queues
        .change(jobs.id, None, QueueOptions::default())
        .await
        .unwrap();
    let dead = made_elsewhere(&queues, dead).await;
    queues
        .change(jobs.id, None, with_dead_letters("dead"))
        .await
        .unwrap();
    dies(&jobs, "b").await;
    assert_eq!(bodies(&receive(&dead.shards, 5).await), ["b"]);
    let other = queues.find("other").await.unwrap();
    assert_eq!(receive(&other.shards, 5).await, []);
}

pub(crate) async fn counts_completed_operations(bed: Bed) {
    let queues = bed.open_queues().await;
    made(&queues, "dead", QueueOptions::default()).await;
    let jobs = made(&queues, "jobs", with_dead_letters("dead")).await;
    let twice = NewMessage {
        deduplication_id: Some("d".into()),
        ..NewMessage::new("a")
    };
    jobs.shards.send(vec![twice.clone(), twice]).await;
    jobs.shards
        .send(vec![NewMessage::new("b"), NewMessage::new("c")])
        .await;
    let received = jobs.shards.receive(3, Some(LONG), NOW).await.unwrap();
    for _ in 0..2 {
        jobs.shards.ack(&[received[0].receipt]).await.unwrap();
        jobs.shards.nack(&[received[1].receipt], NOW, "").await.unwrap();
    }
    let waiting = {
        let shard = jobs.shards.clone();
        tokio::spawn(async move { shard.receive(1, None, Duration::from_secs(20)).await })
    };
    tokio::time::sleep(LATER).await;
    let stats = queues.find("jobs").await.unwrap().shards.stats().await.unwrap();
    let totals = Totals {
        sent: 3,
        received: 3,
        acked: 1,
        given_back: 1,
        dead_lettered: 1,
        ..Totals::default()
    };
    assert_eq!(
        (stats.totals, stats.receivers_waiting, stats.messages),
        (totals, 1, 1)
    );
    waiting.abort();
    assert!(waiting.await.is_err());
    assert_eq!(jobs.shards.receivers_waiting(), 0);
    drop(jobs);
    // The counters stay, even after this process dropped its last handle of the queue.
    assert_eq!(queues.find("jobs").await.unwrap().shards.totals(), totals);
}

/// Checks that a redrive leaves messages that are too large for the target queue. The target accepts messages
/// of at most 10 bytes.
pub(crate) async fn messages_that_are_too_large_are_not_redriven(bed: Bed) {
    let queues = bed.open_queues().await;
    let dead = made(&queues, "dead", QueueOptions::default()).await;
    let small = QueueOptions {
        body_bytes: 10,
        ..QueueOptions::default()
    };
    let jobs = made(&queues, "jobs", small).await;
    let large = "x".repeat(11);
    for body in [&large[..], "a", "b"] {
        send(&dead.shards, NewMessage::new(body)).await;
    }
    assert_eq!(queues.redrive(&dead, &jobs, Some(1)).await.unwrap(), 1);
    let in_part = queues.redrive(&dead, &jobs, None).await.unwrap_err();
    assert_eq!(in_part.moved(), 1);
    assert_refused(
        queues.redrive(&dead, &jobs, None).await,
        QueueErrorKind::InvalidArgument,
        "messages of more than 10 bytes were not moved",
    );
    assert_eq!(bodies(&receive(&jobs.shards, 5).await), ["a", "b"]);
    assert_eq!(bodies(&receive(&dead.shards, 5).await), [large]);
}

pub(crate) async fn keeps_messages_that_cannot_be_redriven(bed: Bed) {
    let queues = bed.open_queues().await;
    let dead = made(&queues, "dead", QueueOptions::default()).await;
    let ordered = made(&queues, "jobs.fifo", QueueOptions::ordered()).await;
    assert_refused(
        queues.redrive(&dead, &dead, None).await,
        QueueErrorKind::InvalidArgument,
        "to: ",
    );
    dead.shards
        .send(vec![NewMessage::new("a"), of("g", "b"), of("g", "c")])
        .await;
    assert_eq!(queues.redrive(&dead, &ordered, Some(1)).await.unwrap(), 1);
    assert_eq!(queues.redrive(&dead, &ordered, None).await.unwrap(), 1);
    assert_eq!(bodies(&receive(&ordered.shards, 5).await), ["b"]);
    assert_eq!(bodies(&receive(&dead.shards, 5).await), ["a"], "it has no group");
    queues.delete(ordered.id).await.unwrap();
    dead.shards.send(vec![of("g", "d")]).await;
    assert_refused(
        queues.redrive(&dead, &ordered, None).await,
        QueueErrorKind::NotFound,
        "the other queue was deleted",
    );
    assert_eq!(bodies(&receive(&dead.shards, 5).await), ["d"]);
}
