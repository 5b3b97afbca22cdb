//! Tests of pages that clients read while Recto splits large partitions into buckets.

use std::sync::Arc;
use std::time::Duration;

use recto::session::{
    BucketStatus, BucketsRequest, Explanation, PageRequest, Pages, RebalanceRequest, Session,
};
use recto::{Cursor, DynamicRecord, LocalSession, PageQuery, Recto, Stop, StoreAddress};
use serde_json::json;

use super::listing::{both_ways, ids};
use crate::common::stores::{kind_of, parse};
use crate::common::{Fresh, Kind};

const SCHEMA: &str = r#"
[collection.lines]
fields = { list = "text", at = "int", id = "int", text = "text" }
key = ["list", "at", "id"]
partition = ["list"]
order = ["-at"]
writes = "append"
bucket = BUCKET

[collection.lines.view.by_id]
partition = ["list"]
order = ["id"]
OF_VIEW
"#;

const OF_ROWS: &str = r#"
[collection.events]
fields = { at = "int", id = "int" }
key = ["at", "id"]
partition = []
order = ["-at"]
writes = "append"
bucket = { rows = 300 }
"#;

/// Partitions (lists) with their number of rows (lines). The first fills several buckets, the
/// second two or three, and the third one bucket.
const LINES: [(&str, i32); 3] = [("a", 240), ("b", 60), ("c", 5)];
const TEXT_BYTES: usize = 1_500;
/// Maximum number of attempts to complete all splits.
const MAX_REBALANCES: u32 = 600;

fn schema(kind: Kind, is_view_in_buckets: bool) -> recto::schema::Schema {
    let bucket = match kind {
        Kind::Embedded => "{ rows = 20 }",
        Kind::Cassandra => "{ target = \"64KiB\" }",
    };
    let of_view = format!("bucket = {bucket}");
    let of_view = if is_view_in_buckets { &of_view } else { "" };
    parse(&SCHEMA.replace("BUCKET", bucket).replace("OF_VIEW", of_view))
}

/// Returns the time of the line with an id. Each two lines have the same time, so that a bucket can
/// begin between lines of equal time.
fn at(id: i32) -> i32 {
    id / 2
}

async fn put(recto: &Recto, list: &str, ids: impl Iterator<Item = i32>) {
    let lines = recto.dynamic("lines").unwrap();
    let definition = lines.definition();
    let line = |id: i32| {
        let text = "x".repeat(TEXT_BYTES);
        let line = json!({ "list": list, "at": at(id), "id": id, "text": text });
        DynamicRecord::from_json(Arc::clone(&definition), line.as_object().unwrap()).unwrap()
    };
    let all: Vec<_> = ids.map(line).collect();
    for some in all.chunks(10) {
        lines.put_all(some).await.unwrap();
    }
}

/// Returns the ids of a list's lines, newest first.
fn expected(list: &str) -> Vec<i32> {
    let (_, count) = LINES.iter().find(|(name, _)| *name == list).unwrap();
    let mut ids: Vec<i32> = (0..*count).collect();
    ids.sort_by_key(|id| (-at(*id), *id));
    ids
}

fn lines(recto: &Recto, filter: &str) -> PageQuery<DynamicRecord> {
    recto.dynamic("lines").unwrap().query().filter(filter)
}

/// Splits buckets until no bucket exceeds its maximum size.
async fn rebalance(recto: &Recto) {
    rebalance_all(recto, "lines").await;
}

