//! Tests of sending messages.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use recto_queues::{NewMessage, QueueErrorKind, Sent};

use crate::stores::Bed;
use crate::{LATER, LONG, NOW, bodies, receive, send};

pub(crate) async fn messages_come_back_as_they_were_sent(bed: Bed) {
    let shard = bed.open().await;
    let message = NewMessage {
        body: vec![0, 255, 7],
        attributes: BTreeMap::from([("kind".into(), "picture".into()), ("empty".into(), String::new())]),
        group: Some("g".into()),
        deduplication_id: Some("d".into()),
        delay: Some(Duration::ZERO),
    };
    let sent = shard.send(vec![message.clone(), NewMessage::new("")]).await;
    let ids: Vec<_> = sent.into_iter().map(Result::unwrap).collect();
    let received = receive(&shard, 10).await;
    assert_eq!(received.len(), 2);
    let [first, second] = &received[..] else {
        panic!("two messages")
    };
    assert_eq!(ids, [Sent::New(first.id), Sent::New(second.id)]);
    assert_eq!(
        (
            &first.body,
            &first.attributes,
            &first.group,
            &first.deduplication_id
        ),
        (
            &message.body,
            &message.attributes,
            &message.group,
            &message.deduplication_id
        )
    );
    assert_eq!(
        (second.body.len(), second.attempts, second.group.as_ref()),
        (0, 1, None)
    );
    assert!(second.sent_at <= second.first_received_at);
    assert_eq!(receive(&shard, 10).await, []);
}

pub(crate) async fn rejects_invalid_messages_and_names_the_field(bed: Bed) {
    let shard = bed.open().await;
    let wrong = [
        ("body", NewMessage::new(vec![0; (1 << 20) + 1])),
        (
            "delay_seconds",
            NewMessage {
                delay: Some(LONG * 10_000),
                ..NewMessage::new("a")
            },
        ),
        (
            "group",
            NewMessage {
                group: Some(String::new()),
                ..NewMessage::new("a")
            },
        ),
        (
            "deduplication_id",
            NewMessage {
                deduplication_id: Some("x".repeat(257)),
                ..NewMessage::new("a")
            },
        ),
        (
            "attributes",
            NewMessage {
                attributes: (0..65)
                    .map(|number| (format!("a{number}"), String::new()))
                    .collect(),
                ..NewMessage::new("a")
            },
        ),
        (
            "attributes: \"kéé",
            NewMessage {
                attributes: [(format!("k{}", "é".repeat(200)), String::new())].into(),
                ..NewMessage::new("a")
            },
        ),
        (
            "attributes: \"\" is a name of 0 bytes",
            NewMessage {
                attributes: [(String::new(), String::new())].into(),
                ..NewMessage::new("a")
            },
        ),
    ];
    for (said, message) in wrong {
        let sent = shard.send(vec![NewMessage::new("right"), message]).await;
        let [right, refused] = <[_; 2]>::try_from(sent).unwrap();
        assert!(matches!(right, Ok(Sent::New(_))), "the others are sent");
        let refused = refused.unwrap_err();
        assert_eq!(refused.kind(), QueueErrorKind::InvalidArgument);
        assert!(
            refused.to_string().starts_with(said) && refused.to_string().chars().count() < 160,
            "{refused}"
        );
        assert_eq!(refused.field(), said.split(':').next());
    }
    assert_eq!(bodies(&receive(&shard, 100).await), ["right"; 7]);
}

pub(crate) async fn a_deduplication_id_is_sent_once(bed: Bed) {
    let shard = bed.open().await;
    let of = |id: &str, body: &str| NewMessage {
        deduplication_id: Some(id.into()),
        ..NewMessage::new(body)
    };
    let Sent::New(first) = send(&shard, of("a", "first")).await else {
        panic!("it is new")
    };
    assert_eq!(send(&shard, of("a", "again")).await, Sent::Duplicate(first));
    let together = shard
        .send(vec![of("b", "one"), of("b", "two"), of("a", "three")])
        .await;
    let together: Vec<_> = together.into_iter().map(Result::unwrap).collect();
    let Sent::New(one) = together[0] else {
        panic!("it is new")
    };
    assert_eq!(together[1..], [Sent::Duplicate(one), Sent::Duplicate(first)]);
    let received = receive(&shard, 10).await;
    let different: BTreeSet<_> = bodies(&received).into_iter().collect();
    assert_eq!(different, BTreeSet::from(["first".into(), "one".into()]));
    let receipts: Vec<_> = received.iter().map(|message| message.receipt).collect();
    shard.ack(&receipts).await.unwrap();
    // Another process recognizes the duplicate, even after the message is resolved.
    assert_eq!(
        send(&bed.open().await, of("a", "later")).await,
        Sent::Duplicate(first)
    );
}

pub(crate) async fn a_deduplication_id_is_known_in_the_segments_behind(bed: Bed) {
    let shard = bed.open().await;
    let of_id = NewMessage {
        deduplication_id: Some("a".into()),
        ..NewMessage::new("first")
    };
    let Sent::New(first) = send(&shard, of_id.clone()).await else {
        panic!("it is new")
    };
    // Send more messages than fit into one segment.
    for _ in 0..5 {
        let sent = shard.send(vec![NewMessage::new("x"); 1_000]).await;
        assert!(sent.iter().all(Result::is_ok));
    }
    assert_eq!(shard.segments().await.unwrap(), 2);
    assert_eq!(send(&shard, of_id.clone()).await, Sent::Duplicate(first));
    assert_eq!(send(&bed.open().await, of_id).await, Sent::Duplicate(first));
}

pub(crate) async fn delivers_delayed_messages_when_due(bed: Bed) {
    let shard = bed.open().await;
    let of = |delay: Duration, body: &str| NewMessage {
        delay: Some(delay),
        ..NewMessage::new(body)
    };
    let sent = shard
        .send(vec![
            of(LATER, "later"),
            of(LONG * 6, "much later"),
            of(NOW, "now"),
        ])
        .await;
    assert!(sent.iter().all(Result::is_ok));
    assert_eq!(
        bodies(&shard.receive(10, Some(LONG), NOW).await.unwrap()),
        ["now"]
    );
    let waited = shard.receive(10, Some(LONG), LATER * 4).await.unwrap();
    assert_eq!(bodies(&waited), ["later"]);
    // A message that is due in more than 15 minutes goes to a separate segment.
    assert_eq!(shard.segments().await.unwrap(), 2);
}
