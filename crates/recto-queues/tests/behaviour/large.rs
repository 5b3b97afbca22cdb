//! Tests of large messages: the data in flight and in memory are bounded.

use recto_queues::{Message, NewMessage, QueueErrorKind};

use crate::stores::Bed;
use crate::{LATER, LONG, NOW, receive, send};

/// Size of a body in bytes. A commit of the memory store has room for only one body of this size.
const LARGE: usize = 900 << 10;

pub(crate) async fn of_large_messages_fewer_are_received(bed: Bed) {
    let shard = bed.open().await;
    let sent = shard.send(vec![NewMessage::new(vec![7; LARGE]); 20]).await;
    assert!(sent.iter().all(Result::is_ok), "{sent:?}");
    assert_eq!(shard.peek(1_000).await.unwrap().len(), 9);
    assert_eq!(shard.peek(3).await.unwrap().len(), 3);
    let mut left = 20;
    while left > 0 {
        let received = shard.receive(1_000, Some(LONG), NOW).await.unwrap();
        let is_first = |one: &Message| one.attempts == 1 && one.body.len() == LARGE;
        assert!(received.iter().all(is_first), "nothing was given back");
        // A receive may return the rest of one segment and messages of the next segment, together less than
        // 16 MiB.
        let bytes = received.len() * LARGE;
        assert!((1..16 << 20).contains(&bytes), "{bytes}");
        assert!(left < 20 || received.len() == 9, "of one segment 8 MiB");
        left -= received.len();
    }
}

pub(crate) async fn many_who_send_large_messages_are_served(bed: Bed) {
    const SENDERS: usize = 100;
    let shard = bed.open().await;
    let senders: Vec<_> = (0..SENDERS)
        .map(|_| {
            let shard = shard.clone();
            tokio::spawn(async move { send(&shard, NewMessage::new(vec![7; 1 << 20])).await })
        })
        .collect();
    for sender in senders {
        sender.await.unwrap();
    }
    let mut received = 0;
    loop {
        let some = shard.receive(1_000, Some(LONG), LATER).await.unwrap();
        if some.is_empty() {
            break;
        }
        received += some.len();
    }
    assert_eq!(received, SENDERS);
}

pub(crate) async fn rejects_bodies_too_large_for_the_store(bed: Bed) {
    let shard = bed.open().await;
    let large = NewMessage::new(vec![7; 1 << 20]);
    let sent = shard.send(vec![NewMessage::new("a"), large]).await;
    let refused = sent[1].clone().unwrap_err();
    assert_eq!(refused.kind(), QueueErrorKind::InvalidArgument);
    let message = refused.to_string();
    assert!(
        message.starts_with("body: ") && message.contains("this store accepts"),
        "{message}"
    );
    assert_eq!(receive(&shard, 5).await.len(), 1);
}
