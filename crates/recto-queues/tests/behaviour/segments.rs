//! Tests of segments: they fill up, are sealed, and are released.

use std::sync::atomic::Ordering;
use std::time::Duration;

use recto_queues::{NewMessage, Shards};

use crate::stores::Bed;
use crate::{LATER, LONG, NOW, bodies, send};

/// Number of messages: more than two segments can take.
const MESSAGES: usize = 10_000;

async fn fill(shard: &Shards) {
    for first in (0..MESSAGES).step_by(1_000) {
        let messages = (first..first + 1_000).map(|number| NewMessage::new(number.to_string()));
        let sent = shard.send(messages.collect()).await;
        assert!(sent.iter().all(Result::is_ok));
    }
}

/// Receives and acknowledges all `MESSAGES` messages, and checks their order.
async fn drain(shard: &Shards) {
    let mut next = 0;
    while next < MESSAGES {
        let received = shard.receive(700, Some(LONG), NOW).await.unwrap();
        let expected: Vec<_> = (next..next + received.len())
            .map(|number| number.to_string())
            .collect();
        assert_eq!(
            bodies(&received),
            expected,
            "in the order in which they were sent"
        );
        next += received.len();
        let receipts: Vec<_> = received.iter().map(|message| message.receipt).collect();
        shard.ack(&receipts).await.unwrap();
    }
}

pub(crate) async fn segments_go_when_all_of_their_messages_are_done_with(bed: Bed) {
    let shard = bed.open().await;
    fill(&shard).await;
    assert_eq!(shard.segments().await.unwrap(), 3);
    drain(&shard).await;
    fill(&shard).await;
    drain(&shard).await;
    // Only the open segment remains.
    assert_eq!(shard.segments().await.unwrap(), 1);
    // At most three segments were live at the same time. Later segments reused their versioned cells, so
    // there are three states.
    assert_eq!(bed.count_rows("recto_queue_state").await, 3);
    let bodies_left = bed.count_rows("recto_queue_body_0").await;
    assert!(
        bodies_left <= 4_096,
        "bodies go with their segment: {bodies_left} are left"
    );
    assert_eq!(shard.receive(1, Some(LONG), NOW).await.unwrap(), []);
}

pub(crate) async fn receives_messages_left_in_the_first_segment(bed: Bed) {
    let shard = bed.open().await;
    fill(&shard).await;
    let first = shard.receive(1, Some(LONG), NOW).await.unwrap().remove(0);
    for _ in 0..5 {
        shard.receive(1_000, Some(LONG), NOW).await.unwrap();
    }
    shard.nack(&[first.receipt], NOW, "").await.unwrap();
    // Every second poll begins at the first segment, whether its messages failed or not.
    let mut again = shard.receive(1, Some(LONG), NOW).await.unwrap();
    again.extend(shard.receive(1, Some(LONG), NOW).await.unwrap());
    assert!(bodies(&again).contains(&"0".to_owned()));
}

pub(crate) async fn messages_in_flight_do_not_block_new_ones(bed: Bed) {
    let shard = bed.open().await;
    // Send and receive 4,096 messages, which fill a segment.
    let mut held = Vec::new();
    for count in [1_000, 1_000, 1_000, 1_000, 96] {
        let sent = shard.send(vec![NewMessage::new("held"); count]).await;
        assert!(sent.iter().all(Result::is_ok));
        held.extend(shard.receive(count, Some(LONG), NOW).await.unwrap());
    }
    assert_eq!(held.len(), 4_096);
    send(&shard, NewMessage::new("new")).await;
    let new = shard.receive(10, Some(LONG), NOW).await.unwrap();
    assert_eq!(bodies(&new), ["new"]);
}

pub(crate) async fn does_not_reread_messages_that_are_not_due(bed: Bed) {
    // Number of delayed messages, each in its own segment: more segments than the process caches.
    const DELAYED: usize = 80;
    let shard = bed.open_with_segments_of(1).await;
    let of = |delay: Duration, body: &str| NewMessage {
        delay: Some(delay),
        ..NewMessage::new(body)
    };
    for _ in 0..DELAYED {
        send(&shard, of(LONG * 6, "much later")).await;
    }
    for message in [of(LATER, "later"), of(NOW, "now")] {
        send(&shard, message).await;
    }
    let received = shard.receive(10, Some(LONG), NOW).await.unwrap();
    assert!(bodies(&received).contains(&"now".to_owned()));
    let before = bed.watch.state_reads.load(Ordering::Relaxed);
    for _ in 0..5 {
        shard.receive(10, Some(LONG), LATER * 2).await.unwrap();
    }
    let read = bed.watch.state_reads.load(Ordering::Relaxed) - before;
    assert!(read <= 5, "{read} states are read again");
}

pub(crate) async fn receives_skipped_messages_when_due(bed: Bed) {
    let shard = bed.open_with_segments_of(1).await;
    let later = NewMessage {
        delay: Some(LATER),
        ..NewMessage::new("later")
    };
    // Send two messages, so that the segment of the first one is sealed.
    send(&shard, later).await;
    send(&shard, NewMessage::new("now")).await;
    let now = shard.receive(10, Some(LONG), NOW).await.unwrap();
    assert_eq!(bodies(&now), ["now"]);
    let later = shard.receive(10, Some(LONG), LATER * 8).await.unwrap();
    assert_eq!(bodies(&later), ["later"]);
    shard.nack(&[later[0].receipt], LONG, "").await.unwrap();
    assert_eq!(shard.receive(10, Some(LONG), NOW).await.unwrap(), []);
    // Giving the message back makes it due earlier. The process that does so updates its cached due time.
    shard.nack(&[later[0].receipt], NOW, "").await.unwrap();
    let again = shard.receive(10, Some(LONG), NOW).await.unwrap();
    assert_eq!(bodies(&again), ["later"]);
}

pub(crate) async fn rows_of_a_log_are_put_over_those_of_the_segments_before(bed: Bed) {
    for turn in 1..=6 {
        // Each log has four messages, in at most four rows.
        for together in [vec![1, 1, 1, 1], vec![3, 1], vec![1, 2, 1], vec![4]] {
            let shard = bed.open_with_segments_of(4).await;
            for count in together {
                let sent = shard.send(vec![NewMessage::new("a"); count]).await;
                assert!(sent.iter().all(Result::is_ok));
            }
            drop(shard);
            // Open the queue again, so that nothing is cached.
            let shard = bed.open_with_segments_of(4).await;
            let received = shard.receive(10, Some(LONG), NOW).await.unwrap();
            assert_eq!(received.len(), 4, "turn {turn}");
            let receipts: Vec<_> = received.iter().map(|message| message.receipt).collect();
            shard.ack(&receipts).await.unwrap();
        }
    }
    let registers = bed.count_rows("recto_queue_state").await;
    let rows = bed.count_rows("recto_queue_log").await;
    assert!(
        registers <= 2 && rows <= 4 * registers,
        "{rows} rows of {registers} registers"
    );
}
