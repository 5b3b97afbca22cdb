//! Checks the accuracy of estimated numbers of rows, on a store that does not count rows. The data
//! has rows of mixed sizes, rows written late, and deleted rows.
#![allow(clippy::print_stderr)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use recto::schema::Schema;
use recto::{Count, DynamicRecord, Environment, Page, PageQuery, Recto, Value};
use serde_json::json;

use crate::virtual_time::{environment, open_as_cassandra};

const SCHEMA: &str = r#"
[collection.log]
fields = { shop = "text", at = "int", text = "text" }
key = ["shop", "at"]
partition = ["shop"]
order = ["at"]
writes = "overwrite"
bucket = { target = "64KiB" }
"#;

/// Tested collection `log`, and the expected rows of each of its partitions (shops).
struct Log {
    recto: Recto,
    environment: Environment,
    there: BTreeMap<&'static str, Vec<i32>>,
}

impl Log {
    async fn new(seed: u64) -> Self {
        let environment = environment(seed);
        let recto = open_as_cassandra(&environment, &Schema::parse(SCHEMA).unwrap()).await;
        Self {
            recto,
            environment,
            there: BTreeMap::new(),
        }
    }

    fn below(&self, most: i32) -> i32 {
        let drawn = u64::from(u32::from_be_bytes(self.environment.random()));
        i32::try_from((drawn * u64::from(most.unsigned_abs())) >> 32).unwrap()
    }

    /// Writes rows of a partition (shop) in the given order, half of them small and half large. The
    /// writes are so slow that Recto can split buckets that become too large.
    async fn put(&mut self, shop: &'static str, ats: &[i32]) {
        let log = self.recto.dynamic("log").unwrap();
        let definition = log.definition();
        for some in ats.chunks(40) {
            let records = some.iter().map(|at| {
                let length = if self.below(2) == 0 { 20 } else { 1_200 };
                let record = json!({ "shop": shop, "at": at, "text": "x".repeat(length) });
                DynamicRecord::from_json(Arc::clone(&definition), record.as_object().unwrap()).unwrap()
            });
            log.put_all(&records.collect::<Vec<_>>()).await.unwrap();
            tokio::time::sleep(Duration::from_millis(700)).await;
        }
        let there = self.there.entry(shop).or_default();
        there.extend(ats);
        there.sort_unstable();
        there.dedup();
    }

    async fn delete(&mut self, shop: &'static str, gone: impl Fn(i32) -> bool) {
        let log = self.recto.dynamic("log").unwrap();
        let there = self.there.get_mut(shop).unwrap();
        for at in there.iter().copied().filter(|at| gone(*at)) {
            log.delete((shop, at)).await.unwrap();
        }
        there.retain(|at| !gone(*at));
    }

    fn shuffled(&self, from: i32, to: i32) -> Vec<i32> {
        let mut ats: Vec<i32> = (from..to).collect();
        for left in (1..ats.len()).rev() {
            let other = self.below(i32::try_from(left).unwrap() + 1);
            ats.swap(left, usize::try_from(other).unwrap());
        }
        ats
    }

    fn query(&self, filter: &str) -> PageQuery<DynamicRecord> {
        let log = self.recto.dynamic("log").unwrap();
        log.query().filter(filter).count(Count::Estimate)
    }

    /// Returns the true number of rows in the given partitions (shops), and the true number of
    /// these rows before a page.
    fn truth(&self, shops: &[&str], page: &Page<DynamicRecord>) -> (u64, u64) {
        let first = page.items().first().map(|record| {
            let of = |field| record.get(field).unwrap();
            match (of("at"), of("shop")) {
                (Value::Int(at), Value::Text(shop)) => (*at, shop.clone()),
                other => panic!("{other:?}"),
            }
        });
        let of_shops = self.there.iter().filter(|(shop, _)| shops.contains(shop));
        let all: Vec<(i32, String)> = of_shops
            .flat_map(|(shop, ats)| ats.iter().map(|at| (*at, (*shop).to_owned())))
            .collect();
        let before = first.map_or(0, |first| all.iter().filter(|row| **row < first).count());
        (all.len() as u64, before as u64)
    }
}

