//! Tests of queues with several shards: the choice of the shard for a message and for a process, and that a
//! receive skips no message.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

use recto_protocol::queues::{Address, QueueOptions, Shard};
use recto_queues::{Created, Message, NewMessage, QueueErrorKind, Queues, Settled, Shards};

use crate::queues::{assert_refused, made, with_dead_letters};
use crate::stores::Bed;
use crate::{LONG, NOW, bodies, receive, send, with_id};

/// Number of messages to send. The number is so large that each of four shards gets some.
const MANY: usize = 40;
const SECOND: Duration = Duration::from_secs(1);

fn many() -> Vec<NewMessage> {
    (0..MANY).map(|number| with_id(&number.to_string())).collect()
}

fn of(group: &str, body: &str) -> NewMessage {
    NewMessage {
        group: Some(group.to_owned()),
        ..NewMessage::new(body)
    }
}

/// Returns the shard of each message, by the message's body.
async fn places(jobs: &Shards) -> BTreeMap<String, Shard> {
    let peeked = jobs.peek(1_000).await.unwrap();
    let place = peeked.into_iter().map(|one| {
        let body = String::from_utf8(one.content.unwrap().body).unwrap();
        (body, one.position.shard)
    });
    place.collect()
}

async fn is_sent(jobs: &Shards, messages: Vec<NewMessage>) {
    assert!(jobs.send(messages).await.iter().all(Result::is_ok));
}

fn different<T: Ord>(all: impl IntoIterator<Item = T>) -> BTreeSet<T> {
    all.into_iter().collect()
}

fn receipts(messages: &[Message]) -> Vec<recto_protocol::queues::Receipt> {
    messages.iter().map(|message| message.receipt).collect()
}

/// Returns handles to one queue in two processes that currently send to the same shard.
async fn rivals(here: &Queues, there: &Queues) -> (Shards, Shards) {
    for number in 0..100 {
        let name = format!("q{number}");
        let jobs = made(here, &name, QueueOptions::default()).await.shards;
        let others = there.find(&name).await.unwrap().shards;
        send(&jobs, NewMessage::new("a")).await;
        send(&others, NewMessage::new("b")).await;
        let places = places(&jobs).await;
        if places["a"] == places["b"] {
            return (jobs, others);
        }
    }
    panic!("no two processes begin at one shard");
}

/// Checks that two processes that send alternately move to different shards. After that, their writes do not
/// conflict.
pub(crate) async fn alternating_senders_choose_different_shards(bed: Bed) {
    const BEFORE: usize = 30;
    const TURNS: usize = 10;
    let (here, there) = (bed.open_queues().await, bed.open_queues().await);
    let (jobs, others) = rivals(&here, &there).await;
    for number in 0..BEFORE + TURNS {
        if number == BEFORE {
            bed.watch.conditional_writes.store(0, Ordering::Relaxed);
        }
        send(&jobs, NewMessage::new(format!("here {number:02}"))).await;
        send(&others, NewMessage::new(format!("there {number:02}"))).await;
    }
    let writes = bed.watch.conditional_writes.load(Ordering::Relaxed);
    assert_eq!(writes, 2 * TURNS, "none was in vain");
    let places = places(&jobs).await;
    let at = |who: &str| {
        let own = (BEFORE..BEFORE + TURNS).map(|number| places[&format!("{who} {number:02}")]);
        different(own)
    };
    let (here, there) = (at("here"), at("there"));
    assert_eq!((here.len(), there.len()), (1, 1), "{places:?}");
    assert!(here.is_disjoint(&there), "{places:?}");
}

pub(crate) async fn a_single_sender_stays_in_one_shard(bed: Bed) {
    let queues = bed.open_queues().await;
    let jobs = made(&queues, "jobs", QueueOptions::default()).await.shards;
    for _ in 0..20 {
        is_sent(
            &jobs,
            (0..10)
                .map(|number| NewMessage::new(number.to_string()))
                .collect(),
        )
        .await;
    }
    let peeked = jobs.peek(1_000).await.unwrap();
    assert_eq!(different(peeked.iter().map(|one| one.position.shard)).len(), 1);
}

