//! Test that every message is handled while nodes and processes are killed in turn, and while
//! tables of message bodies are emptied. The clocks of the processes differ by minutes.

use std::collections::BTreeSet;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use recto::StoreAddress;
use recto_protocol::queues::Phase;
use recto_queues::{RotationStatus, TableStatus};
use recto_testkit::generate::Rng;

use super::children::{Children, queues};
use super::drained::{drain, hear_all};
use super::moved_on::{all_moved_on, life};
use super::naive::rows;
use super::ring::{Bed, slices_of};
use super::scale;
use crate::common::children::kill;
use crate::common::clocks::Clocks;
use crate::common::{run, seed};
use crate::node_faults::Fault;
use crate::nodes::{Lease, address};

/// Errors of the wall clocks of the processes, in microseconds. A process that replaces a killed
/// process has the same error.
const CLOCKS_OFF_MICROS: [i64; 4] = [0, 2_000_000, -120_000_000, 120_000_000];
const SLICE: u32 = 10;
const CALM: Duration = Duration::from_secs(3);
/// Maximum time from the start of a fault of a node to the kill of a process.
const BEFORE: Duration = Duration::from_secs(6);
/// Time after which each message that a killed process was sending is either stored or lost for
/// good.
const ENDED: Duration = Duration::from_secs(6);
/// Time by which the clock of the test is moved forward at the end, in microseconds. All leases and
/// delays have then expired, and processes that were emptying a table have given up.
const LATER_MICROS: i64 = 900_000_000;
/// Maximum time until each table of message bodies in use becomes free: up to two rotation
/// intervals, and the time to empty the table.
const RECOVERED: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_secs(1);

#[test]
#[ignore = "slow: three nodes are killed in turn beside processes that work, minutes in all"]
fn handles_every_message_despite_dying_nodes_and_workers() {
    let lease = Lease::new();
    let cluster = lease.cluster();
    let store = address(cluster);
    let bed = run(async {
        let bed = Bed::new(store.clone(), slices_of(SLICE)).await;
        for (name, options) in queues() {
            bed.create(name, options).await;
        }
        bed
    });
    let (lines, said) = channel();
    let address = StoreAddress::Cassandra(Box::new(store)).to_string();
    let children = Children { address, lines };
    let mut processes = Processes::start(&children);
    let mut random: Rng = recto_testkit::generate::rng(seed());
    let stop = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        let watching = scope.spawn(|| run(watch(&bed, &stop)));
        let _stop = SetOnDrop(&stop);
        for round in 0..Fault::ALL.len() * scale() {
            std::thread::sleep(CALM);
            processes.replace_one(&mut random);
            std::thread::sleep(CALM);
            let fault = Fault::ALL[round % Fault::ALL.len()];
            fault.happen(&cluster.nodes()[random.usize(0..3)], || {
                std::thread::sleep(Duration::from_millis(random.u64(0..BEFORE.as_millis() as u64)));
                processes.replace_one(&mut random);
            });
        }
        std::thread::sleep(CALM);
        processes.end();
        stop.store(true, Ordering::Relaxed);
        watching.join().unwrap()
    });
    drop(children);
    let calm = Instant::now();
    cluster.wait_until_all_up().unwrap();
    println!("all nodes are up after {:.1?}", calm.elapsed());
    std::thread::sleep(ENDED);
    run(async {
        let later = bed.at(Clocks::off_by(LATER_MICROS).environment()).await;
        drop(bed);
        let mut said = hear_all(said);
        println!("what is left is looked at after {:.1?}", calm.elapsed());
        drain(&later, &mut said).await;
        said.check();
        assert!(seen.opened > 3, "{seen:?}");
        assert!(seen.is_hindered, "with a node down a table was emptied: {seen:?}");
        recovers(&later).await;
    });
}

/// Running child processes, which the test kills and replaces. Each has its own clock error.
struct Processes<'c> {
    children: &'c Children,
    living: Vec<Child>,
    started: usize,
}

impl<'c> Processes<'c> {
    fn start(children: &'c Children) -> Self {
        let spawn = |(number, off): (usize, &i64)| children.spawn(number, *off);
        Self {
            children,
            living: CLOCKS_OFF_MICROS.iter().enumerate().map(spawn).collect(),
            started: CLOCKS_OFF_MICROS.len(),
        }
    }

    /// Kills a random child process, and starts another one with the same clock error.
    fn replace_one(&mut self, random: &mut Rng) {
        let index = random.usize(0..self.living.len());
        kill(&mut self.living[index]);
        self.living[index] = self.children.spawn(self.started, CLOCKS_OFF_MICROS[index]);
        self.started += 1;
    }

    fn end(&mut self) {
        self.living.iter_mut().for_each(kill);
    }
}

/// Guard that sets a flag when it is dropped. The flag stops a concurrent task, even if the owner
/// of the guard panics.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Observations of the rotating tables of message bodies during the test.
#[derive(Debug, Default)]
struct Seen {
    /// Number of times that a table was opened for new message bodies.
    opened: usize,
    /// True if a fault ever prevented a table from being emptied, or hid whether it was emptied.
    is_hindered: bool,
}

/// Reads the state of the rotating tables regularly until `stop` is set, and prints its changes.
async fn watch(bed: &Bed, stop: &AtomicBool) -> Seen {
    let (mut opened, mut is_hindered, mut last) = (BTreeSet::new(), false, String::new());
    let begun = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let ring = bed.queues.rotation().await;
        if let Err(error) = &ring {
            println!("{:>5.1?} {error}", begun.elapsed());
        }
        if let Ok(ring) = ring {
            let is_open = |table: &&TableStatus| matches!(table.phase, Phase::Open { .. });
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

/// Returns a description of the rotating tables, for example `1 Open 4, 2 Free 0; all is well`.
/// Each table has its number, its phase and its number of segments.
fn in_words(ring: &RotationStatus) -> String {
    let table = |table: &TableStatus| {
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

/// Asserts that each table of message bodies in use becomes free, is opened again, or is replaced.
/// Also asserts that free tables are empty.
async fn recovers(bed: &Bed) {
    let before = bed.queues.rotation().await.unwrap();
    println!("in the end: {}", in_words(&before));
    let is_whole = |ring: &RotationStatus| all_moved_on(&before, ring);
    let ring = bed.wait_for_ring(RECOVERED, is_whole).await;
    println!("recovered: {}", in_words(&ring));
    for table in ring.tables.iter().filter(|table| table.phase == Phase::Free) {
        let bodies = rows(&bed.address, &table.name).await;
        let ring = bed.queues.rotation().await.unwrap();
        let is_free = |now: &TableStatus| now.number == table.number && now.phase == Phase::Free;
        assert!(
            bodies == 0 || !ring.tables.iter().any(is_free),
            "{bodies} bodies are in {table:?}"
        );
    }
}
