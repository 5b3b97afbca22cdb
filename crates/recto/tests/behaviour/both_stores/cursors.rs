//! Tests that a cursor is a position in the order of its query, and that no other query accepts it.

use std::time::Duration;

use recto::{ErrorKind, OpenOptions, Recto};
use serde_json::json;

use super::pages::{events, times};
use crate::common::stores::parse;
use crate::common::{Fresh, Kind, Subject};

/// Schema of one collection, for tests that need their own store.
const SMALL: &str = r#"
[collection.events]
fields = { stream = "text", at = "int", id = "int", kind = "text", note = "text" }
key = ["stream", "at", "id"]
partition = ["stream"]
order = ["-at"]
writes = "append"
"#;

pub(crate) async fn survive_the_deletion_of_their_row(recto: Recto) {
    let (mut subject, query) = events(&recto, "cursor_deleted", 10).await;
    let page = query.clone().first(4).await.unwrap();
    let (cursor, token) = (page.cursor(3), page.next_cursor().unwrap());
    let row = page.items()[3].values().to_vec();
    subject.delete(&row).await;
    assert_eq!(
        times(&query.clone().first(2).after(cursor.clone()).await.unwrap()),
        "5 4"
    );
    assert_eq!(
        times(&query.clone().page_size(2).page_token(token).await.unwrap()),
        "5 4"
    );
    assert_eq!(
        times(&query.clone().last(2).before(cursor.clone()).await.unwrap()),
        "8 7"
    );
    assert_eq!(
        times(&query.page_size(4).around(cursor).await.unwrap()),
        "8 7 5 4"
    );
}

pub(crate) async fn see_what_is_inserted_beyond_them(recto: Recto) {
    let (mut subject, query) = events(&recto, "cursor_inserted", 4).await;
    let page = query.clone().first(2).await.unwrap();
    let row = |at: i32, id: i32| json!({ "stream": "cursor_inserted", "at": at, "id": id });
    // Insert one row before the cursor's position, one directly after it, and one far after it.
    subject.put([row(3, 1), row(2, 1), row(0, 1)]).await;
    let next = query
        .clone()
        .first(10)
        .after(page.next_cursor().unwrap())
        .await
        .unwrap();
    assert_eq!(times(&next), "2 1 0 0");
    let before = query.last(10).before(page.cursor(1)).await.unwrap();
    assert_eq!(times(&before), "3 3");
}

pub(crate) async fn leave_and_return_where_everything_was_deleted(recto: Recto) {
    let (mut subject, query) = events(&recto, "cursor_emptied", 6).await;
    let page = query.clone().first(3).await.unwrap();
    let token = page.next_cursor().unwrap();
    for row in subject.oracle.rows().to_vec() {
        subject.delete(&row).await;
    }
    let empty = query.clone().page_size(3).page_token(token).await.unwrap();
    assert_eq!(
        (empty.len(), empty.has_next(), empty.has_previous()),
        (0, Some(false), None)
    );
    let back = query
        .page_size(3)
        .page_token(empty.previous_cursor().unwrap())
        .await
        .unwrap();
    assert_eq!((back.len(), back.has_previous()), (0, Some(false)));
}