/// Accuracy of the estimates: their number, the number of correct ones, and the width of the widest
/// interval in thousandths of all rows.
#[derive(Default)]
struct Held {
    asked: u32,
    right: u32,
    widest: u64,
}

impl Held {
    fn add(&mut self, said: u64, error: u64, truth: u64, all: u64) {
        self.asked += 1;
        self.right += u32::from(said.abs_diff(truth) <= error);
        self.widest = self.widest.max(error * 1_000 / all.max(1));
    }

    fn add_page(&mut self, log: &Log, shops: &[&str], page: &Page<DynamicRecord>) {
        let estimate = page.row_count().unwrap();
        let (total, before) = log.truth(shops, page);
        self.add(estimate.total_size, estimate.total_size_error, total, total);
        let [offset, error] = [estimate.offset, estimate.offset_error].map(Option::unwrap);
        self.add(offset, error, before, total);
    }
}

/// Returns the number of random seeds to test: eight, multiplied by the environment variable
/// `RECTO_TEST_SCALE`. All estimates of a list at rest use the same random draw, so the questions of
/// one seed are right or wrong together, and one or two seeds are not enough.
fn seeds() -> u64 {
    let scale = std::env::var("RECTO_TEST_SCALE").ok();
    8 * scale.and_then(|scale| scale.parse().ok()).unwrap_or(1_u64)
}

#[tokio::test(start_paused = true)]
async fn gives_correct_bounds_in_93_percent_of_cases() {
    let mut held = Held::default();
    for seed in 1..=seeds() {
        let mut log = Log::new(seed).await;
        // Write rows in random order, then in ascending order, then late rows between the others.
        let first = log.shuffled(0, 1_500);
        log.put("a", &first).await;
        log.put("a", &(1_500..3_000).collect::<Vec<_>>()).await;
        let late = log.shuffled(4_000, 4_300);
        log.put("a", &late).await;
        log.put("a", &log.shuffled(3_000, 3_400)).await;
        log.put("b", &log.shuffled(0, 900)).await;
        tokio::time::sleep(Duration::from_secs(120)).await;
        for step in 0..4 {
            match step {
                0 => {}
                1 => log.delete("a", |at| at % 10 == 3).await,
                2 => log.delete("a", |at| (700..900).contains(&at)).await,
                _ => log.delete("b", |at| at % 3 > 0).await,
            }
            for percent in [0.0, 20.0, 60.0, 95.0] {
                for (filter, shops) in [
                    (r#"shop = "a""#, &["a"][..]),
                    (r#"shop = "a" OR shop = "b""#, &["a", "b"]),
                ] {
                    let page = log.query(filter).around_percent(percent).page_size(10);
                    let page = page.await.unwrap();
                    held.add_page(&log, shops, &page);
                    let (total, before) = log.truth(shops, &page);
                    let wanted = total as f64 * percent / 100.0;
                    let off = (before as f64 - wanted).abs() / total as f64;
                    assert!(off < 0.25, "seed {seed}: {percent} % is row {before} of {total}");
                }
            }
            let ranged = log.query(r#"shop = "a" AND at >= 400 AND at < 2500"#);
            let said = ranged.first(1).await.unwrap().row_count().unwrap();
            let ats = log.there["a"].iter();
            let truth = ats.filter(|at| (400..2_500).contains(*at)).count() as u64;
            held.add(said.total_size, said.total_size_error, truth, truth);
        }
    }
    let Held { asked, right, widest } = held;
    eprintln!("{right} of {asked} held, the widest off by {widest} of 1,000");
    assert!(f64::from(right) >= 0.93 * f64::from(asked), "{right} of {asked}");
    assert!(widest < 350, "they say something: {widest} of 1,000");
}