/// Checks that a process receives from all shards, even if the first shard always has new messages.
pub(crate) async fn no_shard_is_passed_over(bed: Bed) {
    const EACH: usize = 5;
    let (here, there) = (bed.open_queues().await, bed.open_queues().await);
    let jobs = made(&here, "jobs", QueueOptions::default()).await.shards;
    is_sent(&there.find("jobs").await.unwrap().shards, many()).await;
    let first = different(places(&jobs).await.into_values());
    assert_eq!(first.len(), jobs.count());
    let mut left = different((0..MANY).map(|number| number.to_string()));
    for _ in 0..600 {
        // Send more messages than one receive returns, so that the first shard alone always has enough.
        is_sent(&jobs, vec![NewMessage::new("more"); EACH + 1]).await;
        let received = jobs.receive(EACH, Some(LONG), SECOND).await.unwrap();
        assert_eq!(received.len(), EACH);
        for body in bodies(&received) {
            left.remove(&body);
        }
        jobs.ack(&receipts(&received)).await.unwrap();
        if left.is_empty() {
            return;
        }
        tokio::time::sleep(SECOND / 10).await;
    }
    panic!("{left:?} are never received");
}

pub(crate) async fn wakes_waiting_receivers_of_every_shard(bed: Bed) {
    let (here, there) = (bed.open_queues().await, bed.open_queues().await);
    let jobs = made(&here, "jobs", QueueOptions::default()).await.shards;
    let others = there.find("jobs").await.unwrap().shards;
    for message in many() {
        let waiting = {
            let jobs = jobs.clone();
            tokio::spawn(async move { jobs.receive(1, None, 15 * SECOND).await.unwrap() })
        };
        tokio::time::sleep(5 * SECOND).await;
        let sent = tokio::time::Instant::now();
        let body = message.body.clone();
        send(&others, message).await;
        let received = waiting.await.unwrap();
        assert_eq!(received[0].body, body);
        assert!(sent.elapsed() < SECOND * 3 / 10, "{:?}", sent.elapsed());
        jobs.ack(&receipts(&received)).await.unwrap();
    }
}

pub(crate) async fn a_batch_is_split_and_told_in_its_order(bed: Bed) {
    let queues = bed.open_queues().await;
    let jobs = made(&queues, "jobs", QueueOptions::default()).await.shards;
    is_sent(&jobs, many()).await;
    let all = places(&jobs).await;
    assert_eq!(different(all.values()).len(), jobs.count());
    jobs.purge().await.unwrap();
    // The store rejects one append, which contains the messages of one shard.
    bed.watch.refused_appends.store(1, Ordering::Relaxed);
    let again: Vec<_> = (0..MANY)
        .map(|number| NewMessage {
            deduplication_id: Some(format!("again {number}")),
            ..NewMessage::new(number.to_string())
        })
        .collect();
    let sent = jobs.send(again.clone()).await;
    let there = places(&jobs).await;
    let refused: Vec<_> = (0..MANY).filter(|number| sent[*number].is_err()).collect();
    assert!(!refused.is_empty() && refused.len() < MANY, "{refused:?}");
    for (number, sent) in sent.iter().enumerate() {
        assert_eq!(there.contains_key(&number.to_string()), sent.is_ok(), "{number}");
    }
    is_sent(&jobs, again).await;
    assert_eq!(different(places(&jobs).await.into_values()).len(), jobs.count());
    assert_eq!(jobs.stats().await.unwrap().messages, MANY as u64);
}

pub(crate) async fn receipts_of_all_shards_are_shown_together(bed: Bed) {
    let queues = bed.open_queues().await;
    let jobs = made(&queues, "jobs", QueueOptions::default()).await.shards;
    let other = made(&queues, "other", QueueOptions::default()).await.shards;
    is_sent(&jobs, many()).await;
    send(&other, NewMessage::new("a")).await;
    let received = receive(&jobs, 1_000).await;
    let shown = receipts(&received);
    assert_eq!(
        different(shown.iter().map(|one| one.address.shard)).len(),
        jobs.count()
    );
    let stats = jobs.stats().await.unwrap();
    assert_eq!(
        (stats.messages, stats.in_flight, stats.is_exact),
        (MANY as u64, MANY as u64, true)
    );
    // A stale receipt is reported at its position in the list.
    jobs.give_back(&shown[7..8]).await.unwrap();
    let settled = jobs.extend(&shown, LONG).await.unwrap();
    let stale: Vec<_> = (0..MANY)
        .filter(|number| settled[*number] == Settled::Stale)
        .collect();
    assert_eq!(stale, [7]);
    let mut mixed = shown.clone();
    mixed.insert(30, receive(&other, 1).await[0].receipt);
    assert_refused(
        jobs.ack(&mixed).await,
        QueueErrorKind::InvalidArgument,
        "receipt 30 ",
    );
    assert_eq!(
        jobs.stats().await.unwrap().messages,
        MANY as u64,
        "nothing was done"
    );
    jobs.ack(&shown).await.unwrap();
    assert_eq!(bodies(&receive(&jobs, 10).await), bodies(&received[7..8]));
    assert_eq!(jobs.totals().acked, MANY as u64 - 1);
}

