//! Checks that all handles of a process follow a schema change that one of them applies.

use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use recto::session::{PageRequest, Pages as _};
use recto::{
    ApplyOptions, Collection, DynamicRecord, ErrorKind, LocalSession, OpenOptions, Record, Recto,
    Session as _,
};
use serde_json::{Value as Json, json};

use super::gate::Gate;
use super::{AFTER, BEFORE, jsons, put};
use crate::common::stores::parse;
use crate::common::{Fresh, Kind};

#[derive(Debug, Clone, PartialEq, Record)]
#[record(collection = "events", key = ["day", "id"], partition = ["day"], order = ["-id"], writes = "append")]
struct Event {
    day: i32,
    id: i32,
    what: Option<String>,
}

fn event(id: i32) -> Event {
    Event {
        day: 1,
        id,
        what: Some(format!("event {id}")),
    }
}

fn event_json(id: i32) -> Json {
    json!({ "day": 1, "id": id, "what": format!("event {id}") })
}

/// Returns a new store with five events and two settings, and the opened handle.
async fn opened(kind: Kind) -> (Fresh, Recto) {
    let fresh = Fresh::new(kind);
    let recto = fresh.open().await;
    recto.apply(&parse(BEFORE)).await.unwrap();
    let events = recto.collection::<Event>().unwrap();
    let all: Vec<Event> = (1..=5).map(event).collect();
    events.put_all(&all).await.unwrap();
    let setting = |name: &str| json!({ "name": name, "value": "1" });
    put(&recto.dynamic("settings").unwrap(), &[setting("a"), setting("b")]).await;
    (fresh, recto)
}

fn record(collection: &Collection<DynamicRecord>, json: &Json) -> DynamicRecord {
    DynamicRecord::from_json(collection.definition(), json.as_object().unwrap()).unwrap()
}

pub(crate) async fn a_handle_sees_a_field_that_was_added(kind: Kind) {
    let (_fresh, recto) = opened(kind).await;
    let typed = recto.collection::<Event>().unwrap();
    let events = recto.dynamic("events").unwrap();
    let scores = events
        .query()
        .filter("day = 1 AND score >= 0")
        .allow_filter_scan();
    assert_eq!(scores.clone().await.unwrap_err().kind(), ErrorKind::InvalidQuery);
    // The collection caches the plan of the text query `kept`. `built` is not a text query, so only
    // the query itself keeps its plan.
    let kept = events.query().filter("day = 1").first(2);
    let built = typed
        .query()
        .matching(recto::filter::field("day").equal_to(1))
        .first(2);
    let cursor = kept.clone().await.unwrap().next_cursor().unwrap();
    assert_eq!(built.clone().await.unwrap().items(), [event(5), event(4)]);
    // Before the change, begin a stream, a scan and a batch, and create a record without putting
    // it.
    let mut stream = std::pin::pin!(typed.query().filter("day = 1").first(2).stream());
    assert_eq!(stream.try_next().await.unwrap(), Some(event(5)));
    let mut scan = std::pin::pin!(events.scan().filter("day = 1").stream());
    let mut scanned = vec![scan.try_next().await.unwrap().unwrap()];
    let mut batch = recto.batch();
    batch.put(&typed, &event(6)).unwrap();
    let early = record(&events, &event_json(7));

    // Another handle of the same open store applies the schema change.
    recto.clone().apply(&parse(AFTER)).await.unwrap();

    assert!(events.definition().field("score").is_some());
    put(&events, &[json!({ "day": 1, "id": 8, "score": 0.5 })]).await;
    let scored = jsons(scores.await.unwrap().items());
    assert_eq!(scored, [json!({ "day": 1, "id": 8, "score": 0.5 })]);
    let page = kept.clone().await.unwrap();
    assert_eq!(page.items()[0].get("score"), Some(&recto::Value::Double(0.5)));
    assert_eq!(
        built.await.unwrap().items()[1],
        event(5),
        "after the eighth, which it does not know whole"
    );
    let next = kept.after(cursor).await.unwrap();
    assert_eq!(jsons(next.items()), [event_json(3), event_json(2)]);
    let rest: Vec<Event> = stream.try_collect().await.unwrap();
    assert_eq!(rest, [4, 3, 2, 1].map(event));
    scanned.extend(scan.try_collect::<Vec<_>>().await.unwrap());
    assert_eq!(jsons(&scanned), [5, 4, 3, 2, 1].map(event_json));
    // Operations that began before the change must not touch the new field.
    batch.commit().await.unwrap();
    events.put(&early).await.unwrap();
    assert_eq!(typed.get((1, 6)).await.unwrap(), Some(event(6)));
    assert_eq!(typed.get((1, 7)).await.unwrap(), Some(event(7)));
}

