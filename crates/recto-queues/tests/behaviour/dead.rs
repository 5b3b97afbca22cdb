//! Tests of messages that are received too often and move to the dead-letter queue.

use std::time::{Duration, Instant};

use recto_queues::{ATTEMPTS_ATTRIBUTE, ERROR_ATTRIBUTE, NewMessage, Settled};

use crate::stores::Bed;
use crate::{LATER, LONG, NOW, VISIBILITY, bodies, receive, send};

/// Maximum time until a message that moved to the dead-letter queue is resolved in its original queue.
const MOVED: Duration = Duration::from_secs(60);

pub(crate) async fn messages_received_too_often_become_dead_letters(bed: Bed) {
    let (shard, dead) = bed.open_with_dead_letters(2).await;
    let message = NewMessage {
        attributes: [("kind".to_owned(), "picture".to_owned())].into(),
        group: Some("g".into()),
        ..NewMessage::new("a")
    };
    send(&shard, message).await;
    send(&shard, NewMessage::new("b")).await;
    let first = receive(&shard, 1).await.remove(0);
    let second = shard.receive(1, Some(VISIBILITY), NOW).await.unwrap().remove(0);
    shard.ack(&[second.receipt]).await.unwrap();
    let again = shard
        .receive(1, Some(VISIBILITY), LATER * 4)
        .await
        .unwrap()
        .remove(0);
    assert_eq!((again.id, again.attempts), (first.id, 2));
    tokio::time::sleep(LATER).await;
    // A receive from the original queue starts the move, even if no receiver waits at the dead-letter queue.
    assert_eq!(receive(&shard, 1).await, []);
    let letters = dead.receive(5, Some(LONG), LATER * 8).await.unwrap();
    assert_eq!(bodies(&letters), ["a"]);
    let letter = &letters[0];
    assert_eq!(
        (letter.id, letter.attempts, letter.group.as_deref()),
        (first.id, 1, Some("g"))
    );
    assert_eq!(letter.attributes["kind"], "picture");
    assert_eq!(letter.attributes[ATTEMPTS_ATTRIBUTE], "2");
    assert!(letter.attributes[ERROR_ATTRIBUTE].contains("not acknowledged in time"));
    // Wait for the last step of the move, which resolves the message in its queue.
    let begun = Instant::now();
    while shard.ack(std::slice::from_ref(&again.receipt)).await.unwrap() != [Settled::Done] {
        assert!(begun.elapsed() < MOVED, "it is not done with there");
        tokio::time::sleep(LATER).await;
    }
    dead.ack(&[letter.receipt]).await.unwrap();
    tokio::time::sleep(LATER).await;
    assert_eq!(
        (receive(&shard, 1).await, receive(&dead, 1).await),
        (vec![], vec![])
    );
}

pub(crate) async fn the_last_error_goes_with_a_dead_letter(bed: Bed) {
    let (shard, dead) = bed.open_with_dead_letters(2).await;
    send(&shard, NewMessage::new("a")).await;
    let first = receive(&shard, 1).await.remove(0);
    assert_eq!(
        shard.nack(&[first.receipt], NOW, "the first time").await.unwrap(),
        [Settled::Done]
    );
    let second = receive(&shard, 1).await.remove(0);
    let long = "\u{e4}".repeat(4_000);
    assert_eq!(
        shard.nack(&[second.receipt], LONG, &long).await.unwrap(),
        [Settled::Done]
    );
    // The nack of the last attempt moves the message at once.
    let letter = receive(&dead, 1).await.remove(0);
    assert_eq!(letter.attributes[ERROR_ATTRIBUTE], "\u{e4}".repeat(2_048));
    assert_eq!(receive(&shard, 1).await, []);
}
