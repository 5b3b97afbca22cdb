//! Tests of fairness: failing messages do not delay other messages, regardless of their number and their delay.

use std::collections::BTreeSet;
use std::time::Duration;

use recto_queues::{Message, NewMessage, QueueErrorKind, Settled, ShardOptions, Shards};

use crate::stores::Bed;
use crate::{LONG, NOW, bodies, send};

/// Number of messages that each receive requests.
const AT_ONCE: usize = 100;

async fn send_many(shard: &Shards, body: &str, count: usize) {
    for first in (0..count).step_by(1_000) {
        let batch = (first..count.min(first + 1_000)).map(|_| NewMessage::new(body));
        let sent = shard.send(batch.collect()).await;
        assert!(sent.iter().all(Result::is_ok));
    }
}

/// Gives back the messages whose body is `bad`, with a delay, and acknowledges the others. Returns the number
/// of acknowledged messages.
async fn work_on(shard: &Shards, received: &[Message], delay: Duration) -> usize {
    let (failed, done): (Vec<_>, Vec<_>) = received.iter().partition(|message| message.body == b"bad");
    let receipts = |messages: &[&Message]| messages.iter().map(|message| message.receipt).collect::<Vec<_>>();
    for (settled, count) in [
        (
            shard.nack(&receipts(&failed), delay, "broken").await,
            failed.len(),
        ),
        (shard.ack(&receipts(&done)).await, done.len()),
    ] {
        assert_eq!(settled.unwrap(), vec![Settled::Done; count]);
    }
    done.len()
}

/// Checks that failing messages do not starve later messages. The test uses more failing messages than an
/// earlier release allowed to be pending in a segment.
pub(crate) async fn failing_messages_do_not_starve_others(bed: Bed) {
    let (bad, good) = (1_100, 200);
    let shard = bed.open().await;
    send_many(&shard, "bad", bad).await;
    send_many(&shard, "good", good).await;
    let (mut received_new, mut done) = (0, 0);
    // Half of the messages of each receive are new, until all were received once.
    for turn in 0..(bad + good) / (AT_ONCE / 2) {
        let received = shard.receive(AT_ONCE, Some(LONG), NOW).await.unwrap();
        assert_eq!(received.len(), AT_ONCE);
        let new = received.iter().filter(|message| message.attempts == 1).count();
        let left = bad + good - received_new;
        assert!(new >= left.min(AT_ONCE / 2), "turn {turn}: {new} are new");
        received_new += new;
        done += work_on(&shard, &received, NOW).await;
    }
    assert_eq!((received_new, done), (bad + good, good));
    let left = shard.stats().await.unwrap();
    assert_eq!((left.messages, left.in_flight), (bad as u64, 0));
}

/// Checks that failing messages do not starve later messages if there are many segments, and the
/// first segments contain only failing messages.
pub(crate) async fn failing_segments_do_not_starve_those_behind(bed: Bed) {
    let (bad, good) = (60, 12);
    let shard = bed.open_with_segments_of(4).await;
    send_many_each(&shard, "bad", bad).await;
    // Let all bad messages fail before the good messages are sent.
    let mut failed = 0;
    while failed < bad {
        let received = shard.receive(10, Some(LONG), NOW).await.unwrap();
        failed += received.iter().filter(|message| message.attempts == 1).count();
        work_on(&shard, &received, NOW).await;
    }
    send_many_each(&shard, "good", good).await;
    let mut done = 0;
    // Every second receive begins with the new messages, so twice as many receives are enough.
    for _ in 0..2 * good {
        let received = shard.receive(2, Some(LONG), NOW).await.unwrap();
        assert_ne!(received, []);
        done += work_on(&shard, &received, NOW).await;
    }
    assert_eq!(done, good);
}

async fn send_many_each(shard: &Shards, body: &str, count: usize) {
    for _ in 0..count {
        send(shard, NewMessage::new(body)).await;
    }
}

/// Number of messages of a long queue: more than one receive returns. The run time of a test with a
/// long queue grows with the square of this number.
const MANY: usize = 2_000;

/// Checks that all messages can be given back for five minutes each, as in an outage. No message is received
/// twice before every other message was received.
pub(crate) async fn all_messages_may_be_given_back(bed: Bed) {
    let count = MANY;
    let shard = bed.open().await;
    send_many(&shard, "bad", count).await;
    for attempts in 1..=2 {
        let mut ids = BTreeSet::new();
        while ids.len() < count {
            let received = shard.receive(1_000, Some(LONG), NOW).await.unwrap();
            assert_ne!(received, [], "{} of {count} were received", ids.len());
            for message in &received {
                assert_eq!(message.attempts, attempts);
                assert!(ids.insert(message.id), "it comes twice");
            }
            work_on(&shard, &received, LONG / 2).await;
        }
        assert_eq!(shard.receive(1, Some(LONG), NOW).await.unwrap(), []);
        let stats = shard.stats().await.unwrap();
        assert_eq!((stats.messages, stats.delayed), (count as u64, count as u64));
        bed.pass(LONG / 2).await;
    }
}

