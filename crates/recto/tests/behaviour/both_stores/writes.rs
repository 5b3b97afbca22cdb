//! Checks that put records are stored, that deleted records are removed, and that an atomic batch
//! is applied completely or not at all.

use std::sync::Arc;
use std::time::Duration;

use recto::schema::Schema;
use recto::{DynamicRecord, ErrorKind, Recto, Value};
use serde_json::{Value as Json, json};

use crate::common::Subject;
use crate::common::subject::{words, words_of};

async fn reading(subject: &Subject, sensor: &str, slot: i32) -> Option<String> {
    let record = subject.collection.get((sensor.to_owned(), slot)).await.unwrap()?;
    Some(words_of(&[record], &["value", "unit"]))
}

fn record(subject: &Subject, json: &Json) -> DynamicRecord {
    subject.record(&subject.row(json))
}

pub(crate) async fn a_put_is_read_back_and_replaced_whole(recto: Recto) {
    let subject = Subject::new(&recto, "readings");
    let first = record(
        &subject,
        &json!({ "sensor": "replace", "slot": 1, "value": 1.5, "unit": "m" }),
    );
    subject.collection.put(&first).await.unwrap();
    assert_eq!(reading(&subject, "replace", 1).await.unwrap(), "1.5 m");
    // A put replaces the whole record, so fields that the second put lacks must be removed.
    let second = record(&subject, &json!({ "sensor": "replace", "slot": 1, "value": 2.5 }));
    subject.collection.put(&second).await.unwrap();
    assert_eq!(reading(&subject, "replace", 1).await.unwrap(), "2.5 -");
    // A record may consist of its key alone.
    let bare = record(&subject, &json!({ "sensor": "replace", "slot": 2 }));
    subject.collection.put(&bare).await.unwrap();
    assert_eq!(reading(&subject, "replace", 2).await.unwrap(), "- -");
    let page = subject.text(r#"sensor = "replace""#, "").await.unwrap();
    assert_eq!(words(&page, &["slot", "value"]), "1 2.5, 2 -");
}

pub(crate) async fn a_deleted_record_is_gone_and_may_come_back(recto: Recto) {
    let subject = Subject::new(&recto, "readings");
    let one = record(&subject, &json!({ "sensor": "delete", "slot": 1, "unit": "a" }));
    for _ in 0..3 {
        subject.collection.put(&one).await.unwrap();
        assert!(reading(&subject, "delete", 1).await.is_some());
        subject.collection.delete(("delete".to_owned(), 1)).await.unwrap();
        assert!(reading(&subject, "delete", 1).await.is_none());
        assert!(subject.text(r#"sensor = "delete""#, "").await.unwrap().is_empty());
    }
    subject.collection.delete(("delete".to_owned(), 1)).await.unwrap();
    assert!(reading(&subject, "never written", 1).await.is_none());
}

pub(crate) async fn the_last_writer_wins(recto: Recto) {
    let subject = Subject::new(&recto, "readings");
    for value in 0..20 {
        let next = record(&subject, &json!({ "sensor": "last", "slot": 1, "value": value }));
        subject.collection.put(&next).await.unwrap();
    }
    assert_eq!(reading(&subject, "last", 1).await.unwrap(), "19.0 -");
    // Within one batch, the last put must also win.
    let mut batch = recto.batch();
    for value in 0..20 {
        let next = record(
            &subject,
            &json!({ "sensor": "last", "slot": 1, "value": value * 100 }),
        );
        batch.put(&subject.collection, &next).unwrap();
    }
    batch.delete(&subject.collection, ("last".to_owned(), 2)).unwrap();
    batch
        .put(
            &subject.collection,
            &record(&subject, &json!({ "sensor": "last", "slot": 2, "value": 1 })),
        )
        .unwrap();
    batch
        .put(
            &subject.collection,
            &record(&subject, &json!({ "sensor": "last", "slot": 3, "value": 1 })),
        )
        .unwrap();
    batch.delete(&subject.collection, ("last".to_owned(), 3)).unwrap();
    batch.commit().await.unwrap();
    let page = subject.text(r#"sensor = "last""#, "").await.unwrap();
    assert_eq!(words(&page, &["slot", "value"]), "1 1900.0, 2 1.0");
}

pub(crate) async fn a_batch_is_all_or_nothing(recto: Recto) {
    let subject = Subject::new(&recto, "readings");
    let row = |sensor: &str, slot: i32| {
        record(
            &subject,
            &json!({ "sensor": sensor, "slot": slot, "value": slot }),
        )
    };
    let records: Vec<DynamicRecord> = (0..6)
        .map(|slot| row(&format!("all {}", slot % 3), slot))
        .collect();
    subject.collection.put_all(&records).await.unwrap();
    let filter = r#"sensor = "all 0" OR sensor = "all 1" OR sensor = "all 2""#;
    let page = subject.text(filter, "slot").await.unwrap();
    assert_eq!(words(&page, &["slot"]), "0, 1, 2, 3, 4, 5");
    // One invalid record must reject the whole batch.
    let bad = DynamicRecord::new(Arc::clone(&subject.definition));
    let error = subject
        .collection
        .put_all([&row("none", 1), &bad, &row("none", 2)])
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidRecord);
    assert_eq!(error.field(), Some("sensor"));
    assert!(subject.text(r#"sensor = "none""#, "").await.unwrap().is_empty());
    // An empty batch must succeed.
    subject.collection.put_all(&[]).await.unwrap();
    recto.batch().commit().await.unwrap();
}

pub(crate) async fn a_batch_that_is_too_large_writes_nothing(recto: Recto) {
    let subject = Subject::new(&recto, "notes");
    let limits = recto.store().limits();
    // Each of the seven records has a fifth of a batch's maximum size, so the batch is too large.
    let (text, count) = ("x".repeat(limits.batch_bytes / 5), 7);
    let records: Vec<DynamicRecord> = (0..count)
        .map(|id| record(&subject, &json!({ "id": 1_000_000 + id, "text": text })))
        .collect();
    let error = subject.collection.put_all(&records).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    assert!(error.hint().is_some(), "{error}");
    for id in 0..count {
        assert!(
            subject.collection.get((1_000_000 + id,)).await.unwrap().is_none(),
            "{id} was written"
        );
    }
    // Without atomicity, the maximum size of a batch does not apply, so all records must be
    // written.
    let mut batch = recto.batch();
    batch.each_for_itself();
    for one in &records {
        batch.put(&subject.collection, one).unwrap();
    }
    batch.commit().await.unwrap();
    assert!(subject.collection.get((1_000_006,)).await.unwrap().is_some());
    // A single record that is too large must be rejected, and must leave the stored record
    // unchanged.
    let large = record(
        &subject,
        &json!({ "id": 1_000_000, "text": "x".repeat(limits.mutation_bytes + 1) }),
    );
    let error = subject.collection.put(&large).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    let kept = subject.collection.get((1_000_000,)).await.unwrap().unwrap();
    assert_ne!(kept, large);
    // The batch must reject the first change beyond the maximum number of changes.
    let mut batch = recto.batch();
    for id in 0..recto::MAX_BATCH_CHANGES as i32 {
        batch.delete(&subject.collection, (id,)).unwrap();
    }
    assert_eq!(batch.len(), recto::MAX_BATCH_CHANGES);
    assert_eq!(
        batch.delete(&subject.collection, (-1,)).unwrap_err().kind(),
        ErrorKind::LimitExceeded
    );
}

pub(crate) async fn a_batch_of_several_collections(recto: Recto) {
    let (readings, notes) = (Subject::new(&recto, "readings"), Subject::new(&recto, "notes"));
    let reading_row = record(&readings, &json!({ "sensor": "several", "slot": 1, "value": 7 }));
    let note = record(&notes, &json!({ "id": 77, "text": "seven" }));
    let mut batch = recto.batch();
    batch
        .put(&readings.collection, &reading_row)
        .unwrap()
        .put(&notes.collection, &note)
        .unwrap();
    assert_eq!(batch.len(), 2);
    batch.commit().await.unwrap();
    assert!(batch.is_empty(), "a batch is empty after it is committed");
    assert_eq!(reading(&readings, "several", 1).await.unwrap(), "7.0 -");
    assert!(notes.collection.get((77,)).await.unwrap().is_some());
}

pub(crate) async fn records_expire(recto: Recto) {
    let subject = Subject::new(&recto, "readings");
    let row = |slot: i32| {
        record(
            &subject,
            &json!({ "sensor": "expire", "slot": slot, "value": slot }),
        )
    };
    subject
        .collection
        .put_for(&row(1), Duration::from_secs(6))
        .await
        .unwrap();
    subject
        .collection
        .put_for(&row(2), Duration::from_secs(1_000))
        .await
        .unwrap();
    subject.collection.put(&row(3)).await.unwrap();
    assert_eq!(
        words(
            &subject.text(r#"sensor = "expire""#, "").await.unwrap(),
            &["slot"]
        ),
        "1, 2, 3"
    );
    tokio::time::sleep(Duration::from_millis(7_200)).await;
    let page = subject.text(r#"sensor = "expire""#, "").first(1).await.unwrap();
    assert_eq!(
        words(&page, &["slot"]),
        "2",
        "what has expired takes no place on a page"
    );
    assert!(reading(&subject, "expire", 1).await.is_none());
    for wrong in [
        Duration::ZERO,
        Duration::from_millis(500),
        Duration::from_secs(u64::MAX),
    ] {
        let error = subject.collection.put_for(&row(4), wrong).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{wrong:?}: {error}");
    }
    assert!(reading(&subject, "expire", 4).await.is_none());
}

/// Checks that numbers are stored exactly or rejected. Two keys that would be equal as doubles must
/// be two records.
pub(crate) async fn numbers_are_exact_or_refused(recto: Recto) {
    let subject = Subject::new(&recto, "orders");
    let read = |numbers: &str| {
        let text = format!(r#"{{ "status": "exact", "created": "2013-01-31T10:00:00Z", {numbers} }}"#);
        DynamicRecord::from_json_text(Arc::clone(&subject.definition), &text)
    };
    for numbers in [
        r#""id": 9007199254740992, "total": 999999999999999999.99"#,
        r#""id": 9007199254740992, "total": 1000000000000000000.1"#,
        r#""id": 9007199254740993.0, "total": 1e18"#,
    ] {
        subject.collection.put(&read(numbers).unwrap()).await.unwrap();
    }
    let query = subject.text(r#"status = "exact""#, "");
    let page = query.clone().await.unwrap();
    assert_eq!(
        words(&page, &["id", "total"]),
        "9007199254740992 999999999999999999.99, 9007199254740992 1000000000000000000.1, 9007199254740993 1E+18"
    );
    let from = r#"["2013-01-31T10:00:00Z", 9007199254740992.0, 1000000000000000000.10]"#;
    let page = query.clone().from_json(from).await.unwrap();
    assert_eq!(page.len(), 2);
    let error = query
        .from_json(r#"["2013-01-31T10:00:00Z", 9007199254740992.5]"#)
        .await;
    let error = error.unwrap_err();
    assert!(error.to_string().contains("found 9007199254740992.5"), "{error}");

    for (numbers, field) in [
        (r#""id": 1.0000000000000000000001, "total": 1"#, "id"),
        (r#""id": 9223372036854775808, "total": 1"#, "id"),
        (r#""id": 1, "total": 1, "total": 2"#, "total"),
    ] {
        let error = read(numbers).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRecord, "{numbers}");
        assert_eq!(error.field(), Some(field), "{numbers}");
    }
    for (text, words) in [
        ("[1]", "not a JSON object"),
        ("{\"id\": nope}", "column 9: a word"),
    ] {
        let error = DynamicRecord::from_json_text(Arc::clone(&subject.definition), text).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
}

pub(crate) async fn rejects_invalid_records(recto: Recto) {
    let subject = Subject::new(&recto, "readings");
    let definition = || Arc::clone(&subject.definition);
    let parse = |json: Json| DynamicRecord::from_json(definition(), json.as_object().unwrap());
    for (json, field) in [
        (json!({ "sensor": "bad", "slot": "one" }), "slot"),
        (json!({ "sensor": "bad", "slot": 1, "colour": "red" }), "colour"),
        (json!({ "sensor": 5, "slot": 1 }), "sensor"),
        (json!({ "sensor": "bad", "slot": 3_000_000_000_u32 }), "slot"),
    ] {
        let error = parse(json.clone()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRecord, "{json}");
        assert_eq!(error.field(), Some(field), "{json}");
    }
    for (json, part) in [
        (json!({ "sensor": "bad" }), "slot"),
        (json!({ "slot": 1 }), "sensor"),
        (json!({ "sensor": "", "slot": 1 }), "sensor"),
        (json!({ "sensor": "x".repeat(70_000), "slot": 1 }), "sensor"),
    ] {
        let error = subject.collection.put(&parse(json).unwrap()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRecord, "{part}: {error}");
        assert!(error.to_string().contains(part), "{error}");
    }
    let mut record = DynamicRecord::new(definition());
    assert_eq!(
        record.set("slot", Some(Value::BigInt(1))).unwrap_err().kind(),
        ErrorKind::InvalidRecord
    );
    assert_eq!(
        record.set("slut", None).unwrap_err().kind(),
        ErrorKind::InvalidRecord
    );
}

pub(crate) async fn rejects_invalid_keys(recto: Recto) {
    let subject = Subject::new(&recto, "readings");
    let errors = [
        subject.collection.get(("one".to_owned(),)).await.unwrap_err(),
        subject.collection.get((1, 1)).await.unwrap_err(),
        subject
            .collection
            .get(("a".to_owned(), "b".to_owned()))
            .await
            .unwrap_err(),
        subject
            .collection
            .delete(("a".to_owned(), 1, 2))
            .await
            .unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::InvalidRecord, "{error}");
    }
}

/// Checks that a repeated put of the same record changes nothing, in a collection whose records are
/// only appended.
pub(crate) async fn appended_records_are_kept(recto: Recto) {
    let subject = Subject::new(&recto, "events");
    let one = record(
        &subject,
        &json!({ "stream": "append", "at": 1, "id": 1, "note": "kept" }),
    );
    for _ in 0..2 {
        subject.collection.put(&one).await.unwrap();
    }
    let page = subject.text(r#"stream = "append""#, "").await.unwrap();
    assert_eq!(words(&page, &["at", "kind", "note"]), "1 - kept");
    subject
        .collection
        .delete(("append".to_owned(), 1, 1))
        .await
        .unwrap();
    assert!(subject.text(r#"stream = "append""#, "").await.unwrap().is_empty());
}

fn event(subject: &Subject, stream: &str, id: i32, note: Option<&str>) -> DynamicRecord {
    let json = json!({ "stream": stream, "at": 1, "id": id, "kind": "k", "note": note });
    record(subject, &json)
}

pub(crate) async fn an_append_of_another_record_is_a_conflict_where_the_store_sees_it(recto: Recto) {
    let subject = Subject::new(&recto, "events");
    let events = &subject.collection;
    let stream = "conflict";
    let key = || (stream.to_owned(), 1, 1);
    let one = event(&subject, stream, 1, Some("one"));
    events.put(&one).await.unwrap();
    // A repeated put of the same record must succeed.
    events.put(&one).await.unwrap();
    let other = event(&subject, stream, 1, None);
    let beside = event(&subject, stream, 2, None);
    let put = events.put_all([&beside, &other]).await;
    if recto.store().limits().sees_conflicts {
        let error = put.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        assert_eq!(
            error.message(),
            "events has another record with the key (conflict, 1, 1)"
        );
        assert_eq!(error.change(), Some(1));
        assert!(error.hint().unwrap().contains("nothing was written"), "{error:?}");
        assert!(events.get((stream.to_owned(), 1, 2)).await.unwrap().is_none());
        assert_eq!(events.get(key()).await.unwrap().unwrap(), one);
        // A deleted record must cause no conflict.
        events.delete(key()).await.unwrap();
        events.put(&other).await.unwrap();
        assert_eq!(events.get(key()).await.unwrap().unwrap(), other);
        // In a batch, the deletion comes before the put, so there must be no conflict either.
        let mut batch = recto.batch();
        batch.delete(events, key()).unwrap().put(events, &one).unwrap();
        batch.commit().await.unwrap();
    } else {
        // If the store does not detect conflicts, the new cells that are not null replace the
        // stored cells, as documented.
        put.unwrap();
    }
    assert_eq!(events.get(key()).await.unwrap().unwrap(), one);
}

pub(crate) async fn two_puts_of_one_key_in_one_batch(recto: Recto) {
    let events = Subject::new(&recto, "events");
    let mut batch = recto.batch();
    let one = event(&events, "twice", 1, Some("one"));
    batch.put(&events.collection, &one).unwrap();
    batch.put(&events.collection, &one).unwrap();
    let other = event(&events, "twice", 1, Some("other"));
    let error = batch.put(&events.collection, &other).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.to_string().contains("(twice, 1, 1)"), "{error}");
    assert_eq!((batch.len(), batch.repeated()), (2, 1));
    batch.commit().await.unwrap();
    let kept = events.collection.get(("twice".to_owned(), 1, 1)).await.unwrap();
    assert_eq!(kept.unwrap(), one);

    let readings = Subject::new(&recto, "readings");
    for value in 0..3 {
        let row = json!({ "sensor": "twice", "slot": 1, "value": value, "unit": (value < 2).then_some("m") });
        batch.put(&readings.collection, &record(&readings, &row)).unwrap();
    }
    assert_eq!((batch.len(), batch.repeated()), (3, 2));
    batch.commit().await.unwrap();
    assert_eq!(reading(&readings, "twice", 1).await.unwrap(), "2.0 -");
}

pub(crate) async fn a_batch_deletes_a_record_in_no_view_that_it_put(recto: Recto) {
    let schema = r#"
[collection.visits]
writes = "append"
fields = { id = "int", page = "text" }
key = ["id"]

[collection.visits.view.by_page]
partition = ["page"]
nulls = "skip"
"#;
    recto.apply(&Schema::parse(schema).unwrap()).await.unwrap();
    let visits = Subject::new(&recto, "visits");
    for (id, visit) in [(1, json!({ "id": 1 })), (2, json!({ "id": 2, "page": "home" }))] {
        let mut batch = recto.batch();
        batch.put(&visits.collection, &record(&visits, &visit)).unwrap();
        batch.delete(&visits.collection, (id,)).unwrap();
        batch.commit().await.unwrap();
        assert!(visits.collection.get((id,)).await.unwrap().is_none(), "{visit}");
    }
}

pub(crate) async fn an_appended_record_lives_for_the_longer_time(recto: Recto) {
    let subject = Subject::new(&recto, "events");
    let [kept, prolonged] = [1, 2].map(|id| event(&subject, "lives", id, None));
    let events = &subject.collection;
    let seconds = Duration::from_secs;
    events.put(&kept).await.unwrap();
    events.put_for(&prolonged, seconds(2)).await.unwrap();
    events.put_for(&prolonged, seconds(1_000)).await.unwrap();
    events.put_for(&kept, seconds(2)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(7_200)).await;
    let page = subject.text(r#"stream = "lives""#, "").await.unwrap();
    let expected = if recto.store().limits().sees_conflicts {
        "1, 2"
    } else {
        "2"
    };
    assert_eq!(words(&page, &["id"]), expected);
    for time in [
        Duration::ZERO,
        Duration::from_millis(900),
        Duration::from_secs(1 << 40),
    ] {
        let error = events.put_for(&kept, time).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
}

pub(crate) async fn a_batch_that_failed_is_committed_again(recto: Recto) {
    let subject = Subject::new(&recto, "notes");
    let limits = recto.store().limits();
    let text = "x".repeat(limits.batch_bytes / 5);
    let mut batch = recto.batch();
    for id in 0..7 {
        let note = record(&subject, &json!({ "id": 2_000_000 + id, "text": text }));
        batch.put(&subject.collection, &note).unwrap();
    }
    for _ in 0..2 {
        let error = batch.commit().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
        assert_eq!(batch.len(), 7);
        assert!(subject.collection.get((2_000_000,)).await.unwrap().is_none());
    }
    batch.each_for_itself();
    batch.commit().await.unwrap();
    assert!(batch.is_empty());
    assert!(subject.collection.get((2_000_006,)).await.unwrap().is_some());
}
