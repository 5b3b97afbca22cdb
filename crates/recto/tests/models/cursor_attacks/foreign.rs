//! Tests of valid cursors that belong to another query, collection or store.

use recto::{OpenOptions, Recto};
use recto_plan::cursor::CursorError;

use super::support::{SCHEMA, events, fresh, kind, other, refused, rows_of, subject, times};

/// Other sort orders for the collection `events`: a description and the declaration.
const SORT_ORDERS: [(&str, &str); 3] = [
    ("the other direction", "order = [\"at\"]"),
    ("other columns", "order = [\"-id\"]"),
    ("one column more", "order = [\"-at\", \"-id\"]"),
];

pub(crate) async fn another_query_of_the_collection_is_refused(recto: Recto) {
    let query = events(&recto, "theirs", 6).await;
    let cursor = query.first(3).await.unwrap().cursor(1).to_string();
    let subject = subject(&recto, "events");
    for (filter, sort) in [
        (r#"stream = "mine""#, ""),
        (r#"stream = "theirs " "#, ""),
        (r#"stream = "theirs" AND at >= 0"#, ""),
        (r#"stream = "theirs" AND at >= 0 AND at <= 5"#, ""),
        (r#"stream = "theirs" AND (at = 1 OR at = 2)"#, ""),
        (r#"stream = "theirs" OR stream = "mine""#, ""),
        (r#"stream = "theirs""#, "at"),
    ] {
        let query = subject.text(filter, sort);
        assert_eq!(
            refused(&query, &cursor).await,
            CursorError::OtherQuery,
            "{filter} / {sort}"
        );
    }
}

/// Checks that a query rejects a cursor of another collection that has the same fields, keys and
/// rows.
pub(crate) async fn another_collection_is_refused(recto: Recto) {
    let query = events(&recto, "twin", 6).await;
    let twin = rows_of(&recto, "twins", "twin", 6).await;
    let cursor = query.first(3).await.unwrap().cursor(1).to_string();
    assert_eq!(refused(&twin, &cursor).await, CursorError::OtherCollection);
}

/// Checks that a query rejects a cursor of another store with the same cursor keys. In the other
/// store, the collection of the same name has another sort order.
pub(crate) async fn another_sort_order_of_the_same_name_is_refused(recto: Recto) {
    let query = events(&recto, "arranged", 6).await;
    let cursor = query.first(3).await.unwrap().cursor(1).to_string();
    let keys = recto.export_cursor_keys();
    for (what, order) in SORT_ORDERS {
        let schema = SCHEMA.replacen("order = [\"-at\"]", order, 1);
        assert_ne!(schema, SCHEMA);
        let store = fresh(kind(&recto), &schema, OpenOptions::new().cursor_keys(&keys)).await;
        let query = events(&store, "arranged", 6).await;
        assert_eq!(
            refused(&query, &cursor).await,
            CursorError::OtherSortOrder,
            "{what}"
        );
    }
}

/// Checks that a query rejects a cursor of a store that created its own cursor keys, although rows
/// and schema are the same. The keys of both stores have the id 1.
pub(crate) async fn another_sealing_key_is_refused(recto: Recto) {
    let query = events(&recto, "sealed", 6).await;
    let cursor = query.first(3).await.unwrap().cursor(1).to_string();
    let stranger = fresh(kind(&recto), SCHEMA, OpenOptions::new()).await;
    let query = events(&stranger, "sealed", 6).await;
    assert_eq!(refused(&query, &cursor).await, CursorError::NotOurs);
}

pub(crate) async fn a_copy_on_the_other_store_continues(recto: Recto) {
    let query = events(&recto, "copied", 9).await;
    let page = query.first(3).await.unwrap();
    let options = OpenOptions::new().cursor_keys(&recto.export_cursor_keys());
    let copy = fresh(other(kind(&recto)), SCHEMA, options).await;
    let query = events(&copy, "copied", 9).await;
    let next = query.clone().page_size(3).page_token(page.next_cursor().unwrap());
    assert_eq!(times(&next.await.unwrap()), [5, 4, 3]);
    for index in 0..3 {
        let after = query.clone().first(2).after(page.cursor(index)).await.unwrap();
        assert_eq!(times(&after), [7 - index as i64, 6 - index as i64]);
    }
}
