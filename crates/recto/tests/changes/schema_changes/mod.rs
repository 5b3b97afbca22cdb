//! Tests of fields that are added to collections with records, on both stores, from the schema text
//! to the page.

mod gate;
mod handles;

use std::sync::Arc;

use crate::common::stores::parse;
use crate::common::{Fresh, Kind, Scope, Suite, run};
use handles::{
    a_handle_sees_a_field_that_was_added, a_removed_collection_is_an_error_of_every_handle,
    pages_go_on_while_a_schema_is_applied,
};
use recto::schema::Schema;
use recto::{ApplyOptions, Collection, DynamicRecord, Environment, ErrorKind, OpenOptions, Record, Recto};
use recto_store::faults::{FaultRates, FaultyStore};
use recto_store::memory::MemoryStore;
use recto_store::{Store, StoreErrorKind, TableOutcome};
use serde_json::{Value as Json, json};

const BEFORE: &str = r#"
[collection.events]
fields = { day = "int", id = "int", what = "text" }
key = ["day", "id"]
partition = ["day"]
order = ["-id"]
writes = "append"

[collection.settings]
fields = { name = "text", value = "text" }
key = ["name"]
writes = "overwrite"
"#;

/// Schema after the change. It has new fields before, between and after the existing fields.
const AFTER: &str = r#"
[collection.events]
fields = { tags = "list<text>", day = "int", id = "int", score = "double", what = "text", place = "place" }
key = ["day", "id"]
partition = ["day"]
order = ["-id"]
writes = "append"

[collection.settings]
fields = { name = "text", value = "text" }
key = ["name"]
writes = "overwrite"

[type.place]
fields = { city = "text" }
"#;

