//! Tests of collections with a retention time: records that are too old are rejected, and old
//! buckets are deleted as a whole. No concurrent reader sees a part of a deleted bucket.

use std::collections::BTreeMap;

use futures::future::{Either, join, select};
use recto::session::{LoadRequest, RebalanceRequest, Session, VerifyRequest};
use recto::{
    Collection, Cursor, DynamicRecord, Environment, LocalSession, OpenOptions, PageQuery, Recto, StoreAddress,
};
use recto_cassandra::CassandraConfig;
use recto_cassandra::testing::PlainCql;
use serde_json::json;

use super::listing::{both_ways, forwards, ids};
use crate::common::clocks::Standing;
use crate::common::stores::{Kind, kind_of, parse};
use crate::common::{Fresh, key_of};

const SCHEMA: &str = r#"
[collection.newest]
fields = { stream = "text", at = "timestamp", id = "int" }
key = ["stream", "at", "id"]
partition = ["stream"]
order = ["-at"]
writes = "append"
bucket = { time = "at", width = "1 day", keep = "8 days" }

[collection.oldest]
fields = { at = "timestamp", id = "int" }
key = ["at", "id"]
partition = []
order = ["at"]
writes = "overwrite"
bucket = { time = "at", width = "1 day", keep = "8 days" }

[collection.sized]
fields = { at = "timestamp", id = "int" }
key = ["at", "id"]
partition = []
order = ["-at"]
writes = "append"
bucket = { target = "64KiB", keep = "8 days" }
"#;

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;
/// First day of the tests, in milliseconds since 1970: 2024-02-20T00:00:00Z. The days of the test
/// include the leap day.
const START_MS: i64 = 1_708_387_200_000;
const DAYS: i64 = 12;
/// First day whose rows are retained on the last day of the test.
const FIRST: i64 = 3;
const EACH_DAY: i64 = 24;

struct Kept {
    recto: Recto,
    clock: Standing,
    fresh: Fresh,
}

impl Kept {
    async fn new(recto: &Recto) -> Self {
        let fresh = Fresh::new(kind_of(recto));
        let clock = Standing::at(START_MS);
        let options = OpenOptions::new().environment(clock.environment());
        let recto = fresh.open_with(options).await;
        recto.apply(&parse(SCHEMA)).await.unwrap();
        Self { recto, clock, fresh }
    }

    /// Sets the store's clock to a day of the test. An embedded store does not trust a clock that
    /// jumped, so the test confirms the clock.
    async fn at(&self, day: i64) {
        self.clock.put(START_MS + day * DAY_MS);
        if kind_of(&self.recto) == Kind::Embedded {
            self.recto.confirm_clock().await.unwrap();
        }
    }

    fn of(&self, name: &str) -> Collection<DynamicRecord> {
        self.recto.dynamic(name).unwrap()
    }