pub(crate) async fn are_bound_to_their_query(recto: Recto) {
    let (subject, query) = events(&recto, "cursor_bound", 5).await;
    let cursor = query.clone().first(2).await.unwrap().cursor(0);
    let places = Subject::new(&recto, "places");
    let others = [
        subject.text(r#"stream = "another""#, ""),
        subject.text(r#"stream = "cursor_bound" AND at > 1"#, ""),
        subject.text(r#"stream = "cursor_bound""#, "at"),
        subject
            .text(r#"stream = "cursor_bound" AND kind = "third""#, "")
            .allow_filter_scan(),
        places.text(r#"test = "cursor_bound" AND country = "x""#, ""),
    ];
    for other in others {
        for wrong in [
            other.clone().after(cursor.clone()),
            other.clone().before(cursor.clone()),
            other.clone().around(cursor.clone()),
            other.page_token(cursor.clone()),
        ] {
            let error = wrong.await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidCursor);
            assert!(error.hint().is_some(), "{error}");
        }
    }
}

pub(crate) async fn do_not_care_how_a_filter_is_written(recto: Recto) {
    let (subject, _) = events(&recto, "cursor_normal", 9).await;
    let written = [
        (r#"stream = "cursor_normal" AND at >= 2 AND at < 8"#, ""),
        (
            r#"at < 8 AND stream = "cursor_normal" AND at >= 2 AND at > -5"#,
            "at desc",
        ),
        (
            r#"at<8 AND (stream = "cursor_normal" OR stream = "cursor_normal") AND at>=2"#,
            "stream, at desc, id",
        ),
    ];
    let first = subject.text(written[0].0, written[0].1).first(2).await.unwrap();
    for (filter, sort) in written {
        let next = subject
            .text(filter, sort)
            .first(2)
            .after(first.next_cursor().unwrap())
            .await
            .unwrap();
        assert_eq!(times(&next), "5 4", "{filter} / {sort}");
    }
}

pub(crate) async fn altered_in_any_character_are_refused(recto: Recto) {
    let (_, query) = events(&recto, "cursor_altered", 3).await;
    let cursor = query.clone().await.unwrap().cursor(0).as_str().to_owned();
    let mut altered: Vec<String> = Vec::new();
    for index in 0..cursor.len() {
        let mut bytes = cursor.clone().into_bytes();
        bytes[index] = if bytes[index] == b'A' { b'B' } else { b'A' };
        altered.push(String::from_utf8(bytes).unwrap());
        altered.push(cursor[..index].to_owned());
    }
    altered.extend([
        format!("{cursor}A"),
        format!("{cursor}="),
        "not a cursor".into(),
        "é".repeat(40),
    ]);
    for text in altered {
        let error = query.clone().after(text.clone()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidCursor, "{text}");
        if text.is_empty() {
            continue;
        }
        let error = query.clone().page_token(text.clone()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidCursor, "{text}");
    }
}

fn other(kind: Kind) -> Kind {
    if kind == Kind::Embedded {
        Kind::Cassandra
    } else {
        Kind::Embedded
    }
}

fn kind(recto: &Recto) -> Kind {
    if recto.describe().starts_with("cassandra") {
        Kind::Cassandra
    } else {
        Kind::Embedded
    }
}

pub(crate) async fn of_other_keys_are_refused(recto: Recto) {
    let (_, query) = events(&recto, "cursor_keys", 3).await;
    let cursor = query.await.unwrap().cursor(0);
    let stranger = Fresh::new(Kind::Embedded).open().await;
    stranger.apply(&parse(SMALL)).await.unwrap();
    let (_, query) = events(&stranger, "cursor_keys", 3).await;
    let error = query.after(cursor).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidCursor);
    assert!(error.hint().is_some());
}

/// Checks that a cursor continues on a copy of the data in the other kind of store, if the copy has
/// the same cursor keys.
pub(crate) async fn continue_on_the_other_store(recto: Recto) {
    let (_, query) = events(&recto, "cursor_moved", 9).await;
    let page = query.first(3).await.unwrap();
    let keys = recto.export_cursor_keys();
    let fresh = Fresh::new(other(kind(&recto)));
    let moved = fresh.open_with(OpenOptions::new().cursor_keys(&keys)).await;
    moved.apply(&parse(SMALL)).await.unwrap();
    let (_, query) = events(&moved, "cursor_moved", 9).await;
    let next = query
        .clone()
        .first(3)
        .after(page.next_cursor().unwrap())
        .await
        .unwrap();
    assert_eq!(times(&next), "5 4 3");
    let around = query.clone().page_size(4).around(page.cursor(2)).await.unwrap();
    assert_eq!(times(&around), "8 7 6 5");
    // Conversely, the original store must open a cursor of the copy.
    let (_, query) = events(&recto, "cursor_moved", 0).await;
    let back = query
        .page_size(3)
        .page_token(next.previous_cursor().unwrap())
        .await
        .unwrap();
    assert_eq!(times(&back), "8 7 6");
}

pub(crate) async fn expire(recto: Recto) {
    let fresh = Fresh::new(kind(&recto));
    fresh.open().await.apply(&parse(SMALL)).await.unwrap();
    let hasty = fresh
        .open_with(OpenOptions::new().cursor_lifetime(Duration::from_secs(1)))
        .await;
    let (_, query) = events(&hasty, "expiring", 5).await;
    let cursor = query.clone().first(2).await.unwrap().cursor(1);
    assert_eq!(
        times(&query.clone().first(1).after(cursor.clone()).await.unwrap()),
        "2"
    );
    tokio::time::sleep(Duration::from_millis(2_100)).await;
    let error = query.first(1).after(cursor).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidCursor);
    assert!(error.to_string().contains("expired"), "{error}");
}
