//! Test that a view has the correct rows after it was added while processes changed the records, on
//! a real Cassandra. During the addition:
//!
//! - One process keeps writing with the old schema, until its lease no longer allows it.
//! - Another process is frozen for so long that other processes regard it as dead. It then
//!   continues.
//! - The process that adds the view is killed while it waits for other processes. A second process
//!   that adds the view is killed during the backfill (the copy of existing records to the view). A
//!   third process completes the addition.
//!
//! If the environment variable `RECTO_TEST_SCALE` is set to any value but 1, the test has as many
//! records as the demo has flights.

use std::collections::BTreeMap;
use std::io::Read;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use crate::common::children::{kill, path_of, spawn};
use crate::common::exact::assert_views_are_exact;
use crate::common::stores::parse;
use crate::common::{Fresh, Kind, run};
use futures::stream::{self, StreamExt};
use recto::session::VerifyRequest;
use recto::{ApplyOptions, Collection, DynamicRecord, LocalSession, OpenOptions, Recto, Session};
use recto_testkit::{generate, rig};
use serde_json::json;

const BASE: &str = r#"
[collection.people]
fields = { id = "int", city = "text", age = "int", note = "text" }
key = ["id"]

[collection.people.view.by_city]
partition = ["city"]
order = ["age"]
"#;
const ADDED: &str = r#"
[collection.people.view.by_note]
partition = ["note"]
order = ["-age"]
"#;

/// Environment variable that tells a child process the address of the store.
const ADDRESS: &str = "RECTO_TEST_ADDRESS";
/// Environment variable that tells a child process its id, from 0.
const NUMBER: &str = "RECTO_TEST_NUMBER";
/// Environment variable that tells a child process the number of records.
const RECORDS_VARIABLE: &str = "RECTO_TEST_RECORDS";
const RECORDS: u64 = 1_500;
const MANY_RECORDS: u64 = 336_776;
/// Rate of the backfill (copy of existing records to the added view), in rows per second. It is so
/// low that the test can kill the process during the backfill.
const FILLED_A_SECOND: u32 = 300;
/// Number of concurrent clients in each writing process. Each has at most one change in progress.
const AT_ONCE: u64 = 4;
/// Pause of a client after each change of a record.
const CHANGE_PAUSE: Duration = Duration::from_millis(5);
/// Time for which the processes write between two steps of the test.
const CALM: Duration = Duration::from_secs(2);
/// Time after which the test kills the first process that adds the view. By then, this process
/// waits for the other processes.
const WAITS: Duration = Duration::from_millis(1_500);
/// Duration of a freeze that is shorter than a lease, so that the process continues with a valid
/// lease.
const SHORT: Duration = Duration::from_secs(8);
/// Maximum time until the backfill of the view begins. Before that, the frozen process must be
/// found dead, and its changes must be resolved.
const FILLS: Duration = Duration::from_secs(120);

fn variable<T: std::str::FromStr<Err: std::fmt::Debug>>(name: &str) -> T {
    std::env::var(name).unwrap().parse().unwrap()
}

async fn open(address: &str) -> Recto {
    Recto::open_with(address, OpenOptions::new()).await.unwrap()
}

fn person(people: &Collection<DynamicRecord>, id: u64, drawn: u64) -> DynamicRecord {
    let json = json!({
        "id": id, "city": format!("c{}", drawn % 7), "age": drawn % 90, "note": format!("n{}", drawn % 11),
    });
    DynamicRecord::from_json(people.definition(), json.as_object().unwrap()).unwrap()
}

#[test]
#[ignore = "child: started by a_view_that_is_added_beside_writers_is_exact"]
fn writer_that_is_told_to_end() {
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    std::thread::spawn(move || {
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        told.store(true, Ordering::Relaxed);
    });
    run(async {
        let recto = open(&variable::<String>(ADDRESS)).await;
        let (number, records): (u64, u64) = (variable(NUMBER), variable(RECORDS_VARIABLE));
        let clients =
            (0..AT_ONCE).map(|client| write(&recto, number, number * AT_ONCE + client, records, &stop));
        futures::future::join_all(clients).await;
        recto.close().await.unwrap();
    });
}

/// Changes random records until `stop` is set. Prints a line for each acknowledged change, with the
/// id of the process.
async fn write(recto: &Recto, number: u64, seed: u64, records: u64, stop: &AtomicBool) {
    let people = recto.dynamic("people").unwrap();
    let mut random = generate::rng(seed);
    while !stop.load(Ordering::Relaxed) {
        let (id, drawn) = (random.u64(0..records), random.u64(..));
        let key = i32::try_from(id).unwrap();
        let changed = match drawn % 5 {
            0 => people.delete(key).await,
            1 | 2 => people.update(key).set("note", format!("n{}", drawn % 11)).await,
            _ => people.put(&person(&people, id, drawn)).await,
        };
        // Print only acknowledged changes. A change without an acknowledgment may or may not have
        // been executed, so the test cannot check it.
        if let Ok(changed) = changed {
            println!("\nacknowledged {number} {id} {}", changed.version);
        }
        tokio::time::sleep(CHANGE_PAUSE).await;
    }
}

#[test]
#[ignore = "child: started by a_view_that_is_added_beside_writers_is_exact"]
fn applier_that_gets_killed() {
    run(async {
        let session = LocalSession::new(open(&variable::<String>(ADDRESS)).await);
        let mut options = ApplyOptions::new();
        options.rows_per_second = Some(FILLED_A_SECOND);
        let schema = parse(&format!("{BASE}{ADDED}"));
        let tell = |at: recto::session::ViewProgress| println!("\nstep {}", at.step);
        session
            .tools()
            .unwrap()
            .apply(&schema, &options, &tell)
            .await
            .unwrap();
    });
}