pub(super) async fn rebalance_all(recto: &Recto, collection: &str) {
    let session = LocalSession::new(recto.clone());
    for _ in 0..MAX_REBALANCES {
        let tools = session.tools().unwrap();
        let report = tools
            .rebalance_buckets(collection, &RebalanceRequest::default(), &|_| {})
            .await;
        if report.unwrap().too_large == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("some bucket stays too large");
}

/// Returns the buckets of the list `a`: the id of each bucket, and the number of lines before it.
async fn buckets(recto: &Recto) -> Vec<(u64, usize)> {
    let numbers = listed(recto).await.into_iter().map(|bucket| bucket.bucket);
    let edges = edges(recto).await;
    let before = edges.iter().map(|(before, _)| *before);
    numbers.zip(std::iter::once(0).chain(before)).collect()
}

async fn listed(recto: &Recto) -> Vec<BucketStatus> {
    let session = LocalSession::new(recto.clone());
    let request = BucketsRequest {
        filter: r#"list = "a""#.into(),
        page_size: Some(256),
        ..BucketsRequest::default()
    };
    let listed = session.tools().unwrap().buckets("lines", &request).await;
    listed.unwrap().buckets
}

/// Returns the start of each bucket of the list `a` except the first bucket: the number of lines
/// before the bucket, and its start as JSON.
async fn edges(recto: &Recto) -> Vec<(usize, serde_json::Value)> {
    let starts = listed(recto).await.into_iter().skip(1).map(|bucket| bucket.start);
    let edge = |start: Vec<serde_json::Value>| {
        let number = |place: usize| start.get(place).and_then(serde_json::Value::as_i64);
        let before = expected("a").into_iter().filter(|id| {
            let start = (-number(0).unwrap(), number(1).unwrap_or(i64::MIN));
            (i64::from(-at(*id)), i64::from(*id)) < start
        });
        (before.count(), json!(start))
    };
    starts.map(edge).collect()
}

/// Checks the lines on the pages after and before `cursor`, which is at the line with index `place`
/// in `all`.
async fn both_sides(query: &PageQuery<DynamicRecord>, cursor: &Cursor, place: usize, all: &[i32]) {
    let after = query.clone().after(cursor.clone()).first(25).await.unwrap();
    assert_eq!(
        ids(&after),
        all[place + 1..all.len().min(place + 26)],
        "after {place}"
    );
    let before = query.clone().before(cursor.clone()).last(25).await.unwrap();
    assert_eq!(
        ids(&before),
        all[place.saturating_sub(25)..place],
        "before {place}"
    );
    let around = query.clone().around(cursor.clone()).first(10).await.unwrap();
    assert!(ids(&around).contains(&all[place]), "around {place}");
    let first = all.iter().position(|id| *id == ids(&around)[0]).unwrap();
    assert_eq!(ids(&around), all[first..first + 10], "around {place}");
}

/// Returns all rows of a query, and the reasons why some of its pages ended early.
async fn all_of(query: PageQuery<DynamicRecord>) -> (Vec<i32>, Vec<Stop>) {
    let (mut found, mut stops) = (Vec::new(), Vec::new());
    let mut page = query.clone().await.unwrap();
    loop {
        found.extend(ids(&page));
        stops.extend(page.stop());
        let Some(next) = page.next_cursor() else {
            return (found, stops);
        };
        page = query.clone().page_token(next).await.unwrap();
    }
}

/// Checks that no bucket has more rows than its maximum. The test has more rows than the store
/// samples, so a store that does not count rows must count them before a split.
pub(crate) async fn none_has_more_rows_than_it_may(recto: Recto) {
    const ROWS: i32 = 2_000;
    const MOST: i32 = 300;
    let recto = Fresh::new(kind_of(&recto)).open().await;
    recto.apply(&parse(OF_ROWS)).await.unwrap();
    let events = recto.dynamic("events").unwrap();
    let definition = events.definition();
    let event = |number: i32| {
        let event = json!({ "at": number, "id": number });
        DynamicRecord::from_json(Arc::clone(&definition), event.as_object().unwrap()).unwrap()
    };
    let all: Vec<_> = (0..ROWS).map(|number| event(number * 77 % ROWS)).collect();
    for some in all.chunks(100) {
        events.put_all(some).await.unwrap();
    }
    rebalance_all(&recto, "events").await;
    let session = LocalSession::new(recto.clone());
    let request = BucketsRequest {
        page_size: Some(256),
        ..BucketsRequest::default()
    };
    let listed = session.tools().unwrap().buckets("events", &request).await;
    let buckets = listed.unwrap().buckets;
    let starts = buckets
        .iter()
        .skip(1)
        .map(|bucket| bucket.start[0].as_i64().unwrap());
    // The rows are ordered from the newest. The first bucket may begin before the newest row, so
    // limit its start.
    let (first, last) = (i64::from(ROWS) - 1, -1);
    let edges = std::iter::once(first)
        .chain(starts.map(|start| start.min(first)))
        .chain([last]);
    let edges: Vec<i64> = edges.collect();
    let rows: Vec<i64> = edges.windows(2).map(|edge| edge[0] - edge[1]).collect();
    assert!(
        rows.iter().all(|rows| (0..=i64::from(MOST)).contains(rows)),
        "{rows:?}"
    );
    assert!(rows.len() >= 7, "{rows:?}");
    let (forwards, backwards) = both_ways(&events.query(), 90).await;
    let expected: Vec<i32> = (0..ROWS).rev().collect();
    assert_eq!(forwards, expected);
    assert_eq!(backwards, expected);
}

pub(crate) async fn cursors_go_on_through_them(recto: Recto) {
    let kind = kind_of(&recto);
    let fresh = Fresh::new(kind);
    let recto = fresh.open().await;
    recto.apply(&schema(kind, false)).await.unwrap();
    for (list, count) in LINES {
        // Write the lines in mixed order, and leave half of list `a` for later.
        let ids = (0..count).map(|number| number * 77 % count);
        put(&recto, list, ids.filter(|id| list != "a" || id % 2 == 0)).await;
    }
    // On Cassandra, `other` is another process, which still uses an older cached range map (which
    // bucket has which rows).
    let other = match kind {
        Kind::Embedded => recto.clone(),
        Kind::Cassandra => fresh.open().await,
    };
    let before = lines(&other, r#"list = "a""#);
    let page = before.clone().first(100).await.unwrap();
    let cursors: Vec<(i32, Cursor)> = [0, 37, 61, 99]
        .map(|place| (ids(&page)[place], page.cursor(place)))
        .into();
    put(
        &recto,
        "a",
        (0..240).filter(|id| id % 2 == 1).map(|id| id * 77 % 240),
    )
    .await;
    let all = expected("a");
    for (id, cursor) in &cursors {
        let place = all.iter().position(|one| one == id).unwrap();
        both_sides(&before, cursor, place, &all).await;
    }
    rebalance(&recto).await;
    let edges = edges(&recto).await;
    assert!(edges.len() >= 4, "{edges:?}");
    for (id, cursor) in &cursors {
        let place = all.iter().position(|one| one == id).unwrap();
        for handle in [&other, &recto] {
            both_sides(&lines(handle, r#"list = "a""#), cursor, place, &all).await;
        }
    }
    at_the_ends_of_buckets(&recto, &edges, &all).await;
    under_budgets(&recto).await;
    by_fewer_than_a_majority(&fresh).await;
    if kind == Kind::Cassandra {
        assert_plan_reports_read_buckets(&recto).await;
    }
}

/// Checks that Recto rejects reads from fewer nodes than a majority, because such a read might not
/// see a split.
async fn by_fewer_than_a_majority(fresh: &Fresh) {
    let StoreAddress::Cassandra(mut address) = fresh.address.clone() else {
        return;
    };
    address.set("consistency", "one").unwrap();
    let recto = Recto::open(&StoreAddress::Cassandra(address)).await.unwrap();
    let refused = lines(&recto, r#"list = "a""#).first(5).await.unwrap_err();
    let text = format!("{refused}: {:?}", refused.hint());
    assert!(
        text.contains("a consistency below a majority") && text.contains("local_quorum"),
        "{text}"
    );
}

async fn explained(recto: &Recto, filter: &str, page_size: i64) -> Explanation {
    let session = LocalSession::new(recto.clone());
    let request = PageRequest {
        filter: filter.into(),
        order_by: "-at".into(),
        page_size: Some(page_size),
        ..PageRequest::default()
    };
    session.explain("lines", &request, true).await.unwrap()
}

/// Checks that a query plan reports the buckets that the page read. The page must find them in the
/// cached range map (which bucket has which rows), without reading the map.
async fn assert_plan_reports_read_buckets(recto: &Recto) {
    let buckets = buckets(recto).await;
    for page_size in [1, 100, 300] {
        let mut told = explained(recto, r#"list = "a""#, page_size).await;
        for _ in 0..MAX_REBALANCES {
            // On Cassandra, a cached range map is valid for only some seconds. If the query had to
            // read the map, explain the query again.
            if told.actual.unwrap().cost.directory_reads == 0 {
                break;
            }
            told = explained(recto, r#"list = "a""#, page_size).await;
        }
        let cost = told.actual.unwrap().cost;
        assert_eq!(cost.directory_reads, 0);
        let asked = &told.sources[0].buckets;
        assert_eq!(asked.len(), cost.buckets as usize);
        let numbers: Vec<u64> = buckets.iter().map(|(number, _)| *number).collect();
        assert_eq!(asked, &numbers[..asked.len()], "{page_size}");
        let is_reached = |(_, before): &&(u64, usize)| *before <= page_size.unsigned_abs() as usize;
        let needed = buckets.iter().filter(is_reached).count();
        assert!(asked.len() >= needed, "{asked:?} of {buckets:?}");
        let text = told.to_string();
        assert!(
            text.contains("(range map cached)") && text.contains("  read: bucket"),
            "{text}"
        );
    }
    let told = explained(recto, r#"list = "a" OR list = "b" OR list = "c""#, 20).await;
    let each = told.sources.iter().map(|source| source.buckets.len());
    assert!(each.clone().len() == 3 && each.clone().all(|count| count >= 1));
    assert_eq!(each.sum::<usize>(), told.actual.unwrap().cost.buckets as usize);
}

async fn at_the_ends_of_buckets(recto: &Recto, edges: &[(usize, serde_json::Value)], all: &[i32]) {
    let query = lines(recto, r#"list = "a""#);
    // A bucket that was split in advance may have no rows, so leave out edges without rows on one
    // side.
    let edges: Vec<_> = edges
        .iter()
        .filter(|(before, _)| (1..all.len()).contains(before))
        .collect();
    for (edge, start) in edges.iter().take(5) {
        let page = query.clone().first(*edge as u32).await.unwrap();
        assert_eq!(
            (ids(&page).as_slice(), page.has_next()),
            (&all[..*edge], Some(true))
        );
        let next = query.clone().page_size(7).page_token(page.next_cursor().unwrap());
        assert_eq!(ids(&next.await.unwrap()), all[*edge..(*edge + 7).min(all.len())]);
        let from = query.clone().from_json(start.to_string()).first(7).await.unwrap();
        let expected = &all[*edge..];
        assert!(expected.starts_with(&ids(&from)), "from {start}");
        both_sides(&query, &from.cursor(0), *edge, all).await;
    }
    let (last, _) = edges.last().unwrap();
    let rest = (all.len() - last) as u32;
    let page = query.clone().last(rest).await.unwrap();
    assert_eq!((page.has_next(), page.has_previous()), (Some(false), Some(true)));
    let whole = query.clone().first(all.len() as u32).await.unwrap();
    assert_eq!((whole.len(), whole.has_next()), (all.len(), Some(false)));
}

async fn under_budgets(recto: &Recto) {
    let any = r#"(list = "a" OR list = "b" OR list = "c")"#;
    let merged = lines(recto, any).order_by("-at");
    let key = |list: &str, id: i32| (-at(id), id, list.to_owned());
    let mut all: Vec<_> = LINES
        .iter()
        .flat_map(|(list, _)| expected(list).into_iter().map(move |id| key(list, id)))
        .collect();
    all.sort();
    let all: Vec<i32> = all.into_iter().map(|(_, id, _)| id).collect();
    let (found, stops) = all_of(merged.clone().page_size(70)).await;
    assert_eq!((found, stops.len()), (all.clone(), 0));
    let (found, stops) = all_of(merged.clone().page_size(100).byte_budget(20_000)).await;
    assert_eq!(found, all);
    assert!(stops.len() > 20 && stops.iter().all(|stop| *stop == Stop::Bytes));
    let some = |id: &i32| (20..23).contains(id) || *id == 239;
    let filter = "id >= 20 AND (id = 20 OR id = 21 OR id = 22 OR id = 239)";
    for list in [any, r#"list = "a""#] {
        let query = lines(recto, &format!("{list} AND {filter}"));
        let query = query.view("primary").order_by("-at");
        let query = query.allow_filter_scan().scan_budget(50);
        let (found, stops) = all_of(query).await;
        let of_list = if list == any { all.clone() } else { expected("a") };
        assert_eq!(found, of_list.into_iter().filter(some).collect::<Vec<_>>());
        assert!(stops.len() > 3 && stops.iter().all(|stop| *stop == Stop::Scanned));
    }
}

/// Checks that cursors stay valid when a view gets buckets, although the view is then stored in
/// another table with the same order.
pub(crate) async fn cursors_go_on_from_before_there_were_any(recto: Recto) {
    let kind = kind_of(&recto);
    let recto = Fresh::new(kind).open().await;
    recto.apply(&schema(kind, false)).await.unwrap();
    put(&recto, "a", (0..240).map(|number| number * 77 % 240)).await;
    let query = lines(&recto, r#"list = "a""#).order_by("id");
    let all: Vec<i32> = (0..240).collect();
    let page = query.clone().first(120).await.unwrap();
    let cursors: Vec<(usize, Cursor)> = [0, 60, 119].map(|place| (place, page.cursor(place))).into();
    for is_in_buckets in [true, false] {
        recto.apply(&schema(kind, is_in_buckets)).await.unwrap();
        for (place, cursor) in &cursors {
            both_sides(&query, cursor, *place, &all).await;
        }
        let next = query
            .clone()
            .page_size(500)
            .page_token(page.next_cursor().unwrap());
        assert_eq!(ids(&next.await.unwrap()), all[120..]);
    }
}
