//! Checks that pages of a collection with buckets by time have the right rows, whatever the times
//! of the rows.
#![allow(clippy::cast_sign_loss)] // ids are not negative

use std::sync::Arc;

use futures::TryStreamExt;
use recto::session::{BucketsRequest, PageRequest, Pages, Session, VerifyRequest};
use recto::store::{Mutation, Operation, PartitionWrite, ReadOptions, Stamp, WriteOptions, WriteOutcome};
use recto::{Collection, Count, DynamicRecord, LocalSession, PageQuery, Recto};
use recto_model::{Cells, Slice};
use serde_json::{Value as Json, json};

use super::listing::{both_ways, ids};
use crate::common::exact::{assert_views_are_well, table_of};
use crate::common::stores::{Kind, kind_of, parse};
use crate::common::{Fresh, key_of};

const SCHEMA: &str = r#"
[collection.newest]
fields = { stream = "text", at = "timestamp", id = "int", note = "text" }
key = ["stream", "at", "id"]
partition = ["stream"]
order = ["-at"]
writes = "overwrite"
bucket = { time = "at", width = "1 month", shards = 3 }

[collection.oldest]
fields = { day = "date", id = "int", seen = "timestamp" }
key = ["day", "id"]
partition = []
order = ["day"]
writes = "append"
bucket = { time = "day", width = "1 week" }

[collection.oldest.view.by_seen]
order = ["-seen"]
nulls = "first"
bucket = { time = "seen", width = "1 year" }

[collection.oldest.view.unseen_last]
order = ["seen"]
bucket = { time = "seen", width = "15 minutes", shards = 2 }
"#;

/// Times before 1970 and after 2100, on both sides of ends of months and of leap days. They include
/// the first and the last possible timestamp.
const TIMES: [&str; 12] = [
    "0001-01-01T00:00:00Z",
    "1899-12-31T23:59:59.999Z",
    "1900-03-01T00:00:00Z",
    "1969-12-31T23:59:59.999Z",
    "1970-01-01T00:00:00Z",
    "2016-02-28T10:00:00Z",
    "2016-02-29T23:59:59.999Z",
    "2016-03-01T00:00:00Z",
    "2016-03-31T00:00:00Z",
    "2024-10-27T01:30:00Z",
    "2024-10-27T02:30:00Z",
    "9999-12-31T23:59:59.999Z",
];

async fn opened(recto: &Recto) -> Recto {
    let recto = Fresh::new(kind_of(recto)).open().await;
    recto.apply(&parse(SCHEMA)).await.unwrap();
    recto
}

fn record(of: &Collection<DynamicRecord>, json: &Json) -> DynamicRecord {
    let definition = of.definition();
    DynamicRecord::from_json(definition, json.as_object().unwrap()).unwrap()
}

