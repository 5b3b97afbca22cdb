//! Tests of processes that are killed, or that stop for a time, while all buckets are split and old
//! buckets are cleared.
//!
//! A process stops at each named step: before its call to the store, or after the call is done but before
//! its result arrives. Other processes write, delete and read pages concurrently, and continue the
//! unfinished work. The tests check that each page shows the writes that were acknowledged before it. They
//! also check that all splits are complete in the end, and that all old buckets are cleared.
//!
//! For each step, one of the two moments is drawn at random, and `RECTO_TEST_SEED=…` repeats a choice.
//! `RECTO_TEST_SCALE=2` or more tests both moments.

use std::io::Write as _;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt};
use recto_buckets::{Change, RowChange};
use recto_model::Environment;
use recto_model::table::{Direction, ReadDirection};
use recto_protocol::buckets::sizing::Sizing;
use recto_protocol::buckets::{Protocol, Shards};
use recto_store::{ReadOptions, Store};
use recto_testkit::rig::{Cluster, ClusterOptions, Nodes};
use tokio::runtime::Builder;

use crate::children;
use crate::cut::{CutOff, Point, REACHED, Side};
use crate::history::{Number, Page};
use crate::hot::{One, Random, Run, Shared, number_of, text_of};
use crate::point::{Does, POINTS};
use crate::process::{KEYSPACE, Process, Setting, TIME, keyspace, patch, put, said};
use crate::{SCALE_VARIABLE, SEED_VARIABLE, number};

/// Environment variable that restricts the tested steps to those of joins.
const ONLY_JOINS: &str = "RECTO_TEST_ONLY_JOINS";
/// Environment variable that names the Cassandra of a test program.
const CASSANDRA: &str = "RECTO_TEST_CASSANDRA";
/// Maximum heap of each of three nodes.
const HEAP: &str = "512M";
/// Environment variables that pass the task and the stop point to a child process.
const STREAM: &str = "RECTO_TEST_STREAM";
const POINT: &str = "RECTO_TEST_POINT";
const SIDE: &str = "RECTO_TEST_SIDE";
const NUMBER: &str = "RECTO_TEST_NUMBER";
/// Word that the child process prints at the end.
const OVER: &str = "over";
/// Number of scenarios that run concurrently.
const LANES: usize = 6;
/// Time limit for a process to reach its stop point, or to print that it is done.
const HEARD: Duration = Duration::from_secs(60);
/// Time limit until all splits are complete and all old buckets are cleared.
const SETTLED: Duration = Duration::from_secs(600);
/// Time limit of an operation of a process that stops for a time in the middle of it.
const LONG: Duration = Duration::from_secs(300);
/// Time that a process gets to continue its work after a stop.
const GOES_ON: Duration = Duration::from_millis(1_500);
const ROWS: i64 = 300;
/// Pause of a writer or a reader between two operations.
const REST: Duration = Duration::from_millis(20);
/// Key of a row in a key range that is copied to another bucket. Only one process writes this row.
const OWN_KEY: i64 = (1 << 39) + 1;

/// Way in which a process is interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Killed,
    StandsStill,
}

#[derive(Debug, Clone, Copy)]
struct Scenario {
    point: Point,
    side: Side,
    cut: Cut,
}

/// Returns the product's protocol, with waits that are as short as a loaded machine allows.
fn protocol() -> Protocol {
    let mut protocol = Protocol::default();
    protocol.short_life_ms = 200;
    protocol.long_life_ms = 1_000;
    protocol.standstill_ms = 100;
    protocol.clearing_ms = 500;
    protocol.clearing_looks = 1;
    protocol
}

fn setting(stream: String) -> Setting {
    Setting {
        direction: Direction::Ascending,
        sizing: Sizing::with_samples(64 << 10, 2_000, 0.1, 4).unwrap(),
        stream,
        protocol: protocol(),
        shards: Shards::ONE,
    }
}

