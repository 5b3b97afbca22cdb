//! Checks that `verify` finds faults in buckets by time (one per day), which the tests create with
//! CQL. `repair` must correct the faults while other clients write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use recto::{Environment, Recto, StoreAddress};
use recto_cassandra::CassandraConfig;
use recto_cassandra::testing::PlainCql;
use recto_model::table::Direction;
use recto_model::{Type, key};
use serde_json::json;

use super::checked_buckets::{hex, verify};
use super::listing::{forwards, ids};
use crate::common::stores::{kind_of, parse};
use crate::common::{Fresh, Kind};

const SCHEMA: &str = r#"
[collection.flow]
fields = { stream = "text", at = "timestamp", id = "int" }
key = ["stream", "at", "id"]
partition = ["stream"]
order = ["-at"]
writes = "overwrite"
bucket = { time = "at", width = "1 day", shards = 2 }
"#;

const DAY_MS: i64 = 86_400_000;
/// First day of the tests, in milliseconds since 1970: 2024-02-20T00:00:00Z.
const START_MS: i64 = 1_708_387_200_000;
/// Number of days in each partition. [`EACH`] is the number of rows of each day.
const DAYS: i64 = 8;
const EACH: i64 = 3;

fn encoded(ty: &Type, direction: Direction, cell: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::new();
    key::encode(ty, direction, cell, &mut encoded).unwrap();
    encoded
}

fn partition(stream: &str) -> String {
    hex(&encoded(&Type::Text, Direction::Ascending, stream.as_bytes()))
}

/// Returns the key at which the bucket of a day starts, in hexadecimal. Rows are ordered from the
/// newest, so it is the key of the last moment of the day.
fn start(day: i64) -> String {
    let last = START_MS + (day + 1) * DAY_MS - 1;
    hex(&encoded(
        &Type::Timestamp,
        Direction::Descending,
        &last.to_be_bytes(),
    ))
}

/// Returns the id of the bucket of a day.
fn bucket(day: i64) -> i64 {
    (1 << 62) + (START_MS + day * DAY_MS) / 1_000
}

/// Returns the time of the row with the given id, in milliseconds since 1970.
fn at_ms(id: i64) -> i64 {
    START_MS + id / EACH * DAY_MS + id % EACH * 1_000
}

async fn put(recto: &Recto, stream: &str, id: i64) {
    let flow = recto.dynamic("flow").unwrap();
    let at = jiff::Timestamp::from_millisecond(at_ms(id)).unwrap().to_string();
    let row = json!({ "stream": stream, "at": at, "id": id });
    let row = recto::DynamicRecord::from_json(flow.definition(), row.as_object().unwrap()).unwrap();
    flow.put(&row).await.unwrap();
}

async fn rows(recto: &Recto, stream: &str) -> Vec<i32> {
    let flow = recto.dynamic("flow").unwrap();
    let query = flow.query().filter(format!("stream = {stream:?}"));
    let mut all = forwards(&query, 7).await;
    all.reverse();
    all
}

/// Writes a row with CQL into the given bucket, which may be the wrong one.
async fn plant(cql: &PlainCql, bucket: i64, id: i64) {
    let counted = hex(&[&[1][..], &100_u64.to_be_bytes()].concat());
    let text = format!(
        "INSERT INTO flow (stream, recto_bucket, recto_shard, at, id, recto_row) VALUES ('s', {bucket}, 1, {}, {id}, {counted})",
        at_ms(id)
    );
    cql.send(&text).await.unwrap();
}