pub(crate) async fn are_read_as_one_partition(recto: Recto) {
    let recto = opened(&recto).await;
    let newest = recto.dynamic("newest").unwrap();
    let row = |index: usize, note: &str| {
        let row = json!({ "stream": "a", "at": TIMES[index], "id": index, "note": note });
        record(&newest, &row)
    };
    // Write the rows in mixed order, and some of them one by one, so that new buckets begin between
    // existing ones.
    let order = [7, 2, 11, 4, 0, 9, 5, 1, 10, 3, 8, 6];
    let some: Vec<_> = order[..6].iter().map(|index| row(*index, "first")).collect();
    newest.put_all(&some).await.unwrap();
    let query = newest.query().filter(r#"stream = "a""#);
    let mut there = order[..6].to_vec();
    for index in &order[6..] {
        newest.put(&row(*index, "first")).await.unwrap();
        there.push(*index);
        there.sort_unstable_by(|one, other| other.cmp(one));
        let expected: Vec<i32> = there.iter().map(|index| *index as i32).collect();
        assert_eq!(both_ways(&query, 100).await.0, expected);
    }
    let all: Vec<i32> = (0..TIMES.len() as i32).rev().collect();
    for size in [1, 2, 5, 100] {
        let (forwards, backwards) = both_ways(&query, size).await;
        assert_eq!((&forwards, &backwards), (&all, &all), "by {size}");
        let upwards = query.clone().order_by("at");
        let ascending: Vec<i32> = all.iter().rev().copied().collect();
        let (forwards, backwards) = both_ways(&upwards, size).await;
        assert_eq!(
            (&forwards, &backwards),
            (&ascending, &ascending),
            "upwards by {size}"
        );
    }
    let within = newest
        .query()
        .filter(r#"stream = "a" AND at >= "2016-02-29T00:00:00Z" AND at < "2024-10-27T02:30:00Z""#);
    assert_eq!(both_ways(&within, 2).await.0, [9, 8, 7, 6]);
    let nobody = newest.query().filter(r#"stream = "b""#).first(5).await.unwrap();
    assert!(nobody.items().is_empty());
    // Replace a row, delete another row, and write some rows again.
    newest.put(&row(4, "second")).await.unwrap();
    newest.delete(&key_of(&row(3, ""))[..]).await.unwrap();
    let early = newest
        .query()
        .filter(r#"stream = "a" AND at <= "1970-01-01T00:00:00Z""#)
        .first(9)
        .await
        .unwrap();
    assert_eq!(ids(&early), [4, 2, 1, 0]);
    let found = newest.get(&key_of(&row(4, ""))[..]).await.unwrap();
    assert_eq!(found, Some(row(4, "second")));
    assert_eq!(newest.get(&key_of(&row(3, ""))[..]).await.unwrap(), None);
    let scanned: Vec<DynamicRecord> = newest.scan().stream().try_collect().await.unwrap();
    assert_eq!(scanned.len(), TIMES.len() - 1);
    let estimate = query
        .clone()
        .count(Count::Estimate)
        .first(3)
        .await
        .unwrap()
        .row_count()
        .unwrap();
    assert_eq!(
        (estimate.total_size, estimate.total_size_error),
        (TIMES.len() as u64 - 1, 0)
    );
    let verified = recto.verify(&VerifyRequest::default(), &|_| {}).await.unwrap();
    assert_eq!(verified.wrong(), 0, "{verified:?}");
    let looked = verified.buckets.iter().find(|of| of.collection == "newest");
    // An embedded store has no buckets, so `verify` has none to check.
    let rows = (kind_of(&recto) == Kind::Cassandra).then_some(TIMES.len() as u64 - 1);
    assert_eq!(looked.map(|of| of.rows), rows);
}

pub(crate) async fn have_rows_without_a_time_in_one_of_their_own(recto: Recto) {
    let recto = opened(&recto).await;
    let oldest = recto.dynamic("oldest").unwrap();
    let days = [
        "1969-12-28",
        "1969-12-29",
        "2024-02-29",
        "2024-03-03",
        "2024-03-04",
        "0001-01-01",
        "9999-12-31",
    ];
    let row = |id: usize| {
        let seen = id.is_multiple_of(2).then(|| TIMES[id]);
        record(&oldest, &json!({ "day": days[id], "id": id, "seen": seen }))
    };
    let rows: Vec<DynamicRecord> = (0..days.len()).map(row).collect();
    oldest.put_all(&rows).await.unwrap();
    for (query, expected) in [
        (oldest.query(), vec![5, 0, 1, 2, 3, 4, 6]),
        (oldest.query().view("by_seen"), vec![5, 1, 3, 6, 4, 2, 0]),
        (oldest.query().view("unseen_last"), vec![0, 2, 4, 6, 5, 1, 3]),
    ] {
        for size in [1, 3, 100] {
            let (forwards, backwards) = both_ways(&query, size).await;
            assert_eq!((&forwards, &backwards), (&expected, &expected), "by {size}");
        }
    }
    let verified = recto.verify(&VerifyRequest::default(), &|_| {}).await.unwrap();
    assert!(
        verified
            .views
            .iter()
            .all(|view| view.entries == days.len() as u64)
    );
    assert_eq!(verified.wrong(), 0, "{verified:?}");
    let looked = verified.buckets.iter().filter(|of| of.collection == "oldest");
    let looked: Vec<(&str, u64)> = looked.map(|of| (of.view.as_str(), of.rows)).collect();
    let all = days.len() as u64;
    let is_sampled = matches!(kind_of(&recto), Kind::Cassandra);
    // An embedded store has no buckets, so `verify` has none to check.
    if is_sampled {
        assert_eq!(looked, [("primary", all), ("by_seen", all), ("unseen_last", all)]);
    } else {
        assert_eq!(looked, []);
    }
    let session = LocalSession::new(recto);
    let listed = session
        .tools()
        .unwrap()
        .buckets("oldest", &BucketsRequest::default())
        .await
        .unwrap();
    // Two rows are in the same week, so six buckets have rows. On an embedded store, the number of
    // rows of a bucket is exact. On Cassandra it is an estimate from samples and may be 0, but each
    // listed bucket has rows.
    let has_some = |rows: u64| is_sampled || rows > 0;
    let with_rows = listed
        .buckets
        .iter()
        .filter(|bucket| has_some(bucket.figures.rows));
    assert_eq!(with_rows.count(), 6);
}

const CHANGING: &str = r#"
[collection.sessions]
fields = { id = "int", team = "text", seen = "timestamp", note = "text" }
key = ["id"]

[collection.sessions.view.recent]
partition = ["team"]
order = ["-seen"]
BUCKET

[collection.sessions.view.forgotten]
order = ["seen"]
nulls = "first"
fields = ["note"]
bucket = { time = "seen", width = "1 day", shards = 2 }
"#;

const BY_MONTH: &str = r#"bucket = { time = "seen", width = "1 month" }"#;
const SESSIONS: i32 = 24;

/// Collection of updatable records, with views in buckets by a time that changes.
struct Sessions {
    recto: Recto,
    /// For each record id, the index of the record's time in [`TIMES`]. `None` if the record has no
    /// time.
    seen: Vec<Option<usize>>,
}

impl Sessions {
    async fn new(recto: &Recto, bucket: &str) -> Self {
        let recto = Fresh::new(kind_of(recto)).open().await;
        recto
            .apply(&parse(&CHANGING.replace("BUCKET", bucket)))
            .await
            .unwrap();
        let mut sessions = Self {
            recto,
            seen: vec![None; SESSIONS as usize],
        };
        for id in 0..SESSIONS {
            let seen = (id % 5 > 0).then_some(id as usize * 7 % TIMES.len());
            sessions.see(id, seen).await;
        }
        sessions
    }

    fn all(&self) -> Collection<DynamicRecord> {
        self.recto.dynamic("sessions").unwrap()
    }

    async fn see(&mut self, id: i32, seen: Option<usize>) {
        let all = self.all();
        let seen_at = seen.map(|seen| TIMES[seen]);
        // Some puts have only the time and no other field, and others leave a field null.
        let note = (id % 2 == 0).then_some("met");
        let row = json!({ "id": id, "team": "red", "seen": seen_at, "note": note });
        all.put(&record(&all, &row)).await.unwrap();
        self.seen[id as usize] = seen;
    }

    async fn patch(&mut self, id: i32, seen: Option<usize>) {
        let seen_at = seen.map(|seen| TIMES[seen]);
        self.all().update(id).set("seen", seen_at).await.unwrap();
        self.seen[id as usize] = seen;
    }

    fn recent(&self) -> PageQuery<DynamicRecord> {
        self.all().query().view("recent").filter(r#"team = "red""#)
    }

    /// Asserts that both views show all records except `gone`, forwards and backwards, and that no
    /// row is superfluous.
    async fn are_shown(&self, gone: &[i32]) {
        let ids: Vec<i32> = (0..SESSIONS).filter(|id| !gone.contains(id)).collect();
        let seen = |id: &i32| self.seen[*id as usize];
        let mut recent = ids.clone();
        recent.sort_by_key(|id| (seen(id).is_none(), seen(id).map(std::cmp::Reverse), *id));
        let mut forgotten = ids;
        forgotten.sort_by_key(|id| (seen(id), *id));
        for size in [5, 100] {
            assert_eq!(
                both_ways(&self.recent(), size).await,
                (recent.clone(), recent.clone())
            );
            let query = self.all().query().view("forgotten");
            assert_eq!(
                both_ways(&query, size).await,
                (forgotten.clone(), forgotten.clone())
            );
        }
        let there = assert_views_are_well(&self.recto, "sessions").await;
        assert_eq!(there, recent.len());
    }
}

pub(crate) async fn entries_move_between_them_with_their_records(recto: Recto) {
    let mut sessions = Sessions::new(&recto, BY_MONTH).await;
    sessions.are_shown(&[]).await;
    for id in 0..SESSIONS {
        // Move each record to a neighboring or distant bucket, within its bucket, or to the records
        // without a time.
        let times = [Some(id as usize % TIMES.len()), None, Some(11), Some(3), Some(5)];
        let seen = times[id as usize % times.len()];
        if id % 3 == 0 {
            sessions.patch(id, seen).await;
        } else {
            sessions.see(id, seen).await;
        }
    }
    sessions.are_shown(&[]).await;
    for id in [1, 8] {
        sessions.all().delete(id).await.unwrap();
    }
    sessions.are_shown(&[1, 8]).await;
    // Move records back to the bucket in which they were deleted, and to a bucket that never had a
    // row.
    sessions.see(1, sessions.seen[1]).await;
    sessions.see(8, Some(10)).await;
    for seen in [Some(2), None, Some(2), Some(9)] {
        sessions.patch(4, seen).await;
    }
    sessions.are_shown(&[]).await;
}

pub(crate) async fn are_told_of_where_entries_move(recto: Recto) {
    let mut sessions = Sessions::new(&recto, BY_MONTH).await;
    for id in 0..SESSIONS {
        sessions.patch(id, Some(id as usize % TIMES.len())).await;
    }
    let session = LocalSession::new(sessions.recto.clone());
    let filter = r#"team = "red""#;
    let request = PageRequest {
        filter: filter.into(),
        view: "recent".into(),
        page_size: Some(3),
        ..PageRequest::default()
    };
    let explained = session.explain("sessions", &request, true).await.unwrap();
    let cost = explained.actual.as_ref().unwrap().cost;
    let has_buckets = kind_of(&sessions.recto) == Kind::Cassandra;
    assert_eq!(cost.buckets > 0, has_buckets, "{explained}");
    let request = BucketsRequest {
        view: "recent".into(),
        filter: filter.into(),
        ..BucketsRequest::default()
    };
    let tools = session.tools().unwrap();
    let listed = tools.buckets("sessions", &request).await.unwrap();
    // There is one bucket for each month with a time, and one for records without a time. On
    // Cassandra, buckets from which all rows moved away remain.
    let fewest = if has_buckets { 8 } else { 6 };
    assert!(listed.buckets.len() >= fewest, "{}", listed.buckets.len());
    let estimate = sessions.recent().count(Count::Estimate).first(3).await.unwrap();
    let estimate = estimate.row_count().unwrap();
    let off = estimate.total_size.abs_diff(SESSIONS as u64);
    assert!(off <= estimate.total_size_error, "{estimate:?}");
    let is_exact = kind_of(&sessions.recto) == Kind::Embedded;
    assert!(!is_exact || estimate.total_size_error == 0, "{estimate:?}");
}

pub(crate) async fn of_changing_records_are_switched_on_off_and_over(recto: Recto) {
    let mut sessions = Sessions::new(&recto, "").await;
    for (number, bucket) in [
        BY_MONTH,
        r#"bucket = { time = "seen", width = "15 minutes", shards = 2 }"#,
        "",
    ]
    .into_iter()
    .enumerate()
    {
        let schema = parse(&CHANGING.replace("BUCKET", bucket));
        sessions.recto.apply(&schema).await.unwrap();
        sessions.are_shown(&[]).await;
        sessions.patch(number as i32, Some(number * 2)).await;
        sessions.see(number as i32 + 5, None).await;
        sessions.are_shown(&[]).await;
    }
}

/// Checks that `verify` finds and repairs the traces of a dead writer in a view: a row at the old
/// position of its record, and a missing row.
pub(crate) async fn entries_left_behind_in_them_are_found_and_repaired(recto: Recto) {
    let sessions = Sessions::new(&recto, BY_MONTH).await;
    let store = sessions.recto.store();
    let table = Arc::new(table_of(&sessions.recto, "sessions", "recent").await);
    let red: Cells = std::iter::once(Some(&b"red"[..])).collect();
    let all = Slice::from_start(&table, red.clone(), 100);
    let read = store
        .snapshot()
        .unwrap()
        .slice(&all, &ReadOptions::default())
        .await;
    let rows = read.unwrap().rows;
    let (partition, key) = (table.partition().len(), table.key_len());
    let write = async |operation, stamp| {
        let write = PartitionWrite {
            table: Arc::clone(&table),
            partition: red.clone(),
            mutations: vec![Mutation {
                operation,
                stamp: Some(Stamp(stamp)),
                ttl_seconds: None,
            }],
        };
        let options = WriteOptions {
            looked_nanos: Some(0),
            ..WriteOptions::default()
        };
        let written = store.write(write, options).await.unwrap();
        assert!(matches!(written, WriteOutcome::Done), "{written:?}");
    };
    let (moved, lost) = (rows.row(2), rows.row(5));
    let seen = 1_000_000_000_000_i64.to_be_bytes();
    let at = |column: usize| {
        if column == partition + 1 {
            Some(&seen[..])
        } else {
            moved.get(column)
        }
    };
    let put = Operation::Put {
        clustering: (partition..key).map(at).collect(),
        cells: (key..table.columns().len())
            .map(|column| moved.get(column))
            .collect(),
        replace: true,
    };
    write(put.clone(), 1_000).await;
    let clustering = (partition..key).map(|column| lost.get(column)).collect();
    let now = jiff::Timestamp::now().as_microsecond();
    write(Operation::DeleteRow { clustering }, now).await;
    let repair = VerifyRequest {
        repair: true,
        ..VerifyRequest::default()
    };
    let found = sessions
        .recto
        .verify(&VerifyRequest::default(), &|_| {})
        .await
        .unwrap();
    let counts = |found: &recto::session::VerifyReport| {
        let sum = |of: fn(&recto::session::VerifiedView) -> u64| found.views.iter().map(of).sum::<u64>();
        (
            sum(|one| one.orphan),
            sum(|one| one.missing),
            sum(|one| one.repaired),
        )
    };
    assert_eq!((counts(&found), found.wrong()), ((1, 1, 0), 2), "{found:?}");
    let repaired = sessions.recto.verify(&repair, &|_| {}).await.unwrap();
    assert_eq!(counts(&repaired), (1, 1, 2), "{repaired:?}");
    sessions.are_shown(&[]).await;
    if kind_of(&recto) == Kind::Embedded {
        return;
    }
    // A page must check each row against its record, and must remove outdated rows in the
    // background.
    write(put, 2_000).await;
    for _ in 0..50 {
        let shown = both_ways(&sessions.recent(), 5).await.0;
        assert_eq!(shown.len(), SESSIONS as usize);
        let found = sessions.recto.verify(&VerifyRequest::default(), &|_| {}).await;
        if found.unwrap().wrong() == 0 {
            return sessions.are_shown(&[]).await;
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    panic!("it is still there");
}
