//! Checks an embedded store after processes that load files, put records and write batches were
//! killed at random moments. All acknowledged records must be stored, complete and once.
//!
//! Each run uses new random values. A failure prints its seed, and `RECTO_TEST_SEED=…` repeats it.
//! `RECTO_TEST_SCALE=20` kills twenty times as often, for a long run.
#![allow(clippy::print_stdout)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use recto::schema::Schema;
use recto::session::LoadRequest;
use recto::{DynamicRecord, LocalSession, OpenOptions, Recto, Session, StoreAddress, Value};
use recto_testkit::generate::{self, Rng};

use crate::common::children::path_of;
use crate::common::seed;
use crate::support::{Bench, SCHEMA, load_into, records_of};

/// Environment variable that tells a child process the folder of the load.
const FOLDER: &str = "RECTO_TEST_LOAD_FOLDER";
/// Environment variable with a factor for the number of kills.
const SCALE_VARIABLE: &str = "RECTO_TEST_SCALE";
/// Number of child processes that execute one load, one after another. Each is killed, and the next
/// resumes the load.
const LIVES_OF_A_LOAD: usize = 5;
/// Number of child processes that put records and write batches, one after another. Each is killed.
const LIVES_OF_A_WRITER: u64 = 24;

fn from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is a whole number, not {text:?}")),
    )
}

fn scale() -> u64 {
    from_environment(SCALE_VARIABLE).unwrap_or(1)
}

fn random() -> Rng {
    generate::rng(seed())
}

fn text() -> String {
    let rows = (0..40_000).map(|number| {
        let at = if number % 50 == 0 {
            "never"
        } else {
            "2013-01-01T10:00:00Z"
        };
        format!(
            "s{},{at},{},note {number}\n",
            number * 7_919 % 40_000,
            number % 977
        )
    });
    std::iter::once("sensor,at,count,note\n".to_owned())
        .chain(rows)
        .collect()
}

fn both(request: &mut LoadRequest) {
    request.collections = vec!["readings".into(), "by_count".into()];
    request.buffer_bytes = Some(1 << 20);
}

async fn open(folder: &Path) -> LocalSession {
    let address: StoreAddress = folder.join("store").to_str().unwrap().parse().unwrap();
    let recto = Recto::open_with(&address, OpenOptions::new().create())
        .await
        .unwrap();
    recto.apply(&Schema::parse(SCHEMA).unwrap()).await.unwrap();
    LocalSession::new(recto)
}

#[tokio::test]
#[ignore = "child: started by a_load_whose_process_is_killed_ends_as_if_it_had_not_been"]
async fn loader_that_gets_killed() {
    let folder = PathBuf::from(std::env::var(FOLDER).unwrap());
    load_into(&open(&folder).await, &folder.join("a.csv"), both)
        .await
        .unwrap();
}

