//! Tests of damaged stored data.

use std::sync::atomic::Ordering;

use recto_protocol::queues::QueueOptions;
use recto_queues::{ERROR_ATTRIBUTE, NewMessage, QueueErrorKind};

use crate::queues::{assert_refused, made};
use crate::stores::Bed;
use crate::{LATER, LONG, NOW, bodies, receive, send};

pub(crate) async fn a_message_whose_body_is_lost_is_gone_and_counted(bed: Bed) {
    let shard = bed.open().await;
    send(&shard, NewMessage::new("a")).await;
    send(&shard, NewMessage::new("b")).await;
    bed.lose_bodies().await;
    send(&shard, NewMessage::new("c")).await;
    let lost = shard.peek(1).await.unwrap().remove(0).content.unwrap_err();
    assert!(lost.contains("is missing"), "{lost}");
    // A receive of one message skips the messages whose bodies are lost, and returns the next message.
    assert_eq!(bodies(&shard.receive(1, Some(LONG), NOW).await.unwrap()), ["c"]);
    tokio::time::sleep(LATER).await;
    let stats = shard.stats().await.unwrap();
    assert_eq!((stats.totals.bodies_lost, stats.messages), (2, 1));
    assert_eq!(stats.totals.received, 1);
}

pub(crate) async fn a_message_whose_body_is_lost_is_a_dead_letter(bed: Bed) {
    let (shard, dead) = bed.open_with_dead_letters(3).await;
    send(&shard, NewMessage::new("a")).await;
    bed.lose_bodies().await;
    assert_eq!(receive(&shard, 1).await, []);
    let letter = dead.receive(1, Some(LONG), LATER * 8).await.unwrap().remove(0);
    assert!(
        letter.attributes[ERROR_ATTRIBUTE].starts_with("body lost"),
        "{letter:?}"
    );
    assert!(letter.body.is_empty());
    tokio::time::sleep(LATER).await;
    let stats = shard.stats().await.unwrap();
    assert_eq!(
        (
            stats.messages,
            stats.totals.bodies_lost,
            stats.totals.dead_lettered
        ),
        (0, 1, 1)
    );
}

pub(crate) async fn gives_messages_back_if_heads_are_unavailable(bed: Bed) {
    let shard = bed.open().await;
    send(&shard, NewMessage::new("a")).await;
    bed.lose_bodies().await;
    send(&shard, NewMessage::new("b")).await;
    // Without the heads, the receiver cannot decide whether the missing body was removed with its
    // segment, so it gives all messages back.
    bed.watch.hides_heads.store(true, Ordering::Relaxed);
    let failed = shard.receive(10, Some(LONG), NOW).await.unwrap_err();
    assert_eq!(failed.kind(), QueueErrorKind::Unavailable);
    bed.watch.hides_heads.store(false, Ordering::Relaxed);
    let again = shard.receive(10, Some(LONG), LATER).await.unwrap();
    assert_eq!((again[0].attempts, bodies(&again)), (1, vec!["b".to_owned()]));
}

pub(crate) async fn redrives_messages_without_their_lost_bodies(bed: Bed) {
    let queues = bed.open_queues().await;
    let dead = made(&queues, "dead", QueueOptions::default()).await;
    let jobs = made(&queues, "jobs", QueueOptions::default()).await;
    send(&dead.shards, NewMessage::new("a")).await;
    bed.lose_bodies().await;
    send(&dead.shards, NewMessage::new("b")).await;
    assert_eq!(queues.redrive(&dead, &jobs, None).await.unwrap(), 2);
    let moved = jobs.shards.receive(5, Some(LONG), NOW).await.unwrap();
    assert_eq!(bodies(&moved), ["", "b"]);
    assert!(moved[0].attributes[ERROR_ATTRIBUTE].starts_with("body lost"));
    assert!(moved[1].attributes.is_empty());
    assert_eq!(dead.shards.totals().bodies_lost, 1);
}

pub(crate) async fn a_head_that_was_restored_alone_is_found_out(bed: Bed) {
    let shard = bed.open_with_segments_of(1).await;
    send(&shard, NewMessage::new("a")).await;
    let head = bed.head().await;
    // Send and receive until another segment uses the versioned cell of the first segment.
    for _ in 0..3 {
        send(&shard, NewMessage::new("b")).await;
        for message in receive(&shard, 5).await {
            shard.ack(&[message.receipt]).await.unwrap();
        }
        // Wait, because the versioned cell of a released segment is not reused while other
        // processes may need the outcome of an append.
        tokio::time::sleep(bed.rest()).await;
    }
    drop(shard);
    bed.restore_head(&head).await;
    let shard = bed.open_with_segments_of(1).await;
    for _ in 0..2 {
        assert_refused(
            shard.receive(1, None, NOW).await,
            QueueErrorKind::Corrupt,
            "from different points in time",
        );
    }
    assert_refused(
        shard.stats().await,
        QueueErrorKind::Corrupt,
        "from different points in time",
    );
}
