//! Tests of the ring of body tables: tables are emptied in rotation, retired, replaced, and used by work
//! units.

use std::sync::atomic::Ordering;
use std::time::Duration;

use recto_protocol::queues::{BodyTable, Phase, QueueName, QueueOptions, StoreOptions};
use recto_queues::{NewMessage, QueueErrorKind, Queues, RotationStatus, Totals};

use crate::queues::{assert_refused, made, with_dead_letters};
use crate::stores::Bed;
use crate::watched::{BODIES, EmptyingEnds, HEADS};
use crate::{NOW, bodies, receive, send, with_id};

const SLICE: Duration = Duration::from_secs(10);
/// Slightly more than the time in which every table of the ring of body tables is open once.
const LONG: Duration = Duration::from_secs(90);

async fn with_slices(bed: &Bed) -> Queues {
    let queues = bed.open_queues().await;
    let options = StoreOptions {
        rotation_seconds: SLICE.as_secs() as u32,
        grace_seconds: 3,
        units: 1,
        ..StoreOptions::default()
    };
    queues.configure(options).await.unwrap();
    queues
}

fn count(ring: &RotationStatus, is: impl Fn(Phase) -> bool) -> usize {
    ring.tables.iter().filter(|table| is(table.phase)).count()
}

fn last(ring: &RotationStatus) -> u32 {
    ring.tables.iter().map(|table| table.number.0).max().unwrap()
}

