//! Tests of replacing (rotating) the cursor keys while clients have cursors.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use recto::{ErrorKind, MAX_EARLIER_CURSOR_KEYS, OpenOptions, Recto};
use recto_model::golden::bytes_of_hex;
use recto_plan::cursor::{self, CursorError, KeyRing};

use super::counting::{Calls, Counting};
use super::support::{Clock, SCHEMA, events, fresh, kind, refused, second_handle, times};
use crate::common::stores::parse;
use crate::common::{Fresh, Subject};

async fn ids(recto: &Recto) -> Vec<(u32, bool)> {
    let keys = recto.cursor_keys().await.unwrap();
    keys.iter().map(|key| (key.id, key.encrypts)).collect()
}

pub(crate) async fn old_cursors_open_while_their_key_is_kept(recto: Recto) {
    let recto = fresh(kind(&recto), SCHEMA, OpenOptions::new()).await;
    let query = events(&recto, "rotated", 6).await;
    let mut cursors = Vec::new();
    for rotation in 0..4_u32 {
        let cursor = query.clone().first(3).await.unwrap().cursor(2).to_string();
        assert_eq!(cursor::key_id(&cursor), Some(rotation + 1));
        cursors.push(cursor);
        for cursor in &cursors {
            let next = query.clone().first(3).after(cursor.as_str()).await.unwrap();
            assert_eq!(times(&next), [2, 1, 0]);
        }
        recto.rotate_cursor_keys(3).await.unwrap();
    }
    assert_eq!(ids(&recto).await, [(2, false), (3, false), (4, false), (5, true)]);
    assert_eq!(refused(&query, &cursors[0]).await, CursorError::NotOurs);
    for cursor in &cursors[1..] {
        query.clone().first(1).after(cursor.as_str()).await.unwrap();
    }
    // A handle opened after the rotation must have the same keys.
    let again = second_handle(&recto, OpenOptions::new()).await;
    assert_eq!(again.export_cursor_keys(), recto.export_cursor_keys());
    for key in recto.cursor_keys().await.unwrap() {
        assert!(key.age_seconds.unwrap() < 3_600, "{key:?}");
    }
}

pub(crate) async fn a_retired_key_is_an_error(recto: Recto) {
    let recto = fresh(kind(&recto), SCHEMA, OpenOptions::new()).await;
    let query = events(&recto, "retired", 6).await;
    let page = query.clone().first(3).await.unwrap();
    let cursor = page.cursor(2).to_string();
    recto.rotate_cursor_keys(0).await.unwrap();
    assert_eq!(ids(&recto).await, [(2, true)]);
    assert_eq!(refused(&query, &cursor).await, CursorError::NotOurs);
    // A page that was read before the rotation must encrypt its cursors with the new key.
    let cursor = page.cursor(2);
    assert_eq!(times(&query.first(3).after(cursor).await.unwrap()), [2, 1, 0]);
}

pub(crate) async fn another_handle_learns_of_a_new_key(recto: Recto) {
    let one = fresh(kind(&recto), SCHEMA, OpenOptions::new()).await;
    let two = second_handle(&one, OpenOptions::new()).await;
    let query_of_one = events(&one, "learned", 9).await;
    let query_of_two = events(&two, "learned", 0).await;
    one.rotate_cursor_keys(1).await.unwrap();
    // The second handle encrypts with the old key until it meets a cursor of the new key. The store
    // must keep the old key until then.
    let of_two = query_of_two.clone().first(2).await.unwrap().cursor(1);
    assert_eq!(cursor::key_id(of_two.as_str()), Some(1));
    assert_eq!(
        times(&query_of_one.clone().first(1).after(of_two).await.unwrap()),
        [6]
    );
    let of_one = query_of_one.first(2).await.unwrap().cursor(1);
    assert_eq!(cursor::key_id(of_one.as_str()), Some(2));
    let next = query_of_two.clone().first(2).after(of_one).await.unwrap();
    assert_eq!(times(&next), [6, 5]);
    assert_eq!(
        cursor::key_id(next.cursor(0).as_str()),
        Some(2),
        "it encrypts with it now"
    );
    assert_eq!(one.export_cursor_keys(), two.export_cursor_keys());
}

