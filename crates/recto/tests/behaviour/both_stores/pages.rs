//! Tests of the rows that a page shows, and of the number of rows that it reads.

use futures::{StreamExt, TryStreamExt};
use recto::{DynamicRecord, ErrorKind, MAX_PAGE_SIZE, Page, PageQuery, Recto};
use serde_json::json;

use crate::common::Subject;
use crate::common::subject::words;

/// Stores events at the times `0..count` in the partition `stream`, and returns the query for them.
pub(crate) async fn events(recto: &Recto, stream: &str, count: i32) -> (Subject, PageQuery<DynamicRecord>) {
    let mut subject = Subject::new(recto, "events");
    let row = |at: i32| {
        let kind = if at % 3 == 0 { "third" } else { "other" };
        json!({ "stream": stream, "at": at, "id": 0, "kind": kind, "note": format!("note {at}") })
    };
    subject.put((0..count).map(row)).await;
    let query = subject.text(&format!("stream = \"{stream}\""), "");
    (subject, query)
}

/// Returns the times of a page's events, for example `9 8 7`.
pub(crate) fn times(page: &Page<DynamicRecord>) -> String {
    words(page, &["at"]).replace(", ", " ")
}

pub(crate) async fn first_next_previous_last(recto: Recto) {
    let (_, query) = events(&recto, "first_next", 10).await;
    let first = query.clone().first(4).await.unwrap();
    assert_eq!(times(&first), "9 8 7 6");
    let second = query
        .clone()
        .first(4)
        .after(first.next_cursor().unwrap())
        .await
        .unwrap();
    assert_eq!(times(&second), "5 4 3 2");
    let third = query
        .clone()
        .page_size(4)
        .page_token(second.next_cursor().unwrap())
        .await
        .unwrap();
    assert_eq!(times(&third), "1 0");
    assert!(third.next_cursor().is_none());
    let back = query
        .clone()
        .page_size(4)
        .page_token(third.previous_cursor().unwrap())
        .await
        .unwrap();
    assert_eq!(times(&back), "5 4 3 2");
    let last = query.clone().last(4).await.unwrap();
    assert_eq!(times(&last), "3 2 1 0");
    // An empty page token, as in a URL, means the first page.
    assert_eq!(
        times(&query.page_size(4).page_token("").await.unwrap()),
        "9 8 7 6"
    );
}

pub(crate) async fn a_page_before_is_the_nearest_rows_in_the_querys_order(recto: Recto) {
    let (_, query) = events(&recto, "page_before", 10).await;
    let last = query.clone().last(2).await.unwrap();
    let before = query.clone().last(3).before(last.cursor(0)).await.unwrap();
    assert_eq!(times(&before), "4 3 2");
    // The order in which `before` and `last` are called must have no effect.
    let same = query.before(last.cursor(0)).last(3).await.unwrap();
    assert_eq!(times(&same), "4 3 2");
}

pub(crate) async fn any_row_gives_a_cursor(recto: Recto) {
    let (_, query) = events(&recto, "any_row", 6).await;
    let page = query.clone().first(5).await.unwrap();
    for index in 0..5 {
        let after = query.clone().first(1).after(page.cursor(index)).await.unwrap();
        assert_eq!(times(&after), (4 - index).to_string());
        let before = query.clone().last(100).before(page.cursor(index)).await.unwrap();
        assert_eq!(before.len(), index);
    }
}

pub(crate) async fn page_sizes_may_change(recto: Recto) {
    let (_, query) = events(&recto, "sizes", 30).await;
    let mut found = Vec::new();
    let mut next = query.clone().first(1);
    for size in (1..).map(|step| step * 2) {
        let page = next.await.unwrap();
        found.push(times(&page));
        let Some(cursor) = page.next_cursor() else { break };
        next = query.clone().first(size).after(cursor);
    }
    let expected: Vec<String> = (0..30).rev().map(|at| at.to_string()).collect();
    assert_eq!(found.join(" "), expected.join(" "));
}

pub(crate) async fn a_page_around_a_row(recto: Recto) {
    let (_, query) = events(&recto, "around", 10).await;
    let all = query.clone().await.unwrap();
    for (index, size, expected) in [
        (5, 4, "6 5 4 3"),
        (5, 5, "6 5 4 3 2"),
        (5, 1, "4"),
        (0, 4, "9 8 7 6"),
        (1, 4, "9 8 7 6"),
        (9, 4, "3 2 1 0"),
        (8, 6, "5 4 3 2 1 0"),
        (3, 100, "9 8 7 6 5 4 3 2 1 0"),
    ] {
        let page = query
            .clone()
            .page_size(size)
            .around(all.cursor(index))
            .await
            .unwrap();
        assert_eq!(times(&page), expected, "{size} around row {index}");
        let edge = |has: bool| Some(has);
        assert_eq!(
            page.has_previous(),
            edge(!expected.starts_with('9')),
            "{size} around row {index}"
        );
        assert_eq!(
            page.has_next(),
            edge(!expected.ends_with('0')),
            "{size} around row {index}"
        );
    }
}

