//! Checks that pages of partitions that are divided into buckets have the same rows as pages of
//! undivided partitions.

use std::sync::Arc;

use futures::TryStreamExt;
use recto::session::{PageRequest, Pages, VerifyRequest};
use recto::{Count, DynamicRecord, ErrorKind, LocalSession, Page, PageQuery, Recto, Stop, Value};
use serde_json::json;

use super::listing::{both_ways, ids};
use crate::common::stores::{kind_of, parse};
use crate::common::{Fresh, Kind};

const SCHEMA: &str = r#"
[collection.posts]
fields = { id = "int", author = "text", score = "int" }
key = ["id"]
writes = "append"

[collection.posts.view.split]
partition = ["author"]
order = ["-score"]
nulls = "skip"
bucket = BUCKET

[collection.posts.view.spread]
partition = ["author"]
order = ["-score"]
nulls = "skip"
bucket = SHARDED

[collection.posts.view.whole]
order = ["score"]
bucket = SHARDED

[collection.log]
fields = { at = "int", id = "int", text = "text" }
key = ["at", "id"]
order = ["-at"]
partition = []
writes = "overwrite"
bucket = SHARDED
"#;

/// Names of the tested views. Each bucket of `split` is one partition of the store, and each bucket
/// of `spread` is divided into several shards.
const VIEWS: [&str; 2] = ["split", "spread"];

/// Maximum number of rows of a bucket, if the store counts rows.
const BUCKET_ROWS: usize = 5;
/// Authors with their number of posts, which need at least 8 buckets, 3 buckets, and 1 bucket.
const POSTS: [(&str, i64); 3] = [("ada", 38), ("bob", 13), ("cyd", 2)];

struct Split {
    recto: Recto,
}

impl Split {
    async fn new(recto: &Recto) -> Self {
        let kind = kind_of(recto);
        let recto = Fresh::new(kind).open().await;
        let bucket = match kind {
            Kind::Embedded => "rows = 5",
            Kind::Cassandra => "target = \"64KiB\"",
        };
        let schema = SCHEMA
            .replace("BUCKET", &format!("{{ {bucket} }}"))
            .replace("SHARDED", &format!("{{ {bucket}, shards = 3 }}"));
        recto.apply(&parse(&schema)).await.unwrap();
        let posts = recto.dynamic("posts").unwrap();
        let definition = Arc::new(posts.definition().clone());
        let record = |author: &str, index: i64, id: usize| {
            // Each two posts have the same score, so that a bucket can begin between rows of equal
            // score.
            let record = json!({ "id": id, "author": author, "score": index / 2 });
            DynamicRecord::from_json(Arc::clone(&definition), record.as_object().unwrap()).unwrap()
        };
        let of_all = POSTS
            .iter()
            .flat_map(|(author, count)| (0..*count).map(move |index| (*author, index)));
        let records = of_all
            .enumerate()
            .map(|(id, (author, index))| record(author, index, id));
        let records: Vec<DynamicRecord> = records.collect();
        posts.put_all(&records).await.unwrap();
        Self { recto }
    }

    fn query(&self, filter: &str, sort: &str) -> PageQuery<DynamicRecord> {
        self.query_of("split", filter, sort)
    }

    fn query_of(&self, view: &str, filter: &str, sort: &str) -> PageQuery<DynamicRecord> {
        let posts = self.recto.dynamic("posts").unwrap();
        posts.query().view(view).filter(filter).order_by(sort)
    }
}

/// Returns the ids of the posts of `authors` in the order of `-score, id`.
fn expected(authors: &[&str]) -> Vec<i32> {
    let posts = POSTS
        .iter()
        .flat_map(|(author, count)| (0..*count).map(move |index| (*author, index)));
    let posts = posts
        .enumerate()
        .filter(|(_, (author, _))| authors.contains(author));
    let mut posts: Vec<(i64, i32)> = posts.map(|(id, (_, index))| (-(index / 2), id as i32)).collect();
    posts.sort_unstable();
    posts.into_iter().map(|(_, id)| id).collect()
}