    fn query(&self, name: &str) -> PageQuery<DynamicRecord> {
        let query = self.of(name).query();
        match name {
            "newest" => query.filter(r#"stream = "a""#),
            _ => query,
        }
    }

    /// Returns the number of rows of each day that one large page shows.
    async fn by_days(&self, name: &str) -> BTreeMap<i64, i64> {
        let page = self.query(name).first(1_000).await.unwrap();
        let mut days = BTreeMap::new();
        for hour in hours(ids(&page)) {
            *days.entry(hour / EACH_DAY).or_default() += 1;
        }
        days
    }

    /// Returns the hours of all rows, read in many small pages.
    async fn in_pages(&self, name: &str) -> Vec<i64> {
        let mut found = hours(forwards(&self.query(name), 10).await);
        found.sort_unstable();
        found
    }

    /// Returns two cursors in buckets that are deleted later: one within a bucket, and one at the
    /// end of the last deleted bucket.
    async fn cursors(&self, name: &str) -> Vec<Cursor> {
        let page = self.query(name).first(1_000).await.unwrap();
        let hours = hours(ids(&page));
        let cursor = |of: i64| page.cursor(hours.iter().position(|hour| *hour == of).unwrap());
        [EACH_DAY / 2, FIRST * EACH_DAY - 1].map(cursor).into()
    }

    /// Checks that a cursor in a deleted bucket keeps its position. On one side of it there must be
    /// no rows, and on the other side all retained rows.
    async fn goes_on_from(&self, name: &str, cursor: &Cursor) {
        let (query, most) = (self.query(name), 30);
        let after = query.clone().after(cursor.clone()).first(most).await.unwrap();
        let before = query.clone().before(cursor.clone()).last(most).await.unwrap();
        let (mut kept, none) = match name {
            "oldest" => (hours(ids(&after)), hours(ids(&before))),
            _ => (hours(ids(&before)), hours(ids(&after))),
        };
        kept.sort_unstable();
        let first = FIRST * EACH_DAY;
        assert_eq!(
            kept,
            (first..first + i64::from(most)).collect::<Vec<_>>(),
            "{name}"
        );
        assert!(none.is_empty(), "{name}: {none:?}");
    }

    /// Checks that puts of records older than the retention bound fail, and that a put at the bound
    /// succeeds.
    async fn rejects_late_records(&self) {
        for name in ["newest", "oldest", "sized"] {
            let of = self.of(name);
            let late = record(&of, FIRST * EACH_DAY - 1);
            let refused = of.put(&late).await.unwrap_err();
            assert!(
                refused.to_string().contains("older than the retention time"),
                "{refused}"
            );
            assert_eq!(
                refused.hint(),
                Some("write only rows within the retention time, or raise `keep`")
            );
            let both = [record(&of, DAYS * EACH_DAY), record(&of, EACH_DAY)];
            assert!(of.put_all(&both).await.is_err(), "{name}");
            assert_eq!(of.get(&key_of(&both[0])[..]).await.unwrap(), None, "{name}");
            // A record exactly at the retention bound is not too old, so the put must succeed.
            of.put(&record(&of, FIRST * EACH_DAY)).await.unwrap();
        }
    }
}

fn record(of: &Collection<DynamicRecord>, hour: i64) -> DynamicRecord {
    let definition = of.definition();
    let mut json = json!({ "at": time(hour), "id": hour });
    if definition.name == "newest" {
        json["stream"] = json!("a");
    }
    DynamicRecord::from_json(definition, json.as_object().unwrap()).unwrap()
}

fn time(hour: i64) -> String {
    let at = jiff::Timestamp::from_millisecond(START_MS + hour * HOUR_MS);
    at.unwrap().to_string()
}

fn hours(ids: Vec<i32>) -> Vec<i64> {
    ids.into_iter().map(i64::from).collect()
}

pub(crate) async fn old_buckets_go_and_late_records_are_refused(recto: Recto) {
    let kept = Kept::new(&recto).await;
    let mut cursors = Vec::new();
    for day in 0..DAYS {
        kept.at(day).await;
        if day == FIRST {
            cursors = vec![
                ("newest", kept.cursors("newest").await),
                ("oldest", kept.cursors("oldest").await),
            ];
        }
        for name in ["newest", "oldest", "sized"] {
            let of = kept.of(name);
            let some: Vec<_> = (0..EACH_DAY)
                .map(|hour| record(&of, day * EACH_DAY + hour))
                .collect();
            of.put_all(&some).await.unwrap();
        }
    }
    kept.rejects_late_records().await;
    let session = LocalSession::new(kept.recto.clone());
    let tools = session.tools().unwrap();
    let request = RebalanceRequest::default();
    let repaired = join(
        tools.rebalance_buckets("newest", &request, &|_| {}),
        tools.rebalance_buckets("oldest", &request, &|_| {}),
    );
    let mut repaired = Box::pin(repaired);
    let expected: Vec<i64> = (FIRST * EACH_DAY..DAYS * EACH_DAY).collect();
    let mut reads = 0;
    loop {
        let read = Box::pin(async {
            for name in ["newest", "oldest"] {
                let days = kept.by_days(name).await;
                assert!(days.values().all(|rows| *rows == EACH_DAY), "{name}: {days:?}");
                assert!(
                    (FIRST..DAYS).all(|day| days.contains_key(&day)),
                    "{name}: {days:?}"
                );
                let mut all = kept.in_pages(name).await;
                all.retain(|hour| *hour >= FIRST * EACH_DAY);
                assert_eq!(all, expected, "{name}");
            }
        });
        match select(repaired, read).await {
            Either::Left(((newest, oldest), read)) => {
                newest.unwrap();
                oldest.unwrap();
                read.await;
                break;
            }
            Either::Right(((), goes_on)) => {
                repaired = goes_on;
                reads += 1;
                tokio::time::sleep(std::time::Duration::from_millis(500)).await;
            }
        }
    }
    assert!(reads > 0 || kind_of(&kept.recto) == Kind::Embedded);
    for name in ["newest", "oldest"] {
        assert_eq!(kept.in_pages(name).await, expected, "{name}");
        let old = record(&kept.of(name), EACH_DAY);
        assert_eq!(kept.of(name).get(&key_of(&old)[..]).await.unwrap(), None);
    }
    for (name, cursor) in cursors
        .iter()
        .flat_map(|(name, of)| of.iter().map(move |one| (*name, one)))
    {
        kept.goes_on_from(name, cursor).await;
    }
    let verified = kept
        .recto
        .verify(&VerifyRequest::default(), &|_| {})
        .await
        .unwrap();
    // An embedded store has no buckets, so `verify` has none to check.
    let in_buckets = if kind_of(&kept.recto) == Kind::Cassandra {
        3
    } else {
        0
    };
    assert_eq!(
        (verified.buckets.len(), verified.wrong()),
        (in_buckets, 0),
        "{verified:?}"
    );
    if let StoreAddress::Cassandra(address) = &kept.fresh.address {
        assert_eq!(session.bucket_metrics().unwrap().dropped, 2 * FIRST as u64);
        let config = CassandraConfig::new(address.hosts.clone(), address.keyspace.clone());
        are_gone_without_tombstones(&PlainCql::connect(config, Environment::system()).await.unwrap()).await;
    }
}

/// Asserts that reads on a Cassandra node find only existing rows. Buckets are deleted as whole
/// partitions, so reads must not have to skip tombstones (deletion markers).
async fn are_gone_without_tombstones(cql: &PlainCql) {
    for (table, rows) in [("newest", true), ("oldest", true), ("recto_samples", false)] {
        let met = cql.met(&format!("SELECT * FROM {table}")).await.unwrap();
        let tombstones: usize = met.iter().map(|met| met.tombstones).sum();
        assert_eq!(tombstones, 0, "{table}: {met:?}");
        let there: usize = met.iter().map(|met| met.rows).sum();
        // A scan may return one more row, which has only the static cells of a bucket.
        let expected = ((DAYS - FIRST) * EACH_DAY) as usize;
        assert!(
            !rows || there == expected + 1 || there == expected,
            "{table}: {met:?}"
        );
    }
}

pub(crate) async fn late_rows_of_a_load_go_to_the_reject_file(recto: Recto) {
    let kept = Kept::new(&recto).await;
    kept.at(20).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.csv");
    let mut text = "at,id\n".to_owned();
    for day in 0..20 {
        text += &format!("{},{day}\n", time(day * EACH_DAY));
    }
    std::fs::write(&file, text).unwrap();
    let session = LocalSession::new(kept.recto.clone());
    for name in ["oldest", "sized"] {
        let rejects = folder.path().join(format!("{name}.csv"));
        let request = LoadRequest {
            file: file.clone(),
            collections: vec![name.to_owned()],
            rejects: Some(rejects.clone()),
            ..LoadRequest::default()
        };
        session.tools().unwrap().load(&request, &|_| {}).await.unwrap();
        assert_eq!(kept.in_pages(name).await, (12..20).collect::<Vec<_>>(), "{name}");
        let (up, down) = both_ways(&kept.query(name), 10).await;
        assert_eq!(up, down, "{name}");
        let rejected = std::fs::read_to_string(rejects).unwrap();
        assert_eq!(
            rejected.matches("older than the retention time").count(),
            12,
            "{rejected}"
        );
    }
}

pub(crate) async fn a_shorter_keep_tells_how_many_records_it_deletes(recto: Recto) {
    const STORED_DAYS: i64 = 8;
    let kept = Kept::new(&recto).await;
    for day in 0..STORED_DAYS {
        kept.at(day).await;
        let of = kept.of("oldest");
        let some: Vec<_> = (0..EACH_DAY)
            .map(|hour| record(&of, day * EACH_DAY + hour))
            .collect();
        of.put_all(&some).await.unwrap();
    }
    for (keep, days) in [("4 days", 3), ("6 days", 1), ("9 days", 0)] {
        let plan = kept
            .recto
            .plan(&parse(&SCHEMA.replace("8 days", keep)))
            .await
            .unwrap();
        let lines = plan.changes.iter().filter(|line| line.contains("the new `keep`"));
        let lines: Vec<_> = lines.filter(|line| line.contains("oldest")).collect();
        let records = days * EACH_DAY;
        let expected =
            format!("collection oldest: {records} records are older than the new `keep` and will be deleted");
        let expected = if days == 0 { vec![] } else { vec![&expected] };
        assert_eq!(lines, expected, "{keep}");
    }
    let applied = kept
        .recto
        .apply(&parse(&SCHEMA.replace("8 days", "4 days")))
        .await
        .unwrap();
    let of_sized = "collection sized: no record is older than the new `keep`";
    assert!(applied.changes.iter().any(|line| line == of_sized), "{applied:?}");
    let old = kept.of("oldest").put(&record(&kept.of("oldest"), 0)).await;
    assert!(
        old.unwrap_err()
            .to_string()
            .contains("older than the retention time")
    );
}