pub(crate) async fn all_messages_may_be_in_flight(bed: Bed) {
    let count = MANY;
    let shard = bed.open().await;
    send_many(&shard, "good", count).await;
    let mut held = Vec::new();
    while held.len() < count {
        let received = shard.receive(1_000, Some(LONG), NOW).await.unwrap();
        assert_ne!(received, [], "{} of {count} were received", held.len());
        held.extend(received);
    }
    send(&shard, NewMessage::new("behind")).await;
    let behind = shard.receive(10, Some(LONG), NOW).await.unwrap();
    assert_eq!(bodies(&behind), ["behind"]);
    drop(shard);
    // Another process counts the same messages, because it reads them from the store.
    let shard = bed.open().await;
    let stats = shard.stats().await.unwrap();
    let all = count as u64 + 1;
    assert_eq!((stats.messages, stats.in_flight), (all, all));
    assert_eq!(shard.receive(10, Some(LONG), NOW).await.unwrap(), []);
    for some in held.chunks(1_000) {
        work_on(&shard, some, NOW).await;
    }
    assert_eq!(shard.stats().await.unwrap().messages, 1);
}

pub(crate) async fn the_limit_of_messages_in_flight_is_an_error(bed: Bed) {
    let shard = bed.open().await;
    let options = shard.options();
    shard.set_options(ShardOptions {
        max_in_flight: 10,
        ..options
    });
    send_many(&shard, "good", 20).await;
    let first = shard.receive(8, Some(LONG), NOW).await.unwrap();
    let second = shard.receive(8, Some(LONG), NOW).await.unwrap();
    assert_eq!((first.len(), second.len()), (8, 2));
    for wait in [NOW, Duration::from_millis(300)] {
        let refused = shard.receive(1, Some(LONG), wait).await.unwrap_err();
        assert_eq!(refused.kind(), QueueErrorKind::TooManyInFlight, "{refused}");
        assert!(refused.to_string().contains("10 or more messages") && refused.hint().is_some());
    }
    // A message that was given back or acknowledged is not in flight, so two more messages can be
    // received.
    shard.nack(&[first[0].receipt], LONG, "").await.unwrap();
    shard.ack(&[first[1].receipt]).await.unwrap();
    let third = shard.receive(8, Some(LONG), NOW).await.unwrap();
    assert_eq!(third.len(), 2);
    // An ack makes room, so a receiver that waits gets the next message.
    let waiting = shard.receive(1, Some(LONG), Duration::from_secs(20));
    let acked = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        shard.ack(&[second[0].receipt]).await
    };
    let (received, acked) = tokio::join!(waiting, acked);
    assert_eq!((received.unwrap().len(), acked.unwrap().len()), (1, 1));
}

/// Checks that successive receives of one message alternate between failed and new messages. Workers use such
/// receives whenever one of their handlers ends.
pub(crate) async fn receives_of_one_message_alternate(bed: Bed) {
    let (bad, good) = (20, 200);
    let shard = bed.open().await;
    send_many(&shard, "bad", bad).await;
    let received = shard.receive(bad, Some(LONG), NOW).await.unwrap();
    work_on(&shard, &received, NOW).await;
    send_many(&shard, "good", good).await;
    let (mut failed, mut done) = (0, 0);
    for turn in 1..=good {
        let received = shard.receive(1, Some(LONG), NOW).await.unwrap();
        assert_eq!(received.len(), 1);
        failed += usize::from(received[0].attempts > 1);
        done += work_on(&shard, &received, NOW).await;
        assert!(
            failed.abs_diff(done) <= 1,
            "turn {turn}: {failed} failed, {done} are new"
        );
    }
}

/// Checks that the limit of messages in flight holds for any number of concurrent receivers.
pub(crate) async fn the_limit_holds_for_concurrent_receivers(bed: Bed) {
    let most = 10;
    let shard = bed.open().await;
    shard.set_options(ShardOptions {
        max_in_flight: most,
        ..shard.options()
    });
    send_many(&shard, "good", 500).await;
    let receivers = (0..20).map(|_| shard.receive(5, Some(LONG), NOW));
    let received = futures::future::join_all(receivers).await;
    let count = received.iter().flatten().map(Vec::len).sum::<usize>();
    assert_eq!(count, most as usize);
    let stats = shard.stats().await.unwrap();
    assert_eq!(stats.in_flight, u64::from(most));
}
