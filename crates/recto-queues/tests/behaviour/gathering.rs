//! Tests of segment merging: the last messages of old segments move to newer segments, and the old segments
//! are released.

use std::collections::BTreeMap;
use std::time::Duration;

use recto_protocol::queues::limits::MAX_SCATTERED_SEGMENTS;
use recto_protocol::queues::{Protocol, QueueOptions};
use recto_queues::{ATTEMPTS_ATTRIBUTE, Message, NewMessage, QueueErrorKind, Queues, Shards};

use crate::queues::{assert_refused, made, with_dead_letters};
use crate::stores::Bed;
use crate::{LONG, NOW, bodies, receive, send};

/// Parameters of a test of segment merging:
///
/// - `left`: number of remaining messages, each in its own segment
/// - `above`: number of segments above which merging starts
/// - `wait`: delay until the messages are due
#[derive(Clone, Copy)]
pub(crate) struct Scattered {
    left: usize,
    above: usize,
    wait: Duration,
}

const MANY: Scattered = Scattered {
    left: MAX_SCATTERED_SEGMENTS + 60,
    above: MAX_SCATTERED_SEGMENTS,
    wait: LONG,
};
/// Parameters for stores on which a test waits in real time.
pub(crate) const FEW: Scattered = Scattered {
    left: 24,
    // The 24 messages need 12 segments of two messages each. The limit allows a few more segments.
    above: 16,
    wait: Duration::from_secs(12),
};
const HOUR: Duration = Duration::from_secs(3_600);

fn delayed(body: &str, delay: Duration) -> NewMessage {
    NewMessage {
        delay: Some(delay),
        ..NewMessage::new(body)
    }
}

/// Returns a message that goes to the same shard in each call, because its group is fixed.
fn of_one_shard(message: NewMessage) -> NewMessage {
    NewMessage {
        group: Some("g".to_owned()),
        ..message
    }
}

/// Opens queues whose segments take two messages.
async fn queues_of(bed: &Bed, scattered: Scattered) -> Queues {
    let limits = |protocol: Protocol| {
        protocol
            .with_segments_of(2)
            .with_scattered_segments(scattered.above)
    };
    bed.open_queues_with(limits).await
}

/// Returns the unresolved messages: for each body, the number of receives and the time of sending.
async fn peeked(jobs: &Shards) -> BTreeMap<String, (u16, i64)> {
    let peeked = jobs.peek(1_000).await.unwrap().into_iter().map(|one| {
        let body = String::from_utf8(one.content.unwrap().body).unwrap();
        (body, (one.attempts, one.sent_at))
    });
    peeked.collect()
}

async fn has_segments(jobs: &Shards) -> usize {
    jobs.segments().await.unwrap()
}

/// Sends pairs of messages, one pair per segment. One message of each pair is acknowledged at once. The other
/// message is due after `wait`, or is given back for that time.
async fn with_one_left_each(jobs: &Shards, scattered: Scattered) {
    for number in 0..scattered.left {
        let left = format!("left {number:03}");
        let left = match number % 2 {
            0 => delayed(&left, scattered.wait),
            _ => NewMessage::new(left),
        };
        let both = [left, NewMessage::new("done")].map(of_one_shard).to_vec();
        assert!(jobs.send(both).await.iter().all(Result::is_ok));
        for message in jobs.receive(2, Some(LONG), NOW).await.unwrap() {
            let receipt = [message.receipt];
            if message.body == b"done" {
                jobs.ack(&receipt).await.unwrap();
            } else {
                jobs.nack(&receipt, scattered.wait, "").await.unwrap();
            }
        }
    }
}

/// Checks that segment merging moves the remaining messages of many segments into few segments. No message is
/// lost or duplicated. Each message keeps its number of receives, its time of sending, and its due time.
pub(crate) async fn compacts_many_sparse_segments(bed: Bed) {
    comes_together(bed, MANY).await;
}

pub(crate) async fn comes_together(bed: Bed, scattered: Scattered) {
    let queues = queues_of(&bed, scattered).await;
    let jobs = made(&queues, "jobs", QueueOptions::default()).await.shards;
    with_one_left_each(&jobs, scattered).await;
    let (before, seen) = (has_segments(&jobs).await, peeked(&jobs).await);
    assert!(before >= scattered.left, "{before} segments");
    assert_eq!(seen.len(), scattered.left);
    // Run the maintenance repeatedly: two moved messages empty two segments, but need one new
    // segment.
    for _ in 0..10 {
        queues.run_maintenance_now().await;
    }
    let after = has_segments(&jobs).await;
    assert!(after <= scattered.above, "{after} segments");
    assert_eq!(peeked(&jobs).await, seen);
    assert_eq!(bodies(&receive(&jobs, 1_000).await), [""; 0], "none is due");
    // Another process, which opens the queues again, sees the same messages.
    drop((queues, jobs));
    tokio::time::sleep(scattered.wait).await;
    let queues = queues_of(&bed, scattered).await;
    let jobs = queues.find("jobs").await.unwrap().shards;
    let mut received: Vec<Message> = Vec::new();
    while received.len() < scattered.left {
        let some = jobs.receive(1_000, Some(LONG), NOW).await.unwrap();
        assert!(!some.is_empty(), "{} of {}", received.len(), scattered.left);
        received.extend(some);
    }
    let seen_again: BTreeMap<_, _> = received
        .iter()
        .map(|one| {
            (
                bodies(std::slice::from_ref(one)).remove(0),
                (one.attempts - 1, one.sent_at),
            )
        })
        .collect();
    assert_eq!((received.len(), seen_again), (scattered.left, seen));
    let receipts: Vec<_> = received.iter().map(|one| one.receipt).collect();
    for some in receipts.chunks(1_000) {
        jobs.ack(some).await.unwrap();
    }
    assert_eq!(peeked(&jobs).await, BTreeMap::new());
}