pub(crate) async fn a_handle_that_looks_takes_over_keys_and_schemas(recto: Recto) {
    // `one` opens before there is a schema, and therefore before the store has permanent cursor
    // keys.
    let one = Fresh::new(kind(&recto)).open_with(OpenOptions::new()).await;
    let two = second_handle(&one, OpenOptions::new()).await;
    assert!(!two.refresh().await.unwrap());
    one.apply(&parse(SCHEMA)).await.unwrap();
    assert!(two.refresh().await.unwrap(), "a schema is there");
    assert!(!two.refresh().await.unwrap(), "it is the same");
    assert!(!one.refresh().await.unwrap(), "it knows its own");
    assert_eq!((two.schema(), two.generation()), (one.schema(), one.generation()));
    let (of_one, of_two) = (
        events(&one, "taken over", 6).await,
        events(&two, "taken over", 0).await,
    );
    let cursor = of_one.clone().first(3).await.unwrap().cursor(2).to_string();
    assert_eq!(
        times(&of_two.clone().first(3).after(cursor.as_str()).await.unwrap()),
        [2, 1, 0]
    );

    // A key that another handle removed must open no cursor on this handle either.
    let given = second_handle(&one, OpenOptions::new().cursor_keys(&one.export_cursor_keys())).await;
    one.rotate_cursor_keys(0).await.unwrap();
    assert!(!two.refresh().await.unwrap());
    assert_eq!(two.export_cursor_keys(), one.export_cursor_keys());
    assert_eq!(refused(&of_two, &cursor).await, CursorError::NotOurs);
    // A handle whose configuration gave keys must not take keys from the store.
    given.refresh().await.unwrap();
    assert_ne!(given.export_cursor_keys(), one.export_cursor_keys());

    // Collections opened from now on must have the added field.
    one.apply(&parse(
        &SCHEMA.replace("note = \"text\" }", "note = \"text\", rank = \"int\" }"),
    ))
    .await
    .unwrap();
    assert!(
        two.dynamic("events")
            .unwrap()
            .definition()
            .field("rank")
            .is_none()
    );
    assert!(two.refresh().await.unwrap());
    assert!(
        two.dynamic("events")
            .unwrap()
            .definition()
            .field("rank")
            .is_some()
    );
    let next = of_one.clone().first(3).await.unwrap().cursor(2).to_string();
    let again = events(&two, "taken over", 0).await;
    assert_eq!(
        times(&again.first(3).after(next.as_str()).await.unwrap()),
        [2, 1, 0]
    );
}

/// Checks that cursors with unknown key ids cause a read of the catalog at most once a second.
/// Without this limit, anybody could cause many reads by inventing key ids.
pub(crate) async fn unknown_keys_are_asked_for_at_a_limited_rate(recto: Recto) {
    let recto = fresh(kind(&recto), SCHEMA, OpenOptions::new()).await;
    let (clock, calls) = (Clock::new(), Arc::new(Calls::default()));
    let store = Arc::new(Counting {
        inner: Arc::clone(recto.store()),
        calls: Arc::clone(&calls),
    });
    let options = OpenOptions::new().environment(clock.environment());
    // Let another handle write the rows. A handle that writes also renews its registration, which
    // would count as calls.
    events(&recto, "limited", 6).await;
    let watched = Recto::with_store(store, options).await.unwrap();
    let query = events(&watched, "limited", 0).await;
    let cursor = query.clone().first(3).await.unwrap().cursor(2).to_string();
    calls.take();
    let bytes = URL_SAFE_NO_PAD.decode(&cursor).unwrap();
    for second in 1..4 {
        for unknown in 7..40 {
            let mut forged = bytes.clone();
            forged[4] = unknown;
            assert_eq!(
                refused(&query, &URL_SAFE_NO_PAD.encode(&forged)).await,
                CursorError::NotOurs
            );
        }
        assert_eq!(calls.take(), (1, 0, 1), "in second {second}");
        clock.pass_seconds(1);
    }
    // Earlier lookups of unknown keys must not block a key that is created later.
    recto.rotate_cursor_keys(1).await.unwrap();
    let other = events(&recto, "limited", 0).await;
    let newer = other.first(3).await.unwrap().cursor(2);
    assert_eq!(times(&query.first(3).after(newer).await.unwrap()), [2, 1, 0]);
}

