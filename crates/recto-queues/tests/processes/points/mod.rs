//! Tests of processes on a real Cassandra that are killed, or paused for longer than a visibility timeout.
//! The tests stop a process at each step of the protocol, before its call to the store, or after the call but
//! before its result arrives. Other processes continue. No message is lost, no resolved message is received
//! again, and all work completes.
//!
//! For each step, one of the two sides is chosen at random. `RECTO_TEST_SEED=…` repeats a choice.
//! `RECTO_TEST_SCALE=2` or more tests both sides.

mod clock;
#[path = "../../common/cut.rs"]
mod cut;
#[path = "../../common/moved_on.rs"]
mod moved_on;
mod others;
mod point;
mod process;

use std::io::Write as _;
use std::process::Child;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use recto_model::Environment;
use recto_protocol::queues::StoreOptions;
use recto_queues::Queues;
use tokio::runtime::{Builder, Runtime};

use crate::{children, keyspace};
use cut::{Point, REACHED, Side};
use others::Known;
use point::{Does, POINTS};

const SEED_VARIABLE: &str = "RECTO_TEST_SEED";
const SCALE_VARIABLE: &str = "RECTO_TEST_SCALE";
/// Number of lanes, in which scenarios run concurrently. Each lane has its own keyspace.
const LANES: usize = 3;
/// Time limit for a process to reach its stop point, or to print that it is done.
const HEARD: Duration = Duration::from_secs(60);
/// Slightly more than the margin that processes add to visibility timeouts of others.
const MARGIN: Duration = Duration::from_secs(8);
/// Time by which the start of the fast clocks is moved back. A process that was emptying a table counts
/// as gone by the new clocks.
const LATER_MICROS: i64 = 400_000_000;
/// Shortest intervals of the ring of body tables that are possible with the fast clocks.
const SHORT: StoreOptions = StoreOptions {
    rotation_seconds: 10,
    grace_seconds: 3,
    tables: 4,
    units: 4,
};

/// Whether the process at the stop point is killed or paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Killed,
    Paused,
}

/// Scenario of a test.
#[derive(Debug, Clone, Copy)]
struct Scenario {
    point: Point,
    side: Side,
    cut: Cut,
}

#[test]
#[ignore = "child: started by interrupts_senders_and_workers and interrupts_ring_maintenance"]
fn process_that_is_cut_off() {
    process::run();
}

#[test]
fn interrupts_senders_and_workers() {
    play_all(|does| does != Does::Keep);
}

#[test]
fn interrupts_ring_maintenance() {
    play_all(|does| does == Does::Keep);
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap())
}

/// Returns a scenario for each step, in which the process is killed or paused, before the call,
/// after the call, or in either place.
fn scenarios(is_played: fn(Does) -> bool) -> Vec<Scenario> {
    let drawn = || u64::from_be_bytes(Environment::system().random());
    let seed = number(SEED_VARIABLE).unwrap_or_else(drawn);
    println!("{SEED_VARIABLE}={seed}");
    let is_whole = number(SCALE_VARIABLE).is_some_and(|scale| scale > 1);
    let mut scenarios = Vec::new();
    for (number, point) in POINTS.into_iter().enumerate() {
        for (cut_number, cut) in [Cut::Killed, Cut::Paused].into_iter().enumerate() {
            for (side_number, side) in [Side::Before, Side::After].into_iter().enumerate() {
                let bit = seed.rotate_right((2 * number + cut_number) as u32) & 1;
                if is_played(point.does) && (is_whole || bit == side_number as u64) {
                    scenarios.push(Scenario { point, side, cut });
                }
            }
        }
    }
    scenarios
}

fn play_all(is_played: fn(Does) -> bool) {
    let scenarios = Mutex::new(scenarios(is_played).into_iter().enumerate());
    std::thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| {
                let mut lane = Lane::new();
                loop {
                    let next = scenarios.lock().unwrap().next();
                    let Some((number, scenario)) = next else { break };
                    println!(
                        "{number} {}: {:?} {:?}",
                        scenario.point.name, scenario.cut, scenario.side
                    );
                    lane.play(number, scenario);
                }
                lane.ends();
            });
        }
    });
}

/// Scenarios that run one after another in a keyspace of their own.
struct Lane {
    keyspace: String,
    from_micros: i64,
    runtime: Runtime,
}

impl Lane {
    fn new() -> Self {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let keyspace = runtime.block_on(keyspace::made());
        Self {
            keyspace,
            from_micros: Environment::system().now_micros(),
            runtime,
        }
    }

    async fn open(&self) -> Queues {
        let store = keyspace::store(&self.keyspace, Environment::system()).await;
        process::open(store, clock::environment(self.from_micros)).await
    }

    /// Sets short rotation intervals in the keyspace, for tests of the ring.
    async fn with_short_slices(&self) {
        self.open().await.configure(SHORT).await.unwrap();
    }

    fn spawn(&self, name: &str, scenario: Scenario) -> (Child, Receiver<String>) {
        let (lines, heard) = channel();
        let variables = [
            (process::KEYSPACE, self.keyspace.clone()),
            (process::CLOCK, self.from_micros.to_string()),
            (process::QUEUE, name.to_owned()),
            (process::POINT, scenario.point.name.to_owned()),
            (process::SIDE, format!("{:?}", scenario.side)),
        ];
        (
            children::spawn(children::path_of(process_that_is_cut_off), &variables, &lines),
            heard,
        )
    }

    fn play(&mut self, number: usize, scenario: Scenario) {
        let does = scenario.point.does;
        if does == Does::Keep {
            self.runtime.block_on(self.with_short_slices());
        }
        let name = format!("q{number}");
        let (mut child, heard) = self.spawn(&name, scenario);
        let mut known = Known::default();
        hear_until(REACHED, &heard, &mut known);
        if scenario.cut == Cut::Killed {
            children::kill(&mut child);
        }
        if does == Does::Ack && scenario.side == Side::Before {
            known.acks_nothing();
        }
        let queues = self.runtime.block_on(self.open());
        let own = self.runtime.block_on(process::queues(&queues, &name, does));
        self.runtime.block_on(async {
            known.send(own.last().unwrap(), &name, 2).await;
            known.drain(&own).await;
        });
        if scenario.cut == Cut::Paused {
            std::thread::sleep(clock::in_truth(process::VISIBILITY + MARGIN));
            child.stdin.as_mut().unwrap().write_all(b"go on\n").unwrap();
            hear_until(process::OVER, &heard, &mut known);
            assert!(known.begun_late().is_empty(), "{known:?}");
        }
        self.runtime.block_on(async {
            known.send(own.last().unwrap(), &name, 2).await;
            known.drain(&own).await;
            others::come_to_rest(&own).await;
        });
        if does == Does::Keep {
            self.ring_recovers();
        }
        if scenario.cut == Cut::Paused {
            children::kill(&mut child);
        }
    }

    /// Checks that the ring of body tables recovers after the cut. Moves the clocks forward for all later
    /// processes.
    fn ring_recovers(&mut self) {
        self.from_micros -= LATER_MICROS;
        self.runtime
            .block_on(async { others::ring_goes_on(&self.open().await).await });
    }

    fn ends(mut self) {
        self.runtime.block_on(self.with_short_slices());
        self.ring_recovers();
    }
}

fn hear_until(word: &str, heard: &Receiver<String>, known: &mut Known) {
    loop {
        let line = heard
            .recv_timeout(HEARD)
            .unwrap_or_else(|_| panic!("it never said {word}: {known:?}"));
        if line == word {
            return;
        }
        known.hear(&line);
    }
}
