//! Checks that pages read few buckets after any history of a list. The tests wait in virtual time until the
//! background work has nothing left to do.
#![allow(clippy::print_stderr)]

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use recto::schema::Schema;
use recto::{DynamicRecord, Recto, Value};
use recto_testkit::generate::{Rng, rng};
use serde_json::json;

use crate::virtual_time::{environment, open_as_cassandra};

/// Number of rows of a page.
const PAGE_ROWS: u32 = 50;
/// Size of the text of a row, in bytes. About 100 rows with all their cells fit into a bucket of 64 KiB.
const TEXT_BYTES: usize = 500;
/// Approximate number of rows that fit into a bucket of 64 KiB.
const ROWS_OF_A_BUCKET: u32 = 105;
/// Number of rows that a batch writes before a pause.
const BATCH: usize = 40;
/// Pause between two batches. Recto can split the buckets in this time.
const BATCH_PAUSE: Duration = Duration::from_secs(2);
/// Interval at which the lists are read while the background work runs, and the number of intervals.
const IDLE: Duration = Duration::from_secs(1_800);
const IDLE_ROUNDS: usize = 16;

fn schema(target: &str) -> Schema {
    let text = format!(
        r#"
[collection.log]
fields = {{ shop = "text", at = "int", text = "text" }}
key = ["shop", "at"]
partition = ["shop"]
order = ["at"]
writes = "overwrite"
bucket = {{ target = "{target}" }}

[collection.tickets]
fields = {{ id = "int", status = "text", text = "text" }}
key = ["id"]

[collection.tickets.view.by_status]
partition = ["status"]
order = ["id"]
bucket = {{ target = "{target}" }}
"#
    );
    Schema::parse(&text).unwrap()
}

/// Store with the limits of Cassandra, and its lists.
struct Lists {
    recto: Recto,
    random: Rng,
    /// Keys of the rows of the log.
    there: BTreeSet<i32>,
}

impl Lists {
    async fn new(seed: u64, target: &str) -> Self {
        Self {
            recto: open_as_cassandra(&environment(seed), &schema(target)).await,
            random: rng(seed),
            there: BTreeSet::new(),
        }
    }

    async fn put(&mut self, ats: impl IntoIterator<Item = i32>) {
        let log = self.recto.dynamic("log").unwrap();
        let definition = log.definition();
        let ats: Vec<i32> = ats.into_iter().collect();
        for some in ats.chunks(BATCH) {
            let record = |at: &i32| {
                let record = json!({ "shop": "a", "at": at, "text": "x".repeat(TEXT_BYTES) });
                DynamicRecord::from_json(Arc::clone(&definition), record.as_object().unwrap()).unwrap()
            };
            log.put_all(&some.iter().map(record).collect::<Vec<_>>())
                .await
                .unwrap();
            tokio::time::sleep(BATCH_PAUSE).await;
        }
        self.there.extend(ats);
    }

    async fn delete(&mut self, ats: impl IntoIterator<Item = i32>) {
        let log = self.recto.dynamic("log").unwrap();
        for at in ats {
            log.delete(("a", at)).await.unwrap();
            self.there.remove(&at);
        }
    }

    /// Reads all pages of a list. Returns the number of buckets that each page read, and the rows.
    async fn pages(&self, collection: &str, filter: &str) -> (Vec<u32>, Vec<DynamicRecord>) {
        let query = self.recto.dynamic(collection).unwrap().query().filter(filter);
        let mut pages = Box::pin(query.first(PAGE_ROWS).pages());
        let (mut buckets, mut rows) = (Vec::new(), Vec::new());
        while let Some(page) = pages.next().await {
            let page = page.unwrap();
            buckets.push(page.cost().buckets);
            rows.extend(page.into_items());
        }
        (buckets, rows)
    }

