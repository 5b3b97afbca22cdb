//! Checks that the bucket option of a view can be added, changed and removed while other clients
//! write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use recto::schema::WriteMode;
use recto::{Collection, DynamicRecord, Recto};
use recto_testkit::generate;
use serde_json::json;
use tokio::sync::RwLock;

use crate::common::Fresh;
use crate::common::exact::assert_views_are_exact;
use crate::common::stores::{Kind, kind_of, parse};

const SCHEMA: &str = r#"
[collection.visits]
fields = { id = "int", team = "text", seen = "timestamp", note = "text" }
key = ["id"]
writes = "MODE"

[collection.visits.view.recent]
partition = ["team"]
order = ["-seen"]
BUCKET
"#;

/// Bucket options of the views, which the test applies one after another.
const MOVES: [&str; 6] = [
    r#"bucket = { target = "64KiB" }"#,
    "bucket = { rows = 20 }",
    r#"bucket = { time = "seen", width = "6 hours" }"#,
    r#"bucket = { target = "64KiB", shards = 3 }"#,
    "",
    r#"bucket = { time = "seen", width = "1 day", shards = 2 }"#,
];
const RECORDS: u64 = 400;
const WRITERS: u64 = 3;
/// Earliest time of a record, in milliseconds since 1970: 2013-05-17T10:30:00Z.
const START_MS: i64 = 1_368_786_600_000;
const THREE_DAYS_MS: u64 = 3 * 24 * 3_600_000;
/// Minimum time for which other clients write after each change of the bucket option.
const WHILE: Duration = Duration::from_millis(300);
/// Pause of a writer after each write, so that the backfill of a view can catch up.
const REST: Duration = Duration::from_millis(20);

fn record(records: &Collection<DynamicRecord>, id: u64, random: &mut generate::Rng) -> DynamicRecord {
    let seen = START_MS + i64::try_from(random.u64(0..THREE_DAYS_MS)).unwrap();
    let seen = recto_model::json::to_text(&recto::Type::Timestamp, &recto::Value::Timestamp(seen));
    let (team, note) = (
        ["red", "blue"][random.usize(0..2)],
        "n".repeat(random.usize(0..300)),
    );
    let mut record = json!({ "id": id, "team": team, "note": note });
    if random.u64(0..8) > 0 {
        record["seen"] = seen.into();
    }
    DynamicRecord::from_json(records.definition(), record.as_object().unwrap()).unwrap()
}

/// State that the concurrent writers share. They write until `stop` is set, and pause while the
/// test locks `may_write`.
struct Writers {
    may_write: RwLock<()>,
    stop: AtomicBool,
    done: AtomicU64,
}

/// Writes the records of one writer until the test stops it. If records can be updated, also
/// deletes some of them.
async fn write(records: Collection<DynamicRecord>, writer: u64, writers: Arc<Writers>) {
    let may_change = records.definition().writes == WriteMode::Update;
    let mut random = generate::rng(writer + 1);
    let mut next = RECORDS + writer;
    while !writers.stop.load(Ordering::Relaxed) {
        let turn = writers.may_write.read().await;
        if may_change {
            next = random.u64(0..RECORDS / WRITERS) * WRITERS + writer;
        }
        if may_change && random.u64(0..5) == 0 {
            let key = i32::try_from(next).unwrap();
            records.delete(key).await.map(drop).unwrap();
        } else {
            let record = record(&records, next, &mut random);
            records.put(&record).await.map(drop).unwrap();
        }
        drop(turn);
        next += WRITERS;
        writers.done.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(REST).await;
    }
}

async fn turned(recto: Recto, mode: &str) {
    let moves = match kind_of(&recto) {
        Kind::Embedded => &MOVES[..],
        // On Cassandra, each change of the schema waits until every other process must know it. To
        // save time, make only one change.
        Kind::Cassandra => &MOVES[MOVES.len() - 1..],
    };
    let recto = Fresh::new(kind_of(&recto)).open().await;
    let schema = |bucket: &str| parse(&SCHEMA.replace("MODE", mode).replace("BUCKET", bucket));
    recto.apply(&schema("")).await.unwrap();
    let records = recto.dynamic("visits").unwrap();
    let mut random = generate::rng(0);
    for id in 0..RECORDS {
        let record = record(&records, id, &mut random);
        records.put(&record).await.map(drop).unwrap();
    }
    let writers = Arc::new(Writers {
        may_write: RwLock::new(()),
        stop: AtomicBool::new(false),
        done: AtomicU64::new(0),
    });
    let tasks = (0..WRITERS).map(|writer| tokio::spawn(write(records.clone(), writer, Arc::clone(&writers))));
    let tasks: Vec<_> = tasks.collect();
    for bucket in moves {
        let before = writers.done.load(Ordering::Relaxed);
        recto.apply(&schema(bucket)).await.unwrap();
        tokio::time::sleep(WHILE).await;
        let done = writers.done.load(Ordering::Relaxed) - before;
        assert!(done > 10, "{bucket}: {done} writes meanwhile");
        let _nobody_writes = writers.may_write.write().await;
        assert!(assert_views_are_exact(&recto, "visits").await > 0, "{bucket}");
    }
    writers.stop.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.unwrap();
    }
}

pub(crate) async fn on_off_and_over_beside_who_changes_records(recto: Recto) {
    turned(recto, "update").await;
}

pub(crate) async fn on_off_and_over_beside_who_appends(recto: Recto) {
    turned(recto, "append").await;
}
