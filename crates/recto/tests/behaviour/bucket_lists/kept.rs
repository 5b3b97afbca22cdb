//! Tests of collections with a retention time, in buckets by time, by rows and by size.

use recto::schema::Schema;
use recto::session::{BucketsRequest, RebalanceRequest, Session};
use recto::{DynamicRecord, LocalSession, OpenOptions, Recto};
use serde_json::json;

use crate::common::clocks::Standing;
use crate::common::key_of;

const SCHEMA: &str = r#"
[collection.newest]
fields = { stream = "text", at = "timestamp", id = "int" }
key = ["stream", "at", "id"]
partition = ["stream"]
order = ["-at"]
writes = "append"
bucket = { BOUND, keep = "8 days" }

[collection.oldest]
fields = { at = "timestamp", id = "int" }
key = ["at", "id"]
partition = []
order = ["at"]
writes = "overwrite"
bucket = { BOUND, keep = "8 days" }
"#;

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;
/// First day of the tests, in milliseconds since 1970: 2024-02-20T00:00:00Z. The days of the test
/// include the leap day.
const START_MS: i64 = 1_708_387_200_000;

struct Kept {
    recto: Recto,
    clock: Standing,
    _folder: tempfile::TempDir,
}

impl Kept {
    async fn new(bound: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Standing::at(START_MS);
        let options = OpenOptions::new().create().environment(clock.environment());
        let recto = Recto::open_with(folder.path().join("store"), options)
            .await
            .unwrap();
        recto
            .apply(&Schema::parse(&SCHEMA.replace("BOUND", bound)).unwrap())
            .await
            .unwrap();
        Self {
            recto,
            clock,
            _folder: folder,
        }
    }

    /// Sets the store's clock to a day of the test. An embedded store does not trust a clock that
    /// jumped, so the test confirms the clock.
    async fn at(&self, days: i64) {
        self.clock.put(START_MS + days * DAY_MS);
        self.recto.confirm_clock().await.unwrap();
    }

    fn record(&self, of: &str, hours: i64, id: i64) -> DynamicRecord {
        let collection = self.recto.dynamic(of).unwrap();
        let definition = collection.definition();
        let mut json = json!({ "at": time(hours), "id": id });
        if of == "newest" {
            json["stream"] = json!("a");
        }
        DynamicRecord::from_json(definition, json.as_object().unwrap()).unwrap()
    }

    /// Returns the hours of all rows, from the oldest. Asserts that reading backwards returns the
    /// same rows.
    async fn hours(&self, of: &str) -> Vec<i64> {
        let query = self.recto.dynamic(of).unwrap().query();
        let query = if of == "newest" {
            query.filter(r#"stream = "a""#)
        } else {
            query
        };
        let forwards = query.clone().order_by("at").first(1_000).await.unwrap();
        let backwards = query.order_by("-at").first(1_000).await.unwrap();
        let hours = |items: &[DynamicRecord]| -> Vec<i64> {
            items
                .iter()
                .map(|item| item.to_json()["id"].as_i64().unwrap())
                .collect()
        };
        let mut other = hours(backwards.items());
        other.reverse();
        assert_eq!(hours(forwards.items()), other);
        other
    }
}

fn time(hours: i64) -> String {
    jiff::Timestamp::from_millisecond(START_MS + hours * HOUR_MS)
        .unwrap()
        .to_string()
}

#[tokio::test]
async fn buckets_go_that_are_too_old() {
    for bound in [
        r#"time = "at", width = "1 day""#,
        "rows = 7",
        r#"target = "64KiB""#,
    ] {
        let kept = Kept::new(bound).await;
        for of in ["newest", "oldest"] {
            kept.at(0).await;
            let collection = kept.recto.dynamic(of).unwrap();
            for day in 0..12 {
                kept.at(day).await;
                let some: Vec<_> = (0..24)
                    .map(|hour| kept.record(of, day * 24 + hour, day * 24 + hour))
                    .collect();
                collection.put_all(&some).await.unwrap();
            }
            // It is day 11, and rows are retained for eight days. The rows before day 3 must
            // therefore be deleted, by whole days.
            let expected: Vec<i64> = (3 * 24..12 * 24).collect();
            assert_eq!(kept.hours(of).await, expected, "{bound} {of}");
            let late = kept.record(of, 3 * 24 - 1, 1_000);
            let refused = collection.put(&late).await.unwrap_err();
            assert!(
                refused.to_string().contains("older than the retention time"),
                "{refused}"
            );
            assert_eq!(
                refused.hint(),
                Some("write only rows within the retention time, or raise `keep`")
            );
            let both = [kept.record(of, 12 * 24, 1_001), late.clone()];
            assert!(collection.put_all(&both).await.is_err());
            assert_eq!(collection.get(&key_of(&late)[..]).await.unwrap(), None);
            collection.delete(&key_of(&late)[..]).await.unwrap();
            collection.put(&kept.record(of, 3 * 24, 3 * 24)).await.unwrap();
        }
        // No write follows, so only `rebalance_buckets` can raise the retention bound.
        kept.at(15).await;
        let session = LocalSession::new(kept.recto.clone());
        for of in ["newest", "oldest"] {
            let tools = session.tools().unwrap();
            let report = tools
                .rebalance_buckets(of, &RebalanceRequest::default(), &|_| {})
                .await
                .unwrap();
            // All days before day 7 are deleted, unless the background task deleted them first.
            assert!(
                (4 * 24..=7 * 24).contains(&report.deleted),
                "{bound} {of} {report:?}"
            );
            let hours = kept.hours(of).await;
            assert_eq!(hours.first(), Some(&(7 * 24)), "{bound} {of}");
            let filter = if of == "newest" { r#"stream = "a""# } else { "" };
            let request = BucketsRequest {
                filter: filter.to_owned(),
                ..BucketsRequest::default()
            };
            let listed = tools.buckets(of, &request).await.unwrap();
            let rows: u64 = listed.buckets.iter().map(|bucket| bucket.figures.rows).sum();
            assert_eq!(rows, hours.len() as u64);
        }
    }
}