pub(crate) async fn tables_are_emptied_in_turn(bed: Bed) {
    let queues = with_slices(&bed).await;
    let jobs = made(&queues, "jobs", QueueOptions::default()).await.shards;
    let mut opened = std::collections::BTreeSet::new();
    for number in 0..LONG.as_secs() {
        send(&jobs, NewMessage::new(number.to_string())).await;
        let received = receive(&jobs, 10).await;
        assert_eq!(bodies(&received), [number.to_string()]);
        jobs.ack(&[received[0].receipt]).await.unwrap();
        let ring = queues.rotation().await.unwrap();
        opened.extend(ring.tables.iter().filter_map(|table| match table.phase {
            Phase::Open { life, .. } => Some((table.number, life)),
            _ => None,
        }));
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let ring = queues.rotation().await.unwrap();
    assert!(opened.len() > 5, "{opened:?}");
    assert_eq!(
        (last(&ring), ring.obstacle),
        (u32::from(StoreOptions::default().tables), None)
    );
    let mut rows = 0;
    for table in &ring.tables {
        let here = bed.count_rows(&table.name).await;
        assert!(table.phase != Phase::Free || here == 0, "{table:?}");
        rows += here;
    }
    assert!(rows < 3 * SLICE.as_secs() as usize, "{rows} bodies are left");
}

pub(crate) async fn copies_delayed_messages_between_tables(bed: Bed) {
    let queues = with_slices(&bed).await;
    let jobs = made(&queues, "jobs", QueueOptions::default()).await.shards;
    let later = NewMessage {
        delay: Some(LONG),
        ..NewMessage::new("later")
    };
    send(&jobs, later).await;
    tokio::time::sleep(Duration::from_secs(LONG.as_secs() - 1)).await;
    let ring = queues.rotation().await.unwrap();
    assert!(count(&ring, |phase| phase == Phase::Free) >= 2, "{ring:?}");
    assert!(receive(&jobs, 1).await.is_empty());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(bodies(&receive(&jobs, 1).await), ["later"]);
}

pub(crate) async fn a_ring_without_a_free_table_goes_on(bed: Bed) {
    let queues = with_slices(&bed).await;
    let jobs = made(&queues, "jobs", QueueOptions::default()).await.shards;
    *bed.watch.emptying.lock().unwrap() = EmptyingEnds::Refused;
    tokio::time::sleep(2 * LONG).await;
    let ring = queues.rotation().await.unwrap();
    assert_eq!(count(&ring, |phase| phase == Phase::Free), 0);
    // A process that has just opened the queues also reports why the rotation is blocked.
    let seen = bed.open_queues().await.rotation().await.unwrap().obstacle;
    assert!(
        seen.as_deref()
            .is_some_and(|seen| seen.contains("the open table stays open")),
        "{seen:?}"
    );
    send(&jobs, NewMessage::new("a")).await;
    assert_eq!(bodies(&receive(&jobs, 1).await), ["a"]);
    *bed.watch.emptying.lock().unwrap() = EmptyingEnds::Done;
    tokio::time::sleep(LONG).await;
    let ring = queues.rotation().await.unwrap();
    assert!(
        count(&ring, |phase| phase == Phase::Free) >= 1 && ring.obstacle.is_none(),
        "{ring:?}"
    );
}

pub(crate) async fn reports_tables_that_cannot_be_emptied(bed: Bed) {
    let queues = with_slices(&bed).await;
    *bed.watch.emptying.lock().unwrap() = EmptyingEnds::Refused;
    tokio::time::sleep(LONG).await;
    let ring = queues.rotation().await.unwrap();
    assert!(ring.obstacle.is_some(), "{ring:?}");
    let is_closed = |phase| matches!(phase, Phase::Closed { .. });
    assert!(count(&ring, is_closed) > 0, "{ring:?}");
}

pub(crate) async fn a_table_of_which_nobody_knows_whether_it_is_empty_is_replaced(bed: Bed) {
    let queues = with_slices(&bed).await;
    *bed.watch.emptying.lock().unwrap() = EmptyingEnds::Unknown;
    tokio::time::sleep(LONG).await;
    let ring = queues.rotation().await.unwrap();
    assert!(
        last(&ring) > u32::from(StoreOptions::default().tables),
        "{ring:?}"
    );
    assert!(ring.tables.iter().all(|table| table.number.0 != 1), "{ring:?}");
}

pub(crate) async fn a_table_that_a_node_has_not_heard_of_is_not_gone(bed: Bed) {
    let queues = with_slices(&bed).await;
    let jobs = made(&queues, "jobs", QueueOptions::default()).await.shards;
    bed.watch.unheard_of.store(2, Ordering::Relaxed);
    send(&jobs, NewMessage::new("a")).await;
    bed.watch.unheard_of.store(1, Ordering::Relaxed);
    let refused = jobs.receive(1, None, NOW).await;
    assert_refused(
        refused,
        QueueErrorKind::Unavailable,
        "does not know table recto_queue_body_1",
    );
    // The failed receive has given its message back, so the message is received again.
    let again = jobs.receive(1, None, Duration::from_secs(5)).await.unwrap();
    assert_eq!(bodies(&again), ["a"]);
    assert_eq!(jobs.totals().bodies_lost, 0);
}

/// Returns the number of bodies in all tables.
async fn count_bodies(bed: &Bed, queues: &Queues) -> usize {
    let mut bodies = 0;
    for table in queues.rotation().await.unwrap().tables {
        bodies += bed.count_rows(&table.name).await;
    }
    bodies
}

/// Waits until a condition holds, for at most the time in which every table of the ring is open several
/// times.
async fn wait_until(what: &str, holds: impl AsyncFn() -> bool) {
    for _ in 0..4 * LONG.as_secs() {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    panic!("not in time: {what}");
}

/// Two processes work on the message "a". The first process is so late to read the body that the second
/// process has resolved the message, and the table was emptied. Another message keeps the segment.
///
/// The first process reads the body to deliver the message. If `is_exhausted` is set, it reads the body to
/// move the message to the dead-letter queue. `kept` is the number of bodies that are left. Returns the
/// counters of both processes.
async fn totals_of_late_process(
    bed: &Bed,
    options: QueueOptions,
    is_exhausted: bool,
    kept: usize,
) -> [Totals; 2] {
    let queues = with_slices(bed).await;
    made(&queues, "dead", QueueOptions::default()).await;
    let jobs = made(&queues, "jobs", options).await.shards;
    let delayed = NewMessage {
        delay: Some(crate::LONG),
        ..NewMessage::new("b")
    };
    let sent = jobs.send(vec![NewMessage::new("a"), delayed]).await;
    assert!(sent.iter().all(Result::is_ok));

    let late = bed.for_another_process();
    let late_jobs = late.open_queues().await.find("jobs").await.unwrap().shards;
    // Wait until the visibility timeout of the first receive has ended, with the margin for clocks.
    let timeout = Duration::from_secs(8);
    if is_exhausted {
        assert_eq!(bodies(&receive(&jobs, 1).await), ["a"]);
        tokio::time::sleep(timeout).await;
    }
    let release = late.watch.hold_read(BODIES);
    let receiver = late_jobs.clone();
    let receiving = tokio::spawn(async move { receive(&receiver, 1).await });
    tokio::time::sleep(timeout).await;
    for message in receive(&jobs, 1).await {
        jobs.ack(&[message.receipt]).await.unwrap();
    }
    // Wait until the message is in the dead-letter queue, if there is one.
    tokio::time::sleep(Duration::from_secs(1)).await;
    wait_until("the first table is emptied", async || {
        count_bodies(bed, &queues).await == kept
    })
    .await;
    release.send(()).unwrap();
    assert!(receiving.await.unwrap().is_empty());
    tokio::time::sleep(Duration::from_secs(1)).await;
    [late_jobs.totals(), jobs.totals()]
}

pub(crate) async fn acknowledged_messages_do_not_count_as_lost(bed: Bed) {
    let totals = totals_of_late_process(&bed, QueueOptions::default(), false, 1).await;
    assert_eq!(totals.map(|totals| totals.bodies_lost), [0, 0]);
    assert_eq!(totals.map(|totals| totals.acked), [0, 1]);
}

pub(crate) async fn dead_letters_do_not_count_as_lost(bed: Bed) {
    let totals = totals_of_late_process(&bed, with_dead_letters("dead"), false, 2).await;
    assert_eq!(totals.map(|totals| totals.bodies_lost), [0, 0]);
    assert_eq!(totals.map(|totals| totals.dead_lettered), [0, 1]);
}

pub(crate) async fn counts_a_dead_letter_in_one_process(bed: Bed) {
    let totals = totals_of_late_process(&bed, with_dead_letters("dead"), true, 2).await;
    assert_eq!(totals.map(|totals| totals.dead_lettered), [0, 1]);
    assert_eq!(totals.map(|totals| totals.bodies_lost), [0, 0]);
}

/// Returns the table that has the bodies of the only live segment.
async fn table_in_use(queues: &Queues) -> (BodyTable, String) {
    let tables = queues.rotation().await.unwrap().tables.into_iter();
    let mut used = tables.filter(|table| table.segments > 0);
    used.next().map(|table| (table.number, table.name)).unwrap()
}

pub(crate) async fn finds_bodies_that_are_back_in_a_table(bed: Bed) {
    let queues = with_slices(&bed).await;
    made(&queues, "jobs", QueueOptions::default()).await;
    let jobs = queues.find("jobs").await.unwrap().shards;
    send(&jobs, NewMessage::new("a")).await;
    let is_left = async |(number, name): &(BodyTable, String)| {
        table_in_use(&queues).await.0 != *number && bed.count_rows(name).await == 0
    };

    let late = bed.for_another_process();
    let late_jobs = late.open_without_maintenance().await;
    let late_jobs = late_jobs.find("jobs").await.unwrap().shards;
    // A receive reads the body in the table that it knows. It then reads the head, and the body in the table
    // that the head names. It misses the body in both tables, and reads the head again.
    let first_body = late.watch.hold_read(BODIES);
    drop(late.watch.hold_read(HEADS));
    let second_body = late.watch.hold_read(BODIES);
    let second_head = late.watch.hold_read(HEADS);
    let receiver = late_jobs.clone();
    let receiving = tokio::spawn(async move {
        let visibility = Duration::from_secs(3_600);
        receiver.receive(1, Some(visibility), NOW).await.unwrap()
    });
    let first = table_in_use(&queues).await;
    wait_until("the first table is emptied", async || is_left(&first).await).await;
    first_body.send(()).unwrap();
    let second = table_in_use(&queues).await;
    wait_until("the second table is emptied", async || is_left(&second).await).await;
    second_body.send(()).unwrap();
    wait_until("the bodies are back", async || {
        table_in_use(&queues).await == second
    })
    .await;
    second_head.send(()).unwrap();
    assert_eq!(bodies(&receiving.await.unwrap()), ["a"]);
    assert_eq!(late_jobs.totals().bodies_lost, 0);
}

pub(crate) async fn a_work_unit_ends_at_once(bed: Bed) {
    let queues = with_slices(&bed).await;
    let jobs = made(&queues, "jobs", QueueOptions::default()).await;
    send(&jobs.shards, NewMessage::new("of the queue")).await;
    let night = queues.begin_unit(jobs.id, "night").await.unwrap();
    let again = queues.begin_unit(jobs.id, "night").await.unwrap();
    assert_eq!(
        (night.id, night.unit.as_ref().map(QueueName::as_str)),
        (again.id, Some("night"))
    );
    for body in ["a", "b", "c"] {
        send(&night.shards, NewMessage::new(body)).await;
    }
    let ring = queues.rotation().await.unwrap();
    let is_units = |phase| matches!(phase, Phase::Unit { .. });
    let own = ring
        .tables
        .iter()
        .find(|table| is_units(table.phase))
        .unwrap()
        .clone();
    assert_eq!((own.segments, bed.count_rows(&own.name).await), (1, 3));
    assert_eq!((own.messages, own.bytes, own.is_exact), (3, 3, true));
    assert_eq!(own.unit.as_deref(), Some("jobs/night"));
    let found = queues.find("jobs/night").await.unwrap();
    assert_eq!(bodies(&receive(&found.shards, 2).await), ["a", "b"]);
    assert_eq!(queues.units(jobs.id).await.unwrap().len(), 1);

    queues.end_unit(jobs.id, "night").await.unwrap();
    assert_refused(
        queues.find("jobs/night").await,
        QueueErrorKind::NotFound,
        "no work unit jobs/night",
    );
    let late = night.shards.send(vec![NewMessage::new("late")]).await;
    assert_refused(late.into_iter().next().unwrap(), QueueErrorKind::NotFound, "");
    let received = receive(&jobs.shards, 10).await;
    assert_eq!(bodies(&received), ["of the queue"]);
    jobs.shards.ack(&[received[0].receipt]).await.unwrap();
    tokio::time::sleep(LONG).await;
    assert_eq!(bed.count_rows(&own.name).await, 0);
    let ring = queues.rotation().await.unwrap();
    assert_eq!(count(&ring, is_units), 0);
    // A work unit can begin again under the same name, without the earlier messages.
    let night = queues.begin_unit(jobs.id, "night").await.unwrap();
    assert!(receive(&night.shards, 10).await.is_empty());
}

pub(crate) async fn work_units_that_cannot_begin_are_refused(bed: Bed) {
    let queues = with_slices(&bed).await;
    let jobs = made(&queues, "jobs", QueueOptions::default()).await;
    queues.begin_unit(jobs.id, "one").await.unwrap();
    let more = queues.begin_unit(jobs.id, "two").await;
    assert_refused(more, QueueErrorKind::Full, "the maximum number of work units");
    let wrong = queues.begin_unit(jobs.id, "no name").await;
    assert_refused(wrong, QueueErrorKind::InvalidArgument, "`unit`");
    queues.delete(jobs.id).await.unwrap();
    let gone = queues.begin_unit(jobs.id, "two").await;
    assert_refused(gone, QueueErrorKind::NotFound, "deleted");
    let ring = queues.rotation().await.unwrap();
    // Wait until the maintenance frees the table of the work unit that was deleted with its queue.
    tokio::time::sleep(LONG).await;
    assert_eq!(count(&ring, |phase| matches!(phase, Phase::Unit { .. })), 1);
    let ring = queues.rotation().await.unwrap();
    assert_eq!(count(&ring, |phase| matches!(phase, Phase::Unit { .. })), 0);
}

/// Checks the number of conditional writes per message. With 50 messages per call, the number is
/// 0.06, plus the writes that open and release segments. The target is at most 0.1.
pub(crate) async fn batches_take_few_conditional_writes(bed: Bed) {
    const BATCH: usize = 50;
    const MESSAGES: usize = 5_000;
    let shard = bed.open().await;
    send(&shard, NewMessage::new("first")).await;
    shard.purge().await.unwrap();
    bed.watch.conditional_writes.store(0, Ordering::Relaxed);
    for _ in 0..MESSAGES / BATCH {
        let messages = (0..BATCH).map(|_| NewMessage::new("a")).collect();
        assert!(shard.send(messages).await.iter().all(Result::is_ok));
        let received = receive(&shard, BATCH).await;
        let receipts: Vec<_> = received.iter().map(|message| message.receipt).collect();
        assert_eq!(receipts.len(), BATCH);
        shard.ack(&receipts).await.unwrap();
    }
    let writes = bed.watch.conditional_writes.load(Ordering::Relaxed);
    assert!(writes <= MESSAGES * 7 / 100, "{writes} for {MESSAGES} messages");
}

pub(crate) async fn notices_messages_of_another_process_quickly(bed: Bed) {
    let (here, there) = (bed.open_queues().await, bed.open_queues().await);
    let jobs = made(&here, "jobs", QueueOptions::default()).await.shards;
    let others = there.find("jobs").await.unwrap().shards;
    let wait = Duration::from_secs(15);
    let waiting = tokio::spawn(async move { jobs.receive(1, None, wait).await.unwrap() });
    tokio::time::sleep(Duration::from_secs(5)).await;
    let sent = tokio::time::Instant::now();
    send(&others, NewMessage::new("a")).await;
    assert_eq!(bodies(&waiting.await.unwrap()), ["a"]);
    assert!(
        sent.elapsed() < Duration::from_millis(300),
        "{:?}",
        sent.elapsed()
    );
}

pub(crate) async fn idle_receivers_cause_few_reads(bed: Bed) {
    const QUEUES: usize = 100;
    const RECEIVERS: usize = 1_000;
    /// Number of messages to send. The number is so large that each shard gets some.
    const SENT: usize = 40;
    const IDLE: Duration = Duration::from_secs(300);
    const MAX_READS_A_SECOND: usize = 30;
    let queues = bed.open_queues().await;
    let mut all = Vec::new();
    for number in 0..QUEUES {
        let queue = made(&queues, &format!("q{number}"), QueueOptions::default()).await;
        // Send enough messages that each shard has a segment to poll.
        let messages = (0..SENT).map(|number| with_id(&number.to_string())).collect();
        assert!(queue.shards.send(messages).await.iter().all(Result::is_ok));
        assert_eq!(queue.shards.segments().await.unwrap(), queue.shards.count());
        let received = receive(&queue.shards, SENT).await;
        let receipts: Vec<_> = received.iter().map(|message| message.receipt).collect();
        assert_eq!(receipts.len(), SENT);
        queue.shards.ack(&receipts).await.unwrap();
        all.push(queue.shards);
    }
    for jobs in all.iter().cycle().take(RECEIVERS) {
        let jobs = jobs.clone();
        tokio::spawn(async move {
            loop {
                let none = jobs.receive(1, None, Duration::from_secs(20)).await.unwrap();
                assert!(none.is_empty());
            }
        });
    }
    tokio::time::sleep(Duration::from_secs(120)).await;
    bed.watch.reads.store(0, Ordering::Relaxed);
    tokio::time::sleep(IDLE).await;
    let reads = bed.watch.reads.load(Ordering::Relaxed);
    // The process polls all queues at intervals, and not once per waiting receiver.
    let least = all.len() * all[0].count();
    let most = MAX_READS_A_SECOND * IDLE.as_secs() as usize;
    assert!((least..=most).contains(&reads), "{reads} in {IDLE:?}");
    assert!(all[0].receive(1, None, NOW).await.unwrap().is_empty());
}

/// Checks the reported sizes of body tables: the number and the bytes of all messages that were
/// sent to live segments, resolved or not. Sizes of sealed segments are read only once.
pub(crate) async fn reports_table_sizes_in_bytes(bed: Bed) {
    let queues = bed
        .open_queues_with(|protocol| protocol.with_segments_of(2))
        .await;
    let jobs = made(&queues, "jobs", QueueOptions::default()).await.shards;
    let sizes = async || {
        let ring = queues.rotation().await.unwrap();
        assert!(ring.tables.iter().all(|table| table.is_exact));
        let sizes = ring.tables.iter().map(|table| (table.messages, table.bytes));
        sizes.reduce(|(a, b), (c, d)| (a + c, b + d)).unwrap()
    };
    assert_eq!(sizes().await, (0, 0));
    let of = |size: usize| NewMessage {
        group: Some("g".to_owned()),
        ..NewMessage::new(vec![b'x'; size])
    };
    for size in [1_000, 200, 30, 4] {
        send(&jobs, of(size)).await;
    }
    // Each message has one more byte, for the name of its group.
    assert_eq!(sizes().await, (4, 1_234 + 4));
    let received = jobs.receive(1, None, NOW).await.unwrap();
    jobs.ack(&[received[0].receipt]).await.unwrap();
    assert_eq!(sizes().await, (4, 1_234 + 4), "it is done with, and stays");
    let received = jobs.receive(1, None, NOW).await.unwrap();
    jobs.ack(&[received[0].receipt]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(sizes().await, (2, 34 + 2), "its segment was released");
    // The expected reads are the heads of four shards, the ring, the registry, and the log of the open
    // segment.
    let before = bed.watch.reads.load(Ordering::Relaxed);
    assert_eq!(sizes().await, (2, 34 + 2));
    let read = bed.watch.reads.load(Ordering::Relaxed) - before;
    assert!(read <= 7, "{read} reads");
    let glance = queues.rotation_at_a_glance().await.unwrap();
    assert!(
        glance
            .tables
            .iter()
            .all(|table| table.bytes == 0 && !table.is_exact)
    );
}
