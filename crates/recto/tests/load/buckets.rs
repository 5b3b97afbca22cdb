//! Tests of loading flights into buckets. The loading processes are killed at random moments, while
//! other tasks write and read pages. The tests check that no row is lost or stored twice, that no
//! bucket is too large, and that few bytes are moved.
//!
//! The test loads a part of the flights, which the environment variable `RECTO_TEST_SCALE`
//! multiplies. The scale 48 loads all flights. On Cassandra, each load waits until its buckets are
//! split in advance, so the test takes minutes. Run it by name: `cargo test -p recto --test load --
//! --ignored flights_loaded_on_cassandra`.
#![allow(clippy::print_stdout)]

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use recto::session::{BucketsRequest, RebalanceRequest, Session};
use recto::{CassandraAddress, DynamicRecord, LocalSession, OpenOptions, Recto, StoreAddress, Value};
use recto_testkit::generate::{self, Rng};
use recto_testkit::rig::{Cluster, Scratch};
use tokio::task::JoinSet;

use crate::common::children::path_of;
use crate::common::exact::assert_views_are_exact;
use crate::common::stores::parse;
use crate::common::{run, seed};
use crate::support::load_into;

const SCHEMA: &str = r#"
[collection.flights]
fields = { year = "smallint", month = "tinyint", day = "tinyint", dep_time = "smallint", sched_dep_time = "smallint", dep_delay = "smallint", arr_time = "smallint", sched_arr_time = "smallint", arr_delay = "smallint", carrier = "text", flight = "int", tailnum = "text", origin = "text", dest = "text", air_time = "smallint", distance = "smallint", hour = "tinyint", minute = "tinyint", time_hour = "timestamp" }
key = ["time_hour", "carrier", "flight"]
partition = ["carrier"]
order = ["-time_hour"]
writes = "append"
bucket = BUCKET

[collection.flights.view.by_route]
partition = ["origin", "dest"]
order = ["-time_hour"]
bucket = BUCKET

[collection.flights.view.by_tailnum]
partition = ["tailnum"]
order = ["-time_hour"]
bucket = BUCKET

[collection.flights.view.newest]
order = ["-time_hour"]
bucket = BUCKET
"#;

/// Environment variables for a child process: the store that it opens, the folder with the file to
/// load, and the index of the first flight that it writes.
const STORE: &str = "RECTO_TEST_BUCKETS_STORE";
const FOLDER: &str = "RECTO_TEST_BUCKETS_FOLDER";
const FIRST: &str = "RECTO_TEST_BUCKETS_FIRST";
/// Scale at which the test loads all flights. A smaller scale loads a proportional part.
const WHOLE: usize = 48;
/// Divisor of the number of flights on Cassandra. It is necessary because a repair examines the
/// partition of each of hundreds of aircraft.
const FEWER_ON_CASSANDRA: usize = 3;
/// Number of times that the test kills the loading process.
const KILLS: i64 = 3;
/// Number of kills on Cassandra, where a load takes a minute.
const KILLS_ON_CASSANDRA: i64 = 1;
/// Distance between the first flight numbers of two processes. It exceeds the number of flights
/// that a process writes.
const WRITES_OF_A_LIFE: i64 = 1_000_000;
/// Carrier of the flights that other tasks write during the load, to distinguish them from loaded
/// flights.
const LIVE: &str = "ZZ";
const FIRST_LIVE_MILLIS: i64 = 1_388_534_400_000;
/// Pause of the writer and of the reader after each operation on Cassandra. Without the pause, they
/// would take most of the node's time from the load.
const LIVE_PAUSE: Duration = Duration::from_millis(10);

/// Pauses if the store is remote, so that the load gets most of the store's time.
async fn make_way(recto: &Recto) {
    if recto.store().limits().remote {
        tokio::time::sleep(LIVE_PAUSE).await;
    }
}

fn scale() -> usize {
    std::env::var("RECTO_TEST_SCALE").map_or(1, |text| text.parse().unwrap())
}

