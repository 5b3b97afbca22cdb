//! Tests of pages that Recto reads from views.

use std::sync::Arc;

use futures::TryStreamExt;
use recto::session::{Explanation, PageReply, PageRequest, Pages};
use recto::{DynamicRecord, ErrorKind, LocalSession, Record, Recto};
use serde_json::{Value as Json, json};

use crate::common::stores::kind_of;
use crate::common::{Fresh, Kind};

const SCHEMA: &str = r#"
[collection.posts]
fields = { id = "int", author = "text", topic = "text", score = "int", body = "text" }
key = ["id"]
writes = "append"

# views
[collection.posts.view.scored]
partition = ["author"]
order = ["-score"]
nulls = "skip"

[collection.posts.view.narrow]
partition = ["author"]
order = ["-score"]
nulls = "skip"
fields = ["topic"]

[collection.posts.view.all]
partition = ["author"]
order = ["-score"]

[collection.posts.view.by_topic]
partition = ["author", "topic"]
order = ["-score"]
nulls = "last"
"#;

/// Ids of the posts of one author in the order of `-score`. Posts without a score come last.
const BY_SCORE: [i64; 6] = [5, 4, 2, 1, 0, 3];

#[derive(Debug, Record)]
#[record(collection = "posts", key = ["id"], writes = "append")]
struct Post {
    id: i32,
    author: Option<String>,
    score: Option<i32>,
}

/// Returns a store with six posts of one author, of which two have no score, and one post of
/// another author.
async fn posts(recto: &Recto) -> Recto {
    let recto = Fresh::new(kind_of(recto)).open().await;
    recto.apply(&crate::common::stores::parse(SCHEMA)).await.unwrap();
    let posts = recto.dynamic("posts").unwrap();
    let definition = posts.definition();
    let post = |id: i64| {
        let mut post = json!({ "id": id, "author": "ada", "topic": (if id % 2 == 0 { "x" } else { "y" }), "body": "text" });
        if id % 3 != 0 {
            post["score"] = (id * 10).into();
        }
        if id == 6 {
            post["author"] = "bob".into();
        }
        DynamicRecord::from_json(Arc::clone(&definition), post.as_object().unwrap()).unwrap()
    };
    let records: Vec<DynamicRecord> = (0..7).map(post).collect();
    posts.put_all(&records).await.unwrap();
    recto
}

fn request(filter: &str, order_by: &str, view: &str) -> PageRequest {
    PageRequest {
        filter: filter.to_owned(),
        order_by: order_by.to_owned(),
        view: view.to_owned(),
        page_size: Some(2),
        ..PageRequest::default()
    }
}

fn ids(page: &PageReply) -> Vec<i64> {
    page.records
        .iter()
        .map(|record| record["id"].as_i64().unwrap())
        .collect()
}

/// Returns the table that Recto chooses for a query, and the explanation of the plan, which has the
/// reasons against the other views.
async fn taken(session: &LocalSession, request: &PageRequest) -> (String, Explanation) {
    let explained = session.explain("posts", request, false).await.unwrap();
    (explained.table.clone(), explained)
}