pub(crate) async fn are_read_as_one_partition(recto: Recto) {
    let split = Split::new(&recto).await;
    let any = r#"(author = "ada" OR author = "bob" OR author = "cyd")"#;
    let all: Vec<i32> = expected(&["ada", "bob", "cyd"]);
    for (filter, sort, expected) in [
        (r#"author = "ada""#, "", expected(&["ada"])),
        (r#"author = "nobody""#, "", Vec::new()),
        (
            r#"author = "ada""#,
            "score",
            expected(&["ada"]).into_iter().rev().collect(),
        ),
        (any, "-score", all.clone()),
        (
            any,
            "author, -score",
            ["ada", "bob", "cyd"].map(|one| expected(&[one])).concat(),
        ),
        (
            r#"author = "ada" AND score < 14"#,
            "",
            expected(&["ada"])[10..].to_vec(),
        ),
    ] {
        for view in VIEWS {
            let query = split.query_of(view, filter, sort);
            for size in [1, BUCKET_ROWS as u32, 7, 100] {
                let (forwards, backwards) = both_ways(&query, size).await;
                assert_eq!(forwards, expected, "{view}, {filter} {sort}: forwards by {size}");
                assert_eq!(
                    backwards, expected,
                    "{view}, {filter} {sort}: backwards by {size}"
                );
            }
        }
    }
    for view in VIEWS {
        let page = split.query_of(view, any, "-score").first(9).await.unwrap();
        let around = split.query_of(view, any, "-score").around(page.cursor(7));
        let around = around.first(8).await.unwrap();
        assert_eq!(ids(&around), all[3..11]);
        assert_eq!(
            (around.has_previous(), around.has_next()),
            (Some(true), Some(true))
        );
    }
}

pub(crate) async fn are_under_the_pages_budgets(recto: Recto) {
    let split = Split::new(&recto).await;
    for view in VIEWS {
        pages_are_under_their_budgets(&split, view).await;
    }
}

async fn pages_are_under_their_budgets(split: &Split, view: &str) {
    let even = split
        .query_of(view, r#"author = "ada" AND (id = 0 OR id = 34)"#, "")
        .allow_filter_scan();
    let mut found = Vec::new();
    let mut query = even.clone().scan_budget(7);
    for pages in 1.. {
        let page = query.await.unwrap();
        assert!(page.cost().rows_read <= 7);
        found.extend(ids(&page));
        let Some(next) = page.next_cursor() else {
            assert_eq!(pages, 6, "38 rows by 7");
            break;
        };
        assert_eq!(page.stop(), Some(Stop::Scanned));
        query = even.clone().scan_budget(7).page_token(next);
    }
    assert_eq!(found, [34, 0]);
    let page = split
        .query_of(view, r#"author = "ada""#, "")
        .byte_budget(1)
        .first(9)
        .await
        .unwrap();
    assert_eq!((page.items().len(), page.stop()), (1, Some(Stop::Bytes)));
}

/// Checks that a page of a table in shards can have fewer sources (row ranges): 128, divided by the
/// number of shards. The page sends a concurrent request to each shard of each source.
pub(crate) async fn of_shards_take_fewer_sources(recto: Recto) {
    let split = Split::new(&recto).await;
    let authors = |count: usize| {
        let authors: Vec<String> = (0..count)
            .map(|number| format!("author = \"{number}\""))
            .collect();
        format!("({})", authors.join(" OR "))
    };
    for (view, count) in [("split", 128), ("spread", 42)] {
        let page = split.query_of(view, &authors(count), "").first(3).await.unwrap();
        assert!(page.items().is_empty());
    }
    let refused = split
        .query_of("spread", &authors(43), "")
        .first(3)
        .await
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::LimitExceeded);
    assert!(
        refused
            .to_string()
            .contains("more than 42 sources of 3 shards each"),
        "{refused}"
    );
}

pub(crate) async fn are_no_sources_of_a_plan(recto: Recto) {
    let split = Split::new(&recto).await;
    let request = PageRequest {
        filter: r#"author = "ada""#.to_owned(),
        view: "split".to_owned(),
        page_size: Some(100),
        ..PageRequest::default()
    };
    let session = LocalSession::new(split.recto.clone());
    let explained = session.explain("posts", &request, false).await.unwrap();
    assert_eq!((explained.sources.len(), explained.expected_rows), (1, 101));
    assert_eq!(explained.sort_order.to_string(), "(author), -score, id");
    assert_eq!(explained.order_text(), "score desc, id asc");
    assert_eq!(explained.sources[0].partition, r#"author = "ada""#);
}

/// Checks a collection that consists of one partition: its records change while its bucket is
/// split.
pub(crate) async fn may_hold_a_whole_collection(recto: Recto) {
    const ROWS: i32 = 300;
    let recto = Split::new(&recto).await.recto;
    let log = recto.dynamic("log").unwrap();
    let definition = Arc::new(log.definition().clone());
    let line = |at: i32, text: &str| {
        let line = json!({ "at": at, "id": 0, "text": text });
        DynamicRecord::from_json(Arc::clone(&definition), line.as_object().unwrap()).unwrap()
    };
    for first in (0..ROWS).step_by(30) {
        let lines: Vec<_> = (first..first + 30).map(|at| line(at, "first")).collect();
        log.put_all(&lines).await.unwrap();
    }
    for at in (0..ROWS).step_by(10) {
        log.put(&line(at, "second")).await.unwrap();
        assert!(log.delete((at + 1, 0)).await.is_ok());
    }
    let kept: Vec<i32> = (0..ROWS).rev().filter(|at| at % 10 != 1).collect();
    let of = |page: &Page<DynamicRecord>| -> Vec<i32> {
        let at = |record: &DynamicRecord| match record.get("at") {
            Some(Value::Int(at)) => *at,
            other => panic!("{other:?}"),
        };
        page.items().iter().map(at).collect()
    };
    let (mut found, mut page) = (Vec::new(), log.query().first(7).await.unwrap());
    loop {
        found.extend(of(&page));
        let Some(next) = page.next_cursor() else { break };
        page = log.query().page_size(7).page_token(next).await.unwrap();
    }
    assert_eq!(found, kept);
    let read = |at: i32| log.get((at, 0));
    assert_eq!(read(20).await.unwrap(), Some(line(20, "second")));
    assert_eq!(read(22).await.unwrap(), Some(line(22, "first")));
    assert_eq!(read(21).await.unwrap(), None);
    let scanned: Vec<_> = log.scan().stream().try_collect().await.unwrap();
    assert_eq!(scanned.len(), kept.len());
    let verified = recto.verify(&VerifyRequest::default(), &|_| {}).await.unwrap();
    let entries = |view: &str| {
        verified
            .views
            .iter()
            .find(|one| one.view == view)
            .unwrap()
            .entries
    };
    assert_eq!((entries("split"), entries("whole")), (53, 53));
    let middle = log
        .query()
        .filter("at >= 100 AND at < 110")
        .order_by("at")
        .first(20);
    assert_eq!(
        of(&middle.await.unwrap()),
        [100, 102, 103, 104, 105, 106, 107, 108, 109]
    );
}

/// Checks the estimated number of rows. With few rows, the estimate must be exact on Cassandra too.
pub(crate) async fn say_how_many_rows_there_are(recto: Recto) {
    let split = Split::new(&recto).await;
    let estimate = async |query: PageQuery<DynamicRecord>| {
        let estimate = query
            .count(Count::Estimate)
            .first(5)
            .await
            .unwrap()
            .row_count()
            .unwrap();
        assert_eq!((estimate.total_size_error, estimate.offset_error), (0, Some(0)));
        (estimate.total_size, estimate.offset.unwrap())
    };
    let ada = split.query(r#"author = "ada""#, "");
    assert_eq!(estimate(ada.clone()).await, (38, 0));
    let second = ada.clone().first(5).await.unwrap().next_cursor().unwrap();
    assert_eq!(estimate(ada.clone().after(second)).await, (38, 5));
    assert_eq!(estimate(ada.clone().last(5)).await, (38, 33));
    assert_eq!(estimate(split.query(r#"author = "nobody""#, "")).await, (0, 0));
    let newest = split.query(r#"author = "ada" AND score >= 10"#, "score");
    assert_eq!(estimate(newest.clone().from([12])).await, (18, 4));
    let both = split.query(r#"author = "ada" OR author = "bob""#, "-score");
    let third = both.clone().first(7).await.unwrap().next_cursor().unwrap();
    assert_eq!(estimate(both.clone().after(third)).await, (51, 7));
    let middle = ada
        .clone()
        .around_percent(50.0)
        .count(Count::Estimate)
        .first(4)
        .await
        .unwrap();
    assert_eq!(ids(&middle), expected(&["ada"])[17..21]);
    assert_eq!(middle.row_count().unwrap().offset, Some(17));
    // Read pages over several partitions, in both directions. The row with the requested rank is in
    // the middle of its page.
    for (query, order) in [
        (both.clone(), "-score"),
        (both.clone().order_by("score"), "score"),
    ] {
        let all = ids(&query.clone().first(60).await.unwrap());
        for percent in [0_u32, 10, 37, 50, 99, 100] {
            let page = query
                .clone()
                .around_percent(percent.into())
                .count(Count::Estimate);
            let page = page.first(4).await.unwrap();
            let rank = usize::try_from(51 * percent / 100).unwrap();
            let first = rank.min(50).saturating_sub(2).min(47);
            assert_eq!(ids(&page), all[first..first + 4], "{percent} % by {order}");
            assert_eq!(page.row_count().unwrap().offset, Some(first as u64));
        }
    }
    for (query, what) in [
        (ada.clone().around_percent(120.0), "0% to 100%"),
        (ada.clone().around_percent(-1.0), "0% to 100%"),
        (ada.clone().around_percent(f64::NAN), "0% to 100%"),
        (
            split
                .query(r#"author = "ada" AND (id = 0 OR id = 34)"#, "")
                .allow_filter_scan()
                .count(Count::Estimate),
            "filter scan",
        ),
    ] {
        let refused = query.await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidQuery);
        assert!(refused.to_string().contains(what), "{refused}");
    }
    let plain = split.recto.dynamic("posts").unwrap().query();
    let counted = plain.filter("id = 1").count(Count::Estimate).await;
    match kind_of(&recto) {
        Kind::Embedded => assert_eq!(counted.unwrap().row_count().unwrap().total_size, 1),
        Kind::Cassandra => {
            let refused = counted.unwrap_err();
            assert!(refused.to_string().contains("has no buckets"), "{refused}");
        }
    }
}