/// Returns the memory of the load in bytes, and the bucket option. The file fills this memory
/// several times, and hundreds of buckets.
fn sizes() -> (u64, &'static str) {
    if scale() >= WHOLE {
        (16 << 20, r#"{ target = "200KB" }"#)
    } else {
        (1 << 20, "{ rows = 60 }")
    }
}

/// Returns the header line of the CSV file, and every `part`th flight as a line.
fn flights(part: usize) -> (String, Vec<String>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../recto-cli/data/flights.csv.zip");
    let mut archive = zip::ZipArchive::new(std::fs::File::open(path).unwrap()).unwrap();
    let mut text = String::new();
    archive.by_index(0).unwrap().read_to_string(&mut text).unwrap();
    let mut lines = text.lines().map(str::to_owned);
    let names = lines.next().unwrap();
    (names, lines.step_by(part).collect())
}

fn shuffled(mut lines: Vec<String>, random: &mut Rng) -> Vec<String> {
    for last in (1..lines.len()).rev() {
        lines.swap(last, random.usize(0..=last));
    }
    lines
}

async fn open(store: &str) -> Recto {
    let address: StoreAddress = match store.strip_prefix("cassandra ") {
        None => store.parse().unwrap(),
        Some(rest) => {
            let (host, keyspace) = rest.split_once(' ').unwrap();
            StoreAddress::Cassandra(Box::new(CassandraAddress::new(vec![host.to_owned()], keyspace)))
        }
    };
    let recto = Recto::open_with(&address, OpenOptions::new().create())
        .await
        .unwrap();
    let bucket = match address {
        StoreAddress::Cassandra(_) if scale() < WHOLE => r#"{ target = "64KiB" }"#,
        _ => sizes().1,
    };
    recto
        .apply(&parse(&SCHEMA.replace("BUCKET", bucket)))
        .await
        .unwrap();
    recto
}

async fn load(recto: &Recto, folder: &Path) -> u64 {
    let all = |request: &mut recto::session::LoadRequest| {
        request.collections = vec!["flights".to_owned()];
        request.csv.null = vec!["NA".to_owned()];
        request.buffer_bytes = Some(sizes().0);
    };
    let session = LocalSession::new(recto.clone());
    let report = load_into(&session, &folder.join("flights.csv"), all).await;
    report.unwrap().collections[0].rows_stored
}

/// Writes flights of the carrier [`LIVE`], numbered from `first`, and prints their numbers when
/// they are acknowledged.
async fn write(recto: &Recto, first: i64, last: &AtomicI64) {
    let flights = recto.dynamic("flights").unwrap();
    let definition = flights.definition();
    for number in first.. {
        let mut record = DynamicRecord::new(Arc::clone(&definition));
        let values = [
            ("carrier", Value::Text(LIVE.to_owned())),
            ("time_hour", Value::Timestamp(FIRST_LIVE_MILLIS + number * 1_000)),
            ("flight", Value::Int((number % 1_000) as i32)),
            ("origin", Value::Text("EWR".to_owned())),
            (
                "dest",
                Value::Text(if number % 2 == 0 { "ORD" } else { "SFO" }.to_owned()),
            ),
            ("tailnum", Value::Text(format!("N{}", number % 7))),
        ];
        for (field, value) in values {
            record.set(field, Some(value)).unwrap();
        }
        flights.put(&record).await.unwrap();
        last.store(number, Ordering::SeqCst);
        {
            let mut out = std::io::stdout().lock();
            writeln!(out, "acknowledged {number}").unwrap();
            out.flush().unwrap();
        }
        make_way(recto).await;
    }
}

type Place = (i64, String, i32);

fn place(record: &DynamicRecord) -> Place {
    match (
        record.get("time_hour"),
        record.get("carrier"),
        record.get("flight"),
    ) {
        (Some(Value::Timestamp(at)), Some(Value::Text(carrier)), Some(Value::Int(flight))) => {
            (-at, carrier.clone(), *flight)
        }
        other => panic!("{other:?}"),
    }
}

/// Reads pages of all flights, newest first, in a loop. Asserts that the flights are in order, and
/// that the pages show all flights acknowledged before.
async fn page(recto: &Recto, first: i64, last: &AtomicI64) {
    let query = recto.dynamic("flights").unwrap().query().view("newest");
    loop {
        let written = last.load(Ordering::SeqCst);
        let (mut before, mut seen): (Option<Place>, BTreeSet<i64>) = (None, BTreeSet::new());
        let mut next = query.clone().first(100).await.unwrap();
        loop {
            for record in next.items() {
                let place = place(record);
                assert!(
                    before.as_ref().is_none_or(|before| *before < place),
                    "{before:?}, {place:?}"
                );
                if place.1 == LIVE {
                    seen.insert((-place.0 - FIRST_LIVE_MILLIS) / 1_000);
                }
                before = Some(place);
            }
            let Some(cursor) = next.next_cursor() else { break };
            make_way(recto).await;
            next = query.clone().page_size(100).page_token(cursor).await.unwrap();
        }
        let missing = (first..=written).find(|number| !seen.contains(number));
        assert_eq!(missing, None, "of {written} that were written");
    }
}

#[test]
#[ignore = "child: started by loads_each_flight_once_despite_kills"]
fn loader_into_buckets_that_gets_killed() {
    let folder = PathBuf::from(std::env::var(FOLDER).unwrap());
    let first: i64 = std::env::var(FIRST).unwrap().parse().unwrap();
    run(async {
        let recto = open(&std::env::var(STORE).unwrap()).await;
        let last = Arc::new(AtomicI64::new(first - 1));
        let (writes, pages, written) = (recto.clone(), recto.clone(), Arc::clone(&last));
        let mut beside = JoinSet::new();
        beside.spawn(async move { write(&writes, first, &written).await });
        beside.spawn(async move { page(&pages, first, &last).await });
        // Only the load ends by itself. The writer and the reader end only by a panic.
        tokio::select! {
            _ = load(&recto, &folder) => {}
            ended = beside.join_next() => ended.unwrap().unwrap(),
        }
        beside.shutdown().await;
        recto.close().await.unwrap();
    });
}

fn spawn(folder: &Path, store: &str, life: i64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--ignored",
            "--exact",
            "--nocapture",
            path_of(loader_into_buckets_that_gets_killed),
        ])
        .env(FOLDER, folder)
        .env(STORE, store)
        .env(FIRST, (life * WRITES_OF_A_LIFE).to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits for the end of a child process. Returns the flight numbers that it printed as written, and
/// whether it ended successfully.
fn ended(mut child: Child) -> (Vec<i64>, bool) {
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    let numbers = said.lines().filter_map(|line| line.split("acknowledged ").nth(1));
    // The last line may be truncated, so ignore its number.
    let mut numbers: Vec<i64> = numbers.filter_map(|number| number.parse().ok()).collect();
    if !said.ends_with('\n') {
        numbers.pop();
    }
    (numbers, child.wait().unwrap().success())
}

/// Returns the size of the largest bucket relative to its target, the number of buckets, and their
/// total number of bytes.
async fn buckets(recto: &Recto) -> (f64, u64, u64) {
    let (mut largest, mut count, mut bytes) = (0.0_f64, 0, 0);
    let session = LocalSession::new(recto.clone());
    for view in ["", "by_route", "by_tailnum", "newest"] {
        let mut request = BucketsRequest {
            view: view.to_owned(),
            page_size: Some(256),
            ..BucketsRequest::default()
        };
        loop {
            let tools = session.tools().unwrap();
            let listed = tools.bucket_partitions("flights", &request).await.unwrap();
            for one in &listed.partitions {
                let of_target = listed.target.measure(one.largest) as f64 / listed.target.most() as f64;
                largest = largest.max(of_target);
                count += one.buckets;
                bytes += one.figures.bytes;
            }
            if listed.next_page_token.is_empty() {
                break;
            }
            request.page_token = listed.next_page_token;
        }
    }
    (largest, count, bytes)
}

/// Maximum number of checks whether all splits are complete.
const LOOKS: usize = 600;
/// Completes interrupted splits of buckets. Returns the values of [`buckets`].
async fn settled(recto: &Recto) -> (f64, u64, u64) {
    let session = LocalSession::new(recto.clone());
    for view in ["", "by_route", "by_tailnum", "newest"] {
        let request = RebalanceRequest {
            view: view.to_owned(),
            ..RebalanceRequest::default()
        };
        let repaired = session
            .tools()
            .unwrap()
            .rebalance_buckets("flights", &request, &|_| {});
        assert_eq!(repaired.await.unwrap().too_large, 0, "{view}");
    }
    buckets(recto).await
}

/// Loads a file with child processes that the test kills, and then checks the stored rows.
fn load_and_die(order: &str, text: &str, rows: usize, store: &str, (random, whole): (&mut Rng, Duration)) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("flights.csv"), text).unwrap();
    let store = store.replace("FOLDER", folder.path().to_str().unwrap());
    let kills = if store.starts_with("cassandra ") {
        KILLS_ON_CASSANDRA
    } else {
        KILLS
    };
    let mut acknowledged = Vec::new();
    for life in 0.. {
        let mut child = spawn(folder.path(), &store, life);
        if life < kills {
            std::thread::sleep(whole.mul_f64(random.f64()));
            child.kill().unwrap();
        }
        let (numbers, is_well) = ended(child);
        acknowledged.extend(numbers);
        assert!(
            is_well || life < kills,
            "{order}: the load, a write or a page failed"
        );
        if is_well {
            break;
        }
    }
    run(async {
        let recto = open(&store).await;
        assert_eq!(load(&recto, folder.path()).await, rows as u64, "{order}");
        let (largest, count, _) = settled(&recto).await;
        println!(
            "{order}: {rows} flights beside {} writes in {count} buckets, the largest {largest:.2} of its target",
            acknowledged.len()
        );
        assert!(largest <= 1.0, "{order}: {largest}");
        let there = assert_views_are_exact(&recto, "flights").await;
        let live = live(&recto).await;
        assert_eq!(there - live.len(), rows, "{order}");
        let lost = acknowledged.iter().find(|number| !live.contains(number));
        assert_eq!(lost, None, "{order}: what was acknowledged is there");
        recto.close().await.unwrap();
    });
}

