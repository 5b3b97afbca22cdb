//! Tests of operations with receipts: ack, nack, extend and give back.

use std::time::Duration;

use recto_protocol::queues::{ClaimId, Receipt, Segment};
use recto_queues::{NewMessage, Settled};

use crate::stores::Bed;
use crate::{LATER, LONG, NOW, VISIBILITY, bodies, receive, send};

pub(crate) async fn a_receipt_holds_until_the_message_is_received_again(bed: Bed) {
    let shard = bed.open().await;
    send(&shard, NewMessage::new("a")).await;
    let first = receive(&shard, 1).await.remove(0).receipt;
    tokio::time::sleep(LATER).await;
    // The visibility timeout has ended, but no other receiver has the message, so the receipt is still valid.
    assert_eq!(shard.extend(&[first], VISIBILITY).await.unwrap(), [Settled::Done]);
    assert_eq!(receive(&shard, 1).await, []);
    tokio::time::sleep(LATER).await;
    let second = receive(&shard, 1).await.remove(0).receipt;
    assert_eq!(shard.ack(&[first]).await.unwrap(), [Settled::Stale]);
    assert_eq!(shard.nack(&[first], NOW, "").await.unwrap(), [Settled::Stale]);
    assert_eq!(shard.extend(&[first], LONG).await.unwrap(), [Settled::Stale]);
    assert_eq!(
        shard.ack(&[second, second]).await.unwrap(),
        [Settled::Done, Settled::Done]
    );
    // The message is resolved, so an ack with any of its receipts succeeds.
    assert_eq!(shard.ack(&[first]).await.unwrap(), [Settled::Done]);
    tokio::time::sleep(LATER).await;
    assert_eq!(receive(&shard, 1).await, []);
}

pub(crate) async fn a_receipt_of_what_never_was_is_stale(bed: Bed) {
    let shard = bed.open().await;
    send(&shard, NewMessage::new("a")).await;
    let receipt = receive(&shard, 1).await.remove(0).receipt;
    let (segment, claim) = (Segment(99), ClaimId(7));
    for made_up in [
        Receipt { segment, ..receipt },
        Receipt { seq: 9, ..receipt },
        Receipt { claim, ..receipt },
    ] {
        let shown = [made_up];
        assert_eq!(shard.ack(&shown).await.unwrap(), [Settled::Stale]);
        assert_eq!(shard.nack(&shown, NOW, "").await.unwrap(), [Settled::Stale]);
        assert_eq!(shard.extend(&shown, LONG).await.unwrap(), [Settled::Stale]);
    }
    let address = recto_protocol::queues::Address {
        place: recto_protocol::queues::Place(1),
        ..receipt.address
    };
    let foreign = Receipt { address, ..receipt };
    let refused = shard.ack(&[receipt, foreign]).await.unwrap_err();
    assert!(
        refused
            .to_string()
            .starts_with("receipt 1 belongs to another queue"),
        "{refused}"
    );
    assert_eq!(shard.totals().acked, 0);
    assert_eq!(shard.ack(&[receipt]).await.unwrap(), [Settled::Done]);
    assert_eq!((shard.ack(&[]).await.unwrap(), shard.totals().acked), (vec![], 1));
}

/// Checks that `extend` reports the receipt of a removed or purged message as stale. A job is canceled in
/// this way: its handler learns of it when it extends the visibility timeout.
pub(crate) async fn a_receipt_of_what_was_taken_away_is_stale(bed: Bed) {
    let shard = bed.open().await;
    for body in ["removed", "purged"] {
        send(&shard, NewMessage::new(body)).await;
    }
    let received = shard.receive(2, Some(LONG), NOW).await.unwrap();
    let receipts = [received[0].receipt, received[1].receipt];
    let position = shard.peek(1).await.unwrap()[0].position;
    assert!(shard.remove(position).await.unwrap());
    let extended = shard.extend(&receipts, LONG).await.unwrap();
    assert_eq!(extended, [Settled::Stale, Settled::Done]);
    shard.purge().await.unwrap();
    let both = [Settled::Stale, Settled::Stale];
    assert_eq!(shard.extend(&receipts, LONG).await.unwrap(), both);
    assert_eq!(shard.nack(&receipts, NOW, "").await.unwrap(), both);
    // An ack and a give-back succeed: after either, the receiver no longer has the message.
    let both = [Settled::Done, Settled::Done];
    assert_eq!(shard.ack(&receipts).await.unwrap(), both);
    assert_eq!(shard.give_back(&receipts).await.unwrap(), both);
    assert_eq!(shard.receive(1, Some(LONG), NOW).await.unwrap(), []);
}

pub(crate) async fn redelivers_nacked_messages_when_due(bed: Bed) {
    let shard = bed.open().await;
    send(&shard, NewMessage::new("a")).await;
    let first = shard.receive(1, Some(LONG), NOW).await.unwrap().remove(0);
    assert_eq!(
        shard.nack(&[first.receipt], NOW, "").await.unwrap(),
        [Settled::Done]
    );
    let second = shard.receive(1, Some(LONG), NOW).await.unwrap().remove(0);
    assert_eq!(second.attempts, 2);
    assert_eq!(
        shard.nack(&[second.receipt], LATER, "").await.unwrap(),
        [Settled::Done]
    );
    assert_eq!(receive(&shard, 1).await, []);
    let third = shard.receive(1, Some(LONG), LATER * 4).await.unwrap().remove(0);
    assert_eq!(third.attempts, 3);
}

pub(crate) async fn extended_messages_are_not_redelivered(bed: Bed) {
    let shard = bed.open().await;
    send(&shard, NewMessage::new("a")).await;
    let received = receive(&shard, 1).await.remove(0);
    assert_eq!(
        shard.extend(&[received.receipt], LONG).await.unwrap(),
        [Settled::Done]
    );
    tokio::time::sleep(LATER).await;
    assert_eq!(receive(&shard, 1).await, []);
    assert_eq!(shard.ack(&[received.receipt]).await.unwrap(), [Settled::Done]);
}

pub(crate) async fn acknowledgements_survive_reopening(bed: Bed) {
    let shard = bed.open().await;
    let sent = shard
        .send((0..6).map(|number| NewMessage::new(number.to_string())).collect())
        .await;
    assert!(sent.iter().all(Result::is_ok));
    let received = shard.receive(4, Some(VISIBILITY), NOW).await.unwrap();
    assert_eq!(bodies(&received), ["0", "1", "2", "3"]);
    shard
        .ack(&[received[1].receipt, received[2].receipt])
        .await
        .unwrap();
    drop(shard);
    let shard = bed.open().await;
    // Another process gave the claim, so this process waits for a margin after the stored end of the
    // visibility timeout.
    assert_eq!(
        bodies(&shard.receive(10, Some(LONG), NOW).await.unwrap()),
        ["4", "5"]
    );
    let margin = Duration::from_secs(8);
    assert_eq!(
        bodies(&shard.receive(10, Some(LONG), margin).await.unwrap()),
        ["0", "3"]
    );
}
