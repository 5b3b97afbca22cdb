//! Tests that create, change and delete queues.

use recto_protocol::queues::options::DeadLetters;
use recto_protocol::queues::{QueueName, QueueOptions};
use recto_queues::{Created, ERROR_ATTRIBUTE, NewMessage, Queue, QueueError, QueueErrorKind, Queues, Sent};

use crate::stores::Bed;
use crate::{LONG, NOW, bodies, receive, send};

pub(crate) async fn made(queues: &Queues, name: &str, options: QueueOptions) -> Queue {
    match queues.create(name, options).await.unwrap() {
        Created::New(queue) => queue,
        Created::Existing(_) => panic!("there is no queue {name} yet"),
    }
}

/// Returns options with which a message moves to the dead-letter queue `queue` after one receive.
pub(crate) fn with_dead_letters(queue: &str) -> QueueOptions {
    let queue = QueueName::new("queue", queue).unwrap();
    let dead_letters = Some(DeadLetters { queue, attempts: 1 });
    QueueOptions {
        dead_letters,
        ..QueueOptions::default()
    }
}

pub(crate) fn assert_refused<T>(result: Result<T, QueueError>, kind: QueueErrorKind, says: &str) {
    let Err(error) = result else {
        panic!("it is refused: {says}")
    };
    assert_eq!(error.kind(), kind, "{error}");
    assert!(
        error.to_string().contains(says) && error.hint().is_some(),
        "{error:?}"
    );
}

pub(crate) async fn a_queue_is_made_once(bed: Bed) {
    let queues = bed.open_queues().await;
    let first = made(&queues, "jobs", QueueOptions::default()).await;
    let again = queues.create("jobs", QueueOptions::default()).await.unwrap();
    assert!(matches!(again, Created::Existing(queue) if queue.id == first.id));
    let others = QueueOptions {
        visibility_seconds: 7,
        ..QueueOptions::default()
    };
    assert_refused(
        queues.create("jobs", others).await,
        QueueErrorKind::Conflict,
        "exists with other options: `visibility_seconds`",
    );
    let long = "x".repeat(81);
    for name in ["", "a b", "\u{e4}", "a.b", long.as_str()] {
        let refused = queues.create(name, QueueOptions::default()).await;
        assert_refused(refused, QueueErrorKind::InvalidArgument, "`name`");
    }
    let no_such = queues.create("more", with_dead_letters("nowhere")).await;
    assert_refused(
        no_such,
        QueueErrorKind::InvalidArgument,
        "there is no queue nowhere",
    );
    made(&queues, "a", QueueOptions::default()).await;
    let names: Vec<_> = bed.open_queues().await.list().await.unwrap();
    let names: Vec<_> = names.iter().map(|queue| queue.name.as_str()).collect();
    assert_eq!(names, ["a", "jobs"]);
    assert_refused(
        queues.find("other").await,
        QueueErrorKind::NotFound,
        "there is no queue other",
    );
}

pub(crate) async fn a_queue_is_changed_as_it_was_seen(bed: Bed) {
    let queues = bed.open_queues().await;
    let queue = made(&queues, "jobs", QueueOptions::default()).await;
    let dead = made(&queues, "dead", QueueOptions::default()).await;
    let options = with_dead_letters("dead");
    let changed = queues
        .change(queue.id, Some(queue.changed), options.clone())
        .await
        .unwrap();
    assert!(changed > queue.changed);
    let late = queues
        .change(queue.id, Some(queue.changed), QueueOptions::default())
        .await;
    assert_refused(late, QueueErrorKind::Changed, "changed since");
    let fixed = QueueOptions {
        is_ordered: true,
        ..options.clone()
    };
    assert_refused(
        queues.change(queue.id, None, fixed).await,
        QueueErrorKind::InvalidArgument,
        "`ordered`",
    );
    assert_eq!(
        queues.find("jobs").await.unwrap().options.dead_letters,
        options.dead_letters
    );
    // Queue handles that were opened before the change apply the new options.
    send(&queue.shards, NewMessage::new("a")).await;
    let received = queue.shards.receive(1, Some(LONG), NOW).await.unwrap().remove(0);
    queue
        .shards
        .nack(&[received.receipt], NOW, "no disk")
        .await
        .unwrap();
    let letter = receive(&dead.shards, 1).await.remove(0);
    assert_eq!(letter.attributes[ERROR_ATTRIBUTE], "no disk");
    assert_refused(
        queues.delete(dead.id).await,
        QueueErrorKind::Conflict,
        "queue jobs uses this queue as its dead-letter queue",
    );
}

pub(crate) async fn handles_of_a_deleted_queue_do_not_affect_the_next(bed: Bed) {
    let queues = bed.open_queues().await;
    let old = made(&queues, "jobs", QueueOptions::default()).await;
    send(&old.shards, NewMessage::new("old")).await;
    send(&old.shards, NewMessage::new("older")).await;
    let received = old.shards.receive(1, Some(LONG), NOW).await.unwrap().remove(0);
    queues.delete(old.id).await.unwrap();
    assert_refused(
        queues.find("jobs").await,
        QueueErrorKind::NotFound,
        "there is no queue jobs",
    );
    assert_refused(
        queues.delete(old.id).await,
        QueueErrorKind::NotFound,
        "was deleted",
    );
    let new = made(&queues, "jobs", QueueOptions::default()).await;
    assert_ne!(new.id, old.id);
    assert_eq!(receive(&new.shards, 10).await, []);
    send(&new.shards, NewMessage::new("new")).await;
    assert_refused(
        old.shards.receive(1, Some(LONG), NOW).await,
        QueueErrorKind::NotFound,
        "was deleted",
    );
    let sent = old.shards.send(vec![NewMessage::new("late")]).await.remove(0);
    assert_refused(sent, QueueErrorKind::NotFound, "was deleted");
    assert_refused(
        new.shards.ack(&[received.receipt]).await,
        QueueErrorKind::InvalidArgument,
        "belongs to another queue",
    );
    assert_eq!(bodies(&receive(&new.shards, 10).await), ["new"]);
    assert_eq!(
        bed.count_rows("recto_queue").await,
        1,
        "it has the place of the other"
    );
}

pub(crate) async fn purged_messages_are_not_received(bed: Bed) {
    let queues = bed.open_queues().await;
    let queue = made(&queues, "jobs", QueueOptions::default()).await;
    let sent = queue.shards.send(vec![NewMessage::new("a"); 20]).await;
    assert!(sent.iter().all(|sent| matches!(sent, Ok(Sent::New(_)))));
    let received = queue.shards.receive(3, Some(LONG), NOW).await.unwrap();
    assert_eq!(queue.shards.purge().await.unwrap(), 1);
    assert_eq!(queue.shards.receive(10, Some(LONG), NOW).await.unwrap(), []);
    // An ack of a purged message succeeds, and has no effect.
    queue.shards.ack(&[received[0].receipt]).await.unwrap();
    assert_eq!(bed.count_rows("recto_queue_body_0").await, 0);
    send(&queue.shards, NewMessage::new("b")).await;
    assert_eq!(
        bodies(&receive(&bed.open_queues().await.find("jobs").await.unwrap().shards, 10).await),
        ["b"]
    );
}