/// Acknowledged changes that the child processes have printed: the newest version of each record,
/// and the number of changes of each process.
#[derive(Default)]
struct Heard {
    versions: BTreeMap<u64, i64>,
    times: BTreeMap<u64, u64>,
}

impl Heard {
    /// Reads the lines that the child processes print, for the given time.
    fn listen(&mut self, said: &Receiver<String>, time: Duration) {
        let begun = Instant::now();
        while let Some(left) = time.checked_sub(begun.elapsed()) {
            if let Ok(line) = said.recv_timeout(left) {
                self.hear(&line);
            }
        }
    }

    fn hear(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let ["acknowledged", number, id, version] = words[..] else {
            return;
        };
        let (Ok(number), Ok(id), Ok(version)) = (number.parse(), id.parse(), version.parse()) else {
            return;
        };
        let newest = self.versions.entry(id).or_insert(version);
        *newest = version.max(*newest);
        *self.times.entry(number).or_default() += 1;
    }
}

/// Waits until the process that adds the view prints the given step. Panics after the time
/// [`FILLS`].
fn wait_for_step(said: &Receiver<String>, step: &str) {
    let begun = Instant::now();
    while let Some(left) = FILLS.checked_sub(begun.elapsed()) {
        if said
            .recv_timeout(left)
            .is_ok_and(|line| line == format!("step {step}"))
        {
            println!("{step} after {:.1?}", begun.elapsed());
            return;
        }
    }
    panic!("nothing is {step} after {FILLS:?}");
}

fn writers(address: &str, records: u64, lines: &Sender<String>) -> [Child; 3] {
    [0, 1, 2].map(|number: u64| {
        let variables = [
            (ADDRESS, address.to_owned()),
            (NUMBER, number.to_string()),
            (RECORDS_VARIABLE, records.to_string()),
        ];
        spawn(path_of(writer_that_is_told_to_end), &variables, lines)
    })
}

#[test]
#[ignore = "slow: processes write and are killed while views are added, minutes in all"]
fn a_view_that_is_added_beside_writers_is_exact() {
    let is_long = std::env::var("RECTO_TEST_SCALE").is_ok_and(|scale| scale != "1");
    let records = if is_long { MANY_RECORDS } else { RECORDS };
    let fresh = Fresh::new(Kind::Cassandra);
    let address = fresh.address.to_string();
    let recto = run(async {
        let recto = fresh.open().await;
        recto.apply(&parse(BASE)).await.unwrap();
        let people = recto.dynamic("people").unwrap();
        let puts = (0..records).map(|id| people.put(&person(&people, id, id)).into_future());
        let mut puts = stream::iter(puts).buffer_unordered(64);
        while let Some(put) = puts.next().await {
            put.unwrap();
        }
        recto
    });
    let (lines, said) = channel();
    let mut heard = Heard::default();
    let [mut plain, mut frozen, mut old] = writers(&address, records, &lines);
    while heard.times.len() < 3 {
        heard.listen(&said, CALM);
    }
    rig::freeze(frozen.id()).unwrap();
    rig::freeze(old.id()).unwrap();

    let applier = |lines: &Sender<String>| {
        spawn(
            path_of(applier_that_gets_killed),
            &[(ADDRESS, address.clone())],
            lines,
        )
    };
    let mut first = applier(&lines);
    heard.listen(&said, WAITS);
    kill(&mut first);
    heard.listen(&said, SHORT.saturating_sub(WAITS));
    // Let the frozen process `old` continue. It still has the old schema and a valid lease.
    rig::let_go(old.id()).unwrap();
    let (steps, steps_said) = channel();
    let mut second = applier(&steps);
    wait_for_step(&steps_said, "filling");
    heard.listen(&said, CALM);
    kill(&mut second);
    let before = heard.times.clone();
    rig::let_go(frozen.id()).unwrap();
    heard.listen(&said, CALM);

    let recto_applied = run(async {
        let begun = Instant::now();
        let applied = recto.apply(&parse(&format!("{BASE}{ADDED}"))).await.unwrap();
        println!("applied at last after {:.1?}", begun.elapsed());
        applied
    });
    assert_eq!(recto_applied.generation, recto.generation());
    heard.listen(&said, CALM);
    for child in [&mut plain, &mut frozen, &mut old] {
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }
    drop(lines);
    for line in said {
        heard.hear(&line);
    }
    for (number, times) in &heard.times {
        println!("process {number} was acknowledged {times} times");
        assert!(*times > before[number], "process {number} went on");
    }
    run(check(&recto, &heard));
}

/// Asserts that the views agree with the base rows, and that no record is older than its newest
/// acknowledged version.
async fn check(recto: &Recto, heard: &Heard) {
    let views = recto.views().await.unwrap();
    assert_eq!(views.len(), 2);
    assert!(views.iter().all(|view| view.state == "ready"), "{views:?}");
    let report = recto.verify(&VerifyRequest::default(), &|_| {}).await.unwrap();
    assert_eq!(report.wrong(), 0, "{report:?}");
    assert_views_are_exact(recto, "people").await;
    let people = recto.dynamic("people").unwrap();
    for (id, version) in &heard.versions {
        let found = people.get_versioned(i32::try_from(*id).unwrap()).await.unwrap();
        if let Some(found) = found {
            assert!(found.version.unwrap() >= *version, "{id}");
        }
    }
    recto.close().await.unwrap();
}
