//! Tests of the number of rows of a query, counted up to a limit.

use futures::TryStreamExt;
use recto::session::{Action, RecordChange, Records};
use recto::{Count, DynamicRecord, ErrorKind, LocalSession, PageQuery, Recto, RowCount};
use serde_json::json;

use super::pages::events;
use crate::common::stores::{kind_of, parse};
use crate::common::{Fresh, Kind};

/// Counts the rows of a query up to `limit`. Returns the count, and whether there may be more rows.
async fn count_up_to(query: &PageQuery<DynamicRecord>, limit: u32) -> (u64, bool) {
    let page = query.clone().count(Count::UpTo(limit)).await.unwrap();
    let counted = page.row_count().unwrap();
    let total_only = RowCount {
        total_size: counted.total_size,
        total_size_is_minimum: counted.total_size_is_minimum,
        ..RowCount::default()
    };
    assert_eq!(counted, total_only);
    (counted.total_size, counted.total_size_is_minimum)
}

pub(crate) async fn are_exact_up_to_the_limit(recto: Recto) {
    let (subject, _) = events(&recto, "count_one", 7).await;
    events(&recto, "count_two", 3).await;
    let one = subject.text(r#"stream = "count_one""#, "").page_size(2);
    let both = r#"stream = "count_one" OR stream = "count_two""#;
    let both = subject.text(both, "-at").page_size(2);
    let range = subject.text(r#"stream = "count_one" AND at >= 2 AND at < 6"#, "at");
    for (query, rows) in [
        (one.clone(), 7),
        // The position of the page must not change the count.
        (one.clone().last(2), 7),
        (one.clone().from([1]), 7),
        // The size of the page must not change the count.
        (one.page_size(50), 7),
        (both, 10),
        (range, 4),
        (subject.text(r#"stream = "count_none""#, ""), 0),
    ] {
        for limit in 1..12 {
            let expected = (rows.min(u64::from(limit)), rows > u64::from(limit));
            assert_eq!(count_up_to(&query, limit).await, expected, "{query:?} to {limit}");
        }
    }
}

pub(crate) async fn read_one_row_more_than_the_limit(recto: Recto) {
    let (subject, _) = events(&recto, "count_cost", 40).await;
    let query = subject.text(r#"stream = "count_cost""#, "").page_size(2);
    let page = query.count(Count::UpTo(10)).await.unwrap();
    assert_eq!(
        page.cost().rows_read,
        3 + 11,
        "a page of two rows, and a count up to ten"
    );
}

pub(crate) async fn of_a_filter_scan_end_at_its_budget(recto: Recto) {
    let (subject, _) = events(&recto, "count_scan", 40).await;
    let filter = r#"stream = "count_scan" AND kind = "third""#;
    let query = subject.text(filter, "").allow_filter_scan().page_size(2);
    assert_eq!(count_up_to(&query, 100).await, (14, false));
    assert_eq!(count_up_to(&query, 13).await, (13, true));
    let query = query.scan_budget(20);
    assert_eq!(count_up_to(&query, 100).await, (7, true), "the rows 39 to 20");
}

pub(crate) async fn of_more_rows_than_are_read_at_a_time(recto: Recto) {
    if kind_of(&recto) == Kind::Cassandra {
        return; // Cassandra counts in the same way, and writing the rows takes long.
    }
    let (subject, _) = events(&recto, "count_many", 6_000).await;
    let query = subject.text(r#"stream = "count_many""#, "").page_size(2);
    assert_eq!(count_up_to(&query, 10_000).await, (6_000, false));
    assert_eq!(count_up_to(&query, 6_000).await, (6_000, false));
    assert_eq!(count_up_to(&query, 5_999).await, (5_999, true));
    let small = query.byte_budget(1_000);
    assert_eq!(
        count_up_to(&small, 6_000).await,
        (6_000, false),
        "a page's bytes are no limit"
    );
}

/// Checks that an embedded store reports exact numbers and ranks of rows without reading the rows.
/// On Cassandra, ranks must be rejected.
pub(crate) async fn are_exact_with_ranks_on_an_embedded_store(recto: Recto) {
    let number = match kind_of(&recto) {
        Kind::Embedded => 3_000,
        Kind::Cassandra => 10,
    };
    let (subject, _) = events(&recto, "count_exact", number).await;
    events(&recto, "count_other", 40).await;
    let one = subject.text(r#"stream = "count_exact""#, "").page_size(4);
    let both = r#"stream = "count_exact" OR stream = "count_other""#;
    let both = subject.text(both, "at").page_size(4);
    let range = subject.text(r#"stream = "count_exact" AND at >= 500 AND at < 2600"#, "at");
    let range = range.page_size(4);
    if kind_of(&recto) == Kind::Cassandra {
        let error = one.clone().count(Count::Exact).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidQuery);
        let hint = error.hint().unwrap();
        assert!(
            hint.contains("count=up_to:10000") && hint.contains("count=estimate"),
            "{hint}"
        );
        for query in [one.clone().skip(10), one.clone().around_percent(50.0)] {
            let error = query.await.unwrap_err();
            let hint = error.hint().unwrap();
            assert!(
                hint.contains("page tokens") && hint.contains("around"),
                "{error}: {hint}"
            );
        }
        return;
    }
    for (query, rows) in [(&one, 3_000), (&both, 3_040), (&range, 2_100)] {
        let all = query.clone().page_size(1_000).stream();
        let all: Vec<DynamicRecord> = all.try_collect().await.unwrap();
        assert_eq!(all.len(), rows);
        for skip in [0, 1, 999, 1_000, 1_777, rows - 1] {
            let page = query.clone().skip(skip as u64).count(Count::Exact).await.unwrap();
            let end = rows.min(skip + 4);
            assert_eq!(page.items(), &all[skip..end], "{query:?} from {skip}");
            let counted = page.row_count().unwrap();
            assert_eq!((counted.total_size, counted.total_size_error), (rows as u64, 0));
            assert_eq!(
                (counted.offset, counted.offset_error),
                (Some(skip as u64), Some(0))
            );
            assert_eq!(page.previous_cursor().is_some(), skip > 0);
        }
        let beyond = query.clone().skip(rows as u64 + 5).await.unwrap();
        assert!(beyond.is_empty() && beyond.next_cursor().is_none());
        let last = query
            .clone()
            .last(4)
            .before(beyond.previous_cursor().unwrap())
            .await
            .unwrap();
        assert_eq!(last.items(), &all[rows - 4..]);
        let middle = query
            .clone()
            .around_percent(60.0)
            .count(Count::Exact)
            .await
            .unwrap();
        let offset = middle.row_count().unwrap().offset.unwrap();
        assert!(offset.abs_diff(rows as u64 * 6 / 10) <= 4, "{offset}");
    }
    // The search for a rank in several partitions may read more bytes than a page may, and must
    // still find the row.
    let small = both.clone().byte_budget(500);
    let page = small.skip(2_000).page_size(1).await.unwrap();
    let all: Vec<DynamicRecord> = both
        .clone()
        .page_size(1_000)
        .stream()
        .try_collect()
        .await
        .unwrap();
    assert_eq!(page.items(), &all[2_000..2_001]);
    for limit in [0, 10_001] {
        let error = one.clone().count(Count::UpTo(limit)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidQuery, "{limit}");
    }
    let scan = subject
        .text(r#"stream = "count_exact" AND kind = "third""#, "")
        .allow_filter_scan();
    let error = scan.count(Count::Exact).await.unwrap_err();
    assert!(error.to_string().contains("filter scan"), "{error}");
    let empty = subject.text(r#"stream = "count_none""#, "").count(Count::Exact);
    assert_eq!(empty.await.unwrap().row_count().unwrap().total_size, 0);
}

const SCHEMA: &str = r#"
[collection.tickets]
fields = { id = "int", status = "text", note = "text" }
key = ["id"]
writes = "update"

[collection.tickets.view.by_status]
partition = ["status"]
order = ["-id"]
fields = []
"#;

/// Checks that a count leaves out rows that are no records: outdated rows of a view on Cassandra,
/// and base rows without a record.
pub(crate) async fn leave_out_rows_that_are_no_records(recto: Recto) {
    let recto = Fresh::new(kind_of(&recto)).open().await;
    recto.apply(&parse(SCHEMA)).await.unwrap();
    let session = LocalSession::new(recto.clone());
    let change = |action| RecordChange {
        collection: "tickets".into(),
        action,
        if_version: None,
    };
    let put = |id: i32| {
        let record = json!({ "id": id, "status": "open", "note": "text" });
        change(Action::Put {
            record: record.as_object().unwrap().clone(),
            ttl_seconds: None,
        })
    };
    session.write((0..30).map(put).collect()).await.unwrap();
    for id in 0..10 {
        let key = vec![id.to_string()];
        let fields = json!({ "status": "closed" }).as_object().unwrap().clone();
        let update = Action::Update { key, fields };
        session.write(vec![change(update)]).await.unwrap();
        let key = vec![(id + 10).to_string()];
        session.write(vec![change(Action::Delete { key })]).await.unwrap();
    }
    let tickets = recto.dynamic("tickets").unwrap();
    for (status, rows) in [("open", 10), ("closed", 10), ("lost", 0)] {
        let query = tickets.query().filter(format!(r#"status = "{status}""#)).first(3);
        if kind_of(&recto) == Kind::Embedded {
            let page = query.clone().count(Count::Exact).await.unwrap();
            assert_eq!(page.row_count().unwrap().total_size, rows, "{status}");
        }
        assert_eq!(count_up_to(&query, 10).await, (rows, false), "{status}");
        assert_eq!(count_up_to(&query, 9).await, (rows.min(9), rows > 9), "{status}");
    }
}
