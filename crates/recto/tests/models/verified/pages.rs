//! Tests of pages of views while some rows of the views disagree with their base rows. A page must
//! compare each row of a view with its base row, and show only what the base row confirms.

use std::time::Duration;

use recto::session::{PageReply, PageRequest, Pages};
use recto::{DynamicRecord, LocalSession};
use recto_model::Cells;
use recto_protocol::views::Version;
use serde_json::{Value as Json, json};

use super::planted::Planted;
use super::{SCHEMA, run, store};

/// Maximum time until Recto removes the stale rows of a view that a page has read.
const REPAIRED: Duration = Duration::from_millis(300);

fn suspension(id: i64, status: &str, day: i64) -> Json {
    json!({ "id": id, "status": status, "day": day, "reason": "spam", "note": format!("of {id}") })
}

/// Returns a collection with twelve open suspensions, whose ids and days are 0 to 11. The view
/// lists the latest day first.
async fn open() -> Planted {
    let mut planted = Planted::new(store(), SCHEMA).await;
    for id in 0..12 {
        let record = planted.cells(&suspension(id, "open", id));
        planted.put(&record).await;
    }
    planted
}

fn request(filter: &str) -> PageRequest {
    PageRequest {
        filter: filter.into(),
        page_size: Some(4),
        ..PageRequest::default()
    }
}

fn ids(page: &PageReply) -> Vec<i64> {
    let ids = page.records.iter().map(|record| record["id"].as_i64());
    ids.map(Option::unwrap).collect()
}

/// Returns the ids of the records on all pages of a list. `back` reads the pages from the end of
/// the list.
async fn all(session: &LocalSession, asked: &PageRequest, back: bool) -> Vec<i64> {
    let (mut found, mut token) = (Vec::new(), String::new());
    loop {
        let request = PageRequest {
            last: back && token.is_empty(),
            page_token: token,
            ..asked.clone()
        };
        let page = session.page("suspensions", &request).await.unwrap();
        let place = if back { 0 } else { found.len() };
        found.splice(place..place, ids(&page));
        token = if back {
            page.previous_page_token
        } else {
            page.next_page_token
        };
        if token.is_empty() {
            return found;
        }
    }
}

/// Changes the base rows of records 3, 6, 7 and 8, but not their rows in the view. Record 3 is
/// closed, 6 is deleted, 7 moves to day 20, and the note of 8 changes.
async fn leave_behind(planted: &mut Planted) -> Vec<(Option<super::planted::Known>, Cells)> {
    let mut left = Vec::new();
    for (id, status, day) in [(3, "closed", 3), (6, "", 6), (7, "open", 20), (8, "open", 8)] {
        let mut record = suspension(id, status, day);
        record["note"] = "new".into();
        let record = planted.cells(&record);
        let before = planted.decide(&record, id == 6, None).await;
        left.push((before, record));
    }
    left
}