pub(crate) async fn a_group_is_in_one_shard(bed: Bed) {
    const GROUPS: usize = 20;
    const EACH: usize = 3;
    let queues = bed.open_queues().await;
    let jobs = made(&queues, "jobs.fifo", QueueOptions::ordered()).await.shards;
    for number in 0..EACH {
        let body = |group: usize| format!("{group} {number}");
        is_sent(
            &jobs,
            (0..GROUPS)
                .map(|group| of(&group.to_string(), &body(group)))
                .collect(),
        )
        .await;
    }
    let places = places(&jobs).await;
    assert_eq!(different(places.values()).len(), jobs.count());
    for group in 0..GROUPS {
        let own = (0..EACH).map(|number| places[&format!("{group} {number}")]);
        assert_eq!(different(own).len(), 1);
    }
    for number in 0..EACH {
        let received = receive(&jobs, 1_000).await;
        let expected = (0..GROUPS).map(|group| format!("{group} {number}"));
        assert_eq!(different(bodies(&received)), different(expected));
        assert_eq!(received.len(), GROUPS);
        jobs.ack(&receipts(&received)).await.unwrap();
    }
}

pub(crate) async fn moves_messages_of_all_shards_exactly_once(bed: Bed) {
    let queues = bed.open_queues().await;
    let dead = made(&queues, "dead", QueueOptions::default()).await;
    let jobs = made(&queues, "jobs", with_dead_letters("dead")).await;
    is_sent(&jobs.shards, many()).await;
    let received = jobs.shards.receive(1_000, Some(LONG), NOW).await.unwrap();
    assert_eq!(received.len(), MANY);
    jobs.shards
        .nack(&receipts(&received), NOW, "no disk")
        .await
        .unwrap();
    let all = different((0..MANY).map(|number| number.to_string()));
    let letters = dead.shards.peek(1_000).await.unwrap();
    assert_eq!(letters.len(), MANY);
    assert_eq!(different(places(&dead.shards).await.into_keys()), all);
    assert_eq!(jobs.shards.stats().await.unwrap().messages, 0);
    // A redrive with a limit moves no more messages than the limit.
    assert_eq!(queues.redrive(&dead, &jobs, Some(15)).await.unwrap(), 15);
    assert_eq!(dead.shards.stats().await.unwrap().messages, MANY as u64 - 15);
    assert_eq!(queues.redrive(&dead, &jobs, None).await.unwrap(), MANY - 15);
    let again = jobs.shards.receive(1_000, Some(LONG), NOW).await.unwrap();
    assert_eq!(again.len(), MANY);
    assert_eq!(different(bodies(&again)), all);
    assert_eq!(dead.shards.segments().await.unwrap(), dead.shards.count().min(1));
}

pub(crate) async fn all_shards_are_purged_and_cleared(bed: Bed) {
    let queues = bed.open_queues().await;
    let jobs = made(&queues, "jobs", QueueOptions::default()).await;
    is_sent(&jobs.shards, many()).await;
    assert_eq!(jobs.shards.purge().await.unwrap(), jobs.shards.count());
    assert!(receive(&jobs.shards, 10).await.is_empty());
    jobs.shards
        .send((0..MANY).map(|number| of(&number.to_string(), "left")).collect())
        .await;
    let position = jobs.shards.peek(MANY).await.unwrap()[MANY - 1].position;
    assert!(jobs.shards.remove(position).await.unwrap());
    assert_eq!(jobs.shards.stats().await.unwrap().messages, MANY as u64 - 1);
    queues.delete(jobs.id).await.unwrap();
    assert_refused(jobs.shards.peek(1).await, QueueErrorKind::NotFound, "deleted");
    let next = made(&queues, "jobs", QueueOptions::default()).await.shards;
    assert!(receive(&next, 10).await.is_empty());
    assert_eq!(next.segments().await.unwrap(), 0);
}