/// Returns each step with each way to interrupt a process, before the call, after it, or both. Leaves out
/// a killed process that only reads a page, because that has no effect to check.
fn scenarios() -> Vec<Scenario> {
    let drawn = || u64::from_be_bytes(Environment::system().random());
    let seed = number(SEED_VARIABLE).unwrap_or_else(drawn);
    println!("{SEED_VARIABLE}={seed}");
    let is_whole = number(SCALE_VARIABLE).is_some_and(|scale| scale > 1);
    let only_joins = std::env::var_os(ONLY_JOINS).is_some();
    let mut scenarios = Vec::new();
    for (number, point) in POINTS.into_iter().enumerate() {
        if only_joins && point.does != Does::Join {
            continue;
        }
        for (cut_number, cut) in [Cut::Killed, Cut::StandsStill].into_iter().enumerate() {
            for (side_number, side) in [Side::Before, Side::After].into_iter().enumerate() {
                let bit = seed.rotate_right((2 * number + cut_number) as u32) & 1;
                let says_something = point.does != Does::Page || cut == Cut::StandsStill;
                if says_something && (is_whole || bit == side_number as u64) {
                    scenarios.push(Scenario { point, side, cut });
                }
            }
        }
    }
    scenarios
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "slow: minutes on Cassandra"]
async fn interruption_at_any_step_leaves_no_faults() {
    let played = scenarios()
        .into_iter()
        .enumerate()
        .map(|(number, scenario)| tokio::spawn(play(number, scenario)));
    // The iterator is lazy, so each scenario starts only when a lane is free.
    let mut played = stream::iter(played).buffer_unordered(LANES);
    while let Some(one) = played.next().await {
        one.unwrap();
    }
}

/// Interrupts joins on three nodes, which keep three copies of each row.
#[test]
#[ignore = "slow: three nodes, minutes"]
fn interruption_of_joins_on_three_nodes() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let options = ClusterOptions::new(Nodes::Three).heap(HEAP);
    let cluster = Cluster::start_with(&options, folder.path()).unwrap();
    let variables = [
        (CASSANDRA, cluster.addresses().swap_remove(0)),
        (ONLY_JOINS, "1".to_owned()),
    ];
    let test = children::path_of(interruption_at_any_step_leaves_no_faults);
    let (lines, heard) = channel();
    let mut child = children::spawn(test, &variables, &lines);
    drop(lines);
    for line in heard {
        println!("{line}");
    }
    assert!(child.wait().unwrap().success());
}

async fn play(number: usize, scenario: Scenario) {
    let Scenario { point, side, cut } = scenario;
    let name = format!("{number} {}: {cut:?} {side:?}", point.name);
    let run = Run {
        stream: "cut off",
        direction: Direction::Ascending,
        is_apart: false,
        in_order: 2,
        shards: 1,
    };
    let shared = Shared::new(run);
    let stream = format!("cut off {number}");
    let process = Process::start(&setting(stream.clone()), 0).await;
    let one = Arc::new(One {
        process,
        index: 0,
        shared: Arc::clone(&shared),
    });
    let keys = fill(&one).await;
    if point.does == Does::Join {
        // Another process splits the buckets, because a process runs its background work only once.
        let splitting = Process::start(&setting(stream.clone()), 0).await;
        let working = splitting.works();
        splitting.partition.look(TIME).await.unwrap();
        settled(&one, &name).await;
        drop(working);
    }
    let own = matches!(point.does, Does::Put | Does::Patch | Does::Delete)
        .then(|| shared.history.tries(OWN_KEY, point.does != Does::Delete));
    let begun = shared.history.now();
    let mut cut_off = Cutting::start(&stream, scenario, own).await;
    let tasks = [
        tokio::spawn(writes(Arc::clone(&one), keys, Random(2 * number as u64))),
        tokio::spawn(pages(Arc::clone(&one), Random(2 * number as u64 + 1))),
    ];
    let mut heard = cut_off.hear_until(REACHED).await;
    if cut == Cut::Killed {
        children::kill(&mut cut_off.child);
    }
    let working = one.process.works();
    settled(&one, &name).await;
    if cut == Cut::StandsStill {
        cut_off
            .child
            .stdin
            .as_mut()
            .unwrap()
            .write_all(b"go on\n")
            .unwrap();
        heard = cut_off.hear_until(OVER).await;
        children::kill(&mut cut_off.child);
    }
    hear(&one, own, begun, &heard);
    settled(&one, &name).await;
    shared.is_over.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.unwrap();
    }
    drop(working);
    one.pages_through(false, 100).await;
    one.pages_through(true, 1_000).await;
    let ended = shared.history.end();
    let told = ended.unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
    let pieces = one.process.directory().await[0].pieces.len();
    let least = if point.does == Does::Join { 1 } else { 4 };
    assert!(pieces >= least, "{name}: {pieces} pieces");
    println!("{name}: {told}, {pieces} pieces, {} lines", heard.len());
}

