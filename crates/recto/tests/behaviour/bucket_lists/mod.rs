//! Tests of the requests that list the buckets of a partition, and split buckets that are too
//! large.

mod kept;

use std::time::Duration;

use recto::schema::Schema;
use recto::session::{BucketList, BucketsRequest, RebalanceRequest, Session};
use recto::{DynamicRecord, ErrorKind, LocalSession, OpenOptions, Recto};
use serde_json::{Value as Json, json};

const SCHEMA: &str = r#"
[collection.events]
fields = { stream = "text", at = "bigint", id = "int", text = "text", score = "int" }
key = ["stream", "at", "id"]
partition = ["stream"]
order = ["-at", "id"]
writes = "append"
bucket = { rows = 20 }

[collection.events.view.by_score]
partition = ["stream"]
order = ["score"]
nulls = "last"
bucket = { target = "64KiB" }

[collection.others]
fields = { id = "int" }
key = ["id"]
writes = "append"
"#;

async fn session(folder: &tempfile::TempDir) -> LocalSession {
    let recto = Recto::open_with(folder.path().join("store"), OpenOptions::new().create())
        .await
        .unwrap();
    recto.apply(&Schema::parse(SCHEMA).unwrap()).await.unwrap();
    let events = recto.dynamic("events").unwrap();
    let definition = events.definition();
    let event = |stream: &str, at: i64| {
        let score = (at % 3 > 0).then_some(at);
        let event = json!({ "stream": stream, "at": at.to_string(), "id": 7, "text": "x".repeat(100), "score": score });
        DynamicRecord::from_json(std::sync::Arc::clone(&definition), event.as_object().unwrap()).unwrap()
    };
    for first in (0..300).step_by(10) {
        let some: Vec<_> = (first..first + 10).map(|at| event("a", at)).collect();
        events.put_all(&some).await.unwrap();
    }
    events.put_all(&[event("b", 1), event("c", 1)]).await.unwrap();
    let session = LocalSession::new(recto);
    // Wait until the background task has split all buckets that are too large.
    for _ in 0..200 {
        let report = session
            .tools()
            .unwrap()
            .rebalance_buckets("events", &RebalanceRequest::default(), &|_| {})
            .await
            .unwrap();
        if report.too_large == 0 {
            return session;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("some bucket stays too large");
}

fn of(filter: &str) -> BucketsRequest {
    BucketsRequest {
        filter: filter.to_owned(),
        ..BucketsRequest::default()
    }
}

async fn listed(session: &LocalSession, request: &BucketsRequest) -> BucketList {
    session.tools().unwrap().buckets("events", request).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_are_listed_page_by_page() {
    let folder = tempfile::tempdir().unwrap();
    let session = session(&folder).await;
    let (mut seen, mut request) = (Vec::new(), BucketsRequest::default());
    request.page_size = Some(2);
    loop {
        let listed = session
            .tools()
            .unwrap()
            .bucket_partitions("events", &request)
            .await
            .unwrap();
        assert_eq!((listed.view.as_str(), listed.target.rows), ("primary", Some(20)));
        seen.extend(listed.partitions);
        if listed.next_page_token.is_empty() {
            break;
        }
        request.page_token = listed.next_page_token;
    }
    let names: Vec<_> = seen.iter().map(|one| one.partition["stream"].clone()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!((seen[0].figures.rows, seen[0].figures.rows_error), (300, 0));
    assert!(seen[0].buckets >= 15 && seen[0].largest.rows <= 20 && !seen[0].at_least);
    assert_eq!((seen[1].buckets, seen[1].figures.rows), (1, 1));
    let json = json!(seen[0]);
    assert_eq!(
        (json["rows"].clone(), json["largest"]["rows_error"].clone()),
        (json!(300), json!(0))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_buckets_of_a_partition_are_listed_in_its_order() {
    let folder = tempfile::tempdir().unwrap();
    let session = session(&folder).await;
    let all = listed(
        &session,
        &BucketsRequest {
            page_size: Some(256),
            ..of(r#"stream = "a" AND at > 5"#)
        },
    )
    .await;
    assert_eq!(all.order, ["-at", "id"]);
    assert_eq!(all.partition["stream"], "a");
    assert!(all.exact && all.next_page_token.is_empty() && all.previous_page_token.is_empty());
    assert_eq!(all.buckets.iter().map(|one| one.figures.rows).sum::<u64>(), 300);
    assert!(
        all.buckets
            .iter()
            .all(|one| !one.too_large && one.step == "at_rest")
    );
    assert!(all.buckets[0].start.is_empty() && all.buckets.last().unwrap().end.is_none());
    for pair in all.buckets.windows(2) {
        assert_eq!(pair[0].end.as_ref(), Some(&pair[1].start));
        let at: i64 = pair[1].start[0].as_str().unwrap().parse().unwrap();
        assert!((0..300).contains(&at) && pair[1].start.get(1) == Some(&json!(7)));
    }
    let read: BucketList = serde_json::from_value(json!(all)).unwrap();
    assert_eq!(read, all);
    // List the buckets page by page, in both directions.
    let (mut seen, mut request) = (Vec::new(), of(r#"stream = "a""#));
    request.page_size = Some(4);
    let last = loop {
        let part = listed(&session, &request).await;
        seen.extend(part.buckets.clone());
        if part.next_page_token.is_empty() {
            break part;
        }
        request.page_token = part.next_page_token;
    };
    assert_eq!(seen, all.buckets);
    request.page_token = last.previous_page_token;
    let before = listed(&session, &request).await;
    assert_eq!(
        before.buckets.last().unwrap().end.as_ref(),
        Some(&last.buckets[0].start)
    );
    // List the buckets around the bucket of a given key.
    request.page_token.clear();
    request.at = Some(r#"[["150", 7], ["150"], ["299", 7], ["0", 7]]"#.to_owned());
    let around = listed(&session, &request).await;
    let at = around.places[0].unwrap();
    assert_eq!(
        (around.buckets.len(), around.places[2], around.places[3]),
        (4, None, None)
    );
    let whole = listed(
        &session,
        &BucketsRequest {
            page_size: Some(256),
            ..request.clone()
        },
    )
    .await;
    assert_eq!(whole.buckets[whole.places[0].unwrap()], around.buckets[at]);
    assert_eq!(whole.places[3], Some(whole.buckets.len() - 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edges_at_nulls_are_told_and_found() {
    let folder = tempfile::tempdir().unwrap();
    let session = session(&folder).await;
    let request = BucketsRequest {
        view: "by_score".to_owned(),
        at: Some("[[null], [5]]".to_owned()),
        ..of(r#"stream = "a""#)
    };
    let listed = listed(&session, &request).await;
    assert_eq!(
        listed.order,
        ["score", "at", "id"].map(str::to_owned).to_vec(),
        "{:?}",
        listed.order
    );
    assert_eq!(listed.target.bytes, Some(65_536));
    assert_eq!(listed.places[1], Some(0));
    assert!(listed.places[0].is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rejects_invalid_requests() {
    let folder = tempfile::tempdir().unwrap();
    let session = session(&folder).await;
    let tools = session.tools().unwrap();
    let missing_partition_fields = tools.buckets("events", &of("")).await.unwrap_err();
    assert_eq!(
        (
            missing_partition_fields.kind(),
            missing_partition_fields.missing_partition_fields()
        ),
        (ErrorKind::InvalidQuery, &["stream".to_owned()][..])
    );
    for filter in [
        r#"stream = "a" OR stream = "b""#,
        r#"stream > "a""#,
        "at = 1",
        "nothing = 1",
        "!",
    ] {
        let refused = tools.buckets("events", &of(filter)).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidQuery, "{filter}: {refused}");
    }
    let a = || of(r#"stream = "a""#);
    for at in [
        "",
        "[1]",
        "[[\"x\"]]",
        "[[\"1\", 2, 3]]",
        &json!(vec![["1"]; 17]).to_string(),
    ] {
        let request = BucketsRequest {
            at: Some(at.to_owned()),
            ..a()
        };
        assert_eq!(
            tools.buckets("events", &request).await.unwrap_err().kind(),
            ErrorKind::InvalidQuery,
            "{at}"
        );
    }
    let request = BucketsRequest {
        page_token: "AXAA".to_owned(),
        ..a()
    };
    assert_eq!(
        tools.buckets("events", &request).await.unwrap_err().kind(),
        ErrorKind::InvalidCursor
    );
    let request = BucketsRequest {
        page_size: Some(-1),
        ..a()
    };
    assert_eq!(
        tools.buckets("events", &request).await.unwrap_err().kind(),
        ErrorKind::InvalidQuery
    );
    let others = tools
        .bucket_partitions("others", &BucketsRequest::default())
        .await
        .unwrap_err();
    assert!(others.to_string().contains("has no buckets"), "{others}");
    let request = BucketsRequest {
        view: "by_name".to_owned(),
        ..a()
    };
    assert!(
        tools
            .buckets("events", &request)
            .await
            .unwrap_err()
            .to_string()
            .contains("no readable view")
    );
    assert_eq!(
        tools.buckets("nothing", &a()).await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
    let restricted = session.restricted([("events".to_owned(), r#"stream = "a""#.to_owned())].into());
    assert_eq!(restricted.tools().err().unwrap().kind(), ErrorKind::Forbidden);
    let _: Option<Json> = None;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reports_what_was_rebalanced() {
    let folder = tempfile::tempdir().unwrap();
    let session = session(&folder).await;
    let tools = session.tools().unwrap();
    let told = std::sync::Mutex::new(Vec::new());
    let all = tools
        .rebalance_buckets("events", &RebalanceRequest::default(), &|at| {
            told.lock().unwrap().push(at);
        })
        .await
        .unwrap();
    assert_eq!(
        (all.partitions, all.created, all.too_large, all.to_clear),
        (3, 0, 0, 0)
    );
    assert_eq!(told.into_inner().unwrap().len(), 3);
    let request = RebalanceRequest {
        filter: r#"stream = "a""#.to_owned(),
        ..RebalanceRequest::default()
    };
    let one = tools
        .rebalance_buckets("events", &request, &|_| {})
        .await
        .unwrap();
    assert_eq!((one.partitions, one.buckets + 2), (1, all.buckets));
    assert!(session.bucket_metrics().is_none(), "nothing is split here");
}
