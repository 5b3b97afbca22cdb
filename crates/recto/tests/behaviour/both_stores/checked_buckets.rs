//! Checks that `verify` finds faults in the stored data of buckets, which the tests create with
//! CQL. `repair` must correct the faults while other clients write and read.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use recto::session::{VerifyReport, VerifyRequest};
use recto::{Environment, Recto, StoreAddress, Value};
use recto_cassandra::CassandraConfig;
use recto_cassandra::testing::PlainCql;
use recto_model::table::Direction;
use recto_model::{Type, key};
use serde_json::json;

use crate::common::stores::{kind_of, parse};
use crate::common::{Fresh, Kind};

const SCHEMA: &str = r#"
[collection.events]
fields = { stream = "text", at = "bigint", id = "int", note = "text" }
key = ["stream", "at", "id"]
partition = ["stream"]
order = ["at"]
writes = "overwrite"
bucket = { target = "64KiB" }
"#;

/// Number of rows of each partition. [`EACH`] is the number of rows in each of its three buckets.
const ROWS: i64 = 12;
const EACH: i64 = 4;
/// Size that each row counts toward the size of its bucket, in bytes.
const COUNTED: u64 = 100;
/// Sampling rates of a bucket (one of so many rows is sampled): `NONE` samples no row, and `ALL`
/// every row.
const NONE: i64 = 1 << 40;
const ALL: i64 = 1;
/// Pause of the concurrent writer and reader after each operation, while a repair runs.
const PAUSE: Duration = Duration::from_millis(50);
/// CQL clause that gives a fault an old write timestamp, so that the fault appears to be old.
const LONG_AGO: &str = " USING TIMESTAMP 1700000000000000";

pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = "0x".to_owned();
    for byte in bytes {
        write!(text, "{byte:02x}").unwrap();
    }
    text
}

fn encoded(ty: &Type, cell: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::new();
    key::encode(ty, Direction::Ascending, cell, &mut encoded).unwrap();
    encoded
}

fn edge(at: i64) -> Vec<u8> {
    encoded(&Type::BigInt, &at.to_be_bytes())
}

struct Plain {
    cql: PlainCql,
}

impl Plain {
    async fn send(&self, text: &str) {
        self.cql
            .send(text)
            .await
            .unwrap_or_else(|error| panic!("{text}: {error}"));
    }

    async fn row(&self, stream: &str, bucket: i64, at: i64, using: &str) {
        let counted = [&[1][..], &COUNTED.to_be_bytes()].concat();
        self.send(&format!(
            "INSERT INTO events (stream, recto_bucket, at, id, recto_row, note) VALUES ('{stream}', {bucket}, {at}, 7, {}, 'n{at}'){using}",
            hex(&counted)
        ))
        .await;
    }

    async fn rows(&self, stream: &str) {
        for at in 0..ROWS {
            self.row(stream, at / EACH, at, "").await;
        }
    }

    async fn mark(&self, stream: &str) {
        self.send(&format!(
            "UPDATE events SET recto_root = true WHERE stream = '{stream}' AND recto_bucket = 0"
        ))
        .await;
    }

    fn partition(stream: &str) -> String {
        hex(&encoded(&Type::Text, stream.as_bytes()))
    }

    async fn piece(
        &self,
        stream: &str,
        start: &[u8],
        (bucket, further): (i64, &str),
        unit: i64,
        using: &str,
    ) {
        self.send(&format!(
            "INSERT INTO recto_buckets (table_name, partition, start, bucket, further, unit, mean) VALUES ('events', {}, {}, {bucket}, {further}, {unit}, 64){using}",
            Self::partition(stream),
            hex(start)
        ))
        .await;
    }

    async fn shared(&self, stream: &str, next_bucket: i64, using: &str) {
        self.send(&format!(
            "INSERT INTO recto_buckets (table_name, partition, version, next_bucket, life_ms, longest_ms) VALUES ('events', {}, 3, {next_bucket}, 2000, 2000){using}",
            Self::partition(stream)
        ))
        .await;
    }

