//! Tests of the effects of puts, updates, inserts and deletions on records and their views.

use std::time::Duration;

use futures::future::join_all;
use recto::session::VerifyRequest;
use recto::{Collection, DynamicRecord, Error, ErrorKind, Page, Record, Recto};

use crate::common::exact::{assert_views_are_exact, entries_end_in};
use crate::common::stores::parse;

#[derive(Debug, Clone, PartialEq, Record)]
#[record(collection = "suspensions", key = ["user"])]
pub(crate) struct Suspension {
    user: String,
    status: Option<String>,
    since: Option<i64>,
    reason: Option<String>,
    pub(crate) visits: Option<i32>,
}

/// Record type of an older program, which lacks the fields that two views of `suspensions` sort by.
#[derive(Debug, Clone, PartialEq, Record)]
#[record(collection = "suspensions", key = ["user"])]
struct Narrow {
    user: String,
    status: Option<String>,
    visits: Option<i32>,
}

pub(crate) fn suspension(user: &str, status: &str, since: i64) -> Suspension {
    Suspension {
        user: user.to_owned(),
        status: (!status.is_empty()).then(|| status.to_owned()),
        since: (since > 0).then_some(since),
        reason: Some("spam".to_owned()),
        visits: None,
    }
}

fn suspensions(recto: &Recto) -> Collection<Suspension> {
    recto.collection().unwrap()
}

/// Returns the users with a status, newest first.
async fn users(recto: &Recto, status: &str) -> Vec<String> {
    let filter = format!(r#"status = "{status}""#);
    let page: Page<Suspension> = suspensions(recto).query().filter(filter).await.unwrap();
    page.iter().map(|one| one.user.clone()).collect()
}

/// Executes a change that must be rejected, and returns its error. Asserts that the record of `ada`
/// and all views are unchanged.
async fn refused(recto: &Recto, change: impl IntoFuture<Output = recto::Result<recto::Changed>>) -> Error {
    let version = suspensions(recto).get_versioned("ada").await.unwrap();
    let error = change.await.unwrap_err();
    assert!(error.hint().is_some(), "{error}");
    assert_eq!(suspensions(recto).get_versioned("ada").await.unwrap(), version);
    assert_views_are_exact(recto, "suspensions").await;
    error
}

pub(crate) async fn records_move_between_views(recto: Recto) {
    let all = suspensions(&recto);
    let mut last = 0;
    let mut rises = |changed: recto::Changed| {
        assert!(changed.version > last && !changed.pending);
        last = changed.version;
    };
    rises(all.insert(&suspension("ada", "open", 1)).await.unwrap());
    rises(all.put(&suspension("bob", "open", 2)).await.unwrap());
    assert_eq!(users(&recto, "open").await, ["bob", "ada"]);
    // A change of the sort field must move the record within its partition of the view.
    rises(all.update("ada").set("since", 3).await.unwrap());
    assert_eq!(users(&recto, "open").await, ["ada", "bob"]);
    rises(
        all.update("ada")
            .set("status", "closed")
            .set("visits", 7)
            .await
            .unwrap(),
    );
    assert_eq!(
        (users(&recto, "open").await, users(&recto, "closed").await),
        (vec!["bob".into()], vec!["ada".to_owned()])
    );
    assert_eq!(all.get("ada").await.unwrap().unwrap().visits, Some(7));
    // With null in `since`, the record must be last in the view by status. With null in `status`
    // and `reason`, it must leave the views by these fields.
    rises(
        all.update("ada")
            .set("since", None::<i64>)
            .set("status", "open")
            .await
            .unwrap(),
    );
    assert_eq!(users(&recto, "open").await, ["bob", "ada"]);
    rises(
        all.update("ada")
            .set("status", None::<&str>)
            .set("reason", None::<&str>)
            .await
            .unwrap(),
    );
    assert_eq!(users(&recto, "open").await, ["bob"]);
    assert_eq!(assert_views_are_exact(&recto, "suspensions").await, 2);
    // A put must replace the whole record.
    rises(all.put(&suspension("ada", "open", 9)).await.unwrap());
    assert_eq!(all.get("ada").await.unwrap(), Some(suspension("ada", "open", 9)));
    rises(all.delete("bob").await.unwrap());
    assert_eq!(users(&recto, "open").await, ["ada"]);
    rises(all.delete("bob").await.unwrap());
    rises(all.insert(&suspension("bob", "closed", 4)).await.unwrap());
    assert_eq!(users(&recto, "closed").await, ["bob"]);
    assert_eq!(assert_views_are_exact(&recto, "suspensions").await, 2);
    assert_eq!(
        all.get_versioned("bob").await.unwrap().unwrap().version,
        Some(last)
    );
}

pub(crate) async fn versions_are_asked_for(recto: Recto) {
    let all = suspensions(&recto);
    let first = all.insert(&suspension("ada", "open", 1)).await.unwrap().version;
    let error = refused(&recto, all.insert(&suspension("ada", "closed", 2))).await;
    assert_eq!((error.kind(), error.version()), (ErrorKind::Exists, Some(first)));
    let second = all
        .update("ada")
        .set("visits", 1)
        .if_version(first)
        .await
        .unwrap()
        .version;
    for change in [
        all.put(&suspension("ada", "closed", 2)).if_version(first),
        all.delete("ada").if_version(first),
        all.insert(&suspension("ada", "closed", 2)).if_version(first),
    ] {
        let error = refused(&recto, change).await;
        assert_eq!(
            (error.kind(), error.version()),
            (ErrorKind::Changed, Some(second))
        );
    }
    let error = refused(&recto, all.update("ada").set("visits", 2).if_version(first)).await;
    assert_eq!(
        (error.kind(), error.version()),
        (ErrorKind::Changed, Some(second))
    );
    let third = all
        .put(&suspension("ada", "closed", 2))
        .if_version(second)
        .await
        .unwrap()
        .version;
    all.delete("ada").if_version(third).await.unwrap();
    // A record that does not exist has no version, so every condition on a version must fail. Also,
    // it cannot be updated.
    for change in [
        all.put(&suspension("ada", "open", 2)).if_version(third),
        all.delete("ada").if_version(third),
    ] {
        let error = refused(&recto, change).await;
        assert_eq!((error.kind(), error.version()), (ErrorKind::Changed, None));
    }
    let error = refused(&recto, all.update("ada").set("visits", 2)).await;
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.message().contains("(ada)"), "{error}");
}

