//! The suspended users of the article *Sorted Pagination in Cassandra*, as one collection: its base
//! table is the article's reverse lookup by user, and its view is the list by status.

use futures::future::join_all;
use recto::{Collection, DynamicRecord, ErrorKind, Page, PageQuery, Recto};
use serde_json::json;

use super::sorted::user;
use crate::common::exact::assert_views_are_exact;
use crate::common::subject::words;

pub(crate) const SUSPENDED: &str = "SUSPENDED";
pub(crate) const ACTIVE: &str = "ACTIVE";

pub(crate) fn suspensions(recto: &Recto) -> Collection<DynamicRecord> {
    recto.dynamic("suspensions").unwrap()
}

pub(crate) fn suspension(recto: &Recto, status: &str, day: u32, number: u32) -> DynamicRecord {
    let json = json!({
        "user_id": user(number),
        "status": status,
        "occurred_on": format!("2016-04-{day:02}T12:00:00Z"),
        "reason": format!("reason {number}"),
    });
    DynamicRecord::from_json(suspensions(recto).definition(), json.as_object().unwrap()).unwrap()
}

/// Returns the query for the users with a status, newest first.
pub(crate) fn by_status(recto: &Recto, status: &str) -> PageQuery<DynamicRecord> {
    suspensions(recto)
        .query()
        .filter(format!(r#"status = "{status}""#))
        .order_by("occurred_on desc")
}

/// Returns the reasons in the rows of a list, as one string for each page. Checks that reading
/// backwards returns the same pages.
async fn pages(query: &PageQuery<DynamicRecord>) -> Vec<String> {
    let mut pages = vec![query.clone().first(2).await.unwrap()];
    while let Some(next) = pages.last().unwrap().next_cursor() {
        pages.push(query.clone().first(2).page_token(next).await.unwrap());
    }
    let reasons = |page: &Page<DynamicRecord>| words(page, &["reason"]);
    for (page, before) in pages.iter().skip(1).zip(&pages) {
        let token = page.previous_cursor().unwrap();
        let back = query.clone().first(2).page_token(token).await.unwrap();
        assert_eq!(reasons(&back), reasons(before));
    }
    assert_eq!(pages[0].has_previous(), Some(false));
    pages.iter().map(reasons).collect()
}

pub(crate) async fn suspending_and_unsuspending(recto: Recto) {
    let all = suspensions(&recto);
    // As in the article, users 4 and 3 were "suspended at the very exact time", so `user_id`
    // determines their order.
    let days = [(1, 1), (2, 2), (3, 4), (3, 3), (5, 5), (28, 6)];
    let inserts = days.map(|(day, number)| {
        all.insert(&suspension(&recto, SUSPENDED, day, number))
            .into_future()
    });
    for inserted in join_all(inserts).await {
        inserted.unwrap();
    }
    let list = by_status(&recto, SUSPENDED);
    let first = list.clone().first(2).await.unwrap();
    let expected = ["reason 6, reason 5", "reason 3, reason 4", "reason 2, reason 1"];
    assert_eq!(pages(&list).await, expected);

    // The article says: "A user that is suspended cant be suspended again." A second insert must
    // therefore fail.
    let again = all
        .insert(&suspension(&recto, SUSPENDED, 29, 2))
        .await
        .unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Exists);
    assert_eq!(pages(&list).await, expected);

    // The article says: "The manager doesnt know when the suspension happened, they only know who
    // is the user." A deletion must therefore need only the user.
    all.delete((user(5),)).await.unwrap();
    assert_eq!(
        pages(&list).await,
        ["reason 6, reason 3", "reason 4, reason 2", "reason 1"]
    );
    // A client that read a page before the deletion must continue at its position.
    let next = list.clone().first(2).after(first.cursor(1)).await.unwrap();
    assert_eq!(words(&next, &["reason"]), "reason 3, reason 4");
    // User 5 is no longer suspended, so another deletion must have no effect.
    all.delete((user(5),)).await.unwrap();

    // Instead of being deleted, the record of user 3 gets another status. It must move from one
    // list to the other.
    all.update((user(3),)).set("status", ACTIVE).await.unwrap();
    assert_eq!(pages(&list).await, ["reason 6, reason 4", "reason 2, reason 1"]);
    assert_eq!(pages(&by_status(&recto, ACTIVE)).await, ["reason 3"]);
    // User 3 must come first, because this suspension is the newest. The corrected reason of user 4
    // must not change its position.
    let renewed = all.update((user(3),)).set("status", SUSPENDED);
    renewed.set("occurred_on", "2016-04-30T00:00:00Z").await.unwrap();
    all.insert(&suspension(&recto, SUSPENDED, 29, 5)).await.unwrap();
    all.update((user(4),)).set("reason", "corrected").await.unwrap();
    assert_eq!(
        pages(&list).await,
        ["reason 3, reason 5", "reason 6, corrected", "reason 2, reason 1"]
    );
    assert!(by_status(&recto, ACTIVE).await.unwrap().is_empty());
    assert_eq!(assert_views_are_exact(&recto, "suspensions").await, 6);
}
