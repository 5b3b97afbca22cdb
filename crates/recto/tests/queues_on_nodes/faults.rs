//! Processes send and work while nodes and processes die and tables are emptied in turn.

use std::collections::BTreeSet;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use recto::queues::QueueOptions;
use recto::{Environment, StoreAddress};
use recto_jobs::{RingView, TableView};
use recto_queue::{Life, Phase};
use recto_testkit::generate::Rng;
use recto_testkit::rig::Node;

use crate::children::{Children, QUEUE};
use crate::common::children::kill;
use crate::common::{run, seed};
use crate::naive::rows;
use crate::nodes::{Lease, address};
use crate::ring::{Bed, slices_of};
use crate::said::Said;
use crate::scale;

const PROCESSES: usize = 2;
const SLICE: u32 = 10;
const CALM: Duration = Duration::from_secs(4);
/// How long a node is gone: so long that gossip holds it for dead, and tables are to be emptied meanwhile.
const DEAD: Duration = Duration::from_secs(22);
const PAUSED: Duration = Duration::from_secs(10);
/// At the latest so long after a fault begins a process is killed.
const BEFORE: Duration = Duration::from_secs(6);
/// How long it may take until all messages are done with: those too that killed processes had.
const DRAINED: Duration = Duration::from_secs(90);
/// How long it may take until each table that was not free is: a slice or two, and emptying.
const RECOVERED: Duration = Duration::from_secs(60);
/// The same, in a long run, where a process was killed while it was emptying one.
const GIVEN_UP: Duration = Duration::from_secs(400);
const PAUSE: Duration = Duration::from_secs(1);

/// What happens to a node.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Killed,
    PausedAndLetGo,
    PausedAndKilled,
}

impl Fault {
    const ALL: [Self; 3] = [Self::Killed, Self::PausedAndLetGo, Self::PausedAndKilled];
    /// What one short run has.
    const FEW: usize = 2;

    fn happen(self, node: &Node, meanwhile: impl FnOnce()) {
        println!("node {} is {self:?}", node.number());
        match self {
            Self::Killed => {
                node.kill().unwrap();
                meanwhile();
                std::thread::sleep(DEAD);
                node.start().unwrap();
            }
            Self::PausedAndLetGo => {
                node.pause().unwrap();
                meanwhile();
                std::thread::sleep(PAUSED);
                node.resume().unwrap();
            }
            Self::PausedAndKilled => {
                node.pause().unwrap();
                meanwhile();
                std::thread::sleep(PAUSED);
                node.kill().unwrap();
                node.start().unwrap();
            }
        }
    }
}

#[test]
fn every_message_is_worked_on_while_nodes_and_workers_die_and_tables_are_emptied() {
    let lease = Lease::new();
    let cluster = lease.cluster();
    let store = address(cluster);
    let bed = run(async {
        let bed = Bed::new(store.clone(), slices_of(SLICE)).await;
        bed.create(QUEUE, QueueOptions::default()).await;
        bed
    });
    let (lines, said) = channel();
    let address = StoreAddress::Cassandra(Box::new(store)).to_string();
    let children = Children { address, lines };
    let mut living: Vec<Child> = (0..PROCESSES)
        .map(|number| children.spawn(number as u64))
        .collect();
    let mut random: Rng = recto_testkit::generate::rng(seed());
    let stop = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        let watching = scope.spawn(|| run(watch(&bed, &stop)));
        let _stop = SetOnDrop(&stop);
        for round in 0..Fault::FEW * scale() {
            std::thread::sleep(CALM);
            let fault = Fault::ALL[round % Fault::ALL.len()];
            fault.happen(&cluster.nodes()[random.usize(0..3)], || {
                std::thread::sleep(Duration::from_millis(random.u64(0..BEFORE.as_millis() as u64)));
                let child = &mut living[round % PROCESSES];
                kill(child);
                *child = children.spawn((PROCESSES + round) as u64);
            });
        }
        std::thread::sleep(CALM);
        living.iter_mut().for_each(kill);
        stop.store(true, Ordering::Relaxed);
        watching.join().unwrap()
    });
    drop(children);
    cluster.wait_until_all_up().unwrap();
    run(async {
        drain_and_check(&bed, said).await;
        assert!(seen.opened > 3, "{seen:?}");
        assert!(seen.is_hindered, "with a node down a table was emptied: {seen:?}");
        recovers(&bed).await;
    });
}

/// However one side ends, the other does too.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What was seen of the ring.
#[derive(Debug, Default)]
struct Seen {
    /// How many lives of tables.
    opened: usize,
    /// Whether a table could not be emptied, or nobody knew whether it was.
    is_hindered: bool,
}

