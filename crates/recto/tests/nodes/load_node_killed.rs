//! Test of a load of rows into a Cassandra node that is killed twice during the load. The first
//! time, the node restarts at once, and the load must wait for it. The second time, the node
//! restarts late, so that the load stops and the test runs it again.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use futures::TryStreamExt;
use recto::schema::Schema;
use recto::session::{LoadProgress, LoadReport, LoadRequest, Pages, ScanRequest};
use recto::{CassandraAddress, ErrorKind, LocalSession, OpenOptions, Recto, Session, StoreAddress};
use recto_testkit::rig::{Cluster, ClusterOptions, Node, Nodes, unique_keyspace};

const SCHEMA: &str = r#"
[collection.by_sensor]
fields = { sensor = "text", number = "bigint", note = "text" }
key = ["sensor", "number"]
partition = ["sensor"]
order = ["-number"]
writes = "overwrite"

[collection.by_number]
fields = { sensor = "text", number = "bigint", note = "text" }
key = ["number"]
writes = "overwrite"
"#;
const COLLECTIONS: [&str; 2] = ["by_sensor", "by_number"];
const ROWS: u64 = 20_000;
const SENSORS: u64 = 97;
/// Memory for rows that the load may use, in bytes. It is so small that the load writes many
/// checkpoints.
const BUFFER_BYTES: u64 = 256 << 10;
/// Pause before the test runs a stopped load again.
const PAUSE: Duration = Duration::from_secs(1);
/// Maximum time for which the test runs stopped loads again.
const MAX_TIME: Duration = Duration::from_secs(600);

fn note(number: u64) -> String {
    format!("note {number} {}", "x".repeat((number % 50) as usize))
}

fn write_file(path: &Path) {
    let mut text = "sensor,number,note\n".to_owned();
    for place in 0..ROWS {
        let number = place * 7_919 % ROWS;
        writeln!(text, "s{},{number},{}", number % SENSORS, note(number)).unwrap();
    }
    std::fs::write(path, text).unwrap();
}

/// Progress of the load, which the loading thread shares with the thread that kills the node.
#[derive(Debug, Default)]
struct Course {
    stored: AtomicU64,
    /// Number of times that the load stopped with an error.
    stops: AtomicUsize,
    ended: AtomicBool,
}

/// Loads the rows of the file. Runs stopped loads again until one succeeds, and returns the report
/// of the last load.
async fn load(session: &LocalSession, file: &Path, course: &Course) -> LoadReport {
    let request = LoadRequest {
        file: file.to_owned(),
        collections: COLLECTIONS.map(str::to_owned).to_vec(),
        buffer_bytes: Some(BUFFER_BYTES),
        ..LoadRequest::default()
    };
    let begun = Instant::now();
    loop {
        let progress = |at: LoadProgress| course.stored.store(at.rows_stored, Ordering::Relaxed);
        let error = match session.tools().unwrap().load(&request, &progress).await {
            Ok(report) => return report,
            Err(error) => error,
        };
        course.stops.fetch_add(1, Ordering::Relaxed);
        println!("{:.1?}: {error:?}", begun.elapsed());
        let typed = matches!(
            error.kind(),
            ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::OutcomeUnknown
        );
        assert!(typed && error.hint().is_some(), "{error:?}");
        assert!(begun.elapsed() < MAX_TIME, "the load does not end");
        tokio::time::sleep(PAUSE).await;
    }
}

/// Returns the rows of a collection by key. Asserts that no key appears twice.
async fn rows(session: &LocalSession, collection: &str) -> BTreeMap<u64, String> {
    let mut found = BTreeMap::new();
    let request = ScanRequest::default();
    let mut steps = session.scan(collection, &request);
    while let Some(step) = steps.try_next().await.unwrap() {
        for record in step.records {
            let number = record["number"]
                .as_u64()
                .or_else(|| record["number"].as_str()?.parse().ok());
            let number = number.unwrap();
            assert_eq!(record["sensor"], format!("s{}", number % SENSORS));
            let text = record["note"].as_str().unwrap().to_owned();
            assert!(
                found.insert(number, text).is_none(),
                "{collection}: row {number} twice"
            );
        }
    }
    found
}

#[test]
#[ignore = "slow: three nodes, of which one is killed during a load, minutes in all"]
fn a_load_outlives_the_node_it_loads_into() {
    let dir = tempfile::tempdir().unwrap();
    // By default, a node acknowledges writes before it syncs them to the disk, so a killed node
    // loses its last writes. Let this only node sync before it acknowledges.
    let options = ClusterOptions::new(Nodes::One)
        .heap("512M")
        .setting("commitlog_sync", "batch")
        .setting("commitlog_sync_period", "0ms");
    let cluster = Cluster::start_with(&options, dir.path().join("cluster")).unwrap();
    let address = CassandraAddress::new(cluster.addresses(), unique_keyspace("load"));
    let address = StoreAddress::Cassandra(Box::new(address));
    let file = dir.path().join("rows.csv");
    write_file(&file);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let session = runtime.block_on(async {
        let recto = Recto::open_with(&address, OpenOptions::new().create())
            .await
            .unwrap();
        recto.apply(&Schema::parse(SCHEMA).unwrap()).await.unwrap();
        LocalSession::new(recto)
    });
    let course = Course::default();
    let report = thread::scope(|scope| {
        let faults = scope.spawn(|| hurt(cluster.node(1), &course));
        let report = runtime.block_on(load(&session, &file, &course));
        course.ended.store(true, Ordering::Relaxed);
        faults
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        report
    });
    println!("{report:?}");
    assert!(report.rows_resumed > 0 && !report.already_loaded, "{report:?}");
    for collection in &report.collections {
        assert_eq!(
            (collection.rows_stored, collection.rows_rejected),
            (ROWS, 0),
            "{report:?}"
        );
    }
    runtime.block_on(async {
        for collection in COLLECTIONS {
            let found = rows(&session, collection).await;
            assert_eq!(found.len() as u64, ROWS, "{collection}");
            assert!(
                found.iter().all(|(number, text)| *text == note(*number)),
                "{collection}"
            );
        }
        assert!(load(&session, &file, &course).await.already_loaded);
    });
}

/// Kills the node twice. The first time, restarts it at once. The second time, restarts it after
/// the load has stopped.
fn hurt(node: &Node, course: &Course) {
    let all = ROWS * COLLECTIONS.len() as u64;
    let kill_at = |rows: u64| {
        while course.stored.load(Ordering::Relaxed) < rows {
            assert!(
                !course.ended.load(Ordering::Relaxed),
                "the load ended before the node was killed"
            );
            thread::sleep(Duration::from_millis(2));
        }
        node.kill().unwrap();
        println!(
            "killed at {} of {all} rows",
            course.stored.load(Ordering::Relaxed)
        );
    };
    kill_at(all / 5);
    node.start().unwrap();
    println!(
        "stopped {} times while the node was away shortly",
        course.stops.load(Ordering::Relaxed)
    );
    kill_at(all / 2);
    let before = course.stops.load(Ordering::Relaxed);
    while course.stops.load(Ordering::Relaxed) == before {
        assert!(
            !course.ended.load(Ordering::Relaxed),
            "a load ended without its node"
        );
        thread::sleep(Duration::from_millis(20));
    }
    node.start().unwrap();
    println!("the node is back");
}