    /// Waits until the background work is done, while the list is read now and then. Checks the number of buckets
    /// that a page reads: on average at most 1 + 200/R, and one more than this number, rounded up, in 99 of 100 pages.
    /// Returns the rows.
    async fn settles(&self, history: &str, list: (&str, &str), rows_of_a_bucket: u32) -> Vec<DynamicRecord> {
        for _ in 0..IDLE_ROUNDS {
            self.pages(list.0, list.1).await;
            tokio::time::sleep(IDLE).await;
        }
        let (mut buckets, rows) = self.pages(list.0, list.1).await;
        buckets.sort_unstable();
        let mean = f64::from(buckets.iter().sum::<u32>()) / buckets.len() as f64;
        let p99 = buckets[(buckets.len() * 99).div_ceil(100) - 1];
        let most = 1.0 + 200.0 / f64::from(rows_of_a_bucket);
        eprintln!(
            "{history}: {} rows, {mean:.2} buckets a page, p99 {p99}",
            rows.len()
        );
        assert!(mean <= most, "{history}: {mean:.2} buckets, at most {most:.2}");
        assert!(f64::from(p99) <= most.ceil() + 1.0, "{history}: p99 {p99}");
        rows
    }

    async fn log_settles(&self, history: &str) {
        let rows = self
            .settles(history, ("log", r#"shop = "a""#), ROWS_OF_A_BUCKET)
            .await;
        let ats = rows.iter().map(|row| match row.get("at") {
            Some(Value::Int(at)) => *at,
            other => panic!("{other:?}"),
        });
        assert!(ats.eq(self.there.iter().copied()), "{history}");
    }

    fn shuffled(&mut self, to: i32) -> Vec<i32> {
        let mut ats: Vec<i32> = (0..to).collect();
        for left in (1..ats.len()).rev() {
            ats.swap(left, self.random.usize(0..=left));
        }
        ats
    }
}

#[tokio::test(start_paused = true)]
async fn after_random_inserts_and_deletes() {
    let mut lists = Lists::new(1, "64KiB").await;
    let all = lists.shuffled(4_000);
    lists.put(all).await;
    for keeps in [2, 5] {
        let mut gone: Vec<i32> = lists.there.iter().copied().collect();
        gone.retain(|_| lists.random.usize(0..keeps) > 0);
        lists.delete(gone).await;
        lists.log_settles("random deletes").await;
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_list_is_emptied_from_either_end() {
    for is_front in [true, false] {
        let mut lists = Lists::new(2, "64KiB").await;
        lists.put(0..4_000).await;
        let gone = if is_front { 0..3_900 } else { 100..4_000 };
        lists.delete(gone).await;
        lists.log_settles("emptied from an end").await;
        lists.delete(0..4_000).await;
        lists.log_settles("emptied").await;
        let (buckets, _) = lists.pages("log", r#"shop = "a""#).await;
        assert_eq!(buckets, [1], "an empty list costs as much as a new one");
    }
}

#[tokio::test(start_paused = true)]
async fn after_tickets_were_opened_and_closed() {
    let lists = Lists::new(3, "64KiB").await;
    let tickets = lists.recto.dynamic("tickets").unwrap();
    let definition = tickets.definition();
    for first in (0..4_000).step_by(BATCH) {
        let record = |id: i32| {
            let record = json!({ "id": id, "status": "open", "text": "x".repeat(TEXT_BYTES) });
            DynamicRecord::from_json(Arc::clone(&definition), record.as_object().unwrap()).unwrap()
        };
        for id in (first..).take(BATCH) {
            tickets.put(&record(id)).await.unwrap();
        }
        tokio::time::sleep(BATCH_PAUSE).await;
    }
    for id in (0..4_000).filter(|id| id % 80 > 0) {
        tickets.update(id).set("status", "closed").await.unwrap();
    }
    let mut counts = HashMap::new();
    for status in ["open", "closed"] {
        let filter = format!("status = \"{status}\"");
        let rows = lists
            .settles(status, ("tickets", &filter), ROWS_OF_A_BUCKET)
            .await;
        counts.insert(status, rows.len());
    }
    assert_eq!(counts, HashMap::from([("open", 50), ("closed", 3_950)]));
}

#[tokio::test(start_paused = true)]
async fn after_the_target_was_raised() {
    let mut lists = Lists::new(4, "100KB").await;
    lists.put(0..3_000).await;
    lists.recto.apply(&schema("5MB")).await.unwrap();
    let rows = lists
        .settles("raised target", ("log", r#"shop = "a""#), 50 * ROWS_OF_A_BUCKET)
        .await;
    assert_eq!(rows.len(), 3_000);
}