    /// Writes the range map of a partition (which bucket has which rows), with three ranges. Leaves
    /// out the range of the bucket `without`.
    async fn pieces(&self, stream: &str, without: Option<i64>, next_bucket: i64) {
        for bucket in (0..3).filter(|bucket| Some(*bucket) != without) {
            let start = if bucket == 0 {
                Vec::new()
            } else {
                edge(bucket * EACH)
            };
            self.piece(stream, &start, (bucket, "null"), NONE, "").await;
        }
        self.shared(stream, next_bucket, "").await;
    }

    async fn sample(&self, stream: &str, at: i64, bytes: i32) {
        let key = [edge(at), encoded(&Type::Int, &7_i32.to_be_bytes())].concat();
        self.send(&format!(
            "INSERT INTO recto_samples (table_name, partition, bucket, key, bytes, gone) VALUES ('events', {}, 0, {}, {bytes}, false)",
            Self::partition(stream),
            hex(&key)
        ))
        .await;
    }

    /// Creates one partition for each kind of fault. Returns, for each partition, the rows that it
    /// must have after the repair.
    async fn plant(&self) -> BTreeMap<&'static str, Vec<i64>> {
        let all: Vec<i64> = (0..ROWS).collect();
        let mut streams = BTreeMap::new();
        for (stream, without, next_bucket) in [
            ("whole", None, 3),
            ("stray", None, 3),
            ("double", None, 3),
            ("gap", Some(0), 3),
            ("unnamed", Some(1), 3),
            ("next", None, 2),
            ("unmarked", None, 3),
            ("unreadable", None, 3),
        ] {
            self.pieces(stream, without, next_bucket).await;
            self.rows(stream).await;
            if stream != "unmarked" {
                self.mark(stream).await;
            }
            streams.insert(stream, all.clone());
        }
        self.row("stray", 0, 20, "").await;
        streams.get_mut("stray").unwrap().push(20);
        self.row("double", 0, 9, LONG_AGO).await;
        self.piece("unreadable", &edge(EACH), (1, "0x01ff"), NONE, "")
            .await;
        self.rows("lost").await;
        streams.insert("lost", all.clone());
        // In the partition `half`, one range is marked for a split, but no process executes the
        // split.
        let further = hex(&[&[1, 0, 1][..], &1_u64.to_be_bytes(), &[0]].concat());
        self.piece("half", &[], (0, "null"), NONE, LONG_AGO).await;
        self.piece("half", &edge(EACH), (0, &further), NONE, LONG_AGO)
            .await;
        self.shared("half", 2, LONG_AGO).await;
        self.mark("half").await;
        for at in 0..ROWS {
            self.row("half", 0, at, "").await;
        }
        streams.insert("half", all);
        self.piece("sampled", &[], (0, "null"), ALL, "").await;
        self.shared("sampled", 1, "").await;
        self.mark("sampled").await;
        for at in 0..3 {
            self.row("sampled", 0, at, "").await;
        }
        self.sample("sampled", 0, 100).await;
        self.sample("sampled", 2, 7_777).await;
        self.sample("sampled", 99, 100).await;
        streams.insert("sampled", vec![0, 1, 2]);
        streams
    }
}

pub(crate) async fn verify(recto: &Recto, repair: bool) -> VerifyReport {
    let request = VerifyRequest {
        repair,
        ..VerifyRequest::default()
    };
    recto.verify(&request, &|_| {}).await.unwrap()
}

/// Returns the rows of a partition, read page by page.
async fn ats(recto: &Recto, stream: &str) -> Vec<i64> {
    let events = recto.dynamic("events").unwrap();
    let query = events.query().filter(format!("stream = {stream:?}"));
    let (mut ats, mut page) = (Vec::new(), query.clone().first(5).await.unwrap());
    loop {
        ats.extend(page.items().iter().map(|event| match event.get("at") {
            Some(Value::BigInt(at)) => *at,
            other => panic!("{other:?}"),
        }));
        let Some(next) = page.next_cursor() else { break };
        page = query.clone().page_size(5).page_token(next).await.unwrap();
    }
    ats
}