fn spawn_loader(folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", path_of(loader_that_gets_killed)])
        .env(FOLDER, folder)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[tokio::test]
async fn a_load_whose_process_is_killed_ends_as_if_it_had_not_been() {
    let expected = Bench::new().await;
    let file = expected.file("a.csv", text());
    let report = expected.load_with(&file, both).await.unwrap();
    let mut random = random();
    let whole = tempfile::tempdir().unwrap();
    std::fs::write(whole.path().join("a.csv"), text()).unwrap();
    let begin = Instant::now();
    spawn_loader(whole.path()).wait().unwrap();
    let whole_ms = begin.elapsed().as_millis() as u64;
    let mut resumed = 0;
    for load in 0..scale() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.csv"), text()).unwrap();
        for _ in 0..LIVES_OF_A_LOAD {
            let mut child = spawn_loader(folder.path());
            tokio::time::sleep(Duration::from_millis(random.u64(0..=whole_ms))).await;
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let session = open(folder.path()).await;
        let last = load_into(&session, &folder.path().join("a.csv"), both)
            .await
            .unwrap();
        resumed += u64::from(last.already_loaded || last.rows_resumed > 0);
        assert_eq!(last.collections, report.collections, "load {load}");
        for collection in ["readings", "by_count"] {
            assert_eq!(
                records_of(&session, collection).await,
                expected.records(collection).await,
                "load {load}"
            );
        }
        let rejects = std::fs::read_to_string(folder.path().join("a.csv.rejects.csv")).unwrap();
        assert_eq!(rejects, expected.text("a.csv.rejects.csv"), "load {load}");
        let check = session.tools().unwrap().check(&|_| {}).await.unwrap();
        assert!(check.problems.is_empty(), "load {load}: {:?}", check.problems);
    }
    assert!(resumed > 0, "no child lived to a checkpoint");
}

/// Schema of the collection to which child processes write.
const SLOTS: &str = r#"
[collection.slots]
fields = { part = "int", slot = "int", round = "bigint", note = "text" }
key = ["part", "slot"]
partition = ["part"]
order = ["slot"]
writes = "overwrite"
"#;
/// Environment variable that tells a child process the index of its first round. In each round,
/// each of its tasks writes once.
const ROUND: &str = "RECTO_TEST_ROUND";
/// Number of tasks that put and delete single records, each in its own partition.
const PUTTERS: i32 = 3;
/// Partitions to which one batch writes in each round.
const BATCHED: std::ops::Range<i32> = 100..105;
const SLOTS_OF_A_PART: i64 = 20;
/// Upper bound of the number of rounds that one child process executes.
const ROUNDS_OF_A_LIFE: i64 = 1_000_000;
/// Minimum average number of rounds that a child process must complete before it is killed.
const MIN_ROUNDS_OF_A_LIFE: i64 = 3;
/// Divisor and remainder of the indexes of rounds that delete a slot instead of writing it.
const DELETES: (i64, i64) = (7, 3);

/// Returns the slot that a round writes, and the value to store in it. `None` if the round deletes
/// the slot.
fn step(round: i64) -> (i32, Option<i64>) {
    let is_put = round % DELETES.0 != DELETES.1;
    ((round % SLOTS_OF_A_PART) as i32, is_put.then_some(round))
}

fn note(part: i32, slot: i32, round: i64) -> String {
    format!("{part} {slot} {round} ").repeat(usize::try_from(round % 17).unwrap())
}

async fn open_slots(folder: &Path) -> Recto {
    let address: StoreAddress = folder.join("store").to_str().unwrap().parse().unwrap();
    let recto = Recto::open_with(&address, OpenOptions::new().create())
        .await
        .unwrap();
    recto.apply(&Schema::parse(SLOTS).unwrap()).await.unwrap();
    recto
}

/// Executes a round in all partitions of `parts`, in one batch.
async fn make_step(recto: &Recto, parts: std::ops::Range<i32>, round: i64) {
    let slots = recto.dynamic("slots").unwrap();
    let definition = Arc::clone(recto.schema().collection("slots").unwrap());
    let mut batch = recto.batch();
    for part in parts {
        let (slot, held) = step(round);
        if let Some(round) = held {
            let mut record = DynamicRecord::new(Arc::clone(&definition));
            let values = [
                ("part", Value::Int(part)),
                ("slot", Value::Int(slot)),
                ("round", Value::BigInt(round)),
                ("note", Value::Text(note(part, slot, round))),
            ];
            for (field, value) in values {
                record.set(field, Some(value)).unwrap();
            }
            batch.put(&slots, &record).unwrap();
        } else {
            batch.delete(&slots, (part, slot)).unwrap();
        }
    }
    batch.commit().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "child: started by puts_and_batches_that_were_acknowledged_survive_a_kill"]
async fn writer_that_gets_killed() {
    let folder = PathBuf::from(std::env::var(FOLDER).unwrap());
    let first = i64::try_from(from_environment(ROUND).unwrap()).unwrap();
    let recto = open_slots(&folder).await;
    let singles = (0..PUTTERS).map(|part| part..part + 1);
    let tasks: Vec<_> = singles
        .chain([BATCHED])
        .map(|parts| {
            let recto = recto.clone();
            tokio::spawn(async move {
                for round in first.. {
                    make_step(&recto, parts.clone(), round).await;
                    let mut out = std::io::stdout().lock();
                    writeln!(out, "acknowledged {} {round}", parts.start).unwrap();
                    out.flush().unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

/// Lets a child process write for the time `life`, and then kills it. For each task, identified by
/// its first partition, returns the last round that the child printed as acknowledged.
fn live_and_die(folder: &Path, first: i64, life: Duration) -> BTreeMap<i32, i64> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--ignored",
            "--exact",
            "--nocapture",
            path_of(writer_that_gets_killed),
        ])
        .env(FOLDER, folder)
        .env(ROUND, first.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut last = BTreeMap::new();
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if let Some((_, words)) = line.split_once("acknowledged ")
                && let Some((part, round)) = words.split_once(' ')
            {
                last.insert(part.parse().unwrap(), round.parse().unwrap());
            }
        }
        last
    });
    std::thread::sleep(life);
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap()
}

/// Expected content of a partition: for each slot, the index of the round that wrote it last.
type Held = BTreeMap<i32, i64>;

/// Returns the stored slots of every partition. Asserts that each record is complete, and that none
/// appears twice.
async fn stored(session: &LocalSession) -> BTreeMap<i32, Held> {
    let mut found: BTreeMap<i32, Held> = BTreeMap::new();
    for record in records_of(session, "slots").await {
        let json: serde_json::Value = serde_json::from_str(&record).unwrap();
        let small = |field: &str| json[field].as_i64().unwrap() as i32;
        let (part, slot) = (small("part"), small("slot"));
        let round = &json["round"];
        let round = round.as_i64().or_else(|| round.as_str()?.parse().ok()).unwrap();
        assert_eq!(json["note"], note(part, slot, round), "a record is torn");
        let twice = found.entry(part).or_default().insert(slot, round);
        assert_eq!(twice, None, "record {part} {slot} is there twice");
    }
    found
}

fn apply(held: &mut Held, round: i64) {
    let (slot, value) = step(round);
    match value {
        Some(round) => drop(held.insert(slot, round)),
        None => drop(held.remove(&slot)),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn puts_and_batches_that_were_acknowledged_survive_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = random();
    let mut held: BTreeMap<i32, Held> = BTreeMap::new();
    let mut rounds = 0;
    for life in 0..LIVES_OF_A_WRITER * scale() {
        let first = i64::try_from(life).unwrap() * ROUNDS_OF_A_LIFE;
        let lasts = live_and_die(folder.path(), first, Duration::from_millis(random.u64(30..260)));
        let session = LocalSession::new(open_slots(folder.path()).await);
        let found = stored(&session).await;
        for part in (0..PUTTERS).chain(BATCHED) {
            let writer = if BATCHED.contains(&part) {
                BATCHED.start
            } else {
                part
            };
            let next = lasts.get(&writer).map_or(first, |last| last + 1);
            let before = held.entry(part).or_default();
            (first..next).for_each(|round| apply(before, round));
            let mut after = before.clone();
            // `after` also includes the next round, which may have been executed although it was
            // not acknowledged.
            apply(&mut after, next);
            let found = found.get(&part).cloned().unwrap_or_default();
            assert!(
                found == *before || found == after,
                "life {life}, partition {part}, round {next}:\n{found:?}\n{before:?}\n{after:?}"
            );
            *before = found;
            rounds += next - first;
        }
        let batched: Vec<&Held> = BATCHED.map(|part| &held[&part]).collect();
        assert!(
            batched.iter().all(|part| *part == batched[0]),
            "life {life}: a batch is torn: {batched:?}"
        );
        let check = session.tools().unwrap().check(&|_| {}).await.unwrap();
        assert!(check.problems.is_empty(), "life {life}: {:?}", check.problems);
    }
    println!("{rounds} rounds acknowledged");
    // A child lives for a fixed time, and so writes less on a slow machine. The required minimum is
    // therefore low.
    let least = MIN_ROUNDS_OF_A_LIFE * i64::try_from(LIVES_OF_A_WRITER * scale()).unwrap();
    assert!(rounds >= least, "the children wrote {rounds} rounds");
}