/// Returns the schema `schema` with an additional field `note` in the collection `settings`.
fn with_note(schema: &str) -> Schema {
    parse(&schema.replace(r#"value = "text""#, r#"note = "text", value = "text""#))
}

macro_rules! on_both {
    ($($name:ident),+ $(,)?) => {
        static TESTS: Suite = Suite::new(module_path!(), 2 * [$(stringify!($name)),+].len());
        on_both!(@store embedded, Embedded, $($name),+);
        on_both!(@store cassandra, Cassandra, $($name),+);
    };
    (@store $store:ident, $kind:ident, $($name:ident),+) => {
        mod $store {
            $(#[test]
            fn $name() {
                let _scope = super::Scope::new(&super::TESTS);
                super::run(super::$name(super::Kind::$kind));
            })+
        }
    };
}

on_both! {
    fields_are_added_to_a_collection_with_records,
    record_types_may_declare_fields_in_any_order,
    handles_from_before_keep_working,
    a_handle_sees_a_field_that_was_added,
    a_removed_collection_is_an_error_of_every_handle,
    pages_go_on_while_a_schema_is_applied,
    an_older_program_beside_a_newer_one,
    older_and_newer_programs_append,
    keeps_parts_that_a_schema_does_not_name,
    a_collection_is_removed_by_name,
    an_interrupted_removal_is_finished,
    removes_nothing_after_losing_to_another_apply,
    a_table_that_is_gone_is_made_again,
    a_table_of_another_order_is_refused_and_the_others_go_on,
    a_column_of_another_type_is_refused,
    rejects_incompatible_schemas_and_changes_nothing,
    an_interrupted_apply_is_finished,
    an_addition_that_lost_is_in_nobodys_way,
    two_who_apply_at_once,
    two_who_apply_different_things_at_once,
}

async fn put(collection: &Collection<DynamicRecord>, records: &[Json]) {
    let definition = collection.definition();
    for record in records {
        let record = DynamicRecord::from_json(Arc::clone(&definition), record.as_object().unwrap());
        collection.put(&record.unwrap()).await.unwrap();
    }
}

fn jsons(records: &[DynamicRecord]) -> Vec<Json> {
    records
        .iter()
        .map(|record| Json::Object(record.to_json()))
        .collect()
}

async fn all(collection: &Collection<DynamicRecord>, filter: &str) -> Vec<Json> {
    let page = collection
        .query()
        .filter(filter)
        .allow_filter_scan()
        .await
        .unwrap();
    jsons(page.items())
}

fn names(recto: &Recto, collection: &str) -> Vec<String> {
    let schema = recto.schema();
    let fields = &schema.collection(collection).unwrap().fields;
    fields.iter().map(|field| field.name.clone()).collect()
}

async fn fields_are_added_to_a_collection_with_records(kind: Kind) {
    let fresh = Fresh::new(kind);
    let recto = fresh.open().await;
    recto.apply(&parse(BEFORE)).await.unwrap();
    let old = recto.dynamic("events").unwrap();
    let event = |id: i32| json!({ "day": 1, "id": id, "what": format!("old {id}") });
    put(&old, &[event(1), event(2), event(3)]).await;
    let first = old.query().filter("day = 1").first(2).await.unwrap();
    let cursor = first.next_cursor().unwrap().into_string();

    let plan = recto.plan(&parse(AFTER)).await.unwrap();
    assert_eq!(plan.rejected, [""; 0]);
    assert_eq!(
        plan.changes,
        [
            "type place: new",
            "collection events: new field tags list<text>",
            "collection events: new field score double",
            "collection events: new field place place",
        ]
    );
    match kind {
        Kind::Embedded => {
            assert_eq!(
                plan.statements,
                ["table events: add tags list<text>, score double, place place"]
            );
        }
        Kind::Cassandra => {
            assert_eq!(plan.statements.len(), 3, "{:?}", plan.statements);
            assert!(plan.statements[0].starts_with("CREATE TYPE IF NOT EXISTS"));
            assert!(plan.statements[1].ends_with(
                r#"ADD IF NOT EXISTS ("tags" frozen<list<text>>, "score" double, "place" frozen<"place">)"#
            ));
            assert!(plan.statements[2].contains("WITH comment ="));
        }
    }
    let applied = recto.apply(&parse(AFTER)).await.unwrap();
    assert_eq!((applied.generation, applied.changes), (2, plan.changes));
    assert_eq!(
        names(&recto, "events"),
        ["day", "id", "what", "tags", "score", "place"]
    );
    let again = recto.plan(&parse(AFTER)).await.unwrap();
    assert!(again.changes.is_empty() && again.statements.is_empty() && again.rejected.is_empty());
    assert_eq!(recto.apply(&parse(AFTER)).await.unwrap().generation, 2);

    let events = recto.dynamic("events").unwrap();
    let new =
        json!({ "day": 1, "id": 4, "what": "new", "tags": ["a"], "score": 0.5, "place": { "city": "Oslo" } });
    let filled = json!({ "day": 1, "id": 1, "what": "old 1", "score": 0.25 });
    // Existing records of this append-only collection never change, so they cannot get a value in
    // the new field. A program must delete such a record and put a new one.
    events.delete((1, 1)).await.unwrap();
    put(&events, &[new.clone(), filled.clone()]).await;
    let expected = [new.clone(), event(3), event(2), filled.clone()];
    let check = async |recto: &Recto| {
        let events = recto.dynamic("events").unwrap();
        assert_eq!(all(&events, "day = 1").await, expected);
        assert_eq!(all(&events, "day = 1 AND score > 0.3").await, [new.clone()]);
        assert_eq!(all(&events, "day = 1 AND score < 0.3").await, [filled.clone()]);
        let backwards = events
            .query()
            .filter("day = 1")
            .order_by("id")
            .first(2)
            .await
            .unwrap();
        assert_eq!(jsons(backwards.items()), [filled.clone(), event(2)]);
        let last = events.query().filter("day = 1").last(1).await.unwrap();
        assert_eq!(jsons(last.items()), [filled.clone()]);
        assert_eq!(
            events
                .get((1, 2))
                .await
                .unwrap()
                .map(|one| Json::Object(one.to_json())),
            Some(event(2))
        );
        // A cursor created before the new field must continue, because the sort order is the same.
        let next = events
            .query()
            .filter("day = 1")
            .first(2)
            .after(cursor.clone())
            .await
            .unwrap();
        assert_eq!(jsons(next.items()), [filled.clone()]);
    };
    check(&recto).await;
    drop((old, first, events, recto));
    let recto = fresh.open().await;
    assert_eq!(recto.generation(), 2);
    check(&recto).await;
}

/// Record type for `settings` that lacks the field `note`.
#[derive(Debug, Clone, PartialEq, Record)]
#[record(collection = "settings", key = ["name"], writes = "overwrite")]
struct Setting {
    name: String,
    value: Option<String>,
}

/// Record type for `settings` with the field `note`, which comes before the older fields.
#[derive(Debug, Clone, PartialEq, Record)]
#[record(collection = "settings", key = ["name"], writes = "overwrite")]
struct NotedSetting {
    note: Option<String>,
    value: Option<String>,
    name: String,
}

async fn record_types_may_declare_fields_in_any_order(kind: Kind) {
    let recto = Fresh::new(kind).open().await;
    recto
        .apply(&recto::schema_of([Setting::collection()]))
        .await
        .unwrap();
    let settings = recto.collection::<Setting>().unwrap();
    let of = |name: &str, value: &str| Setting {
        name: name.into(),
        value: Some(value.into()),
    };
    settings.put(&of("a", "1")).await.unwrap();
    let error = recto.collection::<NotedSetting>().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
    assert!(error.to_string().contains("new field note text"), "{error}");

    let schema = recto::schema_of([NotedSetting::collection()]);
    recto.apply(&schema).await.unwrap();
    assert_eq!(names(&recto, "settings"), ["name", "value", "note"]);
    let noted = recto.collection::<NotedSetting>().unwrap();
    let of = |name: &str, value: &str, note: Option<&str>| NotedSetting {
        note: note.map(Into::into),
        value: Some(value.into()),
        name: name.into(),
    };
    noted.put(&of("b", "2", Some("n"))).await.unwrap();
    assert_eq!(
        noted.get(("a".to_owned(),)).await.unwrap(),
        Some(of("a", "1", None))
    );
    assert_eq!(
        noted.get(("b".to_owned(),)).await.unwrap(),
        Some(of("b", "2", Some("n")))
    );
    let page = noted.query().filter(r#"name = "b""#).await.unwrap();
    assert_eq!(page.items(), [of("b", "2", Some("n"))]);
}

async fn handles_from_before_keep_working(kind: Kind) {
    let fresh = Fresh::new(kind);
    let recto = fresh.open().await;
    recto.apply(&parse(BEFORE)).await.unwrap();
    // `other` does not refresh its schema. On Cassandra, it belongs to another process.
    let other = match kind {
        Kind::Embedded => recto.clone(),
        Kind::Cassandra => fresh.open().await,
    };
    let old = other.dynamic("settings").unwrap();
    let known = old.definition();
    let setting = |name: &str, value: &str| json!({ "name": name, "value": value });
    put(&old, &[setting("a", "1"), setting("b", "1")]).await;
    recto.apply(&with_note(BEFORE)).await.unwrap();
    let new = recto.dynamic("settings").unwrap();
    let noted = json!({ "name": "a", "value": "2", "note": "n" });
    put(&new, std::slice::from_ref(&noted)).await;
    let seen = match kind {
        Kind::Embedded => noted,
        Kind::Cassandra => setting("a", "2"),
    };
    assert_eq!(all(&old, r#"name = "a""#).await, [seen]);
    for record in [setting("a", "3"), setting("c", "3")] {
        let record = DynamicRecord::from_json(Arc::clone(&known), record.as_object().unwrap());
        old.put(&record.unwrap()).await.unwrap();
    }
    old.delete(("b".to_owned(),)).await.unwrap();
    let found = all(&new, r#"name = "a""#).await;
    assert_eq!(
        found,
        [json!({ "name": "a", "value": "3", "note": "n" })],
        "what it does not know it leaves alone"
    );
    assert_eq!(all(&new, r#"name = "b""#).await, [json!(null); 0]);
    assert_eq!(all(&new, r#"name = "c""#).await, [setting("c", "3")]);
    // After the other process refreshes its schema, its existing handle must know the new field.
    assert_eq!(other.refresh().await.unwrap(), kind == Kind::Cassandra);
    assert_eq!(all(&old, r#"name = "a""#).await, found);
}

/// Checks that version 1 of a program can start again while version 2, which added a field, is
/// running. Version 1 reads the fields that it knows, and applies its own schema. It must not
/// change the new field, which may come before or after its own fields.
async fn an_older_program_beside_a_newer_one(kind: Kind) {
    /// Record type that lacks the field `value` and the fields after it.
    #[derive(Debug, Clone, PartialEq, Record)]
    #[record(collection = "settings", key = ["name"], writes = "overwrite")]
    struct Owned {
        name: String,
        owner: Option<String>,
    }
    let recto = Fresh::new(kind).open().await;
    for collection in [
        Setting::collection(),
        NotedSetting::collection(),
        Owned::collection(),
    ] {
        let applied = recto.apply(&recto::schema_of([collection])).await.unwrap();
        assert_eq!(applied.changes.len(), 1, "{applied:?}");
    }
    let newer = recto.collection::<NotedSetting>().unwrap();
    let noted = |value: Option<&str>, note: &str| NotedSetting {
        name: "a".into(),
        value: value.map(Into::into),
        note: Some(note.into()),
    };
    newer.put(&noted(Some("1"), "n")).await.unwrap();
    // Like real programs, the older program applies its schema when it starts.
    let applied = recto
        .apply(&recto::schema_of([Setting::collection()]))
        .await
        .unwrap();
    assert_eq!((applied.generation, applied.changes.len()), (3, 0));
    assert_eq!(
        applied.kept,
        [
            "field note of collection settings",
            "field owner of collection settings"
        ]
    );
    let older = recto.collection::<Setting>().unwrap();
    let mut setting = older.get("a").await.unwrap().unwrap();
    assert_eq!(setting.value.as_deref(), Some("1"));
    setting.value = None;
    older.put(&setting).await.unwrap();
    let owned = recto.collection::<Owned>().unwrap();
    let mine = Owned {
        name: "a".into(),
        owner: Some("o".into()),
    };
    owned.put_all([&mine]).await.unwrap();
    assert_eq!(newer.get("a").await.unwrap(), Some(noted(None, "n")));
    let page = owned.query().filter(r#"name = "a""#).await.unwrap();
    assert_eq!(page.items(), [mine]);
    let page = older
        .query()
        .filter(r#"name = "a" AND note = "n""#)
        .allow_filter_scan()
        .await;
    assert_eq!(
        page.unwrap().items(),
        [setting],
        "what it does not know it may ask for"
    );
    owned.delete("a").await.unwrap();
    assert_eq!(newer.get("a").await.unwrap(), None);
}

/// Checks that version 1 of a program can put its records again after version 2 added fields and
/// gave them values. To version 1, the records are equal, because it knows only the old fields.
/// Version 2 knows the new fields, so a put without their values is a different record, and the
/// embedded store reports a conflict.
async fn older_and_newer_programs_append(kind: Kind) {
    #[derive(Debug, Clone, PartialEq, Record)]
    #[record(collection = "notes", key = ["day", "id"], partition = ["day"], order = ["id"], writes = "append")]
    struct Note {
        day: i32,
        id: i32,
        text: Option<String>,
    }
    #[derive(Debug, Clone, PartialEq, Record)]
    #[record(collection = "notes", key = ["day", "id"], partition = ["day"], order = ["id"], writes = "append")]
    struct RatedNote {
        day: i32,
        id: i32,
        text: Option<String>,
        rating: Option<i32>,
    }
    let recto = Fresh::new(kind).open().await;
    for collection in [Note::collection(), RatedNote::collection()] {
        recto.apply(&recto::schema_of([collection])).await.unwrap();
    }
    let (older, newer) = (
        recto.collection::<Note>().unwrap(),
        recto.collection::<RatedNote>().unwrap(),
    );
    let note = |id, text: Option<&str>| Note {
        day: 1,
        id,
        text: text.map(Into::into),
    };
    let rated = |id, text: Option<&str>, rating| RatedNote {
        day: 1,
        id,
        text: text.map(Into::into),
        rating,
    };
    newer.put(&rated(1, Some("a"), Some(5))).await.unwrap();
    newer.put(&rated(2, None, None)).await.unwrap();
    for _ in 0..2 {
        older.put(&note(1, Some("a"))).await.unwrap();
        older
            .put_all([&note(2, None), &note(3, Some("c"))])
            .await
            .unwrap();
        newer.put(&rated(3, Some("c"), None)).await.unwrap();
    }
    // Put records of both programs in one batch and one partition.
    let mut batch = recto.batch();
    batch.put(&older, &note(1, Some("a"))).unwrap();
    batch.put(&newer, &rated(4, Some("d"), Some(1))).unwrap();
    batch.put(&older, &note(4, Some("d"))).unwrap();
    batch.commit().await.unwrap();
    assert_eq!(older.get((1, 4)).await.unwrap(), Some(note(4, Some("d"))));
    // Cassandra does not compare a put with the stored record, so only the embedded store reports
    // conflicts.
    if kind == Kind::Embedded {
        for text in [Some("b"), None] {
            let error = older.put(&note(1, text)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Conflict, "{text:?}: {error}");
        }
        for (id, rating) in [(1, None), (1, Some(4)), (3, Some(3))] {
            let text = if id == 1 { "a" } else { "c" };
            let error = newer.put(&rated(id, Some(text), rating)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Conflict, "{rating:?}: {error}");
        }
    }
    let found = newer.get((1, 1)).await.unwrap();
    assert_eq!(
        found,
        Some(rated(1, Some("a"), Some(5))),
        "what it does not know it leaves alone"
    );
}

/// Schema with one collection that the other test schemas do not declare.
const MORE: &str = r#"
[collection.more]
fields = { id = "int" }
key = ["id"]
writes = "append"
"#;

async fn keeps_parts_that_a_schema_does_not_name(kind: Kind) {
    let recto = Fresh::new(kind).open().await;
    recto.apply(&parse(AFTER)).await.unwrap();
    let settings = recto.dynamic("settings").unwrap();
    put(&settings, &[json!({ "name": "a", "value": "1" })]).await;
    // Apply the schema of a second module, and then the unchanged schema of the first module.
    for (schema, changes, kept) in [(MORE, vec!["collection more: new"], 3), (BEFORE, vec![], 5)] {
        let schema = parse(schema);
        let plan = recto.plan(&schema).await.unwrap();
        assert_eq!(
            (plan.changes.clone(), plan.rejected.len()),
            (changes.iter().map(ToString::to_string).collect(), 0)
        );
        let applied = recto.apply(&schema).await.unwrap();
        assert_eq!((applied.changes, &applied.kept), (plan.changes, &plan.kept));
        assert_eq!(applied.kept.len(), kept, "{:?}", applied.kept);
    }
    let plan = recto.plan(&parse(BEFORE)).await.unwrap();
    for line in ["type place", "field tags of collection events", "collection more"] {
        assert!(plan.kept.iter().any(|kept| kept == line), "{:?}", plan.kept);
    }
    assert_eq!(recto.generation(), 2);
    assert_eq!(all(&settings, r#"name = "a""#).await.len(), 1);
    assert_eq!(names(&recto, "events").len(), 6);
}

async fn a_collection_is_removed_by_name(kind: Kind) {
    let fresh = Fresh::new(kind);
    let recto = fresh.open().await;
    recto.apply(&parse(&format!("{BEFORE}{MORE}"))).await.unwrap();
    let more = recto.dynamic("more").unwrap();
    put(&more, &[json!({ "id": 1 }), json!({ "id": 2 })]).await;
    let remove = ApplyOptions::new().remove("more");
    let plan = recto.plan_with(&parse(BEFORE), &remove).await.unwrap();
    assert_eq!(plan.changes, ["collection more: removed; its 2 rows are lost"]);
    assert_eq!((&plan.rejected, &plan.kept), (&Vec::new(), &Vec::new()));
    assert_eq!(plan.statements.len(), 1);
    assert!(
        plan.statements[0].to_lowercase().contains("drop"),
        "{:?}",
        plan.statements
    );
    for (name, part) in [
        ("settings", "leave it out of the schema"),
        ("events.what", "cannot be removed"),
        ("mor", "did you mean more?"),
        ("recto_catalog", "no collection recto_catalog"),
    ] {
        let options = ApplyOptions::new().remove(name);
        let error = recto.apply_with(&parse(BEFORE), &options).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SchemaMismatch, "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
    let applied = recto.apply_with(&parse(BEFORE), &remove).await.unwrap();
    assert_eq!((applied.generation, applied.changes), (2, plan.changes));
    assert_eq!(recto.dynamic("more").unwrap_err().kind(), ErrorKind::NotFound);
    let tables = recto.store().list_tables().await.unwrap();
    assert!(tables.iter().all(|table| table.name() != "more"), "{tables:?}");
    // Handles of the removed collection must return an error.
    assert!(more.get(1).await.is_err());
    // A new collection of the same name must be empty at first.
    recto.apply(&parse(MORE)).await.unwrap();
    assert!(recto.dynamic("more").unwrap().get(1).await.unwrap().is_none());
}

/// Checks that a later apply completes the interrupted removal of a collection, whose table was not
/// dropped although the new schema is recorded.
async fn an_interrupted_removal_is_finished(kind: Kind) {
    let fresh = Fresh::new(kind);
    let recto = fresh.open().await;
    recto.apply(&parse(BEFORE)).await.unwrap();
    let table = parse(MORE).collection("more").unwrap().base_table();
    recto.store().create_table(&table).await.unwrap();
    let again = parse(MORE);
    assert_eq!(
        recto.plan(&again).await.unwrap().changes,
        ["collection more: new"]
    );
    recto.apply(&again).await.unwrap();
    put(&recto.dynamic("more").unwrap(), &[json!({ "id": 1 })]).await;
    recto
        .apply_with(&parse(BEFORE), &ApplyOptions::new().remove("more"))
        .await
        .unwrap();
    recto.store().create_table(&table).await.unwrap();
    // When a program removes the collection again, Recto must drop the remaining table, and report
    // the number of its rows.
    let remove = ApplyOptions::new().remove("more");
    let applied = recto.apply_with(&parse(BEFORE), &remove).await.unwrap();
    assert_eq!(
        applied.changes,
        ["table more, which is in no schema: dropped; it has no rows"]
    );
    assert_eq!(applied.generation, 3, "the schema is the same");
    let tables = recto.store().list_tables().await.unwrap();
    assert!(tables.iter().all(|table| table.name() != "more"), "{tables:?}");
}

/// Checks that a removal of a collection fails if another handle adds a field to the collection at
/// the same time. The rows must then still exist.
async fn removes_nothing_after_losing_to_another_apply(kind: Kind) {
    let fresh = Fresh::new(kind);
    let (one, two) = two_handles(&fresh, kind).await;
    put(&one.dynamic("settings").unwrap(), &[json!({ "name": "a" })]).await;
    let events = parse(&BEFORE[..BEFORE.find("[collection.settings]").unwrap()]);
    let (remove, noted) = (ApplyOptions::new().remove("settings"), with_note(BEFORE));
    let (removed, added) = tokio::join!(one.apply_with(&events, &remove), two.apply(&noted));
    let recto = match kind {
        Kind::Embedded => one,
        Kind::Cassandra => fresh.open().await,
    };
    assert!(removed.is_ok() || added.is_ok(), "{removed:?} {added:?}");
    if removed.is_err() {
        assert_eq!(
            all(&recto.dynamic("settings").unwrap(), r#"name = "a""#)
                .await
                .len(),
            1
        );
    } else if added.is_err() {
        assert!(recto.dynamic("settings").is_err());
    }
}

/// Returns a handle that has checked again whether its tables exist. On Cassandra, it refreshes the
/// given handle. An embedded store checks its tables only when it is opened, so the function
/// reopens the store.
async fn looked(recto: Recto, fresh: &Fresh) -> Recto {
    match fresh.kind {
        Kind::Cassandra => {
            assert!(!recto.refresh().await.unwrap(), "the schema is the same");
            recto
        }
        Kind::Embedded => {
            drop(recto);
            fresh.open().await
        }
    }
}

/// Drops a table and creates it again, as an administrator could do while programs run.
async fn replace_table(recto: &Recto, table: &recto_model::Table) {
    recto.store().drop_table(table.name()).await.unwrap();
    let made = recto.store().create_table(table).await;
    assert!(matches!(made, Ok(TableOutcome::Done)), "{made:?}");
}

fn message<T: std::fmt::Debug>(result: recto::Result<T>) -> String {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SchemaMismatch, "{error}");
    error.to_string()
}

async fn a_table_that_is_gone_is_made_again(kind: Kind) {
    let fresh = Fresh::new(kind);
    let recto = fresh.open().await;
    recto.apply(&parse(BEFORE)).await.unwrap();
    let setting = json!({ "name": "a", "value": "1" });
    put(
        &recto.dynamic("settings").unwrap(),
        std::slice::from_ref(&setting),
    )
    .await;
    recto.store().drop_table("settings").await.unwrap();
    let recto = looked(recto, &fresh).await;
    let refused = message(recto.dynamic("settings"));
    assert!(refused.contains("table settings is missing"), "{refused}");
    assert!(message(recto.collection::<Setting>()).contains("apply the schema again"));
    assert_eq!(recto.unavailable_collections().len(), 1);
    recto
        .dynamic("events")
        .unwrap()
        .query()
        .filter("day = 1")
        .await
        .unwrap();

    // Every plan must report the missing table, whether or not its schema names the table.
    let lost = "table settings: it is missing and is created again, empty; its rows are lost";
    assert_eq!(recto.plan(&parse(MORE)).await.unwrap().changes[1], lost);
    let plan = recto.plan(&parse(BEFORE)).await.unwrap();
    assert_eq!(
        (&plan.changes[..], plan.statements.len()),
        (&[lost.to_owned()][..], 1)
    );
    let applied = recto.apply(&with_note(BEFORE)).await.unwrap();
    assert_eq!((applied.generation, applied.changes.len()), (2, 2), "{applied:?}");
    assert!(recto.unavailable_collections().is_empty());
    let settings = recto.dynamic("settings").unwrap();
    assert_eq!(all(&settings, r#"name = "a""#).await, [json!(null); 0]);
    put(&settings, std::slice::from_ref(&setting)).await;
    assert_eq!(all(&settings, r#"name = "a""#).await, [setting]);

    recto.store().drop_table("settings").await.unwrap();
    let applied = recto.apply(&with_note(BEFORE)).await.unwrap();
    assert_eq!(applied.generation, 2, "the schema is the same");
    assert!(
        recto
            .dynamic("settings")
            .unwrap()
            .get("a")
            .await
            .unwrap()
            .is_none()
    );
}

async fn a_table_of_another_order_is_refused_and_the_others_go_on(kind: Kind) {
    let fresh = Fresh::new(kind);
    let recto = fresh.open().await;
    recto.apply(&parse(BEFORE)).await.unwrap();
    let table = recto.schema().collection("events").unwrap().base_table();
    let ascending = parse(&BEFORE.replace("-id", "id"));
    let events = recto.dynamic("events").unwrap();
    replace_table(&recto, &ascending.collection("events").unwrap().base_table()).await;
    let recto = match kind {
        // Recto must also reject requests through handles that existed before.
        Kind::Cassandra => {
            let recto = looked(recto, &fresh).await;
            message(events.query().filter("day = 1").await);
            message(events.get((1, 1)).await);
            recto
        }
        Kind::Embedded => {
            drop(events);
            looked(recto, &fresh).await
        }
    };
    let refused = message(recto.dynamic("events"));
    assert!(
        refused.contains("column id is an ascending clustering column, not a descending"),
        "{refused}"
    );
    let plan = recto.plan(&parse(BEFORE)).await.unwrap();
    assert_eq!((plan.rejected.len(), plan.changes.len()), (1, 0), "{plan:?}");
    assert!(message(recto.apply(&parse(BEFORE)).await).contains("table events"));
    // A module whose schema does not name the table continues, and gets a note about it.
    let settings = recto.dynamic("settings").unwrap();
    put(&settings, &[json!({ "name": "a" })]).await;
    let applied = recto.apply(&parse(MORE)).await.unwrap();
    assert!(
        applied
            .kept
            .iter()
            .any(|line| line.contains("table events differs")),
        "{applied:?}"
    );
    drop(settings);
    // After the table is restored, requests must succeed again.
    replace_table(&recto, &table).await;
    let recto = looked(recto, &fresh).await;
    assert!(recto.unavailable_collections().is_empty());
    recto
        .dynamic("events")
        .unwrap()
        .query()
        .filter("day = 1")
        .await
        .unwrap();
}

async fn a_column_of_another_type_is_refused(kind: Kind) {
    let fresh = Fresh::new(kind);
    let recto = fresh.open().await;
    recto.apply(&parse(BEFORE)).await.unwrap();
    let settings = recto.dynamic("settings").unwrap();
    put(&settings, &[json!({ "name": "a", "value": "1234" })]).await;
    let other = parse(&BEFORE.replace(r#"value = "text""#, r#"value = "int""#));
    replace_table(&recto, &other.collection("settings").unwrap().base_table()).await;
    drop(settings);
    let recto = looked(recto, &fresh).await;
    let refused = message(recto.dynamic("settings"));
    assert!(
        refused.contains("column value has type int, not text"),
        "{refused}"
    );
    assert_eq!(recto.unavailable_collections().len(), 1);
}

async fn rejects_incompatible_schemas_and_changes_nothing(kind: Kind) {
    let recto = Fresh::new(kind).open().await;
    recto.apply(&parse(AFTER)).await.unwrap();
    let tables = recto.store().list_tables().await.unwrap();
    let replaced = |from: &str, to: &str| {
        assert!(AFTER.contains(from), "{from}");
        // The schema also adds a field. Recto must reject the whole schema, and not apply this
        // allowed change alone.
        with_note(&AFTER.replace(from, to))
    };
    let event_key = r#"key = ["day", "id"]"#;
    for (schema, named) in [
        (
            replaced(r#"score = "double""#, r#"score = "int""#),
            "field score from double to int",
        ),
        (
            replaced(event_key, r#"key = ["day", "id", "what"]"#),
            "key from [day, id] to",
        ),
        (
            replaced(r#"city = "text""#, r#"city = "text", zip = "text""#),
            "type place: new fields zip",
        ),
    ] {
        let plan = recto.plan(&schema).await.unwrap();
        assert!(
            plan.rejected.iter().any(|reason| reason.contains(named)),
            "{:?}",
            plan.rejected
        );
        let error = recto.apply(&schema).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SchemaMismatch, "{error}");
        assert_eq!(recto.generation(), 1);
        assert_eq!(recto.store().list_tables().await.unwrap(), tables, "{named}");
    }
}

async fn an_interrupted_apply_is_finished(kind: Kind) {
    let recto = Fresh::new(kind).open().await;
    recto.apply(&parse(BEFORE)).await.unwrap();
    let noted = with_note(BEFORE).keeping(&recto.schema());
    // Simulate an interrupted apply: the table is changed, but the schema is not recorded.
    let table = noted.collection("settings").unwrap().base_table();
    let recorded = recto.schema().collection("settings").unwrap().base_table();
    let outcome = recto.store().add_columns(&recorded, &table).await;
    assert!(matches!(outcome, Ok(TableOutcome::Done)), "{outcome:?}");
    let settings = recto.dynamic("settings").unwrap();
    put(&settings, &[json!({ "name": "a", "value": "1" })]).await;
    // The embedded store identifies cells by position, so it must reject another field at this
    // position, with a hint, and record nothing.
    if kind == Kind::Embedded {
        let other = parse(&BEFORE.replace(r#"value = "text""#, r#"value = "text", other = "text""#));
        let error = recto.apply(&other).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
        assert!(error.to_string().contains("note"), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("interrupted")));
        assert_eq!(recto.generation(), 1);
    }
    // The same schema, or one with more fields, must continue the interrupted apply.
    let both = parse(&BEFORE.replace(
        r#"value = "text""#,
        r#"value = "text", note = "text", other = "text""#,
    ));
    assert_eq!(recto.apply(&both).await.unwrap().generation, 2);
    let settings = recto.dynamic("settings").unwrap();
    assert_eq!(
        all(&settings, r#"name = "a""#).await,
        [json!({ "name": "a", "value": "1" })]
    );
    put(&settings, &[json!({ "name": "a", "value": "1", "other": "x" })]).await;
    assert_eq!(all(&settings, r#"name = "a" AND other = "x""#).await.len(), 1);
}

/// Checks two processes that add different fields concurrently. Only one schema is recorded, but
/// the other process may be the last to change the table's columns. The next apply must continue
/// from the recorded schema.
async fn an_addition_that_lost_is_in_nobodys_way(kind: Kind) {
    let recto = Fresh::new(kind).open().await;
    recto.apply(&parse(BEFORE)).await.unwrap();
    let before = recto.schema();
    let table = |schema: &Schema| schema.collection("settings").unwrap().base_table();
    recto.apply(&with_note(BEFORE)).await.unwrap();
    let lost = parse(&BEFORE.replace(r#"value = "text""#, r#"value = "text", lost = "int""#));
    let lost = table(&lost.keeping(&before));
    let outcome = recto.store().add_columns(&table(&before), &lost).await;
    match kind {
        Kind::Embedded => assert_eq!(outcome.unwrap_err().kind(), StoreErrorKind::Table),
        Kind::Cassandra => assert!(matches!(outcome, Ok(TableOutcome::Done)), "{outcome:?}"),
    }
    let settings = recto.dynamic("settings").unwrap();
    let noted = json!({ "name": "a", "value": "1", "note": "n" });
    put(&settings, std::slice::from_ref(&noted)).await;
    assert_eq!(all(&settings, r#"name = "a""#).await, [noted]);

    let more = parse(&BEFORE.replace(
        r#"value = "text""#,
        r#"value = "text", note = "text", more = "text""#,
    ));
    assert_eq!(recto.apply(&more).await.unwrap().generation, 3);
    assert_eq!(names(&recto, "settings"), ["name", "value", "note", "more"]);
    let settings = recto.dynamic("settings").unwrap();
    let filled = json!({ "name": "b", "note": "n", "more": "m" });
    put(&settings, std::slice::from_ref(&filled)).await;
    assert_eq!(all(&settings, r#"name = "b""#).await, [filled]);
    let listed = recto.store().list_tables().await.unwrap();
    let expected = table(&recto.schema());
    let is_expected =
        |one: &recto_model::Table| one.name() == expected.name() && one.columns() == expected.columns();
    assert!(listed.iter().any(is_expected), "{listed:?}");
}

/// Returns two handles of a store with the first schema. On Cassandra, each belongs to its own
/// process.
async fn two_handles(fresh: &Fresh, kind: Kind) -> (Recto, Recto) {
    let one = fresh.open().await;
    one.apply(&parse(BEFORE)).await.unwrap();
    let two = match kind {
        Kind::Embedded => one.clone(),
        Kind::Cassandra => fresh.open().await,
    };
    (one, two)
}

/// Checks two processes that apply changes concurrently: one adds a field, the other a collection.
/// Whichever schema is recorded, traces of the rejected one must not block later changes.
async fn two_who_apply_different_things_at_once(kind: Kind) {
    let fresh = Fresh::new(kind);
    let (one, two) = two_handles(&fresh, kind).await;
    let field = with_note(BEFORE);
    let collection = parse(&format!("{BEFORE}{MORE}"));
    let (first, second) = tokio::join!(one.apply(&collection), two.apply(&field));
    assert!(first.is_ok() || second.is_ok(), "{first:?} {second:?}");
    // If the second apply failed, its field `note` is not recorded, so the next schema leaves it
    // out.
    let recto = one;
    let noted = second.is_ok();
    let value = if noted {
        r#"value = "text", note = "text""#
    } else {
        r#"value = "text""#
    };
    let other = format!(r#"{value}, other = "text""#);
    let mut text = BEFORE.replace(r#"value = "text""#, &other);
    if first.is_ok() {
        text += MORE;
    }
    recto.apply(&parse(&text)).await.unwrap();
    let settings = recto.dynamic("settings").unwrap();
    let filled = json!({ "name": "b", "other": "m" });
    put(&settings, std::slice::from_ref(&filled)).await;
    assert_eq!(all(&settings, r#"name = "b""#).await, [filled]);
}

async fn two_who_apply_at_once(kind: Kind) {
    let fresh = Fresh::new(kind);
    let (one, two) = two_handles(&fresh, kind).await;
    let with = |name: &str| {
        parse(&BEFORE.replace(
            r#"value = "text""#,
            &format!(r#"value = "text", {name} = "text""#),
        ))
    };
    // Let both processes add the same field, and then different fields.
    let (same, before) = (with("n"), one.generation());
    let (first, second) = tokio::join!(one.apply(&same), two.apply(&same));
    assert!(first.is_ok() || second.is_ok(), "{first:?} {second:?}");
    for error in [first.err(), second.err()].into_iter().flatten() {
        assert_eq!(error.kind(), ErrorKind::SchemaMismatch, "{error}");
    }
    assert_eq!(one.apply(&same).await.unwrap().generation, before + 1);
    let (left, right) = (with("n = \"text\", left"), with("n = \"text\", right"));
    let (first, second) = tokio::join!(one.apply(&left), two.apply(&right));
    // The second process may read the schema after the first one has applied its own. The second
    // process then keeps the field of the first one.
    let both = first.is_ok() && second.is_ok();
    assert!(first.is_ok() || second.is_ok(), "{first:?} {second:?}");
    let recto = match kind {
        Kind::Embedded => one.clone(),
        Kind::Cassandra => fresh.open().await,
    };
    assert_eq!(recto.generation(), before + 2 + u64::from(both));
    let won = if first.is_ok() { "left" } else { "right" };
    assert_eq!(names(&recto, "settings")[..3], ["name", "value", "n"]);
    assert_eq!(names(&recto, "settings").len(), 4 + usize::from(both));
    assert!(names(&recto, "settings").iter().any(|name| name == won));
    let settings = recto.dynamic("settings").unwrap();
    put(&settings, &[json!({ "name": "a", "n": "1", won: "2" })]).await;
    assert_eq!(
        all(&settings, &format!(r#"name = "a" AND {won} = "2""#))
            .await
            .len(),
        1
    );
}

/// Checks that repeated applies end with the new fields and the old records, whatever failures and
/// unknown outcomes occur.
#[test]
fn applying_again_settles_every_fault() {
    /// Number of runs, each with its own random seed. A run takes a few milliseconds.
    const SEEDS: u64 = 40;
    /// Probability of each kind of fault at each call to the store.
    const FAULTS: f64 = 0.1;
    /// Maximum number of applies in one run.
    const MAX_APPLIES: usize = 200;
    let in_time = async |seed: u64| {
        let memory: Arc<dyn Store> = Arc::new(MemoryStore::new(Environment::system()));
        let calm = Recto::with_store(Arc::clone(&memory), OpenOptions::new())
            .await
            .unwrap();
        calm.apply(&parse(BEFORE)).await.unwrap();
        let settings = calm.dynamic("settings").unwrap();
        put(&settings, &[json!({ "name": "a", "value": "1" })]).await;
        let faulty = FaultyStore::new(Arc::clone(&memory), seed, FaultRates::all(FAULTS));
        for _ in 0..MAX_APPLIES {
            let Ok(recto) = Recto::with_store(Arc::new(faulty.clone()), OpenOptions::new()).await else {
                continue;
            };
            if recto.apply(&with_note(BEFORE)).await.is_ok() {
                break;
            }
        }
        faulty.settle().await;
        let after = Recto::with_store(memory, OpenOptions::new()).await.unwrap();
        assert_eq!(
            names(&after, "settings"),
            ["name", "value", "note"],
            "{}",
            faulty.report()
        );
        assert_eq!(after.generation(), 2, "{}", faulty.report());
        let settings = after.dynamic("settings").unwrap();
        assert_eq!(
            all(&settings, r#"name = "a""#).await,
            [json!({ "name": "a", "value": "1" })]
        );
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    for seed in 0..SEEDS {
        runtime.block_on(in_time(seed));
    }
}