pub(crate) async fn rejects_invalid_changes_and_keeps_the_record(recto: Recto) {
    let all = suspensions(&recto);
    all.insert(&suspension("ada", "open", 1)).await.unwrap();
    for (update, field, says) in [
        (
            all.update("ada").set("user", "bob"),
            Some("user"),
            "part of the key",
        ),
        (
            all.update("ada").set("statu", "x"),
            Some("statu"),
            "no field statu",
        ),
        (all.update("ada").set("visits", "many"), Some("visits"), "visits"),
        (
            all.update("ada").set("visits", 1).set("visits", 2),
            Some("visits"),
            "twice",
        ),
        (all.update(("ada", 7)).set("visits", 1), None, "1 value"),
        (all.update("").set("visits", 1), None, "empty"),
    ] {
        let error = update.await.unwrap_err();
        assert_eq!(
            (error.kind(), error.field()),
            (ErrorKind::InvalidRecord, field),
            "{error}"
        );
        assert!(error.to_string().contains(says), "{error}");
    }
    let large = Suspension {
        reason: Some("x".repeat(1 << 20)),
        ..suspension("ada", "open", 1)
    };
    let error = refused(&recto, all.put(&large)).await;
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    let error = all
        .put(&suspension("ada", "open", 2))
        .lives_for(Duration::ZERO)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    // Recto must reject an atomic batch of several records, and name the collection.
    let error = all
        .put_all(&[suspension("ada", "closed", 2), suspension("bob", "open", 2)])
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("suspensions"), "{error}");
    // Records of the collection `plain` have no versions, so conditions on versions must be
    // rejected.
    let plain = recto.dynamic("plain").unwrap();
    let record = DynamicRecord::from_json_text(plain.definition(), r#"{"user": "ada"}"#).unwrap();
    plain.put(&record).await.unwrap();
    assert_eq!(
        plain.insert(&record).await.unwrap_err().kind(),
        ErrorKind::NotOffered
    );
    assert_eq!(
        plain.put(&record).if_version(1).await.unwrap_err().kind(),
        ErrorKind::NotOffered
    );
    let error = plain.update("ada").set("status", "open").await.unwrap_err();
    assert!(error.to_string().contains(r#"writes = "overwrite""#), "{error}");
    assert_eq!(assert_views_are_exact(&recto, "suspensions").await, 1);
    assert_eq!(all.get("ada").await.unwrap(), Some(suspension("ada", "open", 1)));
}

/// Checks several writers that change one record concurrently. Each change must be based on the
/// previous one, so that no increment and no other field is lost.
pub(crate) async fn nobody_is_lost_of_many_at_once(recto: Recto) {
    let all = suspensions(&recto);
    all.insert(&suspension("ada", "open", 1)).await.unwrap();
    let count = async |all: Collection<Suspension>| {
        for _ in 0..10 {
            loop {
                let found = all.get_versioned("ada").await.unwrap().unwrap();
                let visits = found.record.visits.unwrap_or(0) + 1;
                let counted = all
                    .update("ada")
                    .set("visits", visits)
                    .if_version(found.version.unwrap());
                match counted.await {
                    Ok(_) => break,
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Changed, "{error}"),
                }
            }
        }
    };
    let moves = async |all: Collection<Suspension>, writer: usize| {
        for round in 0..10 {
            let status = ["open", "closed", "new"][(writer + round) % 3];
            all.update("ada").set("status", status).await.unwrap();
        }
    };
    let counting = join_all((0..6).map(|_| count(all.clone())));
    let moving = join_all((0..6).map(|writer| moves(all.clone(), writer)));
    let inserting =
        join_all((0..6).map(|_| async { all.insert(&suspension("bob", "open", 2)).await.is_ok() }));
    let (_, _, inserted) = futures::future::join3(counting, moving, inserting).await;
    assert_eq!(inserted.into_iter().filter(|inserted| *inserted).count(), 1);
    let ada = all.get("ada").await.unwrap().unwrap();
    assert_eq!((ada.visits, ada.since), (Some(60), Some(1)));
    assert_eq!(assert_views_are_exact(&recto, "suspensions").await, 2);
}

pub(crate) async fn keeps_fields_that_the_type_does_not_have(recto: Recto) {
    let (all, narrow) = (suspensions(&recto), recto.collection::<Narrow>().unwrap());
    all.insert(&suspension("ada", "open", 1)).await.unwrap();
    let known = |user: &str, status: &str| Narrow {
        user: user.to_owned(),
        status: Some(status.to_owned()),
        visits: Some(5),
    };
    narrow.put(&known("ada", "closed")).await.unwrap();
    let expected = Suspension {
        visits: Some(5),
        ..suspension("ada", "closed", 1)
    };
    assert_eq!(all.get("ada").await.unwrap(), Some(expected));
    // If no record exists, a put by a program that knows fewer fields leaves the other fields null.
    narrow.put(&known("bob", "open")).await.unwrap();
    assert_eq!(all.get("bob").await.unwrap().unwrap().reason, None);
    let error = narrow.insert(&known("bob", "closed")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists);
    assert_eq!(assert_views_are_exact(&recto, "suspensions").await, 2);
}

pub(crate) async fn records_expire_with_their_entries(recto: Recto) {
    let all = suspensions(&recto);
    let has_transactions = recto.store().limits().transactions;
    // The lifetime must exceed the time of all requests before its end, even while other tests run.
    // Cassandra ends a lifetime up to a second early.
    let lifetime = Duration::from_secs(12);
    let put = all
        .put_for(&suspension("ada", "open", 1), lifetime)
        .await
        .unwrap();
    all.put_for(&suspension("bob", "open", 2), lifetime)
        .await
        .unwrap();
    all.put_for(&suspension("eve", "open", 3), lifetime)
        .await
        .unwrap();
    // Without transactions, several clocks are involved, so rows in views outlive their record by
    // an hour.
    let longest = if has_transactions { 12 } else { 12 + 3_600 };
    let ends = entries_end_in(&recto, "suspensions").await;
    assert_eq!(ends.len(), 6);
    let is_soon = |end: &Option<u32>| end.is_some_and(|seconds| seconds <= longest);
    assert!(ends.iter().all(is_soon), "{ends:?}");
    // An update must keep the lifetime of a record, and a put must set a new one.
    all.update("ada").set("status", "closed").await.unwrap();
    all.put(&suspension("bob", "open", 2)).await.unwrap();
    let ends = entries_end_in(&recto, "suspensions").await;
    let ending = ends.iter().filter(|end| is_soon(end)).count();
    assert_eq!((ends.len(), ending), (6, 4), "{ends:?}");
    tokio::time::sleep(lifetime + Duration::from_millis(1_100)).await;
    assert_eq!(users(&recto, "open").await, ["bob"]);
    assert!(users(&recto, "closed").await.is_empty());
    assert_eq!(all.get("ada").await.unwrap(), None);
    let report = recto.verify(&VerifyRequest::default(), &|_| {}).await.unwrap();
    assert_eq!(report.wrong(), 0, "{report:?}");
    if has_transactions {
        assert_eq!(assert_views_are_exact(&recto, "suspensions").await, 1);
    }
    let error = all.update("ada").set("visits", 1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let again = all.insert(&suspension("ada", "open", 9)).await.unwrap();
    assert!(again.version > put.version);
    assert_eq!(users(&recto, "open").await, ["ada", "bob"]);
    // The deletion of an expired record must remove its rows from the views.
    all.delete("eve").await.unwrap();
    assert_eq!(assert_views_are_exact(&recto, "suspensions").await, 2);
    assert_eq!(entries_end_in(&recto, "suspensions").await, [None; 4]);
}

/// Checks that a handle of a collection does not change a field that was added after the handle was
/// opened. A view that sorts by the field was added, too.
pub(crate) async fn handles_from_before_a_field_leave_it(recto: Recto) {
    let all = suspensions(&recto);
    let dynamic = recto.dynamic("suspensions").unwrap();
    all.insert(&suspension("ada", "open", 1)).await.unwrap();
    let old = dynamic.get("ada").await.unwrap().unwrap();
    let more = super::SCHEMA.replace("visits = \"int\" }", "visits = \"int\", note = \"text\" }");
    recto.apply(&parse(&more)).await.unwrap();
    dynamic.update("ada").set("note", "kept").await.unwrap();
    // `old` was read before the field was added, so its put must leave the field unchanged.
    dynamic.put(&old).await.unwrap();
    let found = dynamic.get("ada").await.unwrap().unwrap();
    assert_eq!(found.to_json()["note"], "kept");
    all.update("ada").set("status", "closed").await.unwrap();
    assert_eq!(
        dynamic.get("ada").await.unwrap().unwrap().to_json()["note"],
        "kept"
    );
    assert_eq!(assert_views_are_exact(&recto, "suspensions").await, 1);
}

pub(crate) async fn rejects_values_too_large_for_a_view(recto: Recto) {
    let all = suspensions(&recto);
    all.insert(&suspension("ada", "open", 1)).await.unwrap();
    let status = "x".repeat(9_000);
    let error = refused(&recto, all.update("ada").set("status", &*status)).await;
    assert_eq!(
        (error.kind(), error.field()),
        (ErrorKind::LimitExceeded, Some("status")),
        "{error}"
    );
    assert!(
        error.message().contains("view by_status: status is too large"),
        "{error}"
    );
}

/// Checks that Recto rejects a change that would make a record too large, although the stored
/// record and the change are each small enough.
pub(crate) async fn rejects_changes_that_make_a_record_too_large(recto: Recto) {
    let letters = recto.dynamic("letters").unwrap();
    let half = "x".repeat(600 << 10);
    letters.update(1).set("front", "").await.unwrap_err();
    let letter = serde_json::json!({ "id": 1, "front": half });
    let letter = DynamicRecord::from_json(letters.definition(), letter.as_object().unwrap());
    letters.insert(&letter.unwrap()).await.unwrap();
    let error = letters.update(1).set("back", &*half).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    assert!(error.message().contains("letters would have 1"), "{error}");
    // The rejected change left the stored record unchanged, so further changes must succeed.
    letters.update(1).set("front", "short").await.unwrap();
    letters.update(1).set("back", &*half).await.unwrap();
    let found = letters.get(1).await.unwrap().unwrap().to_json();
    assert_eq!(
        (&found["front"], found["back"].as_str()),
        (&"short".into(), Some(&*half))
    );
}

/// Checks that versions of a record never repeat, although a deletion may remove its row.
pub(crate) async fn deleted_records_do_not_repeat_a_version(recto: Recto) {
    let all = suspensions(&recto);
    let mut last = 0;
    for _ in 0..50 {
        for changed in [
            all.insert(&suspension("ada", "open", 1)).await.unwrap(),
            all.update("ada").set("visits", 1).await.unwrap(),
            all.delete("ada").await.unwrap(),
        ] {
            assert!(changed.version > last);
            last = changed.version;
        }
    }
    assert_eq!(assert_views_are_exact(&recto, "suspensions").await, 0);
}

pub(crate) async fn of_many_at_once_each_is_for_itself(recto: Recto) {
    let all = suspensions(&recto);
    let mut changes: Vec<recto::Change> = Vec::new();
    for number in 0..300 {
        changes.push(all.insert(&suspension(&format!("u{}", number % 100), "open", number + 1)));
    }
    changes.push(all.update("u7").set("status", "closed").into());
    changes.push(all.update("nobody").set("status", "closed").into());
    changes.push(all.delete("u8"));
    changes.push(all.insert(&suspension("u8", "closed", 5)));
    let ended = recto.change_each(changes).await.unwrap();
    let kinds: Vec<Option<ErrorKind>> = ended
        .iter()
        .map(|ended| ended.as_ref().err().map(Error::kind))
        .collect();
    assert!(kinds[..100].iter().all(Option::is_none));
    assert!(
        kinds[100..300]
            .iter()
            .all(|kind| *kind == Some(ErrorKind::Exists))
    );
    assert_eq!(kinds[300..], [None, Some(ErrorKind::NotFound), None, None]);
    assert_eq!(assert_views_are_exact(&recto, "suspensions").await, 100);
}