/// Checks which messages segment merging does not move: messages that can be received now, messages that a
/// receiver has, and messages of ordered queues.
pub(crate) async fn does_not_compact_receivable_or_ordered_messages(bed: Bed) {
    for options in [QueueOptions::default(), QueueOptions::ordered()] {
        let is_ordered = options.is_ordered;
        let queues = bed
            .open_queues_with(|protocol| protocol.with_segments_of(1).with_scattered_segments(2))
            .await;
        let jobs = made(&queues, "jobs", options).await;
        for body in ["a", "b", "c", "d"] {
            send(&jobs.shards, of_one_shard(NewMessage::new(body))).await;
        }
        let first = jobs.shards.receive(1, Some(LONG), NOW).await.unwrap();
        let before = has_segments(&jobs.shards).await;
        queues.run_maintenance_now().await;
        assert_eq!(has_segments(&jobs.shards).await, before);
        jobs.shards.nack(&[first[0].receipt], HOUR, "").await.unwrap();
        queues.run_maintenance_now().await;
        let after = has_segments(&jobs.shards).await;
        // In an unordered queue, the message that was given back is in a new segment now, and its old segment
        // was released. The number of segments is therefore the same for both kinds of queues.
        assert_eq!(after, before);
        let rest = jobs.shards.receive(10, Some(LONG), NOW).await.unwrap();
        let expected: &[&str] = if is_ordered { &[] } else { &["b", "c", "d"] };
        assert_eq!(bodies(&rest), expected);
        queues.delete(jobs.id).await.unwrap();
    }
}

/// Checks that segment merging keeps the number of receives, so that a moved message becomes a dead letter at
/// the limit. A moved dead letter keeps its reason.
pub(crate) async fn compacted_messages_become_dead_letters_at_the_limit(bed: Bed) {
    let queues = bed
        .open_queues_with(|protocol| protocol.with_segments_of(1).with_scattered_segments(1))
        .await;
    let dead = made(&queues, "dead", QueueOptions::default()).await.shards;
    let jobs = made(&queues, "jobs", with_dead_letters("dead")).await;
    let twice = QueueOptions {
        dead_letters: jobs.options.dead_letters.clone().map(|mut letters| {
            letters.attempts = 2;
            letters
        }),
        ..jobs.options.clone()
    };
    queues.change(jobs.id, None, twice).await.unwrap();
    let jobs = jobs.shards;
    send(&jobs, of_one_shard(NewMessage::new("a"))).await;
    send(&jobs, of_one_shard(delayed("later", LONG))).await;
    send(&jobs, of_one_shard(delayed("later", LONG))).await;
    let once = jobs.receive(1, Some(LONG), NOW).await.unwrap().remove(0);
    jobs.nack(&[once.receipt], NOW, "no disk").await.unwrap();
    queues.run_maintenance_now().await;
    let twice = jobs.receive(1, Some(LONG), NOW).await.unwrap().remove(0);
    assert_eq!(
        (twice.attempts, twice.first_received_at),
        (2, once.first_received_at)
    );
    assert_ne!(twice.receipt.segment, once.receipt.segment, "it was moved on");
    jobs.nack(&[twice.receipt], NOW, "no disk").await.unwrap();
    let letter = dead.receive(1, Some(LONG), NOW).await.unwrap().remove(0);
    assert_eq!(
        (letter.attempts, &letter.attributes[ATTEMPTS_ATTRIBUTE][..]),
        (1, "2")
    );
    // Segment merging moves dead letters with their attributes.
    for _ in 0..3 {
        send(&dead, of_one_shard(delayed("later", LONG))).await;
    }
    dead.nack(&[letter.receipt], NOW, "").await.unwrap();
    queues.run_maintenance_now().await;
    let moved = dead.receive(1, Some(LONG), NOW).await.unwrap().remove(0);
    assert_ne!(moved.receipt.segment, letter.receipt.segment, "it was moved on");
    assert_eq!((moved.attempts, &moved.attributes), (2, &letter.attributes));
}

/// Checks that messages go to other shards if a shard is full. If all shards are full, the sender gets an
/// error and nothing is sent. Earlier messages stay.
pub(crate) async fn rejects_messages_when_all_shards_are_full(bed: Bed) {
    const SEGMENTS: usize = 3;
    let limits = |protocol: Protocol| protocol.with_segments_of(1).with_live_segments(SEGMENTS);
    let queues = bed.open_queues_with(limits).await;
    let jobs = made(&queues, "jobs", QueueOptions::default()).await.shards;
    let room = jobs.count() * SEGMENTS;
    for number in 0..room {
        send(&jobs, NewMessage::new(number.to_string())).await;
    }
    assert_eq!(has_segments(&jobs).await, room);
    let refused = jobs.send(vec![NewMessage::new("more")]).await.remove(0);
    assert_refused(
        refused.map(drop),
        QueueErrorKind::Full,
        "the queue is full: nothing was sent",
    );
    assert_eq!(jobs.stats().await.unwrap().messages, room as u64);
    let done = jobs.receive(1, Some(LONG), NOW).await.unwrap().remove(0);
    jobs.ack(&[done.receipt]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(receive(&jobs, room).await.len(), room - 1);
    send(&jobs, NewMessage::new("more")).await;
}