/// Writes enough rows for several buckets.
async fn fill(one: &Arc<One>) -> Vec<i64> {
    let mut random = Random(7);
    let keys: Vec<i64> = (0..ROWS).map(|_| random.below(1 << 40) / 7 * 7).collect();
    let written = keys.iter().copied().chain([OWN_KEY]).map(|at| {
        let one = Arc::clone(one);
        async move { one.writes_one(at, true, &mut Random(at.unsigned_abs())).await }
    });
    stream::iter(written).buffer_unordered(16).collect::<()>().await;
    keys
}

/// Overwrites and deletes only existing keys, so that buckets do not grow and the splits complete.
async fn writes(one: Arc<One>, keys: Vec<i64>, mut random: Random) {
    while !one.shared.is_over.load(Ordering::Relaxed) {
        let at = keys[usize::try_from(random.below(ROWS)).unwrap()];
        let is_put = random.below(6) > 0;
        one.writes_one(at, is_put, &mut random).await;
        tokio::time::sleep(REST).await;
    }
}

async fn pages(one: Arc<One>, mut random: Random) {
    while !one.shared.is_over.load(Ordering::Relaxed) {
        one.pages_through(random.below(2) == 0, 1 + random.below(2_000))
            .await;
        tokio::time::sleep(REST).await;
    }
}

/// Waits until no key range is being split and no old bucket must be cleared.
async fn settled(one: &One, name: &str) {
    let begun = Instant::now();
    loop {
        let _ = one.process.partition.look(TIME).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        let window = one.process.partition.directory(TIME).await;
        let is_settled = window.as_ref().is_ok_and(|window| {
            let is_busy = window.is_being_cut() || window.is_to_be_cleared() || window.inner_edge().is_some();
            window.version > 0 && !is_busy
        });
        if is_settled {
            return;
        }
        assert!(begun.elapsed() < SETTLED, "{name}: {window:?}");
    }
}

/// Adds the results that the process printed to the history, like the results of other processes.
fn hear(one: &One, own: Option<Number>, begun: u64, heard: &[String]) {
    let history = &one.shared.history;
    let mut rows = Vec::new();
    let mut own = own;
    for line in heard {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["acknowledged", stamp] => history.acknowledges(own.take().unwrap(), stamp.parse().unwrap()),
            ["row", at, number] => rows.push((at.parse().unwrap(), number.parse().unwrap())),
            ["page", exhausted] => {
                let last = rows.last().map(|(at, _)| *at);
                history.reads(&Page {
                    begun,
                    is_backward: false,
                    after: None,
                    to: last.filter(|_| exhausted != "true"),
                    rows: std::mem::take(&mut rows),
                });
            }
            ["failed", ..] => history.fails(line.clone()),
            _ => {}
        }
    }
    if let Some(number) = own {
        history.gives_up(number, Environment::system().now_micros());
    }
}