pub(crate) async fn the_view_is_taken_that_reads_least(recto: Recto) {
    let session = LocalSession::new(posts(&recto).await);
    let scored = r#"author = "ada" AND score >= 0"#;
    let with_topic = format!(r#"{scored} AND topic = "x""#);
    let allowing = |filter: &str, sort: &str, view: &str| PageRequest {
        allow_filter_scan: true,
        ..request(filter, sort, view)
    };
    for (request, table, others) in [
        // If several views have the same cost, Recto must use the first one. A view that lacks
        // fields or records cannot serve the query.
        (
            request(scored, "-score", ""),
            "posts_scored_1",
            "an earlier view is used",
        ),
        (
            request(r#"author = "ada""#, "-score", ""),
            "posts_all_3",
            "records without score",
        ),
        // A view that needs no filter scan must be preferred to an earlier view that needs one.
        (
            allowing(&with_topic, "-score", ""),
            "posts_by_topic_4",
            "checks conditions row by row",
        ),
        // Without a sort, the first view that can serve the query must determine the order,
        // whatever its cost.
        (
            allowing(&with_topic, "", ""),
            "posts_scored_1",
            "an earlier view is used",
        ),
        // A merge of partitions must be preferred to a filter scan.
        (
            allowing(r#"author = "ada" AND (topic = "x" OR topic = "y")"#, "-score", ""),
            "posts_by_topic_4",
            "checks conditions row by row",
        ),
        (
            request("id = 4", "", ""),
            "posts",
            "needs `author = …` in the filter",
        ),
        // If the query names a view, Recto must use that view.
        (
            request(r#"author = "ada""#, "-score", "scored"),
            "posts_scored_1",
            "",
        ),
        (allowing(&with_topic, "", "all"), "posts_all_3", ""),
    ] {
        let (found, explained) = taken(&session, &request).await;
        assert_eq!(found, table, "{request:?}");
        let mut reasons = explained.rejected.iter().map(|one| &one.reason);
        assert_eq!(
            explained.rejected.is_empty(),
            others.is_empty(),
            "{:?}",
            explained.rejected
        );
        assert!(
            others.is_empty() || reasons.any(|one| one.contains(others)),
            "{:?}",
            explained.rejected
        );
        let order = explained.order_text();
        assert!(!order.contains("recto_"), "{order}");
    }
    let error = session.page("posts", &request("", "", "nine")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidQuery);
    assert_eq!(
        error.hint(),
        Some("its views are primary, scored, narrow, all, by_topic")
    );
}

pub(crate) async fn records_come_whole_from_every_view(recto: Recto) {
    let recto = posts(&recto).await;
    let session = LocalSession::new(recto.clone());
    // Records without a score must come last, even if the list is read from its end.
    let asked = request(r#"author = "ada""#, "-score", "");
    for back in [false, true] {
        let (mut found, mut token) = (Vec::new(), String::new());
        loop {
            let last = back && token.is_empty();
            let request = PageRequest {
                page_token: token,
                last,
                ..asked.clone()
            };
            let page = session.page("posts", &request).await.unwrap();
            let text = session.page_text("posts", &request).await.unwrap().records;
            let records = Json::from(page.records.iter().cloned().map(Json::from).collect::<Vec<_>>());
            assert_eq!(serde_json::from_str::<Json>(&text).unwrap(), records);
            for record in &page.records {
                let id = record["id"].as_i64().unwrap();
                assert_eq!(
                    record.get("score"),
                    (id % 3 != 0).then(|| json!(id * 10)).as_ref()
                );
                assert_eq!(record["body"], "text");
            }
            let place = if back { 0 } else { found.len() };
            found.splice(place..place, ids(&page));
            token = if back {
                page.previous_page_token
            } else {
                page.next_page_token
            };
            if token.is_empty() {
                break;
            }
        }
        assert_eq!(found, BY_SCORE);
    }
    // A condition is never true for null. A filter scan must follow this rule too.
    let filter_scan = PageRequest {
        allow_filter_scan: true,
        ..request(r#"author = "ada" AND (score, id) < (1000, 9)"#, "", "all")
    };
    assert_eq!(
        ids(&session
            .page(
                "posts",
                &PageRequest {
                    page_size: None,
                    ..filter_scan
                }
            )
            .await
            .unwrap()),
        BY_SCORE[..4]
    );
    let from = PageRequest {
        from: Some("[20]".into()),
        ..asked.clone()
    };
    assert_eq!(ids(&session.page("posts", &from).await.unwrap()), [2, 1]);
    // Read the same records as a Rust type with fewer fields.
    let typed = recto.collection::<Post>().unwrap();
    for (view, expected) in [
        ("all", &BY_SCORE[..]),
        ("scored", &BY_SCORE[..4]),
        ("narrow", &BY_SCORE[..4]),
    ] {
        let page = typed
            .query()
            .filter(r#"author = "ada""#)
            .view(view)
            .await
            .unwrap();
        for (post, id) in page.iter().zip(expected) {
            let score = (id % 3 != 0).then_some(*id as i32 * 10);
            assert_eq!(
                (post.id, post.author.as_deref(), post.score),
                (*id as i32, Some("ada"), score)
            );
        }
        assert_eq!(page.len(), expected.len(), "{view}");
    }
    // A view that lacks some fields can serve a query that does not request these fields.
    let narrow = request(r#"author = "ada""#, "", "narrow");
    let looking = PageRequest {
        fields: vec!["id".into(), "topic".into()],
        ..narrow
    };
    let page = session.page("posts", &looking).await.unwrap();
    assert_eq!(
        Json::from(page.records[0].clone()),
        json!({ "id": 5, "topic": "y" })
    );
}

/// Checks that Recto reads fields that a view lacks from the base table. It does so for the rows of
/// the page, and for the following row.
pub(crate) async fn fields_are_looked_up(recto: Recto) {
    let recto = posts(&recto).await;
    let session = LocalSession::new(recto.clone());
    let narrow = request(r#"author = "ada""#, "", "narrow");
    let (_, explained) = taken(&session, &narrow).await;
    let base_rows = explained.base_rows.as_ref().unwrap();
    assert_eq!(
        (base_rows.verified, &base_rows.looked_up[..]),
        (false, &["body".to_owned()][..])
    );
    assert_eq!(explained.expected_rows, 6);
    assert!(
        explained
            .to_string()
            .contains("base rows: body looked up in the base table: 1 read more for each row")
    );
    let (_, explained) = taken(
        &session,
        &request(r#"author = "ada" AND score > 0"#, "-score", ""),
    )
    .await;
    let reasons = explained.rejected.iter().map(|one| one.reason.as_str());
    let reason = "it can serve the query, but reads body from the base table row by row";
    assert!(
        reasons.clone().any(|one| one == reason),
        "{:?}",
        explained.rejected
    );
    assert_eq!(explained.base_rows, None);
    for back in [false, true] {
        let (mut found, mut token) = (Vec::new(), String::new());
        for is_beyond_a_row in [false, true] {
            let asked = PageRequest {
                last: back && token.is_empty(),
                page_token: token,
                ..narrow.clone()
            };
            let page = session.page("posts", &asked).await.unwrap();
            assert!(
                page.records.iter().all(|record| record["body"] == "text"),
                "{page:?}"
            );
            let most = joined_round_trips(kind_of(&recto), is_beyond_a_row);
            assert!(
                page.cost.rows_read <= 6 && page.cost.round_trips <= most,
                "{:?}",
                page.cost
            );
            let place = if back { 0 } else { found.len() };
            found.splice(place..place, ids(&page));
            token = if back {
                page.previous_page_token
            } else {
                page.next_page_token
            };
        }
        assert_eq!((found, token.as_str()), (BY_SCORE[..4].to_vec(), ""));
    }
    // A filter scan must check conditions on fields that the view lacks. No record matches, so the
    // page must be empty and the last one.
    let checked = PageRequest {
        allow_filter_scan: true,
        ..request(r#"author = "ada" AND body = "other""#, "", "narrow")
    };
    let page = session.page("posts", &checked).await.unwrap();
    assert_eq!((ids(&page), page.next_page_token.as_str()), (vec![], ""));
    let error = session
        .page(
            "posts",
            &PageRequest {
                allow_filter_scan: false,
                ..checked
            },
        )
        .await
        .unwrap_err();
    assert!(
        error.message().contains("does not serve the condition on body"),
        "{error}"
    );
    recto.dynamic("posts").unwrap().delete(4).await.unwrap();
    let page = session.page("posts", &narrow).await.unwrap();
    assert_eq!(ids(&page), [5, 2]);
}

/// Returns the maximum number of round trips of a page that reads view rows and then their base
/// rows. A page that begins after a row needs one more round trip if the order has both directions,
/// because its range then consists of two.
fn joined_round_trips(kind: Kind, is_beyond_a_row: bool) -> u32 {
    match kind {
        Kind::Embedded => 0,
        Kind::Cassandra => 2 + u32::from(is_beyond_a_row),
    }
}

/// Checks that a cursor belongs to an order, not to a table: it must continue in every view with
/// the same order.
pub(crate) async fn a_cursor_goes_on_in_any_view_of_its_order(recto: Recto) {
    let recto = posts(&recto).await;
    let session = LocalSession::new(recto.clone());
    let asked = |view: &str| PageRequest {
        fields: vec!["id".into(), "topic".into()],
        ..request(r#"author = "ada" AND score > 0"#, "-score", view)
    };
    let views = ["scored", "narrow", "all", ""];
    for made in views {
        let first = session.page("posts", &asked(made)).await.unwrap();
        assert_eq!(ids(&first), [5, 4]);
        for view in views {
            let next = PageRequest {
                page_token: first.next_page_token.clone(),
                ..asked(view)
            };
            let next = session.page("posts", &next).await.unwrap();
            assert_eq!(ids(&next), [2, 1], "{made} {view}");
            let back = PageRequest {
                page_token: next.previous_page_token,
                ..asked(made)
            };
            assert_eq!(
                ids(&session.page("posts", &back).await.unwrap()),
                [5, 4],
                "{made} {view}"
            );
        }
    }
    // The position of nulls is part of the order, unless a condition excludes nulls. The cursor
    // therefore belongs to another order.
    let of_all = session
        .page("posts", &request(r#"author = "ada""#, "", "all"))
        .await
        .unwrap();
    let other = PageRequest {
        page_token: of_all.next_page_token.clone(),
        ..request(r#"author = "ada""#, "", "scored")
    };
    let error = session.page("posts", &other).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidCursor);
    assert!(error.message().contains("another view"), "{error}");
    // Between two pages, a view can be removed without any effect on clients, if another view has
    // the same order.
    let first = session.page("posts", &asked("")).await.unwrap();
    let (start, end) = (
        SCHEMA.find("[collection.posts.view.scored]"),
        SCHEMA.find("[collection.posts.view.all]"),
    );
    let fewer = format!("{}{}", &SCHEMA[..start.unwrap()], &SCHEMA[end.unwrap()..]);
    recto.assume(crate::common::stores::parse(&fewer));
    let (table, _) = taken(&session, &asked("")).await;
    assert_eq!(table, "posts_all_3");
    let next = PageRequest {
        page_token: first.next_page_token,
        ..asked("")
    };
    assert_eq!(ids(&session.page("posts", &next).await.unwrap()), [2, 1]);
}

/// Checks that existing handles and queries use views that are added, and stop using views that are
/// removed.
pub(crate) async fn handles_from_before_read_a_view_that_is_added(recto: Recto) {
    let recto = posts(&recto).await;
    let parse = |text: &str| crate::common::stores::parse(text);
    let (plain, _) = SCHEMA.split_once("# views").unwrap();
    let all = &SCHEMA[SCHEMA.find("[collection.posts.view.all]").unwrap()..];
    recto.assume(parse(plain));
    let typed = recto.collection::<Post>().unwrap();
    let kept = typed
        .query()
        .filter(r#"author = "ada" AND score > 0"#)
        .order_by("-score")
        .page_size(2);
    assert_eq!(kept.clone().await.unwrap_err().kind(), ErrorKind::NoPlan);
    recto.assume(parse(SCHEMA));
    let first = kept.clone().await.unwrap();
    assert_eq!(first.iter().map(|post| post.id).collect::<Vec<_>>(), [5, 4]);
    // A stream that began in one view must continue in another view with the same order.
    let mut stream = std::pin::pin!(kept.clone().stream());
    let mut found = vec![stream.try_next().await.unwrap().unwrap().id];
    found.push(stream.try_next().await.unwrap().unwrap().id);
    recto.assume(parse(&format!("{plain}{all}")));
    found.extend(
        stream
            .map_ok(|post| post.id)
            .try_collect::<Vec<_>>()
            .await
            .unwrap(),
    );
    assert_eq!(found, [5, 4, 2, 1]);
    let next = kept.clone().after(first.next_cursor().unwrap()).await.unwrap();
    assert_eq!(next.iter().map(|post| post.id).collect::<Vec<_>>(), [2, 1]);
    // If no view remains that serves the query, the stream must fail.
    let mut stream = std::pin::pin!(kept.stream());
    stream.try_next().await.unwrap();
    stream.try_next().await.unwrap();
    recto.assume(parse(plain));
    let error = stream.try_next().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoPlan);
}