/// Returns the indexes of the flights that other tasks wrote during the load.
async fn live(recto: &Recto) -> BTreeSet<i64> {
    let query = recto.dynamic("flights").unwrap().query();
    let query = query.filter(format!("carrier = \"{LIVE}\""));
    let (mut live, mut page) = (BTreeSet::new(), query.clone().first(100).await.unwrap());
    loop {
        for record in page.items() {
            let is_new = live.insert((-place(record).0 - FIRST_LIVE_MILLIS) / 1_000);
            assert!(is_new, "each is there once");
        }
        let Some(next) = page.next_cursor() else {
            return live;
        };
        page = query.clone().page_size(100).page_token(next).await.unwrap();
    }
}

/// Loads a file without a kill. Prints the number of moved bytes per loaded byte, and returns the
/// duration of the load.
async fn load_whole(order: &str, text: &str, rows: usize, store: &str) -> Duration {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("flights.csv"), text).unwrap();
    let recto = open(&store.replace("FOLDER", folder.path().to_str().unwrap())).await;
    let begin = Instant::now();
    assert_eq!(load(&recto, folder.path()).await, rows as u64, "{order}");
    let took = begin.elapsed();
    let (mut largest, mut count, mut bytes) = buckets(&recto).await;
    // Buckets that the last writes made too large are split soon. Check again after a pause.
    for _ in 0..LOOKS {
        if largest <= 1.0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        (largest, count, bytes) = buckets(&recto).await;
    }
    let metrics = LocalSession::new(recto.clone()).bucket_metrics();
    let moved = metrics.map_or(0, |metrics| metrics.moved_bytes);
    let share = moved as f64 / bytes as f64;
    println!(
        "{order}: {rows} flights in {took:.1?}, {share:.2} bytes moved per byte, {count} buckets, the largest {largest:.2} of its target"
    );
    assert!(largest <= 1.0, "{order}: {largest}");
    assert!(share <= 0.6, "{order}: {share}");
    recto.close().await.unwrap();
    took
}

