//! Tests that a budget (of time, bytes or scanned rows) ends a page early, that the page reports
//! it, and that no row is lost.

use std::time::Duration;

use recto::{DynamicRecord, ErrorKind, PageQuery, Recto, Stop};
use serde_json::json;

use super::pages::{events, times};
use crate::common::Subject;

/// Reads all pages of a query, forwards or backwards. Returns the rows, and for each page the
/// reason why it ended early.
async fn traverse(query: &PageQuery<DynamicRecord>, forwards: bool) -> (Vec<String>, Vec<Option<Stop>>) {
    let (mut found, mut stops) = (Vec::new(), Vec::new());
    let mut next = if forwards {
        query.clone()
    } else {
        query.clone().last(3)
    };
    loop {
        let page = next.await.unwrap();
        let page_times = times(&page);
        if !page_times.is_empty() {
            found.push(page_times);
        }
        stops.push(page.stop());
        assert!(stops.len() < 500, "the traversal stands still");
        let token = if forwards {
            page.next_cursor()
        } else {
            page.previous_cursor()
        };
        let Some(token) = token else { break };
        next = query.clone().page_token(token);
    }
    if !forwards {
        found.reverse();
    }
    (found, stops)
}

pub(crate) async fn of_rows_looked_at(recto: Recto) {
    let (subject, _) = events(&recto, "budget_scanned", 40).await;
    let thirds: Vec<String> = (0..40)
        .rev()
        .filter(|at| at % 3 == 0)
        .map(|at| at.to_string())
        .collect();
    let filter = r#"stream = "budget_scanned" AND kind = "third""#;
    let query = subject
        .text(filter, "")
        .allow_filter_scan()
        .page_size(3)
        .scan_budget(4);

    let first = query.clone().await.unwrap();
    assert_eq!(times(&first), "39 36", "the rows 39, 38, 37, 36 were looked at");
    assert_eq!(
        (first.stop(), first.has_previous(), first.has_next()),
        (Some(Stop::Scanned), Some(false), None)
    );
    for forwards in [true, false] {
        let (found, stops) = traverse(&query, forwards).await;
        assert_eq!(found.join(" "), thirds.join(" "));
        assert!(stops.contains(&Some(Stop::Scanned)));
    }
    // A page may be empty although rows follow, if the scan budget ends it.
    let filter = r#"stream = "budget_scanned" AND note = "note 0""#;
    let query = subject
        .text(filter, "")
        .allow_filter_scan()
        .page_size(3)
        .scan_budget(4);
    let empty = query.clone().await.unwrap();
    assert_eq!(
        (empty.len(), empty.has_next(), empty.stop()),
        (0, None, Some(Stop::Scanned))
    );
    assert_eq!(traverse(&query, true).await.0, ["0"]);
    assert_eq!(traverse(&query, false).await.0, ["0"]);
    // If the view serves the whole filter, every row that the page reads matches. The budget for
    // rejected rows must then not end it.
    let served = subject
        .text(r#"stream = "budget_scanned""#, "")
        .page_size(3)
        .scan_budget(1);
    let page = served.await.unwrap();
    assert_eq!((page.len(), page.stop()), (3, None));
}

pub(crate) async fn of_bytes(recto: Recto) {
    let mut subject = Subject::new(&recto, "events");
    let row = |at: i32| json!({ "stream": "budget_bytes", "at": at, "id": 0, "note": "x".repeat(10_000) });
    subject.put((0..12).map(row)).await;
    let expected: Vec<String> = (0..12).rev().map(|at| at.to_string()).collect();
    for budget in [1, 25_000, 45_000] {
        let query = subject
            .text(r#"stream = "budget_bytes""#, "")
            .page_size(10)
            .byte_budget(budget);
        let first = query.clone().await.unwrap();
        assert_eq!(first.stop(), Some(Stop::Bytes), "{budget}");
        assert!(
            !first.is_empty() && first.len() < 10,
            "{budget}: {} rows",
            first.len()
        );
        for forwards in [true, false] {
            let (found, stops) = traverse(&query, forwards).await;
            assert_eq!(found.join(" "), expected.join(" "), "{budget}");
            assert!(stops.contains(&Some(Stop::Bytes)));
        }
        // A merge of several partitions must also stop at the byte budget.
        let merged = subject
            .text(
                r#"stream = "budget_bytes" OR stream = "budget_bytes_none""#,
                "at desc",
            )
            .page_size(10)
            .byte_budget(budget);
        assert_eq!(
            traverse(&merged, true).await.0.join(" "),
            expected.join(" "),
            "{budget}"
        );
    }
}

pub(crate) async fn of_time_that_is_over_before_it_began(recto: Recto) {
    let (_, query) = events(&recto, "budget_time", 3).await;
    let error = query.timeout(Duration::ZERO).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(error.hint().is_some());
}

pub(crate) async fn of_rows_read_ahead_of_merged_partitions(recto: Recto) {
    const BUDGET: u32 = 200;
    let mut subject = Subject::new(&recto, "events");
    let streams: Vec<String> = (0..6).map(|number| format!("ahead {number}")).collect();
    for (number, stream) in streams.iter().enumerate() {
        let row = |at: i32| {
            let kind = if at % 40 == 0 { "rare" } else { "often" };
            json!({ "stream": stream, "at": at * 6 + number as i32, "id": at, "kind": kind })
        };
        subject.put((0..120).map(row)).await;
    }
    let any: Vec<String> = streams
        .iter()
        .map(|stream| format!("stream = {stream:?}"))
        .collect();
    let query = subject
        .text(&format!(r#"({}) AND kind = "rare""#, any.join(" OR ")), "at desc")
        .allow_filter_scan()
        .page_size(100)
        .scan_budget(BUDGET.into());
    let mut next = query.clone();
    let (mut found, mut pages) = (Vec::new(), 0);
    loop {
        let page = next.await.unwrap();
        let cost = page.cost();
        assert!(
            cost.rows_read <= BUDGET.into(),
            "{} rows were read",
            cost.rows_read
        );
        found.extend(times(&page).split_whitespace().map(str::to_owned));
        pages += 1;
        assert!(pages < 100, "the traversal stands still");
        let Some(token) = page.next_cursor() else { break };
        next = query.clone().page_token(token);
    }
    let expected: Vec<String> = (0..720)
        .rev()
        .filter(|at| (at / 6) % 40 == 0)
        .map(|at| at.to_string())
        .collect();
    assert_eq!(found, expected);
    let (backwards, _) = traverse(&query, false).await;
    assert_eq!(backwards.join(" "), expected.join(" "));
}