#[test]
fn nothing_is_shown_that_is_not_so() {
    run(async {
        let mut planted = open().await;
        let session = LocalSession::new(planted.recto.clone());
        let asked = request(r#"status = "open""#);
        assert_eq!(
            all(&session, &asked, false).await,
            (0..12).rev().collect::<Vec<i64>>()
        );
        let left = leave_behind(&mut planted).await;
        // The page must not show the closed, deleted or moved record at its old position. It does
        // not show the moved record at its new position either, because the view has no row there
        // yet.
        let expected = [11, 10, 9, 8, 5, 4, 2, 1, 0];
        for back in [false, true] {
            assert_eq!(all(&session, &asked, back).await, expected, "{back}");
        }
        // The page must take the fields and the version of a record from its base row, not from the
        // view.
        let collection = planted.recto.dynamic("suspensions").unwrap();
        let page = collection
            .query()
            .filter(r#"status = "open""#)
            .first(4)
            .await
            .unwrap();
        let record = planted.cells(&json!({ "id": 8 }));
        assert_eq!(page.version(3), Some(planted.version(&record).0));
        let note = |record: &DynamicRecord| record.to_json()["note"].clone();
        assert_eq!(note(&page.items()[3]), "new");
        // The page must read in two stages. The first stage reads four rows and one row ahead. The
        // second stage replaces the rows that did not match their base rows.
        let cost = page.cost();
        assert_eq!(cost.rows_read, (5 + 5) + (2 + 2), "{cost:?}");
        for (before, record) in left {
            planted.settle(before.as_ref(), &record).await;
        }
        let expected = [7, 11, 10, 9, 8, 5, 4, 2, 1, 0];
        for back in [false, true] {
            assert_eq!(all(&session, &asked, back).await, expected, "{back}");
        }
        assert_eq!(all(&session, &request(r#"status = "closed""#), false).await, [3]);
    });
}

#[test]
fn removes_stale_entries_for_the_next_page() {
    run(async {
        let mut planted = open().await;
        let left = leave_behind(&mut planted).await.len() as u64;
        let collection = planted.recto.dynamic("suspensions").unwrap();
        let query = collection.query().filter(r#"status = "open""#).first(20);
        let page = query.clone().await.unwrap();
        assert_eq!((page.len(), page.cost().rows_read), (9, 12 + 12));
        // Recto removes stale rows of a view in the background, so wait.
        tokio::time::sleep(REPAIRED).await;
        let page = query.clone().await.unwrap();
        assert_eq!((page.len(), page.cost().rows_read), (9, 9 + 9));
        // The row of record 8 in the view has the correct position, and only an outdated note.
        // Recto must not remove it.
        let removed = || planted.recto.writer_metrics().removed_stale;
        assert_eq!(removed(), left - 1);
        // Recto must not remove a row of a view whose version lies in the future. Only `verify`
        // with repair may change the row.
        for entry in planted.entries(&planted.cells(&suspension(30, "open", 30))) {
            planted.put_entry(&entry, Version(i64::MAX / 2)).await;
        }
        for _ in 0..2 {
            let page = query.clone().await.unwrap();
            assert_eq!((page.len(), page.cost().rows_read), (9, 9 + 9 + 1));
            tokio::time::sleep(REPAIRED).await;
        }
        assert_eq!(removed(), left - 1);
    });
}

#[test]
fn both_ends_are_told_of_what_is_so() {
    run(async {
        let mut planted = open().await;
        let session = LocalSession::new(planted.recto.clone());
        // Delete the base rows of the last three records, but not their rows in the view.
        for id in 0..3 {
            let record = planted.cells(&suspension(id, "open", id));
            planted.decide(&record, true, None).await;
        }
        let asked = PageRequest {
            page_size: Some(9),
            ..request(r#"status = "open""#)
        };
        let page = session.page("suspensions", &asked).await.unwrap();
        assert_eq!((ids(&page).len(), page.next_page_token.as_str()), (9, ""));
        // The page from the end of the list must leave out the deleted records, too. It compares
        // the rows beyond its end with their base rows.
        let last = PageRequest {
            last: true,
            page_size: Some(2),
            ..asked.clone()
        };
        let page = session.page("suspensions", &last).await.unwrap();
        assert_eq!((ids(&page), page.next_page_token.as_str()), (vec![4, 3], ""));
        let from = PageRequest {
            from: Some("[2]".into()),
            both_edges: true,
            ..asked.clone()
        };
        let page = session.page("suspensions", &from).await.unwrap();
        assert_eq!((ids(&page), page.next_page_token.as_str()), (vec![], ""));
        assert!(!page.previous_page_token.is_empty());
        let around = PageRequest {
            row_page_tokens: true,
            page_size: Some(12),
            ..asked.clone()
        };
        let page = session.page("suspensions", &around).await.unwrap();
        let around = PageRequest {
            around: Some(page.row_page_tokens.unwrap()[7].clone()),
            page_size: Some(6),
            ..asked
        };
        let page = session.page("suspensions", &around).await.unwrap();
        assert_eq!(ids(&page), [8, 7, 6, 5, 4, 3]);
        assert_eq!(page.next_page_token, "");
    });
}

#[test]
fn counts_dropped_entries_against_the_scan_budget() {
    run(async {
        let mut planted = open().await;
        for id in 2..12 {
            let record = planted.cells(&suspension(id, "closed", id));
            planted.decide(&record, false, None).await;
        }
        let collection = planted.recto.dynamic("suspensions").unwrap();
        let query = collection.query().filter(r#"status = "open""#).first(2);
        let whole = query.clone().await.unwrap();
        assert_eq!((whole.len(), whole.has_next()), (2, Some(false)));
        // A page must end when its scan budget is used up, and the next page must continue there.
        let (mut pages, mut found) = (0, Vec::new());
        let mut next = query.clone().scan_budget(5);
        loop {
            let page = next.await.unwrap();
            pages += 1;
            assert!(page.cost().rows_read <= 10, "{:?}", page.cost());
            found.extend(
                page.items()
                    .iter()
                    .map(|one| one.to_json()["id"].as_i64().unwrap()),
            );
            let Some(cursor) = page.next_cursor() else { break };
            assert_eq!(page.stop(), Some(recto::Stop::Scanned));
            next = query.clone().scan_budget(5).page_token(cursor);
        }
        assert_eq!((pages, found), (3, vec![1, 0]));
        // If many rows of a view do not match their base rows, a page must read larger groups of
        // rows, instead of one row in each stage.
        assert!(whole.cost().round_trips <= 6, "{:?}", whole.cost());
    });
}

#[test]
fn conditions_hold_of_the_base_row() {
    run(async {
        let mut planted = open().await;
        for id in [4, 9] {
            let mut record = suspension(id, "open", id);
            record["reason"] = "fraud".into();
            let record = planted.cells(&record);
            // The row of record 4 in the view keeps its old content, and the row of record 9 gets
            // the new content.
            let before = planted.decide(&record, false, None).await;
            if id == 9 {
                planted.settle(before.as_ref(), &record).await;
            }
        }
        let session = LocalSession::new(planted.recto.clone());
        let asked = |reason: &str| PageRequest {
            allow_filter_scan: true,
            ..request(&format!(r#"status = "open" AND reason = "{reason}""#))
        };
        assert_eq!(
            all(&session, &asked("spam"), false).await,
            [11, 10, 8, 7, 6, 5, 3, 2, 1, 0]
        );
        // A filter scan must not find a record whose row in the view still has the old content.
        assert_eq!(all(&session, &asked("fraud"), false).await, [9]);
    });
}

#[test]
fn a_view_with_few_fields_needs_no_others() {
    run(async {
        let schema = format!("{SCHEMA}fields = [\"note\"]\n");
        let mut planted = Planted::new(store(), &schema).await;
        for id in 0..3 {
            let record = planted.cells(&suspension(id, "open", id));
            planted.put(&record).await;
        }
        let session = LocalSession::new(planted.recto.clone());
        let asked = request(r#"status = "open""#);
        let page = session.page("suspensions", &asked).await.unwrap();
        assert!(page.records.iter().all(|record| record["reason"] == "spam"));
        assert_eq!(page.cost.rows_read, 6);
        let explained = session.explain("suspensions", &asked, false).await.unwrap();
        let base_rows = explained.base_rows.unwrap();
        assert!(base_rows.verified && base_rows.looked_up.is_empty());
    });
}

#[test]
fn without_verification_leftovers_show() {
    run(async {
        let schema = format!("{SCHEMA}verify = false\n");
        let mut planted = Planted::new(store(), &schema).await;
        for id in 0..3 {
            let record = planted.cells(&suspension(id, "open", id));
            planted.put(&record).await;
        }
        let record = planted.cells(&suspension(1, "closed", 1));
        planted.decide(&record, false, None).await;
        let session = LocalSession::new(planted.recto.clone());
        let asked = request(r#"status = "open""#);
        let page = session.page("suspensions", &asked).await.unwrap();
        assert_eq!((ids(&page), page.cost.rows_read), (vec![2, 1, 0], 3));
        assert_eq!(
            session
                .explain("suspensions", &asked, false)
                .await
                .unwrap()
                .base_rows,
            None
        );
    });
}