/// Checks the number of shards of a queue. A store on which one process makes changes uses one shard,
/// regardless of the requested number. The options of the queue show the number in use.
pub(crate) async fn how_many_shards_there_are_is_said(bed: Bed) {
    let queues = bed.open_queues().await;
    let holds = if bed.has_ring() { 8 } else { 1 };
    let eight = QueueOptions {
        shards: 8,
        ..QueueOptions::default()
    };
    let jobs = made(&queues, "jobs", eight.clone()).await;
    assert_eq!((jobs.options.shards, jobs.shards.count()), (holds, holds.into()));
    let Created::Existing(again) = queues.create("jobs", eight.clone()).await.unwrap() else {
        panic!("it is as was asked for")
    };
    assert_eq!(again.id, jobs.id);
    queues.change(jobs.id, None, eight).await.unwrap();
    for shards in [0, 65] {
        let wrong = QueueOptions {
            shards,
            ..QueueOptions::default()
        };
        let refused = queues.create("other", wrong).await.map(drop).unwrap_err();
        assert_eq!(
            (refused.kind(), refused.field()),
            (QueueErrorKind::InvalidArgument, Some("shards"))
        );
    }
    let changed = queues.change(jobs.id, None, QueueOptions::default()).await;
    assert_eq!(changed.is_err(), bed.has_ring());
    let unit = queues.begin_unit(jobs.id, "night").await.unwrap();
    assert_eq!(unit.shards.count(), usize::from(holds));
    is_sent(&unit.shards, many()).await;
    assert_eq!(unit.shards.segments().await.unwrap(), usize::from(holds));
    queues.end_unit(jobs.id, "night").await.unwrap();
    assert_refused(unit.shards.stats().await, QueueErrorKind::NotFound, "");
}

/// Checks that a redrive reports the number of moved messages if it fails in a later shard. The error must
/// not say that nothing was done.
pub(crate) async fn a_redrive_that_fails_in_a_later_shard_says_what_was_moved(bed: Bed) {
    let queues = bed.open_queues().await;
    let dead = made(&queues, "dead", QueueOptions::default()).await;
    let jobs = made(&queues, "jobs", QueueOptions::default()).await;
    is_sent(&dead.shards, many()).await;
    let received = receive(&dead.shards, 1).await;
    dead.shards.give_back(&receipts(&received)).await.unwrap();
    let place = received[0].receipt.address.place;
    let hide = |shard: Option<Shard>| {
        *bed.watch.hidden_head.lock().unwrap() = shard.map(|shard| Address { place, shard });
    };
    let places = places(&dead.shards).await;
    let in_the_last = places.values().filter(|shard| shard.0 == 3).count();
    assert!((1..MANY).contains(&in_the_last));

    hide(Some(Shard(0)));
    let nothing = queues.redrive(&dead, &jobs, None).await.unwrap_err();
    assert_eq!(
        (nothing.kind(), nothing.moved()),
        (QueueErrorKind::Unavailable, 0)
    );
    hide(Some(Shard(3)));
    let some = queues.redrive(&dead, &jobs, None).await;
    assert_eq!(some.as_ref().unwrap_err().moved(), MANY - in_the_last);
    let says = format!(
        "{} messages were moved, then the redrive failed: it is hidden",
        MANY - in_the_last
    );
    assert_refused(some, QueueErrorKind::OutcomeUnknown, &says);
    assert_eq!(
        jobs.shards.stats().await.unwrap().messages,
        (MANY - in_the_last) as u64
    );
    hide(None);
    assert_eq!(queues.redrive(&dead, &jobs, None).await.unwrap(), in_the_last);
}

pub(crate) async fn a_redrive_that_was_cut_off_goes_on_in_any_shard(bed: Bed) {
    let queues = bed.open_queues().await;
    let dead = made(&queues, "dead", QueueOptions::default()).await;
    // Try several times, because each message goes to a random shard.
    for number in 0..8 {
        let jobs = made(&queues, &format!("jobs{number}"), QueueOptions::default()).await;
        send(&dead.shards, NewMessage::new("a")).await;
        bed.watch.refused_appends.store(1, Ordering::Relaxed);
        assert!(queues.redrive(&dead, &jobs, None).await.is_err());
        assert_eq!(queues.redrive(&dead, &jobs, None).await.unwrap(), 1);
        assert_eq!(receive(&jobs.shards, 1).await.len(), 1);
    }
}
