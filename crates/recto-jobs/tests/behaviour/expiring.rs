//! Messages are kept for as long as their queue says, and deleted queues are cleared, without anybody asking.

use std::time::Duration;

use recto_jobs::{NewMessage, Settled};
use recto_queue::QueueOptions;

use crate::queues::made;
use crate::stores::Bed;
use crate::{LONG, NOW, bodies, send};

/// How long messages are kept.
const KEPT: Duration = Duration::from_secs(60);
/// How much later they are gone at the latest: 5 s for clocks, and what is between two looks.
const GONE: Duration = Duration::from_secs(36);

fn keeping() -> QueueOptions {
    QueueOptions {
        retention_seconds: Some(60),
        ..QueueOptions::default()
    }
}

pub(crate) async fn what_is_older_than_its_queue_keeps_it_is_gone(bed: Bed) {
    let queues = bed.open_queues().await;
    let queue = made(&queues, "jobs", keeping()).await;
    let other = made(&queues, "other", QueueOptions::default()).await;
    for queue in [&queue, &other] {
        send(&queue.shards, NewMessage::new("old")).await;
    }
    tokio::time::sleep(Duration::from_secs(58)).await;
    assert_eq!(queue.shards.stats().await.unwrap().messages, 1);
    send(&queue.shards, NewMessage::new("new")).await;
    tokio::time::sleep(GONE).await;
    assert_eq!(queue.shards.stats().await.unwrap().messages, 1);
    let received = queue.shards.receive(5, Some(Duration::from_secs(1)), NOW).await;
    assert_eq!(bodies(&received.unwrap()), ["new"]);
    tokio::time::sleep(KEPT + GONE).await;
    // Nothing of it is left.
    assert_eq!(queue.shards.segments().await.unwrap(), 0);
    assert_eq!(queue.shards.totals().expired, 2);
    assert_eq!(
        bed.count_rows("recto_queue_body_0").await,
        1,
        "the other's is kept"
    );
    send(&queue.shards, NewMessage::new("newest")).await;
    let received = queue.shards.receive(5, Some(LONG), NOW).await.unwrap();
    assert_eq!(bodies(&received), ["newest"]);
    assert_eq!(
        bodies(&other.shards.receive(5, Some(LONG), NOW).await.unwrap()),
        ["old"]
    );
}

pub(crate) async fn what_is_delayed_is_kept_from_when_it_is_due(bed: Bed) {
    let queues = bed.open_queues().await;
    let queue = made(&queues, "jobs", keeping()).await;
    for delay in [KEPT * 2, KEPT * 60] {
        let message = NewMessage {
            delay: Some(delay),
            ..NewMessage::new(delay.as_secs().to_string())
        };
        send(&queue.shards, message).await;
    }
    for delay in [KEPT * 2, KEPT * 60] {
        let now = queue.shards.stats().await.unwrap();
        let sent = now.oldest_sent_at.unwrap();
        let received = loop {
            let received = queue.shards.receive(5, Some(LONG), Duration::from_secs(20)).await;
            let received = received.unwrap();
            if !received.is_empty() {
                break received;
            }
        };
        assert_eq!(bodies(&received), [delay.as_secs().to_string()]);
        assert!(received[0].sent_at >= sent);
        tokio::time::sleep(KEPT + GONE).await;
    }
    assert_eq!(queue.shards.segments().await.unwrap(), 0);
}

pub(crate) async fn who_has_what_expired_is_done_with_it(bed: Bed) {
    let queues = bed.open_queues().await;
    let queue = made(&queues, "jobs", keeping()).await;
    send(&queue.shards, NewMessage::new("a")).await;
    let received = queue.shards.receive(1, Some(LONG), NOW).await.unwrap();
    tokio::time::sleep(KEPT + GONE).await;
    assert_eq!(
        queue.shards.ack(&[received[0].receipt]).await.unwrap(),
        [Settled::Done]
    );
    assert_eq!(queue.shards.segments().await.unwrap(), 0);
}

pub(crate) async fn the_upkeep_ends_with_the_queues(bed: Bed) {
    let queues = bed.open_queues().await;
    let queue = made(&queues, "jobs", keeping()).await;
    send(&queue.shards, NewMessage::new("a")).await;
    let clone = queues.clone();
    drop(queues);
    tokio::time::sleep(KEPT + GONE).await;
    assert_eq!(queue.shards.totals().expired, 1, "somebody has them still");
    drop((clone, queue));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(bed.users(), 0);
}

pub(crate) async fn what_could_not_be_cleared_is_tried_again(bed: Bed) {
    let queues = bed.open_queues().await;
    let queue = made(&queues, "jobs", QueueOptions::default()).await;
    send(&queue.shards, NewMessage::new("a")).await;
    bed.holds_heads(true);
    queues.delete(queue.id).await.unwrap();
    bed.holds_heads(false);
    made(&queues, "second", QueueOptions::default()).await;
    assert_eq!(
        bed.count_rows("recto_queue").await,
        2,
        "the first place is not free"
    );
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert_eq!(bed.count_rows("recto_queue_body_0").await, 0);
    made(&queues, "third", QueueOptions::default()).await;
    assert_eq!(bed.count_rows("recto_queue").await, 2);
}
