//! Tests of retention and of deleted queues: the maintenance removes expired messages and clears deleted
//! queues, without a request of a client.

use std::time::Duration;

use recto_protocol::queues::QueueOptions;
use recto_queues::{NewMessage, Settled, ShardOptions, Shards};

use crate::queues::{made, with_dead_letters};
use crate::stores::Bed;
use crate::{LONG, NOW, VISIBILITY, bodies, receive, send};

/// Retention of the tested queue.
const KEPT: Duration = Duration::from_secs(60);
/// Maximum time until expired messages are removed: 5 s for differences between clocks, and the interval between two
/// checks.
const GONE: Duration = Duration::from_secs(36);

fn keeping() -> QueueOptions {
    QueueOptions {
        retention_seconds: Some(60),
        ..QueueOptions::default()
    }
}

pub(crate) async fn removes_messages_older_than_the_retention(bed: Bed) {
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
    // All messages of the queue have expired, so its segment was released.
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

pub(crate) async fn retention_of_delayed_messages_starts_when_due(bed: Bed) {
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
        let sent = queue.shards.peek(1).await.unwrap()[0].sent_at;
        let received = loop {
            let received = queue
                .shards
                .receive(5, Some(VISIBILITY), Duration::from_secs(20))
                .await;
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

pub(crate) async fn messages_in_flight_expire_when_given_back(bed: Bed) {
    let queues = bed.open_queues().await;
    let queue = made(&queues, "jobs", keeping()).await;
    for body in ["a", "b"] {
        send(&queue.shards, NewMessage::new(body)).await;
    }
    let received = queue.shards.receive(2, Some(LONG), NOW).await.unwrap();
    tokio::time::sleep(KEPT + GONE).await;
    // The receivers still have both messages, so the messages do not expire and their receipts stay valid.
    let (done, failed) = (received[0].receipt, received[1].receipt);
    let kept = queue.shards.extend(&[done, failed], LONG).await.unwrap();
    assert_eq!(kept, [Settled::Done, Settled::Done]);
    assert_eq!(queue.shards.ack(&[done]).await.unwrap(), [Settled::Done]);
    let nacked = queue.shards.nack(&[failed], NOW, "").await.unwrap();
    assert_eq!(nacked, [Settled::Done]);
    assert_eq!(receive(&queue.shards, 1).await, []);
    tokio::time::sleep(VISIBILITY).await;
    assert_eq!(queue.shards.segments().await.unwrap(), 0);
    assert_eq!(queue.shards.totals().expired, 1);
}

/// Checks that a process without maintenance, such as a single command, does not receive expired messages.
pub(crate) async fn expired_messages_are_not_received(bed: Bed) {
    for is_ordered in [false, true] {
        let queue = bed.open().await;
        queue.set_options(ShardOptions {
            retention_seconds: Some(60),
            is_ordered,
            ..queue.options()
        });
        let message = |body: &str| NewMessage {
            group: Some("g".into()),
            ..NewMessage::new(body)
        };
        send(&queue, message("old")).await;
        bed.pass(Duration::from_secs(50)).await;
        send(&queue, message("new")).await;
        bed.pass(Duration::from_secs(16)).await;
        let received = receive(&queue, 5).await;
        assert_eq!(bodies(&received), ["new"], "ordered: {is_ordered}");
        queue.ack(&[received[0].receipt]).await.unwrap();
        assert_eq!(queue.stats().await.unwrap().messages, 0);
        assert_eq!(queue.totals().expired, 1);
    }
}

/// Checks that the retention of a redriven message counts from the move. The queue has a retention of 60 s,
/// and its dead-letter queue has none. The redrive happens more than 60 s after the first send.
pub(crate) async fn retention_restarts_at_a_redrive(bed: Bed) {
    let queues = bed.open_queues().await;
    let dead = made(&queues, "dead", QueueOptions::default()).await;
    let options = QueueOptions {
        retention_seconds: Some(60),
        ..with_dead_letters("dead")
    };
    let queue = made(&queues, "jobs", options).await;
    let sent_at = fail_one(&queue.shards).await;
    bed.pass(KEPT + GONE).await;
    assert_eq!(queues.redrive(&dead, &queue, None).await.unwrap(), 1);
    bed.pass(KEPT / 2).await;
    let received = queue.shards.receive(1, Some(VISIBILITY), NOW).await.unwrap();
    assert_eq!(
        (bodies(&received), received[0].sent_at),
        (vec!["a".to_owned()], sent_at)
    );
    // The message is kept for 60 s from the move, and no longer.
    queue.shards.give_back(&[received[0].receipt]).await.unwrap();
    bed.pass(KEPT).await;
    assert_eq!(receive(&queue.shards, 1).await, []);
    assert_eq!(queue.shards.stats().await.unwrap().messages, 0);
}

/// Checks that the retention of a dead letter counts from the move. The queue has no retention, and its
/// dead-letter queue has a retention of 60 s.
pub(crate) async fn a_dead_letter_is_kept_from_the_move(bed: Bed) {
    let queues = bed.open_queues().await;
    let dead = made(&queues, "dead", keeping()).await;
    let queue = made(&queues, "jobs", with_dead_letters("dead")).await;
    send(&queue.shards, NewMessage::new("a")).await;
    bed.pass(KEPT + GONE).await;
    let received = receive(&queue.shards, 1).await.remove(0);
    queue
        .shards
        .nack(&[received.receipt], NOW, "no disk")
        .await
        .unwrap();
    bed.pass(KEPT / 2).await;
    assert_eq!(dead.shards.stats().await.unwrap().messages, 1);
    let buried = receive(&dead.shards, 1).await.remove(0);
    assert_eq!(buried.sent_at, received.sent_at);
    dead.shards.give_back(&[buried.receipt]).await.unwrap();
    bed.pass(KEPT).await;
    assert_eq!(receive(&dead.shards, 1).await, []);
}

/// Sends a message, receives it and gives it back, so that it becomes a dead letter. Returns the time when it
/// was sent.
async fn fail_one(queue: &Shards) -> i64 {
    send(queue, NewMessage::new("a")).await;
    let received = receive(queue, 1).await.remove(0);
    let nacked = queue.nack(&[received.receipt], NOW, "no disk").await.unwrap();
    assert_eq!(nacked, [Settled::Done]);
    received.sent_at
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

pub(crate) async fn retries_failed_clearing_of_a_deleted_queue(bed: Bed) {
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