pub(crate) async fn two_who_rotate_at_once_both_succeed(recto: Recto) {
    let one = fresh(kind(&recto), SCHEMA, OpenOptions::new()).await;
    let two = second_handle(&one, OpenOptions::new()).await;
    let (first, second) = tokio::join!(one.rotate_cursor_keys(5), two.rotate_cursor_keys(5));
    first.unwrap();
    second.unwrap();
    assert_eq!(ids(&one).await, [(1, false), (2, false), (3, true)]);
    assert_eq!(ids(&two).await, ids(&one).await);
    assert_eq!(one.export_cursor_keys(), two.export_cursor_keys());
}

pub(crate) async fn rejects_too_many_keys_and_configured_keys(recto: Recto) {
    let recto = fresh(kind(&recto), SCHEMA, OpenOptions::new()).await;
    let keys = recto.export_cursor_keys();
    let error = recto
        .rotate_cursor_keys(MAX_EARLIER_CURSOR_KEYS + 1)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let given = second_handle(&recto, OpenOptions::new().cursor_keys(&keys)).await;
    let error = given.rotate_cursor_keys(1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.hint().is_some());
    // A handle whose configuration gave keys must keep them, whatever keys the store has.
    recto.rotate_cursor_keys(1).await.unwrap();
    let query = events(&recto, "given", 3).await;
    let cursor = query.first(1).await.unwrap().cursor(0).to_string();
    let query = Subject::new(&given, "events").text(r#"stream = "given""#, "");
    assert_eq!(refused(&query, &cursor).await, CursorError::NotOurs);
    assert_eq!(given.export_cursor_keys(), keys);
    let empty = Fresh::new(kind(&recto)).open().await;
    assert_eq!(
        empty.rotate_cursor_keys(1).await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
    // The store must keep at most the maximum number of earlier keys.
    for _ in 0..20 {
        recto.rotate_cursor_keys(MAX_EARLIER_CURSOR_KEYS).await.unwrap();
    }
    let kept = ids(&recto).await;
    assert_eq!(kept.len(), MAX_EARLIER_CURSOR_KEYS as usize + 1);
    assert_eq!((kept[0], kept[15]), ((7, false), (22, true)));
}

/// Checks that keys in version 1 of the stored format, which has no creation time of a key, work
/// and can be rotated. A configuration made for an earlier release may contain such keys.
pub(crate) async fn keys_stored_by_an_earlier_release_open_and_rotate(recto: Recto) {
    let golden = include_str!("../../../../recto-plan/tests/golden/cursor-keys-v1.txt");
    let stored = golden.lines().find(|line| !line.starts_with('#')).unwrap();
    let stored = bytes_of_hex(stored);
    let given = second_handle(&recto, OpenOptions::new().cursor_keys(&stored)).await;
    let query = events(&given, "earlier", 6).await;
    let cursor = query.clone().first(3).await.unwrap().cursor(2);
    assert_eq!(times(&query.first(3).after(cursor).await.unwrap()), [2, 1, 0]);
    let keys = given.cursor_keys().await.unwrap();
    assert!(
        keys.iter()
            .all(|key| key.created_at_seconds.is_none() && key.age_seconds.is_none())
    );
    let mut ring = KeyRing::from_bytes(&stored).unwrap();
    ring.rotate(&Clock::new().environment()).unwrap();
    let again = KeyRing::from_bytes(&ring.to_bytes()).unwrap();
    assert!(again.describe().last().unwrap().created_at_seconds.is_some());
    assert_eq!(again.ids().len(), keys.len() + 1);
}
