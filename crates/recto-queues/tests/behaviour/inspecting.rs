//! Tests of listing messages without receiving them.

use recto_protocol::queues::{QueueName, QueueOptions, options::DeadLetters};
use recto_queues::{ERROR_ATTRIBUTE, NewMessage, PeekedStanding, QueueErrorKind, Settled, Stats};

use crate::stores::Bed;
use crate::{LATER, LONG, NOW, bodies, receive, send};

pub(crate) async fn messages_are_looked_at_and_counted(bed: Bed) {
    let shard = bed.open().await;
    assert_eq!(
        shard.stats().await.unwrap(),
        Stats {
            is_exact: true,
            ..Stats::default()
        }
    );
    let later = NewMessage {
        delay: Some(LONG),
        ..NewMessage::new("later")
    };
    send(&shard, later).await;
    let stats = shard.stats().await.unwrap();
    assert_eq!((stats.messages, stats.oldest_due_at), (1, None), "it is not due");
    let position = shard.peek(1).await.unwrap()[0].position;
    assert!(shard.remove(position).await.unwrap());
    send(&shard, NewMessage::new("a")).await;
    let delayed = NewMessage {
        delay: Some(LONG),
        ..NewMessage::new("b")
    };
    let oldest = shard.peek(1).await.unwrap()[0].sent_at;
    assert!(
        shard
            .send(vec![delayed, NewMessage::new("c"), NewMessage::new("d")])
            .await
            .iter()
            .all(Result::is_ok)
    );
    let received = shard.receive(1, Some(LONG), NOW).await.unwrap();
    let stats = shard.stats().await.unwrap();
    assert_eq!(
        (stats.messages, stats.in_flight, stats.delayed, stats.segments),
        (4, 1, 1, 1)
    );
    assert_eq!(stats.oldest_due_at, Some(oldest));
    let peeked = shard.peek(3).await.unwrap();
    let seen: Vec<_> = peeked
        .iter()
        .map(|one| (&one.content.as_ref().unwrap().body[..], one.attempts))
        .collect();
    assert_eq!(seen, [(&b"a"[..], 1), (b"b", 0), (b"c", 0)]);
    assert!(matches!(peeked[0].standing, PeekedStanding::InFlight(until) if until > peeked[0].sent_at));
    assert!(matches!(peeked[1].standing, PeekedStanding::Delayed(_)));
    assert_eq!(
        (peeked[0].id, peeked[2].standing),
        (received[0].id, PeekedStanding::Ready)
    );
    // Peeking does not receive the messages, so they are still available.
    assert_eq!(bodies(&receive(&shard, 10).await), ["c", "d"]);
    for most in [0, 1_001] {
        let refused = shard.peek(most).await.unwrap_err();
        assert_eq!(refused.kind(), QueueErrorKind::InvalidArgument);
    }
}

pub(crate) async fn one_message_is_taken_out(bed: Bed) {
    let shard = bed.open().await;
    assert!(
        shard
            .send(vec![
                NewMessage::new("a"),
                NewMessage::new("b"),
                NewMessage::new("c")
            ])
            .await
            .iter()
            .all(Result::is_ok)
    );
    let received = shard.receive(1, Some(LONG), NOW).await.unwrap();
    let peeked = shard.peek(10).await.unwrap();
    for one in &peeked[..2] {
        assert!(shard.remove(one.position).await.unwrap());
        assert!(!shard.remove(one.position).await.unwrap(), "it is gone");
    }
    assert_eq!(bodies(&shard.receive(10, Some(LONG), NOW).await.unwrap()), ["c"]);
    assert_eq!(shard.ack(&[received[0].receipt]).await.unwrap(), [Settled::Done]);
    assert_eq!(shard.stats().await.unwrap().messages, 1);
}

pub(crate) async fn dead_letters_go_back(bed: Bed) {
    let queues = bed.open_queues().await;
    queues.create("dead", QueueOptions::default()).await.unwrap();
    let dead_letters = DeadLetters {
        queue: QueueName::new("queue", "dead").unwrap(),
        attempts: 1,
    };
    let options = QueueOptions {
        dead_letters: Some(dead_letters),
        ..QueueOptions::default()
    };
    queues.create("jobs", options).await.unwrap();
    let (jobs, dead) = (
        queues.find("jobs").await.unwrap(),
        queues.find("dead").await.unwrap(),
    );
    assert!(
        jobs.shards
            .send(vec![
                NewMessage::new("a"),
                NewMessage::new("b"),
                NewMessage::new("c")
            ])
            .await
            .iter()
            .all(Result::is_ok)
    );
    for message in jobs.shards.receive(3, Some(LONG), NOW).await.unwrap() {
        jobs.shards
            .nack(&[message.receipt], NOW, "no disk")
            .await
            .unwrap();
    }
    assert_eq!(dead.shards.stats().await.unwrap().messages, 3);
    let held = dead.shards.receive(1, Some(LONG), NOW).await.unwrap();
    assert_eq!(queues.redrive(&dead, &jobs, Some(1)).await.unwrap(), 1);
    assert_eq!(
        queues.redrive(&dead, &jobs, None).await.unwrap(),
        1,
        "one is somebody's"
    );
    tokio::time::sleep(LATER).await;
    let again = jobs.shards.receive(10, Some(LONG), NOW).await.unwrap();
    assert_eq!(bodies(&again), ["b", "c"]);
    assert!(
        again
            .iter()
            .all(|message| message.attempts == 1 && !message.attributes.contains_key(ERROR_ATTRIBUTE))
    );
    dead.shards.ack(&[held[0].receipt]).await.unwrap();
    assert_eq!(dead.shards.stats().await.unwrap().messages, 0);
}
