//! Tests of pages that intersect two views while some rows of the views disagree with their base
//! rows. A page must show a record only if its rows in both views have the same position, and if
//! its base row confirms them.

use recto::LocalSession;
use recto::session::{PageRequest, Pages};
use serde_json::{Value as Json, json};

use super::planted::Planted;
use super::{run, store};

const SCHEMA: &str = r#"
[collection.suspensions]
fields = { id = "int", status = "text", day = "int", reason = "text", note = "text" }
key = ["id"]

[collection.suspensions.view.by_status]
partition = ["status"]
order = ["-day"]

[collection.suspensions.view.by_reason]
partition = ["reason"]
order = ["day", "-id"]
nulls = "first"
"#;

fn suspension(id: i64, status: &str, day: i64, reason: &str) -> Json {
    json!({ "id": id, "status": status, "day": day, "reason": reason, "note": format!("of {id}") })
}

/// Returns the id and the day of each record that pages of the list show. `back` reads the pages
/// from the end of the list.
async fn all(session: &LocalSession, order_by: &str, page_size: i64, back: bool) -> Vec<(i64, i64)> {
    let (mut found, mut token) = (Vec::new(), String::new());
    loop {
        let request = PageRequest {
            filter: r#"status = "open" AND reason = "spam""#.into(),
            order_by: order_by.into(),
            page_size: Some(page_size),
            last: back && token.is_empty(),
            page_token: token,
            ..PageRequest::default()
        };
        let page = session.page("suspensions", &request).await.unwrap();
        assert!(page.cost.seeks > 0, "{:?}", page.cost);
        let number = |record: &serde_json::Map<String, Json>, name: &str| record[name].as_i64().unwrap();
        let records = page.records.iter();
        let place = if back { 0 } else { found.len() };
        found.splice(
            place..place,
            records.map(|one| (number(one, "id"), number(one, "day"))),
        );
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

#[test]
fn a_record_is_shown_once_where_its_base_row_and_both_views_say() {
    run(async {
        let mut planted = Planted::new(store(), SCHEMA).await;
        for id in 0..20 {
            let record = planted.cells(&suspension(id, "open", id, "spam"));
            planted.put(&record).await;
        }
        // Change the base rows of records 3 and 8, but not the views. The base row of record 3 now
        // disagrees with the first view, and the base row of record 8 with the second view.
        for changed in [
            suspension(3, "closed", 3, "spam"),
            suspension(8, "open", 8, "ham"),
        ] {
            let record = planted.cells(&changed);
            planted.decide(&record, false, None).await;
        }
        // Delete the base row of record 5, but not its rows in the views.
        let gone = planted.cells(&suspension(5, "open", 5, "spam"));
        planted.decide(&gone, true, None).await;
        // Move record 6 in both views, but leave its old rows there, next to its new rows.
        let moved = planted.cells(&suspension(6, "open", 60, "spam"));
        planted.decide(&moved, false, None).await;
        let version = planted.version(&moved);
        for entry in planted.entries(&moved) {
            planted.put_entry(&entry, version).await;
        }
        // Begin to move record 7: only the first view gets its new row.
        let moving = planted.cells(&suspension(7, "open", 70, "spam"));
        planted.decide(&moving, false, None).await;
        let version = planted.version(&moving);
        planted.put_entry(&planted.entries(&moving)[0], version).await;
        // Remove record 9 from the list, and add it again.
        for status in ["closed", "open"] {
            let record = planted.cells(&suspension(9, status, 9, "spam"));
            planted.put(&record).await;
        }
        let here = (0..20).filter(|id| ![3, 5, 6, 7, 8].contains(id));
        let mut expected: Vec<(i64, i64)> = here.map(|id| (id, id)).chain([(6, 60)]).collect();
        let session = LocalSession::new(planted.recto.clone());
        for order_by in ["day", "day desc"] {
            expected.sort_by_key(|(_, day)| if order_by == "day" { *day } else { -day });
            for page_size in [1, 3, 50] {
                for back in [false, true] {
                    let found = all(&session, order_by, page_size, back).await;
                    assert_eq!(found, expected, "{order_by}, {page_size} a page, back: {back}");
                }
            }
        }
    });
}