async fn put(recto: &Recto, stream: &str, at: i64) {
    let events = recto.dynamic("events").unwrap();
    let event = json!({ "stream": stream, "at": at.to_string(), "id": 7, "note": "written beside" });
    let event = recto::DynamicRecord::from_json(events.definition(), event.as_object().unwrap()).unwrap();
    events.put(&event).await.unwrap();
}

pub(crate) async fn finds_and_repairs_planted_faults(recto: Recto) {
    let fresh = Fresh::new(kind_of(&recto));
    let recto = fresh.open().await;
    recto.apply(&parse(SCHEMA)).await.unwrap();
    // The collection `small` has no views, but `verify` must check its buckets too.
    for at in 0..3 {
        put(&recto, "small", at).await;
    }
    let well = verify(&recto, false).await;
    let [events] = well.buckets.as_slice() else {
        panic!("{well:?}");
    };
    assert_eq!((events.rows, events.buckets, well.wrong()), (3, 1, 0), "{well:?}");
    let StoreAddress::Cassandra(address) = &fresh.address else {
        assert_eq!(fresh.kind, Kind::Embedded);
        return;
    };
    let config = CassandraConfig::new(address.hosts.clone(), address.keyspace.clone());
    let cql = PlainCql::connect(config, Environment::system()).await.unwrap();
    let streams = Plain { cql }.plant().await;
    let report = verify(&recto, false).await;
    let expected = [
        ("damaged_directory", 3),
        ("lost_directory", 1),
        ("unmarked_root", 1),
        ("half_done", 1),
        ("stray", 1 + 4),
        ("double", 1),
        ("missing_sample", 1),
        ("wrong_sample", 1),
        ("orphan_sample", 1),
    ];
    let expected = expected.map(|(kind, count)| (kind.to_owned(), count));
    assert_eq!(report.buckets[0].found, expected.into(), "{report:?}");
    assert_eq!((report.wrong(), report.left()), (15, 15));
    for stream in ["gap", "unreadable", "next"] {
        let events = recto.dynamic("events").unwrap();
        let page = events.query().filter(format!("stream = {stream:?}")).first(5);
        let refused = page.await.unwrap_err();
        assert_eq!(refused.kind(), recto::ErrorKind::Corrupt, "{refused}");
        let named = format!("partition {} of table events", Plain::partition(stream));
        assert!(refused.to_string().contains(&named), "{refused}");
    }
    let stop = Arc::new(AtomicBool::new(false));
    let (writer, reader) = (recto.clone(), recto.clone());
    let (stops, ends) = (Arc::clone(&stop), Arc::clone(&stop));
    let writing = tokio::spawn(async move {
        let mut at = ROWS;
        while !stops.load(Ordering::Relaxed) {
            put(&writer, "whole", at).await;
            put(&writer, "half", at).await;
            at += 1;
            tokio::time::sleep(PAUSE).await;
        }
        at
    });
    let reading = tokio::spawn(async move {
        while !ends.load(Ordering::Relaxed) {
            for stream in ["whole", "half"] {
                let seen = ats(&reader, stream).await;
                assert!(
                    seen.len() >= 12 && seen.iter().copied().eq(0..seen.len() as i64),
                    "{seen:?}"
                );
            }
            tokio::time::sleep(PAUSE).await;
        }
    });
    let repaired = verify(&recto, true).await;
    assert!(
        repaired.wrong() >= report.wrong() && repaired.left() == 0,
        "{repaired:?}"
    );
    let left = verify(&recto, false).await;
    stop.store(true, Ordering::Relaxed);
    let written = writing.await.unwrap();
    reading.await.unwrap();
    assert_eq!(left.wrong(), 0, "{left:?}");
    for (stream, mut expected) in streams {
        if ["whole", "half"].contains(&stream) {
            expected = (0..written).collect();
        }
        assert_eq!(ats(&recto, stream).await, expected, "{stream}");
    }
}