async fn plant_all(cql: &PlainCql) {
    let s = partition("s");
    let of_s = format!("table_name = 'flow' AND partition = {s}");
    let set = |start: &str, bucket: i64| {
        format!(
            "INSERT INTO recto_times (table_name, partition, start, bucket) VALUES ('flow', {s}, {start}, {bucket})"
        )
    };
    for text in [
        format!("DELETE FROM recto_times WHERE {of_s} AND start = {}", start(2)),
        set(&start(4), bucket(1)),
        set("0x77", 5),
        set(&start(5), bucket(5)),
        format!(
            "UPDATE recto_times SET bucket = null WHERE {of_s} AND start = {}",
            start(5)
        ),
        set(&start(500), bucket(500)),
        format!(
            "DELETE FROM recto_times WHERE table_name = 'flow' AND partition = {}",
            partition("gone")
        ),
        "DELETE recto_root FROM flow WHERE stream = 'gone' AND recto_bucket = 0 AND recto_shard = 0"
            .to_owned(),
        "DELETE recto_root FROM flow WHERE stream = 'unmet' AND recto_bucket = 0 AND recto_shard = 0"
            .to_owned(),
    ] {
        cql.send(&text)
            .await
            .unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    // Write two rows into the wrong bucket. They belong to days that have no bucket.
    plant(cql, bucket(0), EACH * 6 + 1_000 * EACH).await;
    plant(cql, bucket(0), EACH * 7 + 1_000 * EACH).await;
}

pub(crate) async fn finds_and_repairs_faults_in_buckets_by_time(recto: Recto) {
    let fresh = Fresh::new(kind_of(&recto));
    let recto = fresh.open().await;
    recto.apply(&parse(SCHEMA)).await.unwrap();
    for stream in ["s", "gone", "unmet"] {
        for id in 0..DAYS * EACH {
            put(&recto, stream, id).await;
        }
    }
    let well = verify(&recto, false).await;
    assert_eq!(
        (well.buckets[0].rows, well.wrong()),
        (3 * (DAYS * EACH) as u64, 0),
        "{well:?}"
    );
    let StoreAddress::Cassandra(address) = &fresh.address else {
        assert_eq!(fresh.kind, Kind::Embedded);
        return;
    };
    let config = CassandraConfig::new(address.hosts.clone(), address.keyspace.clone());
    let cql = PlainCql::connect(config, Environment::system()).await.unwrap();
    plant_all(&cql).await;
    let found = verify(&recto, false).await;
    let expected = [
        ("unregistered_bucket", 1 + DAYS as u64),
        ("damaged_directory", 3),
        ("unmarked_root", 1),
        ("stray", 2),
    ];
    let expected = expected.map(|(kind, count)| (kind.to_owned(), count));
    assert_eq!(found.buckets[0].found, expected.into(), "{found:?}");
    let (writer, stop) = (recto.clone(), Arc::new(AtomicBool::new(false)));
    let stops = Arc::clone(&stop);
    let writing = tokio::spawn(async move {
        let mut id = DAYS * EACH;
        while !stops.load(Ordering::Relaxed) {
            put(&writer, "s", id).await;
            put(&writer, "new", id).await;
            id += 1;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        id
    });
    let repaired = verify(&recto, true).await;
    assert_eq!(
        (repaired.wrong(), repaired.left()),
        (found.wrong(), 0),
        "{repaired:?}"
    );
    let left = verify(&recto, false).await;
    stop.store(true, Ordering::Relaxed);
    let written = i32::try_from(writing.await.unwrap()).unwrap();
    assert_eq!(left.wrong(), 0, "{left:?}");
    let first: Vec<i32> = (0..(DAYS * EACH) as i32).collect();
    for stream in ["gone", "unmet"] {
        assert_eq!(rows(&recto, stream).await, first, "{stream}");
    }
    let planted = [6, 7].map(|day| ((day + 1_000) * EACH) as i32);
    let all: Vec<i32> = (0..written).chain(planted).collect();
    assert_eq!(rows(&recto, "s").await, all);
    assert_eq!(
        rows(&recto, "new").await,
        ((DAYS * EACH) as i32..written).collect::<Vec<_>>()
    );
    let page = recto.dynamic("flow").unwrap().query().filter(r#"stream = "s""#);
    assert_eq!(ids(&page.first(2).await.unwrap()), [planted[1], planted[0]]);
}
