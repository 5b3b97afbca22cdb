//! Tests of ordered queues: messages of a group are delivered in order.

use std::sync::atomic::Ordering;

use recto_queues::{NewMessage, QueueErrorKind, ShardOptions, Shards};

use crate::stores::Bed;
use crate::{LATER, LONG, NOW, VISIBILITY, bodies};

fn of(group: &str, body: &str) -> NewMessage {
    NewMessage {
        group: Some(group.into()),
        ..NewMessage::new(body)
    }
}

async fn ordered(bed: &Bed) -> Shards {
    let shard = bed.open().await;
    shard.set_options(ShardOptions {
        is_ordered: true,
        ..shard.options()
    });
    shard
}

pub(crate) async fn of_a_group_one_message_is_received_at_a_time(bed: Bed) {
    let shard = ordered(&bed).await;
    let sent = [
        of("a", "a1"),
        of("b", "b1"),
        of("a", "a2"),
        of("a", "a3"),
        of("b", "b2"),
    ];
    assert!(shard.send(sent.to_vec()).await.iter().all(Result::is_ok));
    let mut first = shard.receive(10, Some(VISIBILITY), NOW).await.unwrap();
    first.sort_by(|a, b| a.body.cmp(&b.body));
    assert_eq!(bodies(&first), ["a1", "b1"]);
    assert_eq!(shard.receive(10, Some(LONG), NOW).await.unwrap(), []);
    shard.ack(&[first[0].receipt]).await.unwrap();
    let second = shard.receive(10, Some(LONG), NOW).await.unwrap();
    assert_eq!(bodies(&second), ["a2"]);
    // A message whose visibility timeout ended is received again before the later messages of its group.
    tokio::time::sleep(LATER).await;
    assert_eq!(bodies(&shard.receive(10, Some(LONG), NOW).await.unwrap()), ["b1"]);
    shard.nack(&[second[0].receipt], LATER, "").await.unwrap();
    assert_eq!(shard.receive(10, Some(LONG), NOW).await.unwrap(), []);
    assert_eq!(
        bodies(&shard.receive(10, Some(LONG), LATER * 8).await.unwrap()),
        ["a2"]
    );
}

pub(crate) async fn rejects_messages_without_a_group_or_with_a_delay(bed: Bed) {
    let shard = ordered(&bed).await;
    let delayed = NewMessage {
        delay: Some(LATER),
        ..of("a", "a1")
    };
    for (field, message) in [("group", NewMessage::new("x")), ("delay_seconds", delayed)] {
        let refused = shard.send(vec![message]).await.remove(0).unwrap_err();
        assert_eq!(refused.kind(), QueueErrorKind::InvalidArgument);
        assert!(
            refused.to_string().starts_with(&format!("{field}: ")),
            "{refused}"
        );
    }
    assert_eq!(shard.receive(10, Some(LONG), NOW).await.unwrap(), []);
}

pub(crate) async fn nothing_is_sent_behind_what_was_not(bed: Bed) {
    let shard = ordered(&bed).await;
    // The messages together are too large for one append, so the call needs several appends.
    let large = |body: u8| of("a", &char::from(body).to_string().repeat(900_000));
    let messages: Vec<_> = (b'a'..=b'i').map(large).collect();
    bed.watch.refused_appends.store(1, Ordering::Relaxed);
    let sent = shard.send(messages.clone()).await;
    let kinds: Vec<_> = sent.into_iter().map(|one| one.unwrap_err().kind()).collect();
    let refused = kinds.iter().take_while(|kind| **kind == QueueErrorKind::Store);
    let refused = refused.count();
    assert!((1..messages.len()).contains(&refused), "{kinds:?}");
    assert!(
        kinds[refused..]
            .iter()
            .all(|kind| *kind == QueueErrorKind::Unavailable),
        "nothing was done: {kinds:?}"
    );
    assert_eq!(shard.receive(10, Some(LONG), NOW).await.unwrap(), []);
    // In an unordered queue, the messages after a failed append are sent.
    let shard = bed.open().await;
    bed.watch.refused_appends.store(1, Ordering::Relaxed);
    let sent = shard.send(messages).await;
    let failed = sent.iter().filter(|one| one.is_err()).count();
    assert_eq!(failed, refused);
}

pub(crate) async fn a_group_is_in_order_across_segments(bed: Bed) {
    const MESSAGES: usize = 5_000;
    let shard = ordered(&bed).await;
    for first in (0..MESSAGES).step_by(1_000) {
        // The messages belong to ten groups. One further group has its first message in the first segment and
        // its last message in the last segment.
        let group = |number: usize| {
            if number.is_multiple_of(4_999) {
                "long".to_owned()
            } else {
                (number % 10).to_string()
            }
        };
        let messages = (first..first + 1_000).map(|number| of(&group(number), &number.to_string()));
        assert!(shard.send(messages.collect()).await.iter().all(Result::is_ok));
    }
    assert_eq!(shard.segments().await.unwrap(), 2);
    let held = shard.receive(1, Some(LONG), NOW).await.unwrap();
    assert_eq!(bodies(&held), ["0"]);
    let mut received = 1;
    loop {
        let some = shard.receive(100, Some(LONG), NOW).await.unwrap();
        assert!(
            some.iter()
                .all(|message| message.group.as_deref() != Some("long"))
        );
        if some.is_empty() {
            break;
        }
        received += some.len();
        let receipts: Vec<_> = some.iter().map(|message| message.receipt).collect();
        shard.ack(&receipts).await.unwrap();
    }
    assert_eq!(received, MESSAGES - 1);
    shard.ack(&[held[0].receipt]).await.unwrap();
    assert_eq!(
        bodies(&shard.receive(10, Some(LONG), NOW).await.unwrap()),
        ["4999"]
    );
}

pub(crate) async fn a_group_behind_very_many_messages_waits_for_some_of_them(bed: Bed) {
    // Number of messages, each in its own segment: one poll of an ordered queue covers only 64
    // segments.
    const MESSAGES: usize = 65;
    let shard = bed.open_with_segments_of(1).await;
    shard.set_options(ShardOptions {
        is_ordered: true,
        ..shard.options()
    });
    for _ in 0..MESSAGES {
        assert!(shard.send(vec![of("a", "a")]).await[0].is_ok());
    }
    assert!(shard.send(vec![of("b", "b")]).await[0].is_ok());
    let first = shard.receive(10, Some(LONG), NOW).await.unwrap();
    assert_eq!(bodies(&first), ["a"]);
    assert_eq!(shard.receive(10, Some(LONG), NOW).await.unwrap(), []);
    shard.ack(&[first[0].receipt]).await.unwrap();
    let second = shard.receive(10, Some(LONG), NOW).await.unwrap();
    shard.ack(&[second[0].receipt]).await.unwrap();
    assert_eq!(bodies(&second), ["a"]);
    // A separate task releases resolved segments, so the other messages may not become available at
    // the same time.
    let mut later = Vec::new();
    while later.len() < 2 {
        let received = shard.receive(10, Some(LONG), LATER * 8).await.unwrap();
        assert!(!received.is_empty());
        later.extend(bodies(&received));
    }
    later.sort();
    assert_eq!(later, ["a", "b"]);
}