/// Looks at the ring until told to stop.
async fn watch(bed: &Bed, stop: &AtomicBool) -> Seen {
    let (mut opened, mut is_hindered, mut last) = (BTreeSet::new(), false, String::new());
    let begun = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        if let Ok(ring) = bed.queues.ring().await {
            let is_open = |table: &&TableView| matches!(table.phase, Phase::Open { .. });
            let open = ring.tables.iter().filter(is_open);
            opened.extend(open.map(|table| (table.number, life(table.phase))));
            let is_retired = ring.tables.iter().any(|table| table.phase == Phase::Retired);
            let is_refused = ring
                .obstacle
                .as_ref()
                .is_some_and(|obstacle| obstacle.contains("recto_queue_body"));
            is_hindered |= is_retired || is_refused;
            let now = in_words(&ring);
            if now != last {
                println!("{:>5.1?} {now}", begun.elapsed());
                last = now;
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    Seen {
        opened: opened.len(),
        is_hindered,
    }
}

/// `1 Open, 2 Free; no node`.
fn in_words(ring: &RingView) -> String {
    let table = |table: &TableView| {
        let phase = format!("{:?}", table.phase);
        let name = phase.split(' ').next().unwrap_or_default();
        format!("{} {name} {}", table.number.0, table.segments)
    };
    let tables: Vec<String> = ring.tables.iter().map(table).collect();
    format!(
        "{}; {}",
        tables.join(", "),
        ring.obstacle.as_deref().unwrap_or("all is well")
    )
}

/// Does what is left, and looks at what was said of all messages.
async fn drain_and_check(bed: &Bed, lines: Receiver<String>) {
    let mut said = Said::default();
    for line in lines {
        said.hear(&line);
    }
    println!("sent, begun, done while there were faults: {:?}", said.counts());
    let (queue, clock) = (bed.queues.find(QUEUE).await.unwrap().shard, Environment::system());
    let begun = Instant::now();
    while queue.stats().await.unwrap().messages > 0 {
        assert!(begun.elapsed() < DRAINED, "{:?}", queue.stats().await);
        let received = queue.receive(100, None, PAUSE).await.unwrap();
        for message in &received {
            let number = String::from_utf8_lossy(&message.body).parse().unwrap();
            said.begun(number, clock.now_micros());
        }
        let receipts: Vec<_> = received.iter().map(|message| message.receipt).collect();
        queue.ack(&receipts).await.unwrap();
    }
    println!(
        "sent, begun, done: {:?}, drained after {:.1?}",
        said.counts(),
        begun.elapsed()
    );
    said.check();
    assert!(said.counts()[0] > 100, "little was sent");
    assert_eq!(queue.totals().bodies_lost, 0);
}

/// Each table that is in use now is free later, or in its next life, or was replaced; and what is free is empty.
async fn recovers(bed: &Bed) {
    let before = bed.queues.ring().await.unwrap();
    println!("in the end: {}", in_words(&before));
    let limit = if scale() > 1 { GIVEN_UP } else { RECOVERED };
    let is_whole = |ring: &RingView| {
        let count = ring
            .tables
            .iter()
            .filter(|table| table.phase != Phase::Retired)
            .count();
        let has_moved_on = |table: &TableView| has_moved_on(table, ring);
        before.tables.iter().all(has_moved_on) && count == usize::from(ring.options.tables)
    };
    let ring = bed.wait_for_ring(limit, is_whole).await;
    println!("recovered: {}", in_words(&ring));
    for table in ring.tables.iter().filter(|table| table.phase == Phase::Free) {
        let bodies = rows(&bed.address, &table.name).await;
        let ring = bed.queues.ring().await.unwrap();
        let is_free = |now: &TableView| now.number == table.number && now.phase == Phase::Free;
        assert!(
            bodies == 0 || !ring.tables.iter().any(is_free),
            "{bodies} bodies are in {table:?}"
        );
    }
}

fn has_moved_on(before: &TableView, ring: &RingView) -> bool {
    let Some(now) = ring.tables.iter().find(|table| table.number == before.number) else {
        return true;
    };
    match (before.phase, now.phase) {
        (Phase::Free, _) | (_, Phase::Free) => true,
        // It is given up after five minutes, if a process was killed at that.
        (Phase::Emptying { owner, .. }, Phase::Emptying { owner: same, .. }) => owner == same && scale() == 1,
        (_, Phase::Retired) => false,
        (before, now) => life(before) != life(now),
    }
}

fn life(phase: Phase) -> Option<Life> {
    match phase {
        Phase::Free | Phase::Retired => None,
        Phase::Open { life, .. }
        | Phase::Closing { life, .. }
        | Phase::Closed { life, .. }
        | Phase::Emptying { life, .. }
        | Phase::Unit { life, .. } => Some(life),
    }
}