fn orders(random: &mut Rng, fewer: usize) -> Vec<(&'static str, String, usize)> {
    let (names, in_file) = flights((fewer * WHOLE / scale()).max(1));
    let reversed = in_file.iter().rev().cloned().collect();
    let shuffled = shuffled(in_file.clone(), random);
    let all = [("file", in_file), ("shuffled", shuffled), ("reversed", reversed)];
    let text = |lines: &[String]| format!("{names}\n{}\n", lines.join("\n"));
    all.into_iter()
        .map(|(order, lines)| (order, text(&lines), lines.len()))
        .collect()
}

#[test]
#[ignore = "slow: a load that is killed many times, two minutes"]
fn loads_each_flight_once_despite_kills() {
    let mut random = generate::rng(seed());
    for (order, text, rows) in orders(&mut random, 1) {
        let took = run(load_whole(order, &text, rows, "FOLDER/whole"));
        load_and_die(order, &text, rows, "FOLDER/killed", (&mut random, took * 2));
    }
}

#[test]
#[ignore = "slow: each load waits for its room, minutes in all"]
fn flights_loaded_on_cassandra() {
    let cassandra = Cluster::shared().expect("tests need a Cassandra");
    let scratch = Scratch::new(env!("CARGO_TARGET_TMPDIR"));
    let mut random = generate::rng(seed());
    for (order, text, rows) in orders(&mut random, FEWER_ON_CASSANDRA) {
        let store = |name: &str| {
            let keyspace = scratch.keyspace(&format!("recto_buckets_{name}")).unwrap();
            format!("cassandra {} {keyspace}", cassandra.address())
        };
        let took = run(load_whole(order, &text, rows, &store("whole")));
        load_and_die(order, &text, rows, &store("killed"), (&mut random, took));
    }
}