pub(crate) async fn a_page_from_values(recto: Recto) {
    let (_, query) = events(&recto, "from", 10).await;
    let page = query.clone().first(3).from([4]).await.unwrap();
    assert_eq!(times(&page), "4 3 2", "inclusive");
    let page = query.clone().first(3).from_json("[4]").await.unwrap();
    assert_eq!(times(&page), "4 3 2");
    let page = query.clone().first(2).from_json("[4, 1]").await.unwrap();
    assert_eq!(
        times(&page),
        "3 2",
        "id 1 of time 4 is not there, what follows is"
    );
    let back = query
        .clone()
        .page_size(2)
        .page_token(page.previous_cursor().unwrap())
        .await
        .unwrap();
    assert_eq!(times(&back), "5 4");
    assert_eq!(
        times(&query.clone().first(1).from_json("[]").await.unwrap()),
        "9",
        "no value: the beginning"
    );
    assert!(query.clone().from([-1]).await.unwrap().is_empty());
    for (wrong, part) in [
        ("[1, 2, 3]", "at, id"),
        ("[\"x\"]", "value 1 (at)"),
        ("[null]", "null"),
        ("{}", "JSON array"),
        ("[", "JSON array"),
    ] {
        let error = query.clone().from_json(wrong).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidQuery);
        assert!(error.to_string().contains(part), "{wrong}: {error}");
        assert!(error.hint().is_some(), "{wrong}: {error}");
    }
}

pub(crate) async fn starts_exclude_one_another(recto: Recto) {
    let (_, query) = events(&recto, "exclusive", 3).await;
    let cursor = query.clone().await.unwrap().cursor(0);
    let pairs = [
        query.clone().after(cursor.clone()).before(cursor.clone()),
        query.clone().around(cursor.clone()).from([1]),
        query.clone().last(2).after(cursor.clone()),
        query.clone().from_json("[1]").page_token(cursor.clone()),
        query.clone().page_token(cursor.clone()).after(cursor),
    ];
    for pair in pairs {
        let error = pair.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidQuery);
        assert!(error.to_string().contains("exclude one another"), "{error}");
    }
}

pub(crate) async fn page_sizes_have_a_default_and_a_most(recto: Recto) {
    let (_, query) = events(&recto, "page_sizes", MAX_PAGE_SIZE as i32 + 5).await;
    assert_eq!(query.clone().await.unwrap().len(), 50);
    assert_eq!(query.clone().page_size(0).await.unwrap().len(), 50);
    let most = query.page_size(1_000_000).await.unwrap();
    assert_eq!(most.len(), MAX_PAGE_SIZE as usize);
    assert_eq!(most.has_next(), Some(true));
}

pub(crate) async fn a_partition_without_rows_is_an_empty_page(recto: Recto) {
    let subject = Subject::new(&recto, "events");
    let query = subject.text(r#"stream = "nobody writes here""#, "");
    for query in [query.clone(), query.clone().last(3), query.from([3]).both_edges()] {
        let page = query.await.unwrap();
        assert!(page.is_empty());
        assert_eq!((page.has_previous(), page.has_next()), (Some(false), Some(false)));
        assert!(page.next_cursor().is_none() && page.previous_cursor().is_none());
    }
}

pub(crate) async fn a_page_reads_its_own_rows_and_one_more_at_any_depth(recto: Recto) {
    let (_, query) = events(&recto, "cost", 600).await;
    let size = 10;
    let mut next = query.clone().first(size);
    for _ in 0..50 {
        let page = next.await.unwrap();
        assert!(page.cost().rows_read <= u64::from(size) + 1, "{:?}", page.cost());
        // Cassandra needs one statement for each run of columns with the same direction, here one
        // for `-at` and one for `id`.
        assert!(page.cost().round_trips <= 2, "{:?}", page.cost());
        next = query.clone().first(size).after(page.next_cursor().unwrap());
    }
    let deep = query.clone().last(size).await.unwrap();
    assert!(deep.cost().rows_read <= u64::from(size) + 1, "{:?}", deep.cost());
    // With `both_edges`, Recto also checks whether rows exist before the page. The check reads one
    // row, concurrently with the page.
    let both = query
        .first(size)
        .after(deep.cursor(0))
        .both_edges()
        .await
        .unwrap();
    assert!(both.cost().rows_read <= u64::from(size) + 2, "{:?}", both.cost());
    assert!(both.cost().round_trips <= 2, "{:?}", both.cost());
}

pub(crate) async fn a_stream_gives_every_row(recto: Recto) {
    let (_, query) = events(&recto, "stream", 57).await;
    let all: Vec<DynamicRecord> = query.clone().page_size(10).stream().try_collect().await.unwrap();
    assert_eq!(all.len(), 57);
    // A stream begins at the start of its query, and the caller may stop after any row.
    let page = query.clone().first(50).await.unwrap();
    let rest: Vec<_> = query
        .clone()
        .after(page.cursor(49))
        .stream()
        .try_collect()
        .await
        .unwrap();
    assert_eq!(rest.len(), 7);
    let taken: Vec<_> = query.page_size(10).stream().take(13).try_collect().await.unwrap();
    assert_eq!(taken.len(), 13);
}
