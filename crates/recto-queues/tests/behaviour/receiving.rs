//! Tests of receiving messages.

use std::collections::BTreeSet;
use std::time::Duration;

use recto_queues::{NewMessage, QueueErrorKind};

use crate::stores::Bed;
use crate::{LATER, LONG, NOW, VISIBILITY, bodies, receive, send};

pub(crate) async fn redelivers_unacknowledged_messages(bed: Bed) {
    let shard = bed.open().await;
    send(&shard, NewMessage::new("a")).await;
    let first = receive(&shard, 1).await;
    assert_eq!(receive(&shard, 1).await, []);
    // A waiting receiver gets the message as soon as the first visibility timeout has ended.
    let second = shard.receive(1, Some(VISIBILITY), LATER * 4).await.unwrap();
    assert_eq!((second[0].id, second[0].attempts), (first[0].id, 2));
    assert_eq!(second[0].first_received_at, first[0].first_received_at);
    assert_ne!(second[0].receipt, first[0].receipt);
}

pub(crate) async fn numbers_that_are_not_right_are_refused(bed: Bed) {
    let shard = bed.open().await;
    send(&shard, NewMessage::new("a")).await;
    for (most, visibility, wait) in [
        (0, VISIBILITY, NOW),
        (1_001, VISIBILITY, NOW),
        (1, Duration::from_millis(99), NOW),
        (1, Duration::from_secs(43_201), NOW),
        (1, VISIBILITY, Duration::from_secs(21)),
    ] {
        let error = shard.receive(most, Some(visibility), wait).await.unwrap_err();
        assert_eq!(error.kind(), QueueErrorKind::InvalidArgument, "{error}");
        let named = ["most: ", "visibility: ", "wait: "];
        let message = error.to_string();
        assert!(named.iter().any(|name| message.starts_with(name)), "{message}");
    }
    let refused = shard.nack(&[], LONG * 10_000, "").await.unwrap_err();
    assert!(refused.to_string().starts_with("delay: "), "{refused}");
    assert_eq!(refused.field(), Some("delay_seconds"));
    let refused = shard.extend(&[], NOW).await.unwrap_err();
    assert!(refused.to_string().starts_with("visibility: "), "{refused}");
    assert_eq!(refused.field(), Some("visibility_seconds"));
    assert_eq!(receive(&shard, 1_000).await[0].attempts, 1);
}

pub(crate) async fn wakes_waiting_receivers_when_a_message_is_sent(bed: Bed) {
    let shard = bed.open().await;
    let waiting = {
        let shard = shard.clone();
        tokio::spawn(async move { shard.receive(5, Some(LONG), Duration::from_secs(20)).await })
    };
    tokio::time::sleep(LATER).await;
    assert!(!waiting.is_finished());
    send(&shard, NewMessage::new("a")).await;
    let received = waiting.await.unwrap().unwrap();
    assert_eq!(bodies(&received), ["a"]);
    // If no message arrives during the wait, the receiver gets an empty result.
    assert_eq!(shard.receive(5, Some(LONG), LATER).await.unwrap(), []);
}

pub(crate) async fn each_message_is_received_by_one_of_many_who_wait(bed: Bed) {
    const MESSAGES: usize = 60;
    let shard = bed.open().await;
    let waiting: Vec<_> = (0..20)
        .map(|_| {
            let shard = shard.clone();
            tokio::spawn(async move {
                let mut received = Vec::new();
                loop {
                    let more = shard.receive(2, Some(LONG), LATER * 2).await.unwrap();
                    if more.is_empty() {
                        return received;
                    }
                    let receipts: Vec<_> = more.iter().map(|message| message.receipt).collect();
                    shard.ack(&receipts).await.unwrap();
                    received.extend(bodies(&more));
                }
            })
        })
        .collect();
    for number in 0..MESSAGES {
        send(&shard, NewMessage::new(number.to_string())).await;
    }
    let mut received = Vec::new();
    for one in waiting {
        received.extend(one.await.unwrap());
    }
    let different: BTreeSet<_> = received.iter().collect();
    assert_eq!((received.len(), different.len()), (MESSAGES, MESSAGES));
}

pub(crate) async fn a_dropped_receiver_gives_its_messages_back(bed: Bed) {
    let shard = bed.open().await;
    send(&shard, NewMessage::new("a")).await;
    for _ in 0..20 {
        let receiving = shard.receive(1, Some(LONG), NOW);
        // Poll the receive once, so that its request is in progress, and drop the receive before its
        // response.
        let mut receiving = Box::pin(receiving);
        let polled = futures::poll!(&mut receiving);
        drop(receiving);
        if let std::task::Poll::Ready(messages) = polled {
            shard
                .nack(&[messages.unwrap()[0].receipt], NOW, "")
                .await
                .unwrap();
        }
    }
    let received = shard
        .receive(1, Some(VISIBILITY), Duration::from_secs(5))
        .await
        .unwrap();
    assert_eq!(
        (bodies(&received), received[0].attempts <= 2),
        (vec!["a".to_owned()], true)
    );
}