/// Child process that is interrupted at a stop point.
struct Cutting {
    child: Child,
    heard: Option<Receiver<String>>,
}

impl Cutting {
    async fn start(stream: &str, scenario: Scenario, own: Option<Number>) -> Self {
        let (lines, heard) = channel();
        let variables = [
            (KEYSPACE, keyspace().await.to_owned()),
            (STREAM, stream.to_owned()),
            (POINT, scenario.point.name.to_owned()),
            (SIDE, format!("{:?}", scenario.side)),
            (NUMBER, own.unwrap_or_default().to_string()),
        ];
        Self {
            child: children::spawn(children::path_of(process_that_is_cut_off), &variables, &lines),
            heard: Some(heard),
        }
    }

    /// Returns the lines that the process prints before the line `word`.
    async fn hear_until(&mut self, word: &'static str) -> Vec<String> {
        let heard = self.heard.take().unwrap();
        let hearing = tokio::task::spawn_blocking(move || {
            let mut lines = Vec::new();
            loop {
                let line = heard.recv_timeout(HEARD);
                let line = line.unwrap_or_else(|_| panic!("it never said {word}: {lines:?}"));
                if line == word {
                    return (heard, lines);
                }
                lines.push(line);
            }
        });
        let (heard, lines) = hearing.await.unwrap();
        self.heard = Some(heard);
        lines
    }
}

impl Drop for Cutting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "child: started by interruption_at_any_step_leaves_no_faults"]
fn process_that_is_cut_off() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(act());
    println!("{OVER}");
    crate::cut::wait_for_word();
}

/// Runs the child process on one thread, so that the whole process stops at its stop point.
async fn act() {
    let variable = |name: &str| std::env::var(name).unwrap();
    let point = Point::of(&variable(POINT));
    let side = if variable(SIDE) == "After" {
        Side::After
    } else {
        Side::Before
    };
    let mut cut_off = None;
    let process = Process::start_over(&setting(variable(STREAM)), 0, |inner| {
        let over = CutOff::new(inner, side);
        cut_off = Some(Arc::clone(&over));
        over as Arc<dyn Store>
    })
    .await;
    let store = cut_off.unwrap();
    store.arm(point);
    let text = text_of(variable(NUMBER).parse().unwrap(), &mut Random(1));
    match point.does {
        Does::Cut => {
            let _working = process.works();
            while !store.is_past() {
                let _ = process.partition.look(TIME).await;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            tokio::time::sleep(GOES_ON).await;
        }
        Does::Join => {
            let _working = process.works();
            while !store.is_past() {
                let _ = process.partition.join_any(0, 100).await;
                let _ = process.partition.look(TIME).await;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            tokio::time::sleep(GOES_ON).await;
        }
        Does::Put => write(&process, put(None, Some(&text), None)).await,
        Does::Patch => write(&process, patch(&text)).await,
        Does::Delete => write(&process, Change::Delete).await,
        Does::Page => page(&process).await,
    }
}

async fn write(process: &Process, change: Change) {
    let clustering = std::iter::once(Some(&OWN_KEY.to_be_bytes()[..])).collect();
    let change = RowChange { clustering, change };
    match process.partition.write(&change, LONG).await {
        Ok(stamp) => println!("acknowledged {}", stamp.0),
        Err(error) => println!("unknown {error}"),
    }
}

async fn page(process: &Process) {
    let slice = process.slice(ReadDirection::Forward, None, 10_000);
    let snapshot = process.store.snapshot().unwrap();
    let options = ReadOptions {
        timeout: LONG,
        ..ReadOptions::default()
    };
    let read = process
        .pieces
        .slice(&process.pieced, &*snapshot, &slice, &options);
    match read.await {
        Ok(read) => {
            for (at, text) in said(&read) {
                println!("row {at} {}", number_of(&text));
            }
            println!("page {}", read.exhausted);
        }
        Err(error) => println!("unread {error}"),
    }
}