pub(crate) async fn a_removed_collection_is_an_error_of_every_handle(kind: Kind) {
    let (_fresh, recto) = opened(kind).await;
    let typed = recto.collection::<Event>().unwrap();
    let events = recto.dynamic("events").unwrap();
    let session = LocalSession::new(recto.clone());
    let kept = events.query().filter("day = 1").first(2);
    let page = kept.clone().await.unwrap();
    let mut stream = std::pin::pin!(typed.query().filter("day = 1").first(1).stream());
    stream.try_next().await.unwrap();
    let begun = |parallel| events.scan().parallel(parallel).parts();
    let (mut scan, mut lost_scan) = (begun(1), begun(2));
    let (mut batch, mut lost_batch) = (recto.batch(), recto.batch());
    batch.put(&typed, &event(6)).unwrap();
    lost_batch.delete(&events, (1, 1)).unwrap();

    let (_, settings) = BEFORE.split_at(BEFORE.find("[collection.settings]").unwrap());
    let remove = ApplyOptions::new().remove("events");
    recto.apply_with(&parse(settings), &remove).await.unwrap();

    let errors = [
        typed.get((1, 1)).await.unwrap_err(),
        typed.put(&event(1)).await.unwrap_err(),
        events.delete((1, 1)).await.unwrap_err(),
        kept.clone().await.unwrap_err(),
        stream.try_next().await.unwrap_err(),
        scan.try_next().await.unwrap_err(),
        batch.commit().await.unwrap_err(),
        session.page("events", &PageRequest::default()).await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        assert!(error.to_string().contains("no collection events"), "{error}");
        assert!(error.hint().is_some(), "{error}");
    }

    // A new collection has the same name as the removed one, but another key: a text instead of
    // `day` and `id`.
    let other = settings.to_owned()
        + r#"
[collection.events]
fields = { id = "text", what = "int" }
key = ["id"]
writes = "overwrite"
"#;
    recto.apply(&parse(&other)).await.unwrap();
    let late = json!({ "id": "x", "what": 1 });
    put(&events, std::slice::from_ref(&late)).await;
    assert_eq!(
        jsons(events.query().filter(r#"id = "x""#).await.unwrap().items()),
        [late]
    );
    assert_eq!(kept.clone().await.unwrap_err().kind(), ErrorKind::InvalidQuery);
    let errors = [
        typed.get((1, 1)).await.unwrap_err(),
        typed.query().filter("day = 1").await.unwrap_err(),
        typed.put(&event(1)).await.unwrap_err(),
        batch.commit().await.unwrap_err(),
        lost_batch.commit().await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::SchemaMismatch, "{error}");
        assert!(error.hint().is_some(), "{error}");
    }
    let old = events
        .query()
        .filter(r#"id = "x""#)
        .after(page.next_cursor().unwrap());
    assert_eq!(old.await.unwrap_err().kind(), ErrorKind::InvalidCursor);
    // The scan `lost_scan` had not begun, so it reads the new collection.
    let part = lost_scan.try_next().await.unwrap().unwrap();
    assert!(part.items.len() <= 1, "{part:?}");
    let foreign = record(&recto.dynamic("settings").unwrap(), &json!({ "name": "a" }));
    assert_eq!(
        events.put(&foreign).await.unwrap_err().kind(),
        ErrorKind::InvalidRecord
    );
}

/// Checks that other requests continue while a schema is being applied whose tables do not exist
/// yet.
pub(crate) async fn pages_go_on_while_a_schema_is_applied(kind: Kind) {
    let (_fresh, recto) = opened(kind).await;
    let gate = Gate::new(recto.store());
    let recto = Recto::with_store(gate.clone(), OpenOptions::new()).await.unwrap();
    let session = Arc::new(LocalSession::new(recto));
    let more = BEFORE.to_owned()
        + &BEFORE[BEFORE.find("[collection.settings]").unwrap()..].replace("settings", "more");
    let (applying, schema) = (Arc::clone(&session), parse(&more));
    let applying = tokio::spawn(async move {
        applying
            .tools()?
            .apply(&schema, &ApplyOptions::new(), &|_| {})
            .await
    });
    gate.arrived.acquire().await.unwrap().forget();
    let request = PageRequest {
        filter: "day = 1".into(),
        ..PageRequest::default()
    };
    let page = session.page("events", &request);
    let page = tokio::time::timeout(Duration::from_secs(10), page).await;
    assert_eq!(
        page.expect("a page does not wait for it").unwrap().records.len(),
        5
    );
    assert!(!applying.is_finished());
    let request = PageRequest {
        filter: r#"name = "a""#.into(),
        ..PageRequest::default()
    };
    let error = session.page("more", &request).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    gate.open.add_permits(1);
    assert_eq!(applying.await.unwrap().unwrap().generation, 2);
    assert!(session.page("more", &request).await.unwrap().records.is_empty());
}
